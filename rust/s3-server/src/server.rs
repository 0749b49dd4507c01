//! The server: it listens, answers on threads of its own, and counts what goes through.

use crate::folder::Folder;
use crate::identity::{Gate, Identities, Keys};
use crate::storage::Storage;
use crate::sts::TokenService;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::service::{S3Service, S3ServiceBuilder};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// What a server serves, where, and to whom.
pub(crate) struct ServerConfig {
    /// The folder whose folders are the buckets. Made where it is missing.
    pub folder: PathBuf,
    /// The address to listen on, such as 127.0.0.1.
    pub host: String,
    /// 0 picks one.
    pub port: u16,
    pub access_key: String,
    pub secret_key: String,
    /// The region that the server says it is in; requests for any are served.
    pub region: String,
    /// ARNs of the roles that may be assumed, by whoever has the key or the web identity.
    pub roles: Vec<String>,
    /// The file whose content is the web identity token that is accepted.
    pub web_identity_token_file: Option<PathBuf>,
    /// The longest that temporary credentials last.
    pub session: Duration,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the folder {0} cannot be served: {1}", folder.display(), error)]
    Folder { folder: PathBuf, error: io::Error },
    #[error("{host}:{port} cannot be listened on: {error}")]
    Listen {
        host: String,
        port: u16,
        error: io::Error,
    },
    #[error("the server's threads did not start: {0}")]
    Thread(io::Error),
}

/// What went through a server so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub requests: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// A server that runs until it is closed or dropped.
pub(crate) struct Server {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    address: SocketAddr,
    folder: Option<Arc<Folder>>,
    counters: Arc<Counters>,
}

pub(crate) type Region = String;

#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl Server {
    /// Listens; when this returns, requests are answered.
    pub fn start(config: ServerConfig) -> Result<Self, StartError> {
        let folder = Folder::open(&config.folder).map_err(|error| StartError::Folder {
            folder: config.folder.clone(),
            error,
        })?;
        let folder = Arc::new(folder);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("oka-s3-server")
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let listen = |error| StartError::Listen {
            host: config.host.clone(),
            port: config.port,
            error,
        };
        let listener = runtime
            .block_on(TcpListener::bind((config.host.as_str(), config.port)))
            .map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(false);
        let service = service(config, &folder, &counters);
        runtime.spawn(accept(listener, service, counters.clone(), stopped.clone()));
        runtime.spawn(tidy(folder.clone(), stopped));
        Ok(Self {
            runtime: Some(runtime),
            stop,
            address,
            folder: Some(folder),
            counters,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What went through so far.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            requests: read(&self.counters.requests),
            bytes_sent: read(&self.counters.bytes_sent),
            bytes_received: read(&self.counters.bytes_received),
        }
    }

    /// Cuts off every connection, ends the threads and lets go of the folder. Does nothing the second time.
    pub fn close(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
        if let Some(folder) = self.folder.take() {
            folder.clear(); // and with the last reference the lock goes
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

fn service(config: ServerConfig, folder: &Arc<Folder>, counters: &Arc<Counters>) -> S3Service {
    let identities = Arc::new(Identities::new(
        config.access_key,
        config.secret_key,
        config.session,
    ));
    let mut builder = S3ServiceBuilder::new(Storage {
        folder: folder.clone(),
        region: config.region,
        counters: counters.clone(),
    });
    builder.set_auth(Keys(identities.clone()));
    builder.set_access(Gate(identities.clone()));
    builder.set_route(TokenService {
        identities,
        roles: config.roles.into_iter().collect(),
        web_identity: config.web_identity_token_file,
    });
    builder.build()
}

async fn accept(
    listener: TcpListener,
    service: S3Service,
    counters: Arc<Counters>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let Ok((socket, _)) = accepted else {
            // Out of descriptors, most likely: connections that end give some back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        let (service, counters) = (service.clone(), counters.clone());
        let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
            Counters::add(&counters.requests, 1);
            let service = service.clone();
            async move { service.call(request.map(s3s::Body::from)).await }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(socket), answer);
        tokio::spawn(async move {
            let _ = connection.await; // an error is the client's: it went away
        });
    }
}

/// Removes uploads that nobody goes on with.
async fn tidy(folder: Arc<Folder>, mut stopped: watch::Receiver<bool>) {
    let mut period = tokio::time::interval(Duration::from_mins(10));
    loop {
        tokio::select! {
            _ = period.tick() => {}
            _ = stopped.changed() => return,
        }
        let folder = folder.clone();
        let _ = tokio::task::spawn_blocking(move || folder.remove_stale_uploads(STALE)).await;
    }
}

const THREADS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(2);
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
const STALE: Duration = Duration::from_hours(24);

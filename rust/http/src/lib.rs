//! An HTTP server whose requests wait for somebody who takes them in batches, and answers them in
//! batches, whenever and in whatever order.
//!
//! No Python. The server has a thread of its own, so that neither a slow client nor a large body
//! delays anything else; whoever takes requests never touches a socket.
//!
//! - [`Gateway`] is the server; [`Request`] and [`Reply`] go through it.
//! - [`Slots`] gives each request a number and has it end once: answered, expired, disconnected or
//!   refused.
//! - [`Replies`] sends replies to the gateways of other processes, [`Stream`] one that goes on.
//!
//! What clients may keep is bounded: requests by number, their bodies and unread answers by bytes,
//! connections by number and by how long they may leave the server waiting.

mod answer;
mod board;
mod budget;
mod codes;
mod connection;
mod content;
mod gateway;
mod metrics;
mod replies;
mod server;
mod slots;
mod tls;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oka_ipc::secure::Identity;
use oka_ipc::{Endpoint, EndpointKind, Key};
use tokio::runtime::Handle;
use tokio::sync::watch;

pub use crate::answer::response;
use crate::board::Board;
use crate::gateway::Exchange;
pub use crate::gateway::{Counts, Reply, Request};
use crate::replies::Admission;
pub use crate::replies::{Replies, Stream, Way};
pub use crate::slots::{Id, MOST, Slots, gateway_of};

/// What a gateway serves, where, and to whom.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its number in the job.
    pub gateway: u16,
    pub host: String,
    /// 0 picks one.
    pub port: u16,
    /// Whether other gateways listen on the port, too.
    pub shares_port: bool,
    /// As it reads decoded. Requests for another are answered with 404.
    pub path: String,
    /// What clients have to show, if anything.
    pub token: Option<String>,
    /// Requests under way at once; more are answered with 503.
    pub max_in_flight: usize,
    /// Larger bodies are answered with 413.
    pub max_body_bytes: usize,
    /// Requests that nobody has answered in this time are answered with 504.
    pub timeout: Duration,
    /// How long a client may take for what it has to do next: prove its keys, ask, send the body, read
    /// on of an answer.
    pub client_timeout: Duration,
    /// Connections at once, as far as there are descriptors; where more come, the idlest end.
    pub max_connections: usize,
    /// Bytes of requests under way and of answers that are not read; more are answered with 503.
    pub max_in_flight_bytes: usize,
    /// How many tasks of the job say that they work before the gateway is ready.
    pub tasks: usize,
    /// Files in PEM of the certificate with its chain, and of its key; connections are then encrypted.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Where replies of other processes of the host come in: a socket is made there, and beside it a
    /// file for them to see which requests somebody waits for.
    pub replies: Option<PathBuf>,
}

/// A server that runs until it is closed or dropped.
#[derive(Debug)]
pub struct Gateway {
    exchange: Arc<Exchange>,
    address: SocketAddr,
    runtime: Handle,
    /// The keys of those on other hosts that may answer.
    admitted: watch::Sender<Option<HashSet<Key>>>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Gateway {
    /// Listens; when this returns, requests are taken.
    pub fn start(config: Config) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let slots = config.max_in_flight.min(MOST);
        let board = config.replies.as_deref().map(replies::board_of);
        let board = board.map(|path| Board::create(&path, slots)).transpose()?;
        let exchange = Arc::new(Exchange::new(&config, board));
        let tls = config.certificate.as_ref().map(tls::acceptor).transpose()?;
        let listener = runtime.block_on(server::listen(&config))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        if let Some(path) = &config.replies {
            let _inside = runtime.enter();
            let listener = tokio::net::UnixListener::bind(path)?;
            runtime.spawn(replies::receive_local(listener, Arc::clone(&exchange)));
        }
        let serving = server::serve(
            listener,
            tls,
            Arc::new(config),
            Arc::clone(&exchange),
            stopped,
        );
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("oka-http".to_owned())
            .spawn(move || runtime.block_on(serving))?;
        Ok(Self {
            exchange,
            address,
            runtime: handle,
            admitted: watch::Sender::new(None),
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Takes replies of other hosts in, too, at `tcp://host:port`; with encryption those whose keys are
    /// admitted. Returns what they have to know: `tcp://KEY@host:port`.
    pub fn listen(&self, endpoint: &str, encryption: bool) -> io::Result<String> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let endpoint = Endpoint::parse(endpoint).map_err(invalid)?;
        if endpoint.kind != EndpointKind::Tcp {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let listener = std::net::TcpListener::bind(&endpoint.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.to_string();
        let identity = encryption.then(Identity::generate).transpose()?;
        let key = identity.as_ref().map(|identity| identity.public);
        let admission = identity.map(|identity| Admission {
            identity: Arc::new(identity),
            admitted: self.admitted.subscribe(),
        });
        let _inside = self.runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let exchange = Arc::clone(&self.exchange);
        self.runtime
            .spawn(replies::receive_tcp(listener, admission, exchange));
        let kind = EndpointKind::Tcp;
        Ok(Endpoint { kind, key, address }.to_string())
    }

    /// From now on those on other hosts with these keys may answer.
    pub fn admit(&self, keys: impl IntoIterator<Item = Key>) {
        self.admitted.send_replace(Some(keys.into_iter().collect()));
    }

    /// Others listen on its port, too, whose sockets ([`Config::replies`]) are these; said once. What the
    /// gateway tells of its port is then of all.
    pub fn share_with(&self, sockets: Vec<PathBuf>) {
        let _ = self.exchange.beside.set(sockets); // they do not change
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes up to `limit` requests; waits for the first for as long as `timeout`, and then for more
    /// for as long as `linger`. `None` when there will be no more.
    ///
    /// Requests whose client has gone, or whose time is over, are left out.
    pub fn take(&self, limit: usize, timeout: Duration, linger: Duration) -> Option<Vec<Request>> {
        self.exchange.take(limit, timeout, linger)
    }

    /// Answers requests that have not ended otherwise.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.exchange.reply(replies);
    }

    /// Refuses requests from now on, those that nobody has taken, too. [`Self::take`] ends when all
    /// others have.
    pub fn drain(&self) {
        self.exchange.close();
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.exchange.in_flight()
    }

    /// How requests have ended.
    pub fn counts(&self) -> Counts {
        self.exchange.counts()
    }

    /// How many answers there were of each status, ascending; without those to probes.
    pub fn codes(&self) -> impl Iterator<Item = (u16, u64)> {
        self.exchange.codes.counted()
    }

    /// Ends the requests under way with 503, and [`Self::take`]; idempotent.
    pub fn close(&self) {
        self.exchange.cancel();
        self.stop.send_replace(true);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join(); // it has no way to panic that is worth another
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.close();
    }
}

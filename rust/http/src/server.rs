//! The thread of a gateway: it takes connections in, as many as it may, and runs them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::Config;
use crate::answer::{MOST_HEADER_BYTES, answer};
use crate::budget::descriptors;
use crate::connection::{Activity, WatchedSocket};
use crate::gateway::Exchange;

/// Serves until `stop` says so; then lets connections that are at a request finish it.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    stop: watch::Receiver<bool>,
) {
    tokio::spawn(Arc::clone(&exchange.budget).give_back());
    let most = config.max_connections.min(descriptors()).max(1);
    let mut stopped = stop.clone();
    let mut connections = Connections {
        server: Arc::new(Server {
            http: protocols(&config),
            tls,
            config,
            exchange: Arc::clone(&exchange),
            stop,
        }),
        most,
        tasks: JoinSet::new(),
        open: HashMap::new(),
    };
    let mut rest = None;
    loop {
        let accepting = async {
            if let Some(rest) = rest {
                sleep_until(rest).await;
            }
            listener.accept().await
        };
        tokio::select! {
            accepted = accepting => if let Ok((socket, _)) = accepted {
                rest = None;
                connections.begin(socket);
            } else {
                // Out of descriptors, most likely: connections that end give some back.
                connections.end_idlest();
                rest = Some(Instant::now() + PAUSE);
            },
            () = exchange.begun.notified() => exchange.announce(),
            () = exchange.replied.notified() => exchange.deliver(),
            Some(ended) = connections.tasks.join_next_with_id() => connections.forget(&ended),
            _ = stopped.changed() => break,
        }
    }
    for socket in waiting(listener) {
        connections.begin(socket); // to be told that it is over
    }
    let last = async {
        while !connections.tasks.is_empty() {
            tokio::select! {
                () = exchange.begun.notified() => exchange.announce(),
                () = exchange.replied.notified() => exchange.deliver(),
                _ = connections.tasks.join_next() => {}
            }
        }
    };
    let _ = timeout(PATIENCE, last).await;
}

/// Listens; several may listen on one port where they share it.
pub(crate) async fn listen(config: &Config) -> io::Result<TcpListener> {
    let mut found = tokio::net::lookup_host((config.host.as_str(), config.port)).await?;
    let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let address = found.next().ok_or_else(none)?;
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(config.shares_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Those that nobody has accepted; then nobody listens any more.
fn waiting(listener: TcpListener) -> Vec<TcpStream> {
    let mut found = Vec::new();
    let Ok(listener) = listener.into_std() else {
        return found;
    };
    while let Ok((socket, _)) = listener.accept() {
        let is_ready = socket.set_nonblocking(true);
        found.extend(is_ready.and_then(|()| TcpStream::from_std(socket)));
    }
    found
}

/// HTTP/1.1 and HTTP/2: which of them a client speaks, its first bytes tell.
fn protocols(config: &Config) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .header_read_timeout(None) // see `Server::run`, which has one for every wait
        .max_buf_size(MOST_HEADER_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(config.client_timeout)
        .keep_alive_timeout(config.client_timeout)
        .max_concurrent_streams(config.max_in_flight.min(MOST_STREAMS) as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(MOST_HEADER_BYTES as u32);
    http
}

/// What all connections have in common.
struct Server {
    http: auto::Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    stop: watch::Receiver<bool>,
}

/// Those that are open, at most so many.
struct Connections {
    server: Arc<Server>,
    most: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, Arc<Activity>)>,
}

impl Connections {
    /// Runs one, if need be in the place of others.
    fn begin(&mut self, socket: TcpStream) {
        if self.open.len() >= self.most {
            self.end_idlest();
        }
        if self.open.len() >= self.most {
            if self.server.tls.is_none() {
                let _ = socket.try_write(BUSY);
            }
            return;
        }
        let _ = socket.set_nodelay(true);
        let (server, activity) = (Arc::clone(&self.server), Activity::new());
        let running = server.begin(socket, Arc::clone(&activity));
        let handle = self.tasks.spawn(running);
        self.open.insert(handle.id(), (handle, activity));
    }

    /// Ends some of those whose clients have left the server waiting for longest.
    fn end_idlest(&mut self) {
        let ages = self.open.iter();
        let ages = ages.filter_map(|(id, (_, activity))| Some((Reverse(activity.age()?), *id)));
        let mut ages: Vec<_> = ages.collect();
        ages.sort_unstable();
        for (_, id) in ages.into_iter().take(1 + self.most / AT_ONCE) {
            if let Some((handle, _)) = self.open.remove(&id) {
                handle.abort();
            }
        }
    }

    fn forget(&mut self, ended: &Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
    }
}

impl Server {
    async fn begin(self: Arc<Self>, socket: TcpStream, activity: Arc<Activity>) {
        let socket = WatchedSocket {
            socket,
            activity: Arc::clone(&activity),
        };
        match &self.tls {
            None => self.run(socket, &activity).await,
            Some(tls) => {
                let greeted = timeout(self.config.client_timeout, tls.accept(socket));
                if let Ok(Ok(socket)) = greeted.await {
                    activity.touch();
                    self.run(socket, &activity).await;
                }
            }
        }
    }

    /// Until the client goes, or takes too long for what it has to do next, or what it has asked for is
    /// answered and the server stops.
    async fn run(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        activity: &Arc<Activity>,
    ) {
        let (config, exchange) = (Arc::clone(&self.config), Arc::clone(&self.exchange));
        let own = Arc::clone(activity);
        let service = hyper::service::service_fn(move |request| {
            let (config, exchange) = (Arc::clone(&config), Arc::clone(&exchange));
            let own = Arc::clone(&own);
            async move { Ok::<_, Infallible>(answer(request, &config, &exchange, &own).await) }
        });
        let patience = self.config.client_timeout;
        let mut stop = self.stop.clone();
        let connection = self.http.serve_connection(TokioIo::new(socket), service);
        let mut connection = std::pin::pin!(connection);
        let mut look = std::pin::pin!(sleep(patience));
        loop {
            tokio::select! {
                _ = connection.as_mut() => return, // an error is the client's: it went away
                () = is_told(&mut stop) => break,
                () = look.as_mut() => match activity.left(patience) {
                    Some(left) => look.as_mut().reset(Instant::now() + left),
                    None if activity.is_idle() => {
                        connection.as_mut().graceful_shutdown();
                        let _ = timeout(GOODBYE, connection).await;
                        return;
                    }
                    None => return,
                },
            }
        }
        if !activity.has_asked() && timeout(GOODBYE, connection.as_mut()).await.is_ok() {
            return; // it has asked, and knows now that it is over
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

async fn is_told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await; // or there is nobody any more to say so
}

const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
content-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n\r\ntoo many connections are open\n";
const BACKLOG: u32 = 4096;
/// Requests of one connection at once, over HTTP/2.
const MOST_STREAMS: usize = 1024;
/// What a client may send before anybody reads it, over HTTP/2.
const WINDOW_BYTES: u32 = 256 * 1024;
/// Of all connections, one in so many ends where others come.
const AT_ONCE: usize = 64;
/// For clients that do not read what they have asked for.
const PATIENCE: Duration = Duration::from_secs(2);
/// For those that have just come, or that are told to go.
const GOODBYE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Who has connected, and was not accepted before the end, is told of it as others are.
    #[tokio::test]
    async fn the_backlog_is_answered() {
        let config = Config {
            gateway: 0,
            host: "127.0.0.1".to_owned(),
            port: 0,
            shares_port: false,
            path: "/".to_owned(),
            token: None,
            max_in_flight: 1,
            max_body_bytes: 0,
            timeout: PATIENCE,
            client_timeout: PATIENCE,
            max_connections: 100,
            max_in_flight_bytes: 0,
            tasks: 0,
            certificate: None,
            replies: None,
        };
        let listener = listen(&config).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients: Vec<_> = (0..50)
            .map(|_| std::net::TcpStream::connect(address).unwrap())
            .collect();
        for client in &mut clients {
            let asked = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
            client.write_all(asked).unwrap();
        }
        let exchange = Arc::new(Exchange::new(&config, None));
        exchange.cancel();
        let (stop, stopped) = watch::channel(false);
        stop.send_replace(true);
        serve(listener, None, Arc::new(config), exchange, stopped).await;
        for client in &mut clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
    }
}

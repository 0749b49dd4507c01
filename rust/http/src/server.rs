//! HTTP on one side of an [`Exchange`].

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request as HttpRequest, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::gateway::{Answer, Broken, Exchange, Piece, Refusal, Reply, Request};
use crate::slots::Id;
use crate::{Config, tls};

/// Serves until `stop` says so; then lets connections that are at a request finish it.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = exchange.begun.notified() => {
                exchange.announce();
                continue;
            }
            () = exchange.replied.notified() => {
                exchange.deliver();
                continue;
            }
            Some(_) = connections.join_next() => continue,
            _ = stop.changed() => break,
        };
        let Ok((socket, _)) = accepted else {
            // Out of descriptors, most likely: connections that end give some back.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (config, exchange) = (Arc::clone(&config), Arc::clone(&exchange));
        let _ = socket.set_nodelay(true);
        match tls.clone() {
            None => connections.spawn(begin_plain(socket, config, exchange, stop.clone())),
            Some(tls) => connections.spawn(encrypt(socket, tls, config, exchange, stop.clone())),
        };
    }
    drop(listener);
    let last = async {
        while !connections.is_empty() {
            tokio::select! {
                () = exchange.begun.notified() => exchange.announce(),
                () = exchange.replied.notified() => exchange.deliver(),
                _ = connections.join_next() => {}
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, last).await;
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

async fn encrypt(
    socket: TcpStream,
    tls: TlsAcceptor,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    stop: watch::Receiver<bool>,
) {
    let shaken = tokio::time::timeout(config.header_timeout, tls.accept(socket));
    if let Ok(Ok(socket)) = shaken.await {
        let is_http2 = socket.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
        connect(socket, is_http2, config, exchange, stop).await;
    }
}

async fn begin_plain(
    socket: TcpStream,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    mut stop: watch::Receiver<bool>,
) {
    let is_http2 = tokio::select! {
        found = tokio::time::timeout(config.header_timeout, is_http2(&socket)) => found,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    if let Ok(Ok(is_http2)) = is_http2 {
        connect(socket, is_http2, config, exchange, stop).await;
    }
}

/// Whether the client begins as one of HTTP/2 that knows that the server is, too.
async fn is_http2(socket: &TcpStream) -> io::Result<bool> {
    let mut begun = [0; PREFACE.len()];
    loop {
        let length = socket.peek(&mut begun).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if begun[..length] != PREFACE[..length] {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        tokio::time::sleep(PEEK_PAUSE).await;
    }
}

async fn connect(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_http2: bool,
    config: Arc<Config>,
    exchange: Arc<Exchange>,
    stop: watch::Receiver<bool>,
) {
    let (header_timeout, most_streams) = (config.header_timeout, config.max_in_flight as u32);
    let answer = hyper::service::service_fn(move |request| {
        let (config, exchange) = (Arc::clone(&config), Arc::clone(&exchange));
        async move { Ok::<_, Infallible>(answer(request, &config, exchange).await) }
    });
    let socket = TokioIo::new(socket);
    if is_http2 {
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(header_timeout)
            .max_concurrent_streams(most_streams)
            .max_header_list_size(MOST_HEADER_BYTES as u32)
            .serve_connection(socket, answer);
        run(connection, stop).await;
    } else {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(MOST_HEADER_BYTES)
            .serve_connection(socket, answer);
        run(connection, stop).await;
    }
}

/// Until the client goes, or what it has asked for is answered and the server stops.
async fn run(connection: impl GracefulConnection, mut stop: watch::Receiver<bool>) {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return, // an error is the client's: it went away
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// All of an answer, or what comes of it piece by piece.
type Content = Either<Full<Bytes>, Rest>;

async fn answer(
    request: HttpRequest<Incoming>,
    config: &Config,
    exchange: Arc<Exchange>,
) -> Response<Content> {
    match begin(request, config, &exchange).await {
        Err(response) => response.map(Either::Left),
        Ok((id, deadline, answered)) => {
            let mut open = Open {
                id,
                exchange,
                is_expired: false,
            };
            match tokio::time::timeout_at(deadline.into(), answered).await {
                Ok(Ok(Answer { reply, rest: None })) => response(reply).map(Either::Left),
                Ok(Ok(Answer { reply, rest })) => response(reply).map(|_| {
                    let pieces = rest;
                    Either::Right(Rest {
                        pieces,
                        _open: open,
                    })
                }),
                Ok(Err(_)) => refused(Refusal::Closing, &open.exchange).map(Either::Left), // nobody will
                Err(_) => {
                    open.is_expired = true;
                    let message = "nobody has answered in time";
                    said(StatusCode::GATEWAY_TIMEOUT, message).map(Either::Left)
                }
            }
        }
    }
}

/// Begins a request; or says why it does not.
async fn begin(
    request: HttpRequest<Incoming>,
    config: &Config,
    exchange: &Exchange,
) -> Result<(Id, Instant, oneshot::Receiver<Answer>), Response<Full<Bytes>>> {
    match request.uri().path() {
        HEALTHY => return Err(said(StatusCode::OK, "healthy")),
        READY if exchange.refuses().is_none() => return Err(said(StatusCode::OK, "ready")),
        READY => return Err(said(StatusCode::SERVICE_UNAVAILABLE, "not ready")),
        path if path != config.path => {
            return Err(said(StatusCode::NOT_FOUND, "there is no such path"));
        }
        _ => {}
    }
    if let Some(token) = &config.token
        && !is_allowed(request.headers(), token)
    {
        let mut response = said(StatusCode::UNAUTHORIZED, "expected another bearer token");
        let bearer = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, bearer);
        return Err(response);
    }
    let refuse = |refusal| refused(refusal, exchange);
    let reserved = exchange.reserve().map_err(refuse)?; // before its body is read
    let (parts, body) = request.into_parts();
    let deadline = Instant::now() + config.timeout;
    let body = read(body, config).await?;
    let target = parts.uri.path_and_query();
    let begun = reserved.begin(Request {
        id: 0,
        method: parts.method.as_str().to_owned(),
        target: target.map_or("/", |target| target.as_str()).to_owned(),
        head: written(&parts.headers),
        body,
        deadline,
    });
    let (id, answered) = begun.map_err(refuse)?;
    Ok((id, deadline, answered))
}

/// A request under way, which ends at the latest when its connection does.
struct Open {
    id: Id,
    exchange: Arc<Exchange>,
    is_expired: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.exchange.give_up(self.id, self.is_expired);
    }
}

/// What comes of an answer piece by piece.
struct Rest {
    pieces: Option<mpsc::Receiver<Piece>>,
    _open: Open,
}

impl Body for Rest {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(pieces) = &mut self.pieces else {
            return Poll::Ready(None);
        };
        let piece = std::task::ready!(pieces.poll_recv(context));
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

async fn read(body: Incoming, config: &Config) -> Result<Bytes, Response<Full<Bytes>>> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let too_large = || {
        let most = config.max_body_bytes;
        let message = format!("the body is larger than {most} bytes");
        said(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > config.max_body_bytes as u64 {
        return Err(too_large());
    }
    let limited = Limited::new(body, config.max_body_bytes);
    match tokio::time::timeout(config.header_timeout, limited.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(said(StatusCode::BAD_REQUEST, "the body is broken off")),
        Err(_) => Err(said(
            StatusCode::REQUEST_TIMEOUT,
            "the body has not come in time",
        )),
    }
}

fn is_allowed(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    given.is_some_and(|given| given.ct_eq(token.as_bytes()).into())
}

/// Headers as lines.
fn written(headers: &HeaderMap) -> Bytes {
    let mut lines = BytesMut::with_capacity(256);
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.freeze()
}

/// A response with the reply's headers, or one that says that they are none.
pub fn response(reply: Reply) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(reply.status).ok();
    let Some(status) = status.filter(|status| !status.is_informational()) else {
        return said(StatusCode::INTERNAL_SERVER_ERROR, "the status is none");
    };
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let body = if has_body { reply.body } else { Bytes::new() };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    for line in reply.head.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        else {
            return said(StatusCode::INTERNAL_SERVER_ERROR, "a header is none");
        };
        if name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn refused(refusal: Refusal, exchange: &Exchange) -> Response<Full<Bytes>> {
    exchange.refuse();
    let message = match refusal {
        Refusal::TooMany => "too many requests are under way",
        Refusal::Closing => "the gateway is closing",
    };
    let mut response = said(StatusCode::SERVICE_UNAVAILABLE, message);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if refusal == Refusal::Closing {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn said(status: StatusCode, message: impl Into<String>) -> Response<Full<Bytes>> {
    let mut text = message.into();
    text.push('\n');
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// Whether the process works.
const HEALTHY: &str = "/-/healthz";
/// Whether requests are taken.
const READY: &str = "/-/readyz";
/// Request line and headers together; more is answered with 431.
const MOST_HEADER_BYTES: usize = 64 * 1024;
/// What every client of HTTP/2 begins with, as far as no method of HTTP/1.1 does.
const PREFACE: &[u8; 3] = b"PRI";
const PEEK_PAUSE: Duration = Duration::from_millis(1);
const BACKLOG: u32 = 4096;
/// For clients that do not read what they have asked for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

//! A request as HTTP has it, through an [`Exchange`], to its answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request as HttpRequest, Response, StatusCode, Uri, Version};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;

use crate::Config;
use crate::budget::{BudgetFull, BudgetShare, SMALL_BYTES};
use crate::connection::{Activity, ActivityGuard};
use crate::content::{Content, PieceStream};
use crate::gateway::{Answer, Exchange, Refusal, Reply, Request};
use crate::metrics;
use crate::slots::Id;

/// Answers a request of this connection, and counts the status.
pub(crate) async fn answer(
    request: HttpRequest<Incoming>,
    config: &Config,
    exchange: &Arc<Exchange>,
    activity: &Arc<Activity>,
) -> Response<Content> {
    let is_probe = [HEALTHY, READY, METRICS].contains(&request.uri().path());
    let response = answer_uncounted(request, config, exchange, activity).await;
    if !is_probe {
        exchange.codes.count(response.status());
    }
    response
}

async fn answer_uncounted(
    request: HttpRequest<Incoming>,
    config: &Config,
    exchange: &Arc<Exchange>,
    activity: &Arc<Activity>,
) -> Response<Content> {
    let asked = ActivityGuard::begin(activity);
    let is_http2 = request.version() == Version::HTTP_2;
    let whole = |response: Response<Bytes>, kept, asked| {
        response.map(|body| Content::whole(body, kept, asked, is_http2))
    };
    let begun = match begin(request, config, exchange, activity).await {
        Ok(begun) => begun,
        Err(response) => return whole(response, None, asked),
    };
    let mut open = OpenRequest {
        id: begun.id,
        exchange: Arc::clone(exchange),
        is_expired: false,
    };
    let waits = asked.wait();
    let answered = tokio::time::timeout_at(begun.deadline.into(), begun.answered).await;
    drop(waits);
    drop(begun.kept);
    match answered {
        Ok(Ok(Answer {
            kept: Err(BudgetFull),
            ..
        })) => whole(refused(Refusal::TooLarge, exchange), None, asked),
        Ok(Ok(Answer {
            reply,
            rest: None,
            kept: Ok(kept),
        })) => whole(response(reply), kept, asked),
        Ok(Ok(Answer {
            reply,
            rest: Some(pieces),
            ..
        })) => response(reply).map(|_| {
            let rest = PieceStream {
                pieces,
                _open: open,
            };
            Content::rest(rest, asked)
        }),
        Ok(Err(_)) => whole(refused(Refusal::Closing, exchange), None, asked), // nobody will
        Err(_) => {
            open.is_expired = true;
            let message = "nobody has answered in time";
            whole(said(StatusCode::GATEWAY_TIMEOUT, message), None, asked)
        }
    }
}

/// A request that waits for its answer.
struct PendingRequest {
    id: Id,
    deadline: Instant,
    answered: oneshot::Receiver<Answer>,
    /// What it takes of the budget.
    kept: BudgetShare,
}

/// Begins a request; or says why it does not.
async fn begin(
    request: HttpRequest<Incoming>,
    config: &Config,
    exchange: &Exchange,
    activity: &Activity,
) -> Result<PendingRequest, Response<Bytes>> {
    if let Some(response) = said_at_once(&request, config, exchange) {
        return Err(response);
    }
    if request.uri().path() == METRICS {
        return Err(measured(exchange).await);
    }
    let refuse = |refusal| refused(refusal, exchange);
    let reserved = exchange.reserve().map_err(refuse)?; // before its body is read
    let (parts, body) = request.into_parts();
    let deadline = Instant::now() + config.timeout;
    let (body, kept) = read(body, config, exchange, activity).await?;
    let target = parts.uri.path_and_query();
    let begun = reserved.begin(Request {
        id: 0,
        method: parts.method.as_str().to_owned(),
        target: target.map_or("/", |target| target.as_str()).to_owned(),
        head: written(&parts.headers, &parts.uri),
        body,
        deadline,
    });
    let (id, answered) = begun.map_err(refuse)?;
    Ok(PendingRequest {
        id,
        deadline,
        answered,
        kept,
    })
}

/// What is said to it at once, unless it is a request that the pipeline shall see.
fn said_at_once<B>(
    request: &HttpRequest<B>,
    config: &Config,
    exchange: &Exchange,
) -> Option<Response<Bytes>> {
    let (uri, headers) = (request.uri(), request.headers());
    if head_bytes(uri, headers) > MOST_HEADER_BYTES {
        let message = format!("the headers are larger than {MOST_HEADER_BYTES} bytes");
        let large = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Some(closing(said(large, message)));
    }
    if !names_its_host(request.version(), headers) {
        let message = "expected one header host that names a host";
        return Some(closing(said(StatusCode::BAD_REQUEST, message)));
    }
    match uri.path() {
        HEALTHY => return Some(said(StatusCode::OK, "healthy")),
        READY if exchange.is_ready() => return Some(said(StatusCode::OK, "ready")),
        READY => return Some(said(StatusCode::SERVICE_UNAVAILABLE, "not ready")),
        METRICS => return None, // other gateways may have to be asked
        path if !is_path(path, &config.path) => {
            return Some(said(StatusCode::NOT_FOUND, "there is no such path"));
        }
        _ => {}
    }
    let token = config.token.as_ref()?;
    (!is_allowed(headers, token)).then(|| {
        let mut response = said(StatusCode::UNAUTHORIZED, "expected another bearer token");
        let bearer = HeaderValue::from_static("Bearer");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, bearer);
        response
    })
}

async fn measured(exchange: &Exchange) -> Response<Bytes> {
    let Ok(text) = metrics::text(exchange).await else {
        let message = "another gateway of this port does not answer";
        return said(StatusCode::SERVICE_UNAVAILABLE, message);
    };
    let mut response = Response::new(Bytes::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A request under way, which ends at the latest when its connection does.
pub(crate) struct OpenRequest {
    id: Id,
    exchange: Arc<Exchange>,
    is_expired: bool,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.exchange.give_up(self.id, self.is_expired);
    }
}

async fn read(
    mut body: Incoming,
    config: &Config,
    exchange: &Exchange,
    activity: &Activity,
) -> Result<(Bytes, BudgetShare), Response<Bytes>> {
    let mut kept = exchange.budget.nothing();
    if body.is_end_stream() {
        return Ok((Bytes::new(), kept));
    }
    let most = config.max_body_bytes;
    let too_large = || {
        let message = format!("the body is larger than {most} bytes");
        said(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    let reading = async {
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| said(StatusCode::BAD_REQUEST, "the body is broken off"))?;
            let Ok(more) = frame.into_data() else {
                continue; // trailers
            };
            activity.touch();
            let length = first.len() + all.len() + more.len();
            if length > most {
                return Err(too_large());
            }
            if length > SMALL_BYTES {
                let counted = if kept.is_empty() { length } else { more.len() };
                let grown = kept.grow(counted);
                grown.map_err(|_| refused(Refusal::TooLarge, exchange))?;
            }
            if first.is_empty() && all.is_empty() {
                first = more; // most bodies are one piece
            } else {
                if all.is_empty() {
                    all.extend_from_slice(&std::mem::take(&mut first));
                }
                all.extend_from_slice(&more);
            }
        }
        Ok(())
    };
    let Ok(read) = tokio::time::timeout(config.client_timeout, reading).await else {
        let message = "the body has not come in time";
        return Err(said(StatusCode::REQUEST_TIMEOUT, message));
    };
    read?;
    let body = if all.is_empty() { first } else { all.freeze() };
    Ok((body, kept))
}

/// As they come in HTTP/1.1.
fn head_bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let target = uri.path().len() + uri.query().map_or(0, str::len);
    let lines = headers.iter();
    target
        + lines.fold(0, |sum, (name, value)| {
            sum + name.as_str().len() + value.len() + 4
        })
}

/// HTTP/1.1 demands one, and no version two. That of HTTP/2 is in the target.
fn names_its_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else {
        return version != Version::HTTP_11;
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte);
    hosts.next().is_none() && host.as_bytes().iter().all(is_name)
}

/// Whether a path is this one, some characters of which may be percent-encoded; a slash may not.
fn is_path(path: &str, wanted: &str) -> bool {
    path == wanted || (path.contains('%') && decoded(path) == wanted.as_bytes())
}

fn decoded(path: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|byte| (*byte as char).to_digit(16));
        let byte = digit(0)
            .zip(digit(1))
            .map(|(high, low)| (high << 4 | low) as u8);
        let byte = byte.filter(|byte| *first == b'%' && *byte != b'/');
        decoded.push(byte.unwrap_or(*first));
        rest = &behind[if byte.is_some() { 2 } else { 0 }..];
    }
    decoded
}

fn is_allowed(headers: &HeaderMap, token: &str) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .map(HeaderValue::as_bytes);
    let Some((scheme, given)) = given.and_then(|given| given.split_at_checked(BEARER.len())) else {
        return false;
    };
    let is_given: bool = given.trim_ascii_start().ct_eq(token.as_bytes()).into();
    scheme.eq_ignore_ascii_case(BEARER) && is_given
}

/// Headers as lines. The host is that of the target where this names one, as in HTTP/2.
fn written(headers: &HeaderMap, uri: &Uri) -> Bytes {
    let mut lines = BytesMut::with_capacity(256);
    let mut write = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    };
    if let Some(authority) = uri.authority() {
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        write(b"host", host.as_bytes());
    }
    for (name, value) in headers {
        if uri.authority().is_none() || name != header::HOST {
            write(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    lines.freeze()
}

/// A response with the reply's headers, or one that says that they are none.
pub fn response(reply: Reply) -> Response<Bytes> {
    let id = reply.id;
    let none = |what| {
        let message = format!("request {id:x} failed: {what} of its answer is none");
        said(StatusCode::INTERNAL_SERVER_ERROR, message)
    };
    let status = StatusCode::from_u16(reply.status).ok();
    let Some(status) = status.filter(|status| !status.is_informational()) else {
        return none("the status");
    };
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let body = if has_body { reply.body } else { Bytes::new() };
    let mut response = Response::new(body);
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
            return none("a header");
        };
        if name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn refused(refusal: Refusal, exchange: &Exchange) -> Response<Bytes> {
    exchange.refuse();
    let message = match refusal {
        Refusal::TooMany => "too many requests are under way",
        Refusal::TooLarge => "too many bytes are under way",
        Refusal::Closing => "the gateway is closing",
    };
    let mut response = said(StatusCode::SERVICE_UNAVAILABLE, message);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if refusal == Refusal::Closing {
        return closing(response);
    }
    response
}

/// The connection ends behind it.
fn closing(mut response: Response<Bytes>) -> Response<Bytes> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

fn said(status: StatusCode, message: impl Into<String>) -> Response<Bytes> {
    let mut text = message.into();
    text.push('\n');
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// Whether the process works.
const HEALTHY: &str = "/-/healthz";
/// Whether requests are taken and worked on.
const READY: &str = "/-/readyz";
/// How many requests are under way and how others have ended, for Prometheus.
const METRICS: &str = "/-/metrics";
/// Target and headers together; more is answered with 431.
pub(crate) const MOST_HEADER_BYTES: usize = 64 * 1024;
const BEARER: &[u8] = b"bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_as_what_they_mean() {
        for (path, wanted, is_same) in [
            ("/a:b@c+d(e),!$", "/a:b@c+d(e),!$", true),
            ("/a%3Ab%40c%2bd", "/a:b@c+d", true),
            ("/%C3%A4%20b", "/ä b", true),
            ("/a%25b", "/a%b", true),
            ("/a%2Fb", "/a/b", false),
            ("/a%2fb", "/a%2fb", true),
            ("/a%", "/a%", true),
            ("/a%4", "/a@", false),
            ("/a%+1", "/a\u{1}", false),
            ("/A", "/a", false),
        ] {
            assert_eq!(is_path(path, wanted), is_same, "{path} {wanted}");
        }
    }
}

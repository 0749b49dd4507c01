//! The HTTP gateway for Python: requests come and replies go in batches.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use oka_http::{Config, Gateway, Replies, Reply, Request, Stream, Way};
use oka_ipc::{Endpoint, Key};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// An HTTP server whose requests wait for who takes them in batches and answers them.
///
/// It has a thread of its own and runs until `close`, or until it is dropped. Every call that waits
/// does so without the GIL.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct HttpGateway {
    gateway: Gateway,
}

#[pymethods]
impl HttpGateway {
    /// Listens. Raises OSError where the port or `replies` cannot be had.
    ///
    /// `gateway`: its number in the job. `port`: 0 picks one. `token`: what clients have to show.
    /// `timeout_seconds`: how long a request may wait for its answer; `client_seconds`: how long a
    /// client may take for what it has to do next. `max_in_flight_bytes`: of requests under way and of
    /// answers that are not read. `tasks`: how many tell that they work before the gateway is ready. `shares_port`: whether other gateways listen
    /// on the port, too. `certificate`: files in PEM of the certificate with its chain, and of its
    /// key; connections are then encrypted. `replies`: where a socket is made for replies of other processes.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "settings with names in Python")]
    #[pyo3(signature = (
        gateway: "int",
        host: "str",
        port: "int",
        path: "str",
        *,
        token: "str | None",
        max_in_flight: "int",
        max_body_bytes: "int",
        max_in_flight_bytes: "int",
        max_connections: "int",
        timeout_seconds: "float",
        client_seconds: "float",
        tasks: "int",
        shares_port: "bool",
        certificate: "tuple[str, str] | None",
        replies: "str | None",
    ))]
    fn new(
        py: Python<'_>,
        gateway: u16,
        host: String,
        port: u16,
        path: String,
        token: Option<String>,
        max_in_flight: usize,
        max_body_bytes: usize,
        max_in_flight_bytes: usize,
        max_connections: usize,
        timeout_seconds: f64,
        client_seconds: f64,
        tasks: usize,
        shares_port: bool,
        certificate: Option<(PathBuf, PathBuf)>,
        replies: Option<PathBuf>,
    ) -> PyResult<Self> {
        let config = Config {
            gateway,
            host,
            port,
            shares_port,
            path,
            token,
            max_in_flight,
            max_body_bytes,
            max_in_flight_bytes,
            max_connections,
            timeout: seconds("timeout_seconds", timeout_seconds)?,
            client_timeout: seconds("client_seconds", client_seconds)?,
            tasks,
            certificate,
            replies,
        };
        let gateway = py.detach(|| Gateway::start(config));
        Ok(Self {
            gateway: gateway.map_err(|error| PyOSError::new_err(error.to_string()))?,
        })
    }

    /// Where it listens: "127.0.0.1:8000".
    #[getter]
    fn address(&self) -> String {
        self.gateway.address().to_string()
    }

    /// Requests under way.
    #[getter]
    fn in_flight(&self) -> usize {
        self.gateway.in_flight()
    }

    /// How many requests were answered, had expired, whose client had gone, and were refused.
    fn counts(&self) -> (u64, u64, u64, u64) {
        let counts = self.gateway.counts();
        (
            counts.answered,
            counts.expired,
            counts.disconnected,
            counts.refused,
        )
    }

    /// How many answers there were of each status, without those to probes.
    fn codes(&self) -> BTreeMap<u16, u64> {
        self.gateway.codes().collect()
    }

    /// Up to `limit` requests, each made by `make(id, method, target, head, body, deadline)`.
    ///
    /// Waits for the first for `timeout_seconds`, then for more for `linger_seconds`. `head` is the
    /// headers' lines in bytes, `deadline` in seconds since 1970. `None` when there will be no more.
    #[pyo3(signature = (
        limit: "int",
        timeout_seconds: "float",
        linger_seconds: "float",
        make: "Any",
    ) -> "list[Any] | None")]
    fn take<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        timeout_seconds: f64,
        linger_seconds: f64,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let timeout = seconds("timeout_seconds", timeout_seconds)?;
        let linger = seconds("linger_seconds", linger_seconds)?;
        let Some(taken) = py.detach(|| self.gateway.take(limit, timeout, linger)) else {
            return Ok(None);
        };
        let (now, since) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH));
        let since = since.unwrap_or_default().as_secs_f64();
        let requests = PyList::empty(py);
        for request in taken {
            let left = request.deadline.saturating_duration_since(now);
            let deadline = since + left.as_secs_f64();
            requests.append(made(make, &request, deadline)?)?;
        }
        Ok(Some(requests))
    }

    /// Answers requests that have not ended otherwise, with what has `id`, `status`, `head`, `body`.
    #[pyo3(signature = (replies: "list[Any]"))]
    fn reply(&self, py: Python<'_>, replies: &Bound<'_, PyList>) -> PyResult<()> {
        self.gateway.reply(taken(py, replies)?);
        Ok(())
    }

    /// Takes replies of other hosts in at `tcp://host:port`; returns what they have to be told.
    ///
    /// With encryption only of those that `admit` names. Raises OSError where the port is taken.
    fn listen(&self, endpoint: &str, encryption: bool) -> PyResult<String> {
        Ok(self.gateway.listen(endpoint, encryption)?)
    }

    /// From now on those with these keys may answer; once.
    #[pyo3(signature = (keys: "list[bytes]"))]
    fn admit(&self, keys: Vec<[u8; 32]>) {
        self.gateway.admit(keys);
    }

    /// The gateways that listen on its port, too, by their `replies`; said once.
    #[pyo3(signature = (replies: "list[str]"))]
    fn share_with(&self, replies: Vec<PathBuf>) {
        self.gateway.share_with(replies);
    }

    /// Refuses requests from now on, those that nobody has taken, too; `take` ends with the others.
    fn drain(&self) {
        self.gateway.drain();
    }

    /// Ends requests under way with 503, and `take`; idempotent.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.gateway.close());
    }
}

/// Sends replies to gateways of other processes, on this host or others.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct HttpReplies {
    replies: Mutex<Replies>,
}

#[pymethods]
impl HttpReplies {
    /// To none yet; `encryption` of what goes to other hosts.
    #[new]
    fn new(encryption: bool) -> PyResult<Self> {
        Ok(Self {
            replies: Mutex::new(Replies::new(encryption)?),
        })
    }

    /// What gateways of other hosts have to admit; empty without encryption.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let key: Option<Key> = self.lock().key();
        PyBytes::new(py, key.as_ref().map_or(&[], |key| &key[..]))
    }

    /// Connects to the gateway of that number: where its `replies` is, or what its `listen` returned.
    ///
    /// Raises OSError where it is not there, or does not answer in time.
    fn connect(
        &self,
        py: Python<'_>,
        gateway: u16,
        endpoint: &str,
        timeout_seconds: f64,
    ) -> PyResult<()> {
        let way = if endpoint.starts_with('/') {
            Way::Local(PathBuf::from(endpoint))
        } else {
            let parsed = Endpoint::parse(endpoint);
            let parsed = parsed.map_err(|error| PyValueError::new_err(error.to_string()))?;
            Way::Tcp(parsed, seconds("timeout_seconds", timeout_seconds)?)
        };
        py.detach(|| self.lock().connect(gateway, way))?;
        Ok(())
    }

    /// Tells all gateways that the task works. Raises OSError where one is gone.
    fn tell_work(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().tell_work())?;
        Ok(())
    }

    /// Whether it has connected to the gateway of this request.
    fn reaches(&self, id: u64) -> bool {
        self.lock().reaches(id)
    }

    /// As `HttpGateway.reply`. Raises OSError where the gateway is gone.
    #[pyo3(signature = (replies: "list[Any]"))]
    fn reply(&self, py: Python<'_>, replies: &Bound<'_, PyList>) -> PyResult<()> {
        let replies = taken(py, replies)?;
        py.detach(|| self.lock().send(&replies))?;
        Ok(())
    }

    /// Begins an answer that goes piece by piece, on a connection of its own.
    #[pyo3(signature = (id: "int", status: "int", head: "bytes"))]
    fn stream(&self, py: Python<'_>, id: u64, status: u16, head: &[u8]) -> PyResult<HttpStream> {
        let reply = Reply {
            id,
            status,
            head: Bytes::copy_from_slice(head),
            body: Bytes::new(),
        };
        let mut stream = self.lock().stream(id)?;
        py.detach(|| stream.open(&reply))?;
        Ok(HttpStream {
            stream: Mutex::new(Some(stream)),
        })
    }

    /// How many requests of gateways of this host have ended without an answer; wraps around.
    fn abandoned(&self) -> u32 {
        self.lock().abandoned()
    }

    /// Whether a request has ended without an answer; None of gateways of other hosts.
    fn is_abandoned(&self, id: u64) -> Option<bool> {
        self.lock().is_abandoned(id)
    }
}

impl HttpReplies {
    fn lock(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that goes piece by piece.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct HttpStream {
    stream: Mutex<Option<Stream>>,
}

#[pymethods]
impl HttpStream {
    /// Sends a piece; waits while the client reads more slowly. Raises OSError when it is gone.
    #[pyo3(signature = (piece: "bytes"))]
    fn write(&self, py: Python<'_>, piece: &[u8]) -> PyResult<()> {
        py.detach(|| match self.lock().as_mut() {
            Some(stream) => stream.write(piece),
            None => Err(io::ErrorKind::NotConnected.into()),
        })?;
        Ok(())
    }

    /// That was all. Dropped without it, the client sees that the answer is broken off.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.lock().take();
        py.detach(|| stream.map_or(Ok(()), Stream::finish))?;
        Ok(())
    }
}

impl HttpStream {
    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn made<'py>(
    make: &Bound<'py, PyAny>,
    request: &Request,
    deadline: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = |bytes: &Bytes| PyBytes::new(make.py(), bytes);
    make.call1((
        request.id,
        &request.method,
        &request.target,
        bytes(&request.head),
        bytes(&request.body),
        deadline,
    ))
}

fn taken(py: Python<'_>, replies: &Bound<'_, PyList>) -> PyResult<Vec<Reply>> {
    let reply = |each: Bound<'_, PyAny>| {
        let bytes = |name| -> PyResult<Bytes> {
            let value = each.getattr(name)?;
            Ok(Bytes::copy_from_slice(value.cast::<PyBytes>()?.as_bytes()))
        };
        Ok(Reply {
            id: each.getattr(intern!(py, "id"))?.extract()?,
            status: each.getattr(intern!(py, "status"))?.extract()?,
            head: bytes(intern!(py, "head"))?,
            body: bytes(intern!(py, "body"))?,
        })
    };
    replies.iter().map(reply).collect()
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{name} is {value}, expected 0 or more")))
}

//! The HTTP gateway for Python: requests come and replies go in batches.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use oka_http::{Config, Gateway, Replies, Reply, Request};
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
    /// `timeout_seconds`: how long a request may wait for its answer; `header_seconds`: how long
    /// its headers may take to come, and then its body. `shares_port`: whether other gateways listen
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
        timeout_seconds: "float",
        header_seconds: "float",
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
        timeout_seconds: f64,
        header_seconds: f64,
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
            timeout: seconds("timeout_seconds", timeout_seconds)?,
            header_timeout: seconds("header_seconds", header_seconds)?,
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

    /// Up to `limit` requests, each made by `make(id, method, target, head, body, deadline)`.
    ///
    /// Waits for the first for `timeout_seconds`, then for more for `linger_seconds`. `head` is the
    /// headers' lines in bytes, `deadline` in seconds since 1970. `None` when there will be no more.
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
    fn reply(&self, py: Python<'_>, replies: &Bound<'_, PyList>) -> PyResult<()> {
        self.gateway.reply(taken(py, replies)?);
        Ok(())
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

/// Sends replies to the gateway of another process on this host.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct HttpReplies {
    replies: Mutex<Replies>,
}

#[pymethods]
impl HttpReplies {
    /// Connects to the gateway whose `replies` is this. Raises OSError.
    #[new]
    #[pyo3(signature = (path: "str"))]
    fn new(path: &str) -> PyResult<Self> {
        Ok(Self {
            replies: Mutex::new(Replies::connect(Path::new(path))?),
        })
    }

    /// As `HttpGateway.reply`. Raises OSError where the gateway is gone.
    fn reply(&self, py: Python<'_>, replies: &Bound<'_, PyList>) -> PyResult<()> {
        let replies = taken(py, replies)?;
        py.detach(|| {
            let mut socket = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
            socket.send(&replies)
        })?;
        Ok(())
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

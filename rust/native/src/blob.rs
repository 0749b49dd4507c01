//! Large values: the node that moves them, one that is being filled, and one that is whole.

#![allow(
    clippy::needless_pass_by_value,
    reason = "what comes from Python is converted anyway"
)]

use std::ffi::c_int;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use oka_blob::{BlobConfig, View};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::error::Raise;
use crate::memory::buffer::export;
use crate::network::statistics::BlobStatistics;
use crate::network::{duration, duration_or};

/// Large values of one worker: one sealed copy per node, relayed from node to node.
///
/// Thread-safe: any thread may call any method while others wait. Its own threads never need the GIL.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct BlobNode(oka_blob::BlobNode);

#[pymethods]
impl BlobNode {
    /// Listens for other nodes at `listen` (tcp://host:port, port 0 picks one) and for processes of
    /// this machine at the path `local`. Raises ValueError for an invalid endpoint or setting,
    /// NetworkError when the system refuses it. A setting that is None is the usual one.
    ///
    /// `encryption`: connections between nodes are encrypted and both ends authenticated.
    /// `chunk_bytes`: what a node has to have before it relays it, and what is sent again after an
    /// error. `reconnect_timeout_seconds`: how long a blob that nobody sends is waited for, and a node
    /// that was bypassed is tried again. `bypass_seconds`: how long a node may be out of reach until
    /// it is bypassed.
    #[new]
    #[pyo3(signature = (
        listen: "str",
        local: "str",
        *,
        encryption: "bool | None" = None,
        chunk_bytes: "int | None" = None,
        reconnect_timeout_seconds: "float | None" = None,
        bypass_seconds: "float | None" = None,
    ))]
    fn new(
        py: Python<'_>,
        listen: &str,
        local: PathBuf,
        encryption: Option<bool>,
        chunk_bytes: Option<u32>,
        reconnect_timeout_seconds: Option<f64>,
        bypass_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let usual = BlobConfig::default();
        let config = BlobConfig {
            encryption: encryption.unwrap_or(usual.encryption),
            chunk_bytes: chunk_bytes.unwrap_or(usual.chunk_bytes),
            patience: duration_or(
                "reconnect_timeout_seconds",
                reconnect_timeout_seconds,
                usual.patience,
            )?,
            bypass: duration_or("bypass_seconds", bypass_seconds, usual.bypass)?,
            memory_limit: usual.memory_limit,
        };
        py.detach(|| oka_blob::BlobNode::bind(config, listen, &local))
            .map(Self)
            .map_err(Raise::raise)
    }

    /// Where other nodes reach this one: tcp://KEY@host:port, the key only with encryption.
    #[getter]
    fn endpoint(&self) -> &str {
        self.0.endpoint()
    }

    /// Tells the node its peers, once, and waits for those on this machine. Raises NetworkError when
    /// they do not come in time, ValueError for an invalid endpoint, Cancelled.
    ///
    /// `chain`: endpoints that blobs from here are relayed to, in order. `peers`: endpoints that may
    /// send to it. `leaders`: (origin, path) of the nodes of this machine that hand over the blobs of
    /// these origins. `followers`: how many nodes of this machine are handed blobs from here.
    #[pyo3(signature = (
        chain: "list[str]",
        peers: "list[str]",
        leaders: "list[tuple[int, str]]",
        followers: "int",
        timeout_seconds: "float",
    ))]
    fn connect(
        &self,
        py: Python<'_>,
        chain: Vec<String>,
        peers: Vec<String>,
        leaders: Vec<(u32, PathBuf)>,
        followers: usize,
        timeout_seconds: f64,
    ) -> PyResult<()> {
        let timeout = duration("timeout_seconds", timeout_seconds)?;
        py.detach(|| self.0.connect(&chain, &peers, &leaders, followers, timeout))
            .map_err(Raise::raise)
    }

    /// Removes the name of the local socket: after every node of this machine has connected.
    fn unlink(&self) {
        self.0.unlink();
    }

    /// Memory for a blob that begins here. `relay`: it is sent along the chain. `consume`: this worker
    /// will get it, too. Raises ResourceError if there is no memory for it, ValueError for a number
    /// that was used before, Cancelled.
    #[pyo3(signature = (
        origin: "int",
        number: "int",
        size: "int",
        relay: "bool",
        consume: "bool",
    ))]
    fn create(
        &self,
        py: Python<'_>,
        origin: u32,
        number: u64,
        size: u64,
        relay: bool,
        consume: bool,
    ) -> PyResult<Landing> {
        py.detach(|| self.0.create(origin, number, size, relay, consume))
            .map(Landing)
            .map_err(Raise::raise)
    }

    /// The blob, once it is whole here; each one once. Waits without the GIL. Raises ChannelLost when
    /// it will not come, TimeoutError, Cancelled.
    #[pyo3(signature = (
        origin: "int",
        number: "int",
        timeout_seconds: "float | None" = None,
    ))]
    fn get(
        &self,
        py: Python<'_>,
        origin: u32,
        number: u64,
        timeout_seconds: Option<f64>,
    ) -> PyResult<Blob> {
        let timeout = optional(timeout_seconds)?;
        py.detach(|| self.0.get(origin, number, timeout))
            .map(Blob)
            .map_err(Raise::raise)
    }

    /// Says that this worker will get a blob. Not needed: every blob that arrives is kept until then.
    #[pyo3(signature = (origin: "int", number: "int"))]
    fn expect(&self, origin: u32, number: u64) {
        self.0.expect(origin, number);
    }

    /// Waits until a blob that began here is with every node of the chain and every follower here.
    /// Raises ChannelLost naming the endpoints that have not got it, TimeoutError, Cancelled.
    #[pyo3(signature = (
        origin: "int",
        number: "int",
        timeout_seconds: "float | None" = None,
    ))]
    fn wait_delivered(
        &self,
        py: Python<'_>,
        origin: u32,
        number: u64,
        timeout_seconds: Option<f64>,
    ) -> PyResult<()> {
        let timeout = optional(timeout_seconds)?;
        py.detach(|| self.0.wait_delivered(origin, number, timeout))
            .map_err(Raise::raise)
    }

    /// A snapshot of the counters.
    fn statistics(&self) -> BlobStatistics {
        self.0.statistics().into()
    }

    /// Makes every call that waits, now or later, raise Cancelled.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Stops all threads and removes the local socket; blobs that were got stay. Idempotent.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// A blob that is being filled where it begins; nodes along the chain follow behind what is filled.
///
/// Filled in order by `write` and `write_file`, or in any order through `view` and counted by
/// `advance`. Aborted if it is dropped before `finish`.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Landing(oka_blob::Landing);

#[pymethods]
impl Landing {
    /// Appends the bytes of a contiguous buffer, without the GIL. Raises ValueError if they are too
    /// many, ResourceError, Cancelled.
    #[pyo3(signature = (data: "Any"))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let buffer = PyUntypedBuffer::get(data)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "a buffer with gaps cannot be written\n\nhint: make it contiguous first",
            ));
        }
        let length = buffer.len_bytes();
        let bytes: &[u8] = if length == 0 {
            &[]
        } else {
            // SAFETY: contiguous, and kept by the buffer; should another thread write to it
            // meanwhile, the blob has some of the old bytes and some of the new.
            unsafe { slice::from_raw_parts(buffer.buf_ptr().cast(), length) }
        };
        py.detach(|| self.0.write(bytes)).map_err(Raise::raise)
    }

    /// Appends `length` bytes of a file from `offset` on, or all that are left, without the GIL.
    /// Raises OSError if it cannot be read, ValueError if they are too many, ResourceError, Cancelled.
    #[pyo3(signature = (path: "str", offset: "int" = 0, length: "int | None" = None))]
    fn write_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<()> {
        py.detach(|| self.0.write_file(&path, offset, length))
            .map_err(Raise::raise)
    }

    /// All bytes, writable: for a fill in any order. What is written after `finish` changes nothing
    /// but this view. Raises ResourceError.
    fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let view = py.detach(|| self.0.view()).map_err(Raise::raise)?;
        PyMemoryView::from(Bound::new(py, LandingView(view))?.as_any())
    }

    /// The next `count` bytes were filled through the view, and change no more. Raises ValueError if
    /// they are too many, Cancelled.
    #[pyo3(signature = (count: "int"))]
    fn advance(&self, py: Python<'_>, count: u64) -> PyResult<()> {
        py.detach(|| self.0.advance(count)).map_err(Raise::raise)
    }

    /// Seals the blob: it is whole. Raises ValueError unless exactly its size was written.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.finish()).map_err(Raise::raise)
    }

    /// Gives the blob up; everyone who waits for it gets the reason.
    #[pyo3(signature = (reason: "str"))]
    fn abort(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.0.abort(reason));
    }
}

/// What exports the view of a landing.
#[pyclass(frozen, module = "engine._native")]
struct LandingView(Arc<View>);

#[pymethods]
impl LandingView {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let (start, length) = (bytes.start().cast(), bytes.length());
        // SAFETY: Python gives a buffer to fill; the bytes stay where they are while `slf` lives.
        unsafe { export(slf.as_any(), start, length, false, view, flags) }
    }
}

/// A blob that is whole: its bytes, read-only and without a copy, through the buffer protocol. Its
/// memory is freed with the last one on the node.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Blob(Arc<oka_blob::Blob>);

#[pymethods]
impl Blob {
    /// Bytes.
    fn __len__(&self) -> usize {
        self.0.bytes().len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().0.bytes();
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        // SAFETY: Python gives a buffer to fill; the bytes stay where they are while `slf` lives.
        unsafe { export(slf.as_any(), start, length, true, view, flags) }
    }

    /// What memoryview(blob) is, here for type checkers.
    #[pyo3(signature = (flags: "int", /) -> "memoryview")]
    fn __buffer__(slf: Bound<'_, Self>, flags: c_int) -> PyResult<Bound<'_, PyMemoryView>> {
        let _ = flags;
        PyMemoryView::from(slf.as_any())
    }

    /// When it was whole on this node, in nanoseconds of CLOCK_MONOTONIC.
    #[getter]
    fn landed_ns(&self) -> u64 {
        self.0.landed_ns()
    }
}

fn optional(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    seconds
        .map(|seconds| duration("timeout_seconds", seconds))
        .transpose()
}

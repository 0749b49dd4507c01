//! S3 for Python: every call without the GIL.

use crate::error::StorageFailed;
use crate::memory::buffer::readable;
use oka_s3::{Client, ClientConfig, Failure};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A bucket and prefix of an S3 endpoint. Thread-safe; every call ends soon after Ctrl-C.
///
/// All calls raise StorageFailed with the message and S3's code.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct S3Client(Client);

#[pymethods]
impl S3Client {
    /// Finds endpoint, region and credentials; asks nobody yet.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "settings with names in Python")]
    #[pyo3(signature = (
        bucket: "str",
        prefix: "str",
        *,
        endpoint: "str | None" = None,
        region: "str | None" = None,
        role_arn: "str | None" = None,
        parallel: "int" = 8,
        part_bytes: "int" = 8_388_608,
        retries: "int" = 6,
    ))]
    fn new(
        bucket: String,
        prefix: String,
        endpoint: Option<String>,
        region: Option<String>,
        role_arn: Option<String>,
        parallel: usize,
        part_bytes: usize,
        retries: usize,
    ) -> PyResult<Self> {
        // With the GIL: nobody sets environment variables while they are read.
        Client::open(ClientConfig {
            bucket,
            prefix,
            endpoint,
            region,
            role_arn,
            parallel,
            part_bytes,
            retries,
        })
        .map(Self)
        .map_err(failed)
    }

    /// Where requests go.
    #[getter]
    fn endpoint(&self) -> &str {
        self.0.endpoint()
    }

    /// All objects below prefix and `below`: key after the prefix, bytes, and tag of the version.
    #[pyo3(signature = (below: "str" = ""))]
    fn list(&self, py: Python<'_>, below: &str) -> PyResult<Vec<(String, u64, String)>> {
        call(py, |interrupted| self.0.list(below, interrupted))
    }

    /// Fills a writable buffer of bytes with the object, which must have its size.
    #[pyo3(signature = (key: "str", buffer: "memoryview"))]
    fn get_into(&self, py: Python<'_>, key: &str, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut memory = Writable::of(buffer)?;
        call(py, |interrupted| {
            self.0.get_into(key, memory.slice(), interrupted)
        })
    }

    /// Fills a writable buffer with bytes of the object's version with this tag, from `start` on.
    #[pyo3(signature = (key: "str", start: "int", tag: "str", buffer: "memoryview"))]
    fn get_part_into(
        &self,
        py: Python<'_>,
        key: &str,
        start: u64,
        tag: &str,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut memory = Writable::of(buffer)?;
        call(py, |interrupted| {
            self.0
                .get_part_into(key, start, tag, memory.slice(), interrupted)
        })
    }

    /// Writes an object; it is there whole or not at all.
    #[pyo3(signature = (key: "str", data: "memoryview"))]
    fn put(&self, py: Python<'_>, key: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = readable(data)?;
        call(py, |interrupted| self.0.put(key, data, interrupted))
    }

    /// Writes an object in one request unless the key has one; whether it did.
    #[pyo3(signature = (key: "str", data: "memoryview"))]
    fn create(&self, py: Python<'_>, key: &str, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        let data = readable(data)?;
        call(py, |interrupted| self.0.create(key, data, interrupted))
    }

    /// Writes a file's content as an object.
    #[pyo3(signature = (key: "str", path: "str"))]
    #[allow(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn put_file(&self, py: Python<'_>, key: &str, path: PathBuf) -> PyResult<()> {
        call(py, |interrupted| self.0.put_file(key, &path, interrupted))
    }

    /// Begins an upload and gives its id; nobody sees the object until it is completed.
    #[pyo3(signature = (key: "str"))]
    fn begin_upload(&self, py: Python<'_>, key: &str) -> PyResult<String> {
        call(py, |interrupted| self.0.begin_upload(key, interrupted))
    }

    /// Sends a file's content to an upload; the tags that complete it.
    #[pyo3(signature = (key: "str", id: "str", path: "str"))]
    #[allow(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn fill_upload(
        &self,
        py: Python<'_>,
        key: &str,
        id: &str,
        path: PathBuf,
    ) -> PyResult<Vec<String>> {
        call(py, |interrupted| {
            self.0.fill_upload(key, id, &path, interrupted)
        })
    }

    /// Makes the object of an upload.
    #[pyo3(signature = (key: "str", id: "str", tags: "list[str]"))]
    fn complete_upload(
        &self,
        py: Python<'_>,
        key: &str,
        id: &str,
        tags: Vec<String>,
    ) -> PyResult<()> {
        call(py, |interrupted| {
            self.0.complete_upload(key, id, tags, interrupted)
        })
    }

    /// Forgets an upload; a missing one is ignored.
    #[pyo3(signature = (key: "str", id: "str"))]
    fn abort_upload(&self, py: Python<'_>, key: &str, id: &str) -> PyResult<()> {
        call(py, |interrupted| self.0.abort_upload(key, id, interrupted))
    }

    /// Removes objects; missing ones are ignored.
    #[pyo3(signature = (keys: "list[str]"))]
    #[allow(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn delete(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<()> {
        call(py, |interrupted| self.0.delete(&keys, interrupted))
    }

    /// The size of the object.
    #[pyo3(signature = (key: "str"))]
    fn size(&self, py: Python<'_>, key: &str) -> PyResult<u64> {
        call(py, |interrupted| self.0.size(key, interrupted))
    }
}

/// Runs a call without the GIL; what a signal's handler raises ends it.
#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is of one lifetime, the closure of any"
)]
fn call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (done, raised) = py.detach(|| {
        let mut raised = None;
        let done = work(&mut || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_some()
        });
        (done, raised)
    });
    match raised {
        Some(raised) => Err(raised),
        None => done.map_err(failed),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(failure: Failure) -> PyErr {
    StorageFailed::new_err(failure.to_string(), failure.code().to_owned())
}

/// Memory of a Python buffer, which is held for as long.
struct Writable(PyBuffer<u8>);

impl Writable {
    fn of(buffer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(buffer)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer cannot be written to"));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        Ok(Self(buffer))
    }

    fn slice(&mut self) -> &mut [u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: the buffer is held, so its memory stays where it is; it is contiguous and of bytes.
        // Whoever reads or writes it meanwhile from another thread sees a mix of old and new bytes, as
        // with every call that fills a buffer without the GIL.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), length) }
    }
}

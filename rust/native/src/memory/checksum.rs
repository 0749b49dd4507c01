//! Checksums of large files, at the speed of memory.

use crate::memory::buffer::readable;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use xxhash_rust::xxh3::Xxh3;

/// XXH3 of 128 bits over buffers that lie behind one another: 16 bytes, as `xxhsum -H2` tells them.
/// It tells what was torn or flipped by accident from what was written; computed without the GIL.
#[pyfunction]
#[pyo3(signature = (parts: "list[bytes | memoryview]") -> "bytes")]
pub(crate) fn xxh3<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyBytes>> {
    let parts = parts.iter().map(|part| readable(&part));
    let parts = parts.collect::<PyResult<Vec<_>>>()?;
    let digest = py.detach(|| {
        let mut hasher = Xxh3::new();
        for part in &parts {
            hasher.update(part);
        }
        hasher.digest128()
    });
    Ok(PyBytes::new(py, &digest.to_be_bytes()))
}

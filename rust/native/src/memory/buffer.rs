//! Bytes between Python and Rust that are not copied: the buffer protocol, both ways.

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::{c_int, c_void};
use std::slice;

/// The bytes of a Python buffer, which is held for as long as they are.
pub(crate) fn readable(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let buffer = PyBuffer::<u8>::get(data)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the data is not contiguous"));
    }
    Ok(Bytes::from_owner(Readable(buffer)))
}

/// A view of bytes, which lives as long as the last view.
pub(crate) fn view(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, Written(bytes))?.as_any())
}

/// What exports bytes that Rust has written.
#[pyclass(frozen, module = "engine._native")]
struct Written(Bytes);

#[pymethods]
impl Written {
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        // SAFETY: Python gives a buffer to fill; the bytes stay where they are while `slf` lives.
        unsafe { export(slf.as_any(), start, length, true, view, flags) }
    }
}

/// Fills in a buffer of plain bytes that `owner` keeps.
///
/// # Safety
/// `view` is null or to be filled in; the bytes live as long as `owner`.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    start: *mut c_void,
    length: usize,
    readonly: bool,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no buffer to fill in"));
    }
    // SAFETY: as the caller says; the owner is kept by the buffer.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            start,
            length as isize,
            c_int::from(readonly),
            flags,
        )
    };
    if filled == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(owner.py()))
    }
}

/// A buffer that is held until its last byte is sent, even when the call has ended before.
struct Readable(PyBuffer<u8>);

impl AsRef<[u8]> for Readable {
    fn as_ref(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous, of bytes, and held by this value.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), length) }
    }
}

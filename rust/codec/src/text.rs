//! Python strings: their UTF-8, and a cache that gives equal short texts the same `str` object.
//!
//! A cached object needs no allocation and brings its hash along, which is most of what a dict
//! look-up with a new string costs.

use oka_compute::short::{self, equal};
use pyo3::ffi;
use std::ptr;
use std::slice;

/// The UTF-8 of a `str`; `None` when it holds a lone surrogate.
///
/// # Safety
/// The GIL is held, `text` is a `str`, and the result is not used after `text` is freed.
#[inline]
pub unsafe fn utf8<'a>(text: *mut ffi::PyObject) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: `text` is a str; the bytes live as long as it does.
    unsafe {
        let bytes = ffi::PyUnicode_AsUTF8AndSize(text, &raw mut length);
        if bytes.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(slice::from_raw_parts(bytes.cast(), length as usize))
    }
}

/// Recent short texts by their hash; bounded, and never emptied.
pub(crate) struct TextCache {
    /// None at first, or [`ENTRIES`] of them.
    entries: Vec<CachedText>,
}

impl TextCache {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Gives the cache its memory; without that it caches nothing.
    pub(crate) fn prepare(&mut self) {
        self.entries.resize(ENTRIES, CachedText::EMPTY);
    }

    /// A new reference to a `str` of these bytes; null, with an exception set, when they are no
    /// UTF-8 or there is no memory.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub(crate) unsafe fn text(&mut self, bytes: &[u8]) -> *mut ffi::PyObject {
        let hash = if bytes.len() > short::LONGEST {
            0
        } else {
            short::hash(bytes)
        };
        // SAFETY: the GIL is held; a filled entry owns a reference to `object`, whose UTF-8 is at
        // `utf8`.
        unsafe {
            match self.entries.get_mut(hash as usize % ENTRIES) {
                _ if bytes.len() > short::LONGEST => new_text(bytes),
                Some(entry) if entry.hash == hash && entry.holds(bytes) => {
                    ffi::Py_INCREF(entry.object);
                    entry.object
                }
                Some(entry) => entry.replace(hash, bytes),
                None => new_text(bytes),
            }
        }
    }
}

// SAFETY: the pointers are only followed with the GIL held, whichever thread that is.
unsafe impl Send for TextCache {}

/// A new `str`; null with an exception set on failure.
///
/// # Safety
/// The GIL is held.
pub(crate) unsafe fn new_text(bytes: &[u8]) -> *mut ffi::PyObject {
    let length = bytes.len() as ffi::Py_ssize_t;
    // SAFETY: the GIL is held; a str made for ASCII has room for `length` one-byte characters.
    unsafe {
        if bytes.len() < 2 || !bytes.is_ascii() {
            return ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), length, ptr::null());
        }
        let text = ffi::PyUnicode_New(length, 127);
        if !text.is_null() {
            let data = ffi::PyUnicode_1BYTE_DATA(text);
            ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        }
        text
    }
}

#[derive(Clone)]
struct CachedText {
    hash: u64,
    length: usize,
    utf8: ptr::NonNull<u8>,
    object: *mut ffi::PyObject,
}

impl CachedText {
    const EMPTY: Self = Self {
        hash: 0,
        length: 0,
        utf8: ptr::NonNull::dangling(),
        object: ptr::null_mut(),
    };

    /// # Safety
    /// The GIL is held.
    #[inline]
    unsafe fn holds(&self, bytes: &[u8]) -> bool {
        // SAFETY: an entry owns its `object`, and with it `length` bytes at `utf8`.
        let utf8 = unsafe { slice::from_raw_parts(self.utf8.as_ptr(), self.length) };
        !self.object.is_null() && equal(utf8, bytes)
    }

    /// Puts a new `str` in, and returns another reference to it.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline(never)]
    unsafe fn replace(&mut self, hash: u64, bytes: &[u8]) -> *mut ffi::PyObject {
        // SAFETY: the entry takes the new reference and gives its old one up; freeing a str runs
        // no Python code.
        unsafe {
            let object = new_text(bytes);
            if object.is_null() {
                return object;
            }
            if let Some(utf8) = utf8(object) {
                ffi::Py_XDECREF(self.object);
                ffi::Py_INCREF(object);
                *self = Self {
                    hash,
                    length: bytes.len(),
                    utf8: ptr::NonNull::from(utf8).cast(),
                    object,
                };
            }
            object
        }
    }
}

const ENTRIES: usize = 4096;

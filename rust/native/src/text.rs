//! Python strings: their UTF-8, and a cache that gives equal short texts the same `str` object.
//!
//! A cached object needs no allocation and brings its hash along, which is most of what a dict
//! look-up with a new string costs.

use pyo3::ffi;
use std::ptr;
use std::slice;
use xxhash_rust::xxh3::xxh3_64;

/// The UTF-8 of a `str`; `None` when it holds a lone surrogate.
///
/// # Safety
/// The GIL is held, `text` is a `str`, and the result is not used after `text` is freed.
#[inline]
pub(crate) unsafe fn utf8<'a>(text: *mut ffi::PyObject) -> Option<&'a [u8]> {
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
    entries: Vec<Entry>,
}

impl TextCache {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// A new reference to a `str` of these bytes; null, with an exception set, when they are no
    /// UTF-8 or there is no memory.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub(crate) unsafe fn text(&mut self, bytes: &[u8]) -> *mut ffi::PyObject {
        if bytes.len() > LONGEST {
            // SAFETY: the GIL is held.
            return unsafe { new_text(bytes) };
        }
        if self.entries.is_empty() {
            self.entries.resize(ENTRIES, Entry::EMPTY);
        }
        let hash = xxh3_64(bytes);
        let entry = &mut self.entries[hash as usize % ENTRIES];
        // SAFETY: a filled entry owns a reference to `object`, whose UTF-8 is at `utf8`.
        unsafe {
            if entry.hash == hash
                && entry.length == bytes.len()
                && slice::from_raw_parts(entry.utf8, entry.length) == bytes
            {
                ffi::Py_INCREF(entry.object);
                return entry.object;
            }
            entry.replace(hash, bytes)
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
struct Entry {
    hash: u64,
    length: usize,
    utf8: *const u8,
    object: *mut ffi::PyObject,
}

impl Entry {
    const EMPTY: Self = Self {
        hash: 0,
        length: usize::MAX,
        utf8: ptr::null(),
        object: ptr::null_mut(),
    };

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
                    utf8: utf8.as_ptr(),
                    object,
                };
            }
            object
        }
    }
}

/// Bytes of the longest text that is cached.
const LONGEST: usize = 64;
const ENTRIES: usize = 4096;

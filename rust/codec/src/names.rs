//! The keys of dicts, which are the same few texts in record after record: what each is encoded as.
//!
//! A name is found by the address of its `str`. What a dict is encoded as stays the same.

use crate::text;
use oka_compute::encode;
use pyo3::ffi;
use std::cell::UnsafeCell;
use std::ptr;

/// Appends the encoding of a dict's key, if it is a short text that others have, too; else false, and
/// nothing.
///
/// # Safety
/// The GIL is held and `key` is valid.
#[inline]
pub(crate) unsafe fn append(out: &mut Vec<u8>, key: *mut ffi::PyObject) -> bool {
    let at = (key as u64).wrapping_mul(MULTIPLIER) >> (64 - PLACES.ilog2());
    // SAFETY: whoever has the GIL has the places, until it returns: freeing a str runs no Python code.
    unsafe {
        let mut name = &mut *NAMES.0[at as usize].get();
        if name.key != key {
            // Two names at one place do not take it from each other.
            name = &mut *NAMES.0[at as usize ^ 1].get();
            if name.key != key && !name.learn(key, &mut *NAMES.0[at as usize].get()) {
                return false;
            }
        }
        let end = out.len() + name.length;
        out.extend_from_slice(&name.bytes); // so many that no length has to be looked at
        out.truncate(end);
        true
    }
}

/// A `str`, of which it has a reference, and its encoding.
struct Name {
    key: *mut ffi::PyObject,
    length: usize,
    bytes: [u8; LONGEST],
}

impl Name {
    /// Becomes this name; what it was goes to the other place.
    #[inline(never)]
    unsafe fn learn(&mut self, key: *mut ffi::PyObject, other: &mut Self) -> bool {
        // SAFETY: as in `append`.
        unsafe {
            if ffi::Py_TYPE(key) != &raw mut ffi::PyUnicode_Type || ffi::Py_REFCNT(key) < 2 {
                return false;
            }
            let Some(utf8) = text::utf8(key).filter(|utf8| utf8.len() < LONGEST) else {
                return false;
            };
            let mut encoded = Vec::with_capacity(LONGEST);
            encode::text(&mut encoded, utf8);
            let mut bytes = [0; LONGEST];
            let Some(start) = bytes.get_mut(..encoded.len()) else {
                return false;
            };
            start.copy_from_slice(&encoded);
            std::mem::swap(self, other);
            ffi::Py_XDECREF(self.key);
            *self = Self {
                key: ffi::Py_NewRef(key),
                length: encoded.len(),
                bytes,
            };
            true
        }
    }
}

/// By the addresses of their objects.
struct Names([UnsafeCell<Name>; PLACES]);

// SAFETY: they are only touched with the GIL held.
unsafe impl Sync for Names {}

static NAMES: Names = Names(
    [const {
        UnsafeCell::new(Name {
            key: ptr::null_mut(),
            length: 0,
            bytes: [0; LONGEST],
        })
    }; PLACES],
);
/// Bytes of an encoding.
const LONGEST: usize = 32;
const PLACES: usize = 1024;
/// An odd number without a pattern: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

//! A cache that gives equal short records the same tuple object.
//!
//! Streams of counts and events repeat themselves: a tuple that was decoded a moment ago need not be
//! made again. Only tuples of atomic values are kept, so that nobody can tell them from new ones but
//! by their identity.

use oka_compute::short::{self, equal};
use pyo3::ffi;
use std::ptr;

/// Recent records by the hash of their encoding; bounded, and never emptied.
///
/// It watches its own success: while most records are new it looks only now and then.
pub(crate) struct RecordCache {
    /// None at first, or [`ENTRIES`] of them.
    entries: Vec<CachedRecord>,
    hits: u32,
    misses: u32,
    /// How many more batches to leave the cache alone.
    pause: u32,
}

impl RecordCache {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            hits: 0,
            misses: 0,
            pause: 0,
        }
    }

    /// Begins a batch: gives the cache its memory, and judges the batch before.
    pub(crate) fn prepare(&mut self) {
        self.entries.resize(ENTRIES, CachedRecord::EMPTY);
        if self.misses > self.hits && self.misses > ENOUGH_TO_JUDGE {
            self.pause = PAUSED_BATCHES;
        }
        self.pause = self.pause.saturating_sub(1);
        (self.hits, self.misses) = (0, 0);
    }

    /// Whether looking is worth it for records of this batch.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.pause == 0 && !self.entries.is_empty()
    }

    /// A new reference to the record with this encoding; null if it is not there.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub(crate) unsafe fn get(&mut self, encoding: &[u8]) -> *mut ffi::PyObject {
        let hash = short::hash(encoding);
        // There is none once another decoder has taken the caches, in the middle of a batch.
        let Some(entry) = self.entries.get(hash as usize % ENTRIES) else {
            return ptr::null_mut();
        };
        if entry.hash == hash && equal(&entry.bytes[..entry.length], encoding) {
            self.hits += 1;
            // SAFETY: the GIL is held; a filled entry owns a reference to `object`. An empty one
            // equals no encoding, because none is empty.
            unsafe { ffi::Py_INCREF(entry.object) };
            return entry.object;
        }
        self.misses += 1;
        ptr::null_mut()
    }

    /// Keeps a record for its encoding, if it is a tuple of atomic values.
    ///
    /// # Safety
    /// The GIL is held; `record` is a tuple.
    #[inline(never)]
    pub(crate) unsafe fn put(&mut self, encoding: &[u8], record: *mut ffi::PyObject) {
        // SAFETY: the GIL is held; the entry takes a new reference and gives its old one up. The
        // decoder has untracked tuples of atomic values, and freeing one runs no Python code.
        unsafe {
            if ffi::PyObject_GC_IsTracked(record) != 0 {
                return;
            }
            let hash = short::hash(encoding);
            let Some(entry) = self.entries.get_mut(hash as usize % ENTRIES) else {
                return;
            };
            ffi::Py_XDECREF(entry.object);
            ffi::Py_INCREF(record);
            entry.hash = hash;
            entry.length = encoding.len();
            entry.bytes[..encoding.len()].copy_from_slice(encoding);
            entry.object = record;
        }
    }
}

// SAFETY: the pointers are only followed with the GIL held, whichever thread that is.
unsafe impl Send for RecordCache {}

/// Longest encoding of a record that is kept.
pub(crate) const LONGEST: usize = short::LONGEST;

#[derive(Clone)]
struct CachedRecord {
    hash: u64,
    length: usize,
    object: *mut ffi::PyObject,
    bytes: [u8; LONGEST],
}

impl CachedRecord {
    const EMPTY: Self = Self {
        hash: 0,
        length: 0,
        object: ptr::null_mut(),
        bytes: [0; LONGEST],
    };
}

const ENTRIES: usize = 1024;
const ENOUGH_TO_JUDGE: u32 = 16;
const PAUSED_BATCHES: u32 = 64;

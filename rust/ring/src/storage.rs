//! The memory that a ring works on, as a trait, and the positions in it.

use crate::sync::{AtomicU64, Ordering};

/// The memory a ring works on: its positions and its bytes.
///
/// # Safety
///
/// Every call gives the same positions and the same bytes, for as long as the value lives, in every
/// thread and process that shares them. The capacity is a power of two and never changes.
pub unsafe trait Storage {
    /// How far writer and reader have come.
    fn positions(&self) -> &Positions;

    /// Bytes of the ring, a power of two.
    fn capacity(&self) -> usize;

    /// Copies `bytes` to the place of `position`, wrapping around.
    ///
    /// # Safety
    ///
    /// At most `capacity` bytes; nobody else reads or writes these places meanwhile.
    unsafe fn write(&self, position: u64, bytes: &[u8]);

    /// The `length` bytes at the place of `position`, in one piece although they may wrap around.
    ///
    /// # Safety
    ///
    /// At most `capacity` bytes; nobody writes these places while the slice lives.
    unsafe fn read(&self, position: u64, length: usize) -> &[u8];
}

/// How far writer and reader have come, in bytes since the start. They only grow.
///
/// Each has a cache line of its own, because each is written from another core.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Positions {
    /// Written by the writer: bytes that may be read.
    pub(crate) written: Line,
    /// Written by the reader: bytes whose place may be written again.
    pub(crate) consumed: Line,
    /// Written by the writer: where the reader has to be for the writer to be woken.
    pub(crate) wake_at: Line,
    /// Written by the reader: bytes that it would have wait for it at most; 0 where it does not mind.
    pub(crate) window: Line,
}

/// One position in a cache line of its own (two, since they are fetched in pairs).
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Line(AtomicU64);

impl Line {
    #[inline]
    pub(crate) fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    #[inline]
    pub(crate) fn store(&self, position: u64, ordering: Ordering) {
        self.0.store(position, ordering);
    }
}

//! A ring of bytes, with its writing and its reading end.

use std::sync::Arc;

use thiserror::Error;

use crate::storage::Storage;
use crate::sync::{Ordering, fence};

/// One ring: bytes from one writer to one reader, in order.
#[derive(Debug)]
pub struct Ring<S> {
    storage: S,
}

impl<S: Storage> Ring<S> {
    /// The ring in this memory.
    pub fn new(storage: S) -> Self {
        debug_assert!(storage.capacity().is_power_of_two());
        Self { storage }
    }

    /// The memory of the ring.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Bytes that were written and not consumed.
    pub fn backlog(&self) -> u64 {
        let positions = self.storage.positions();
        let consumed = positions.consumed.load(Ordering::Acquire);
        let written = positions.written.load(Ordering::Acquire);
        written.saturating_sub(consumed)
    }
}

/// The writing end. There is one for each ring.
#[derive(Debug)]
pub struct Writer<S> {
    ring: Arc<Ring<S>>,
    position: u64,
    /// The reader's position when the writer last looked.
    consumed: u64,
}

impl<S: Storage> Writer<S> {
    /// The writer of a ring that nothing was written to.
    ///
    /// # Safety
    ///
    /// It is the only writer of this memory, in all processes.
    pub unsafe fn new(ring: Arc<Ring<S>>) -> Self {
        Self {
            ring,
            position: 0,
            consumed: 0,
        }
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<Ring<S>> {
        &self.ring
    }

    /// Bytes that could be written now, if at least `wanted` could; else an old, smaller number.
    #[inline]
    pub fn free(&mut self, wanted: usize) -> usize {
        let free = self.free_at(self.consumed);
        if free >= wanted {
            return free;
        }
        self.consumed = self.read_consumed();
        self.free_at(self.consumed)
    }

    /// Copies bytes behind those before, as many as there is room for; how many. Nobody sees them
    /// before [`Writer::publish`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.free(bytes.len()));
        // SAFETY: the places up to `consumed + capacity` are this writer's until it publishes them.
        unsafe {
            self.ring.storage.write(self.position, &bytes[..length]);
        }
        self.position += length as u64;
        length
    }

    /// Gives the reader all bytes that were written. Ring its doorbell afterwards.
    #[inline]
    pub fn publish(&mut self) {
        let positions = self.ring.storage.positions();
        positions.written.store(self.position, Ordering::Release);
    }

    /// Whether the reader has consumed everything.
    pub fn is_drained(&mut self) -> bool {
        self.consumed = self.read_consumed();
        self.consumed == self.position
    }

    /// Has the reader ring as soon as `bytes` could be written. Look again after this call: the
    /// reader may have come so far before.
    pub fn wake_when_free(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.ring.storage.capacity());
        let wanted = self.position + bytes as u64;
        let wake_at = wanted.saturating_sub(self.ring.storage.capacity() as u64);
        self.wake_at(wake_at);
    }

    /// Whether more waits for the reader than it would have.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        let window = self.ring.storage.positions().window.load(Ordering::Relaxed);
        if window == 0 || self.position - self.consumed <= window {
            return false;
        }
        self.consumed = self.read_consumed();
        self.position - self.consumed > window
    }

    /// Has the reader ring as soon as no more waits for it than it would have. Look again after this
    /// call.
    pub fn wake_when_under(&mut self) {
        let window = self.ring.storage.positions().window.load(Ordering::Relaxed);
        self.wake_at(self.position.saturating_sub(window));
    }

    /// Has the reader ring as soon as it has consumed everything. Look again after this call.
    pub fn wake_when_drained(&mut self) {
        self.wake_at(self.position);
    }

    fn wake_at(&self, position: u64) {
        let positions = self.ring.storage.positions();
        positions.wake_at.store(position, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn read_consumed(&self) -> u64 {
        let positions = self.ring.storage.positions();
        let consumed = positions.consumed.load(Ordering::Acquire);
        // A reader that claims more than was written, or goes back, is not believed.
        consumed.clamp(self.consumed, self.position)
    }

    fn free_at(&self, consumed: u64) -> usize {
        self.ring.storage.capacity() - (self.position - consumed) as usize
    }
}

/// The reading end. There is one for each ring.
#[derive(Debug)]
pub struct Reader<S> {
    ring: Arc<Ring<S>>,
    position: u64,
}

impl<S: Storage> Reader<S> {
    /// The reader of a ring that nothing was read from.
    ///
    /// # Safety
    ///
    /// It is the only reader of this memory, in all processes.
    pub unsafe fn new(ring: Arc<Ring<S>>) -> Self {
        Self { ring, position: 0 }
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<Ring<S>> {
        &self.ring
    }

    /// Bytes up to here were taken.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The bytes that were written and not taken, in place. Raises when the writer claims more than
    /// the ring holds.
    #[inline]
    pub fn available(&self) -> Result<&[u8], CorruptRing> {
        let storage = &self.ring.storage;
        let written = storage.positions().written.load(Ordering::Acquire);
        let length = written.wrapping_sub(self.position);
        if length > storage.capacity() as u64 {
            return Err(CorruptRing {
                written,
                read: self.position,
            });
        }
        // SAFETY: published and not consumed, so the writer leaves these places alone.
        Ok(unsafe { storage.read(self.position, length as usize) })
    }

    /// Tells the writer how many bytes are to wait for this reader at most; whoever writes may still
    /// finish what is begun.
    pub fn set_window(&self, bytes: u64) {
        let storage = &self.ring.storage;
        let is_all = bytes >= storage.capacity() as u64;
        let window = if is_all { 0 } else { bytes };
        storage.positions().window.store(window, Ordering::Relaxed);
    }

    /// Takes the next `bytes`, which were available; they stay in place until they are consumed.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.position += bytes as u64;
    }

    /// Gives the places of everything before `position` back to the writer; whether it waits to be
    /// woken for it.
    ///
    /// # Safety
    ///
    /// Nobody reads these places any more, and all calls come in the order of their positions.
    #[must_use = "ring the writer's doorbell if it waits"]
    pub unsafe fn consume(ring: &Ring<S>, position: u64) -> bool {
        let positions = ring.storage.positions();
        positions.consumed.store(position, Ordering::Release);
        fence(Ordering::SeqCst);
        let wake_at = positions.wake_at.load(Ordering::Relaxed);
        wake_at != 0 && position >= wake_at
    }

    /// Whether everything that was taken was consumed.
    #[inline]
    pub fn is_released(&self) -> bool {
        let positions = self.ring.storage.positions();
        positions.consumed.load(Ordering::Acquire) == self.position
    }
}

/// A writer that claims more bytes than the ring holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a ring was written to position {written}, but read to {read} only\n\nhint: its writer is broken"
)]
pub struct CorruptRing {
    /// Where the writer claims to be.
    pub written: u64,
    /// Where the reader is.
    pub read: u64,
}

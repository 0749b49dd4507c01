//! Memory of rings and doorbells on the heap, for the checks: `loom` notices when a
//! place is read while it is written.

use std::cell::UnsafeCell;
use std::slice;
use std::time::Duration;

use crate::doorbell::Bell;
use crate::marks::Marks;
use crate::storage::{Positions, Storage};
use crate::sync::{AtomicU32, Ordering};

/// The bytes are there twice in a row, so that any part of them is in one piece.
pub(crate) struct HeapStorage {
    positions: Positions,
    bytes: Box<[UnsafeCell<u8>]>,
    accesses: Vec<loom::cell::UnsafeCell<()>>,
}

impl HeapStorage {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            positions: Positions::default(),
            bytes: (0..2 * capacity).map(|_| UnsafeCell::new(0)).collect(),
            accesses: (0..capacity)
                .map(|_| loom::cell::UnsafeCell::new(()))
                .collect(),
        }
    }

    fn accesses(
        &self,
        position: u64,
        length: usize,
    ) -> impl Iterator<Item = &loom::cell::UnsafeCell<()>> {
        let capacity = self.capacity();
        (0..length).map(move |offset| &self.accesses[(position as usize + offset) % capacity])
    }
}

// SAFETY: the ring decides who may touch which byte; that is what the tests check.
unsafe impl Sync for HeapStorage {}

// SAFETY: positions and bytes stay where they are, and the capacity is what it was.
unsafe impl Storage for HeapStorage {
    fn positions(&self) -> &Positions {
        &self.positions
    }

    fn capacity(&self) -> usize {
        self.bytes.len() / 2
    }

    unsafe fn write(&self, position: u64, bytes: &[u8]) {
        for access in self.accesses(position, bytes.len()) {
            access.with_mut(|_| ());
        }
        for (offset, byte) in bytes.iter().enumerate() {
            let place = (position as usize + offset) % self.capacity();
            // SAFETY: the caller has these places for itself.
            unsafe {
                *self.bytes[place].get() = *byte;
                *self.bytes[place + self.capacity()].get() = *byte;
            }
        }
    }

    unsafe fn read(&self, position: u64, length: usize) -> &[u8] {
        for access in self.accesses(position, length) {
            access.with(|_| ());
        }
        let place = position as usize % self.capacity();
        // SAFETY: nobody writes these places, says the caller.
        unsafe { slice::from_raw_parts(self.bytes[place..].as_ptr().cast(), length) }
    }
}

/// A word on the heap; whoever sleeps on it yields until it changes.
pub(crate) struct HeapBell(AtomicU32, Marks);

impl HeapBell {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0), Marks::default())
    }
}

// SAFETY: the word stays where it is.
unsafe impl Bell for HeapBell {
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn marks(&self) -> &Marks {
        &self.1
    }

    fn sleep(&self, expected: u32, _timeout: Option<Duration>) {
        while self.0.load(Ordering::Relaxed) == expected {
            loom::thread::yield_now();
        }
    }

    fn wake(&self) {}
}

//! Rings and doorbells in memory that processes share.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;
use std::slice;
use std::time::Duration;

use oka_ipc::{Mapping, Seal, create_memory, seal, sealed_size};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use thiserror::Error;

use crate::doorbell::Bell;
use crate::marks::Marks;
use crate::storage::{Positions, Storage};
use crate::sync::AtomicU32;

/// The memory of a ring that two processes share.
///
/// One page of positions, then the bytes, which are mapped twice in a row, so that any part of them
/// is in one piece. Pages are the system's until they are first written.
#[derive(Debug)]
pub struct SharedRing {
    mapping: Mapping,
    capacity: usize,
}

impl SharedRing {
    /// New memory for a ring of `capacity` bytes (a power of two, at least one page), and what
    /// another process opens it by.
    pub fn create(capacity: usize) -> Result<(Self, OwnedFd), MapError> {
        if !is_capacity(capacity) {
            return Err(MapError::Capacity(capacity));
        }
        let descriptor = create(c"oka-ring", PAGE + capacity)?;
        Ok((Self::map(&descriptor, capacity)?, descriptor))
    }

    /// The memory that another process created, by its descriptor.
    pub fn open(descriptor: &OwnedFd) -> Result<Self, MapError> {
        let capacity = size_of(descriptor)?.saturating_sub(PAGE);
        if !is_capacity(capacity) {
            return Err(MapError::Capacity(capacity));
        }
        Self::map(descriptor, capacity)
    }

    fn map(descriptor: &OwnedFd, capacity: usize) -> Result<Self, MapError> {
        let mapping = map(descriptor, &[(0, PAGE + capacity), (PAGE, capacity)])?;
        Ok(Self { mapping, capacity })
    }

    fn byte(&self, position: u64) -> *mut u8 {
        let offset = PAGE + (position as usize & (self.capacity - 1));
        // SAFETY: the capacity is a power of two, so the offset lies inside the mapping.
        unsafe { self.mapping.start().add(offset) }
    }
}

// SAFETY: the mapping stays where it is until drop, its size is sealed, and both halves show the
// same bytes.
unsafe impl Storage for SharedRing {
    fn positions(&self) -> &Positions {
        // SAFETY: the first page is all zeros or positions, which any bytes are, and is aligned.
        unsafe { &*self.mapping.start().cast() }
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    unsafe fn write(&self, position: u64, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.capacity);
        // SAFETY: up to `capacity` bytes from any place lie inside the mapping; the caller has them
        // for itself.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.byte(position), bytes.len()) }
    }

    #[inline]
    unsafe fn read(&self, position: u64, length: usize) -> &[u8] {
        debug_assert!(length <= self.capacity);
        // SAFETY: as above; nobody writes them, says the caller.
        unsafe { slice::from_raw_parts(self.byte(position), length) }
    }
}

/// The word of a doorbell that several processes share, slept on with the kernel's futex.
#[derive(Debug)]
pub struct SharedBell {
    mapping: Mapping,
}

impl SharedBell {
    /// A new word, and what another process opens it by.
    pub fn create() -> Result<(Self, OwnedFd), MapError> {
        let descriptor = create(c"oka-bell", PAGE)?;
        Ok((Self::map(&descriptor)?, descriptor))
    }

    /// The word that another process created, by its descriptor.
    pub fn open(descriptor: &OwnedFd) -> Result<Self, MapError> {
        let size = size_of(descriptor)?;
        if size != PAGE {
            return Err(MapError::Capacity(size));
        }
        Self::map(descriptor)
    }

    fn map(descriptor: &OwnedFd) -> Result<Self, MapError> {
        let mapping = map(descriptor, &[(0, PAGE)])?;
        Ok(Self { mapping })
    }
}

// SAFETY: the page stays where it is until drop, and its size is sealed.
unsafe impl Bell for SharedBell {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: any bytes are a word, and a page is aligned.
        unsafe { &*self.mapping.start().cast() }
    }

    fn marks(&self) -> &Marks {
        // SAFETY: as above; they have a cache line of their own.
        unsafe { &*self.mapping.start().add(MARKS_OFFSET).cast() }
    }

    fn sleep(&self, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        // It fails when the word has changed, the time is over or a signal came: all are wake-ups.
        let _ = futex::wait(
            self.word(),
            futex::Flags::empty(),
            expected,
            timeout.as_ref(),
        );
    }

    fn wake(&self) {
        let _ = futex::wake(self.word(), futex::Flags::empty(), 1);
    }
}

/// Why memory cannot be shared.
#[derive(Debug, Error)]
pub enum MapError {
    /// The size of a ring is none.
    #[error("{0} bytes of shared memory, expected a power of two of at least {PAGE}")]
    Capacity(usize),
    /// A peer could take the memory away while it is in use.
    #[error("the memory of a peer is not sealed against a change of its size")]
    Unsealed,
    /// The operating system refused.
    #[error("cannot map shared memory: {0}\n\nhint: check the limits on memory and open files")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for MapError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

fn create(name: &CStr, size: usize) -> Result<OwnedFd, MapError> {
    let descriptor = create_memory(name, size as u64)?;
    seal(&descriptor, Seal::Size)?;
    Ok(descriptor)
}

fn size_of(descriptor: &OwnedFd) -> Result<usize, MapError> {
    let size = sealed_size(descriptor, Seal::Size)?;
    size.map(|size| size as usize).ok_or(MapError::Unsealed)
}

/// Addresses that show parts of the file one behind the other: where each begins, and its length.
fn map(descriptor: &OwnedFd, parts: &[(usize, usize)]) -> Result<Mapping, MapError> {
    let mapping = Mapping::reserve(parts.iter().map(|(_, length)| length).sum())?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let mut offset = 0;
    for (from, length) in parts {
        let (from, share) = (*from as u64, MapFlags::SHARED);
        // SAFETY: nothing refers to the addresses yet.
        unsafe { mapping.place(offset, descriptor, from, *length, protection, share)? };
        offset += length;
    }
    Ok(mapping)
}

fn is_capacity(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= PAGE
}

/// Where the marks of a doorbell are, behind its word.
const MARKS_OFFSET: usize = 128;

/// Pages of 4 KiB; mappings on systems with larger ones fail with an error.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::{Doorbell, Reader, Ring, Writer};

    fn ends(capacity: usize) -> (Writer<SharedRing>, Reader<SharedRing>) {
        let (here, descriptor) = SharedRing::create(capacity).unwrap();
        let there = SharedRing::open(&descriptor).unwrap();
        // SAFETY: the only writer, and the only reader.
        unsafe {
            (
                Writer::new(Arc::new(Ring::new(here))),
                Reader::new(Arc::new(Ring::new(there))),
            )
        }
    }

    proptest! {
        #[test]
        fn bytes_arrive_in_order(
            pieces in prop::collection::vec((1_usize..9_000, 1_usize..9_000), 1..60)
        ) {
            let (mut writer, mut reader) = ends(PAGE);
            let (mut next, mut expected) = (0_u8, 0_u8);
            for (write, read) in pieces {
                let bytes: Vec<u8> = (0..write).map(|at| next.wrapping_add(at as u8)).collect();
                let written = writer.write(&bytes);
                writer.publish();
                next = next.wrapping_add(written as u8);
                let available = reader.available().unwrap();
                let taken = read.min(available.len());
                for byte in &available[..taken] {
                    prop_assert_eq!(*byte, expected);
                    expected = expected.wrapping_add(1);
                }
                reader.take(taken);
                // SAFETY: looked at above, and not again.
                let _ = unsafe { Reader::consume(reader.ring(), reader.position()) };
            }
            prop_assert!(reader.ring().backlog() <= PAGE as u64);
        }
    }

    #[test]
    fn a_writer_that_claims_too_much_is_not_believed() {
        let (writer, reader) = ends(PAGE);
        let positions = writer.ring().storage().positions();
        positions
            .written
            .store(PAGE as u64 + 1, crate::sync::Ordering::Release);
        assert!(reader.available().is_err());
    }

    #[test]
    fn a_reader_that_claims_too_much_is_not_believed() {
        let (mut writer, _reader) = ends(PAGE);
        writer.write(&[1; 100]);
        let positions = writer.ring().storage().positions();
        positions
            .consumed
            .store(u64::MAX, crate::sync::Ordering::Release);
        assert_eq!(writer.free(PAGE), PAGE);
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let open = create_memory(c"open", 2 * PAGE as u64).unwrap();
        assert!(matches!(SharedRing::open(&open), Err(MapError::Unsealed)));
        assert!(matches!(
            SharedRing::create(5_000),
            Err(MapError::Capacity(5_000))
        ));
        let (_, bell) = SharedBell::create().unwrap();
        let ring = SharedRing::open(&bell);
        assert!(matches!(ring, Err(MapError::Capacity(0))));
    }

    #[test]
    fn a_million_rings_wake_every_time() {
        let here = Arc::new(Doorbell::new(SharedBell::create().unwrap().0));
        let (mut writer, mut reader) = ends(PAGE);
        let writing = thread::spawn({
            let here = Arc::clone(&here);
            move || {
                for _ in 0..1_000_000 {
                    while writer.write(&[7]) == 0 {
                        thread::yield_now();
                    }
                    writer.publish();
                    here.ring();
                }
            }
        });
        let mut left = 1_000_000;
        while left > 0 {
            let available = reader.available().unwrap().len();
            if available == 0 {
                let sleeper = here.announce();
                if reader.available().unwrap().is_empty() {
                    sleeper.sleep(None);
                }
                continue;
            }
            left -= available;
            reader.take(available);
            // SAFETY: nothing of it is looked at any more.
            let _ = unsafe { Reader::consume(reader.ring(), reader.position()) };
        }
        writing.join().unwrap();
    }
}

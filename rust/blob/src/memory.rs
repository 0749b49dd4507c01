//! The memory of one blob: a file without a name, sealed when it is whole.
//!
//! It is filled by write calls and not through a mapping: the system then reports a lack of memory as
//! an error and not by a signal, does not zero pages that are about to be overwritten, and nothing in
//! this process can change what was already verified. When whole it is sealed: from then on no
//! process can change or shrink it, and every one may map it. (Off Linux that is an agreement.)

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oka_ipc::{Mapping, Seal, allocate, create_memory, seal, sealed_size};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags};

use crate::available::available_memory;
use crate::error::MemoryError;

/// The bytes of one blob, filled in any order.
#[derive(Debug)]
pub(crate) struct Memory {
    /// None for a blob without bytes.
    file: Option<OwnedFd>,
    size: u64,
    /// Bytes that were promised and are not written yet.
    promised: AtomicU64,
    ledger: Arc<Ledger>,
}

/// What the blobs of one node hold, and may hold.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) limit: Option<u64>,
    pub(crate) held: AtomicU64,
    pub(crate) promised: AtomicU64,
}

impl Memory {
    /// Room for that many bytes; an error if it is clear now that they will not fit.
    pub(crate) fn create(size: u64, ledger: &Arc<Ledger>) -> Result<Self, MemoryError> {
        let free = available_memory()
            .map(|bytes| bytes.saturating_sub(RESERVE + ledger.promised.load(Ordering::Relaxed)));
        let allowed = ledger.limit;
        let allowed =
            allowed.map(|limit| limit.saturating_sub(ledger.held.load(Ordering::Relaxed)));
        let available = free.into_iter().chain(allowed).min().unwrap_or(u64::MAX);
        if size > available {
            return Err(MemoryError::Full { size, available });
        }
        let file = (size > 0).then(|| create_memory(NAME, size)).transpose();
        let file = file.map_err(|error| refused(size, error))?;
        ledger.held.fetch_add(size, Ordering::Relaxed);
        ledger.promised.fetch_add(size, Ordering::Relaxed);
        Ok(Self {
            file,
            size,
            promised: size.into(),
            ledger: Arc::clone(ledger),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), MemoryError> {
        self.written(bytes.len() as u64);
        while let (Some(file), false) = (&self.file, bytes.is_empty()) {
            match pwrite(file, bytes, offset) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(refused(self.size, error)),
            }
        }
        Ok(())
    }

    pub(crate) fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while let (Some(file), false) = (&self.file, bytes.is_empty()) {
            match pread(file, &mut *bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    offset += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// All bytes, writable, with their pages in place, so that nothing is missing when they are
    /// touched.
    pub(crate) fn map_writable(&self) -> Result<Option<Mapping>, MemoryError> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        for start in (0..self.size).step_by(ALLOCATION as usize) {
            let length = ALLOCATION.min(self.size - start);
            while let Err(error) = allocate(file, start, length) {
                if error != Errno::INTR {
                    return Err(refused(self.size, error));
                }
            }
        }
        self.written(self.size);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        map(file, self.size, protection, MapFlags::SHARED).map(Some)
    }

    /// From now on what is written to the view stays in this process and does not change the memory:
    /// it may still be around when that is sealed.
    pub(crate) fn detach(&self, view: &Mapping) -> Result<(), MemoryError> {
        if let Some(file) = &self.file {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the same bytes again; whoever has the addresses goes on reading them.
            unsafe { view.place(0, file, 0, view.length(), protection, MapFlags::PRIVATE)? };
        }
        Ok(())
    }

    /// Nobody changes it any more. Writable mappings have to be gone, or private, before.
    pub(crate) fn seal(&self) -> Result<(), MemoryError> {
        self.written(self.size);
        if let Some(file) = &self.file {
            seal(file, Seal::Bytes)?;
        }
        Ok(())
    }

    fn written(&self, bytes: u64) {
        let less = |promised: u64| Some(promised.saturating_sub(bytes));
        let before = self
            .promised
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let before = before.unwrap_or_default();
        let taken = before.min(bytes);
        self.ledger.promised.fetch_sub(taken, Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.written(self.size);
        self.ledger.held.fetch_sub(self.size, Ordering::Relaxed);
    }
}

fn refused(size: u64, error: Errno) -> MemoryError {
    match error {
        Errno::NOSPC | Errno::NOMEM | Errno::FBIG => MemoryError::Full {
            size,
            available: available_memory().unwrap_or_default(),
        },
        error => error.into(),
    }
}

/// A blob that is whole: its bytes, mapped read-only. The memory goes with the last one on a machine.
pub struct Blob {
    mapping: Option<Mapping>,
    landed_ns: u64,
    /// Of a blob of this process, so that it counts as held for as long.
    _memory: Option<Arc<Memory>>,
}

impl Blob {
    pub(crate) fn of(memory: Arc<Memory>, landed_ns: u64) -> Result<Self, MemoryError> {
        let mapping = memory.file.as_ref();
        let mapping = mapping
            .map(|file| map(file, memory.size, ProtFlags::READ, MapFlags::SHARED))
            .transpose()?;
        Ok(Self {
            mapping,
            landed_ns,
            _memory: Some(memory),
        })
    }

    /// The memory that another process sealed.
    pub(crate) fn open(
        file: Option<&OwnedFd>,
        size: u64,
        landed_ns: u64,
    ) -> Result<Self, MemoryError> {
        if file.is_some() != (size > 0) {
            return Err(MemoryError::Unsealed);
        }
        let mapping = file
            .map(|file| {
                if sealed_size(file, Seal::Bytes)? != Some(size) {
                    return Err(MemoryError::Unsealed);
                }
                map(file, size, ProtFlags::READ, MapFlags::SHARED)
            })
            .transpose()?;
        Ok(Self {
            mapping,
            landed_ns,
            _memory: None,
        })
    }

    /// When it was whole on this node, by `CLOCK_MONOTONIC`.
    pub fn landed_ns(&self) -> u64 {
        self.landed_ns
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: sealed, so nobody writes them, and mapped for as long as this value lives.
        self.mapping.as_ref().map_or(&[], |mapping| unsafe {
            slice::from_raw_parts(mapping.start(), mapping.length())
        })
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Blob({} bytes)", self.bytes().len())
    }
}

/// The whole file.
fn map(
    file: &OwnedFd,
    size: u64,
    protection: ProtFlags,
    share: MapFlags,
) -> Result<Mapping, MemoryError> {
    let length = usize::try_from(size).map_err(|_| Errno::NOMEM)?;
    let mapping = Mapping::reserve(length)?;
    // SAFETY: nothing refers to the addresses yet.
    unsafe { mapping.place(0, file, 0, length, protection, share)? };
    Ok(mapping)
}

/// As /proc/self/maps shows it.
const NAME: &std::ffi::CStr = c"oka-blob";

/// Bytes that are left to everything else.
const RESERVE: u64 = 64 << 20;

/// Bytes whose pages are asked for at once: a call that is interrupted gives all of them back.
const ALLOCATION: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use rustix::fs::ftruncate;

    use super::*;

    fn whole(bytes: &[u8]) -> Arc<Memory> {
        let memory = Memory::create(bytes.len() as u64, &Arc::default()).unwrap();
        memory.write_at(bytes, 0).unwrap();
        memory.seal().unwrap();
        Arc::new(memory)
    }

    #[test]
    fn sealed_memory_is_shared_and_cannot_be_changed() {
        let memory = whole(b"model");
        let file = memory.file().unwrap().try_clone_to_owned().unwrap();
        if !oka_ipc::IS_PORTABLE {
            assert!(memory.write_at(b"x", 0).is_err());
            assert!(ftruncate(&file, 1).is_err());
            let writable = ProtFlags::READ | ProtFlags::WRITE;
            assert!(map(&file, 5, writable, MapFlags::SHARED).is_err());
        }
        let there = Blob::open(Some(&file), 5, 7).unwrap();
        drop(memory);
        assert_eq!((there.bytes(), there.landed_ns()), (&b"model"[..], 7));
    }

    #[test]
    fn memory_that_is_not_sealed_or_of_another_size_is_refused() {
        let open = Memory::create(5, &Arc::default()).unwrap();
        let file = open.file().unwrap().try_clone_to_owned().unwrap();
        let refused = |file, size| {
            let opened = Blob::open(file, size, 0);
            assert!(matches!(opened, Err(MemoryError::Unsealed)), "{opened:?}");
        };
        refused(Some(&file), 5);
        open.seal().unwrap();
        refused(Some(&file), 6);
        refused(None, 5);
        refused(Some(&file), 0);
        assert!(Blob::open(Some(&file), 5, 0).is_ok());
    }

    #[test]
    fn nothing_is_a_blob_without_memory() {
        let memory = whole(b"");
        assert!(memory.file().is_none());
        assert!(Blob::of(memory, 0).unwrap().bytes().is_empty());
        assert!(Blob::open(None, 0, 0).unwrap().bytes().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_begins() {
        let ledger = Arc::new(Ledger {
            limit: Some(1000),
            ..Ledger::default()
        });
        let first = Memory::create(600, &ledger).unwrap();
        let error = Memory::create(600, &ledger).unwrap_err();
        assert!(
            matches!(
                error,
                MemoryError::Full {
                    size: 600,
                    available: 400
                }
            ),
            "{error}"
        );
        drop(first);
        Memory::create(600, &ledger).unwrap();
        assert_eq!(ledger.promised.load(Ordering::Relaxed), 0);
        let error = Memory::create(1 << 50, &Arc::default()).unwrap_err();
        assert!(error.to_string().contains("hint: "), "{error}");
    }

    #[test]
    fn a_view_that_is_still_around_changes_nothing_that_is_sealed() {
        let memory = Arc::new(Memory::create(5, &Arc::default()).unwrap());
        let view = memory.map_writable().unwrap().unwrap();
        // SAFETY: five bytes are mapped, and nobody else looks at them.
        unsafe { view.start().copy_from_nonoverlapping(b"model".as_ptr(), 5) };
        memory.detach(&view).unwrap();
        memory.seal().unwrap();
        // SAFETY: as above.
        unsafe { view.start().write(b'x') };
        assert_eq!(Blob::of(memory, 0).unwrap().bytes(), b"model");
    }
}

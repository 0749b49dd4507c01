//! Which requests nobody waits for any more, for other processes of the host to see without asking.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use oka_ipc::Mapping;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fstat, open};
use rustix::mm::{MapFlags, ProtFlags};

use crate::slots::{GENERATIONS, Id, slot_of};

/// Memory that the gateway writes and others read: how many requests have ended without an answer,
/// and of each slot, the generation that it is at and whether the one before ended so.
#[derive(Debug)]
pub(crate) struct Board {
    mapping: Mapping,
}

impl Board {
    /// A file for so many slots, which goes with its folder.
    pub(crate) fn create(path: &Path, slots: usize) -> io::Result<Self> {
        let bytes = (slots + 1) * size_of::<AtomicU32>();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
        // All of it now: touching what a full disk has no room for would be the end of the process.
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        Self::map(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// That of the gateway of another process.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let bytes = fstat(&file)?.st_size as usize;
        Self::map(&file, bytes, ProtFlags::READ)
    }

    fn map(file: &std::os::fd::OwnedFd, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        let mapping = Mapping::reserve(bytes)?;
        // SAFETY: nobody refers to these addresses yet.
        unsafe { mapping.place(0, file, 0, bytes, protection, MapFlags::SHARED)? };
        Ok(Self { mapping })
    }

    /// A request of this slot has ended; the next has this generation.
    pub(crate) fn end(&self, slot: u32, generation: u32, is_abandoned: bool) {
        let mark = if is_abandoned { ABANDONED } else { 0 };
        self.places()[1 + slot as usize].store(generation | mark, Ordering::Relaxed);
        if is_abandoned {
            self.places()[0].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many requests have ended without an answer; wraps around.
    pub(crate) fn abandoned(&self) -> u32 {
        self.places()[0].load(Ordering::Relaxed)
    }

    /// Whether a request has ended without an answer, and its slot has had no other since.
    pub(crate) fn is_abandoned(&self, id: Id) -> bool {
        let next = (id as u32 & GENERATIONS).wrapping_add(1) & GENERATIONS;
        let place = self.places().get(1 + slot_of(id) as usize);
        place.is_some_and(|place| place.load(Ordering::Relaxed) == next | ABANDONED)
    }

    fn places(&self) -> &[AtomicU32] {
        let length = self.mapping.length() / size_of::<AtomicU32>();
        // SAFETY: the mapping begins at a page and shows that many numbers, which are written by
        // single stores alone, as long as this lives; the file never shrinks.
        unsafe { std::slice::from_raw_parts(self.mapping.start().cast(), length) }
    }
}

const ABANDONED: u32 = 1 << 31; // above all generations

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_see_what_has_ended() {
        let path = std::env::temp_dir().join(format!("oka-board-{}", std::process::id()));
        let (written, read) = (
            Board::create(&path, 3).unwrap(),
            Board::open(&path).unwrap(),
        );
        assert!(Board::create(&path, 3).is_err(), "it is there already");
        std::fs::remove_file(&path).unwrap();
        let id = 2 << 24 | 5;
        assert!(!read.is_abandoned(id));
        written.end(2, 6, false);
        assert!(!read.is_abandoned(id) && read.abandoned() == 0);
        written.end(2, 6, true);
        assert!(read.is_abandoned(id) && read.abandoned() == 1);
        assert!(!read.is_abandoned(id + 1) && !read.is_abandoned(1 << 24 | 5));
        assert!(!read.is_abandoned(77 << 24), "there is no such slot");
    }
}

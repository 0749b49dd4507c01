//! Ranges of addresses that show memory, which processes share by descriptors.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A range of addresses that shows memory; unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: it is memory of the whole process; who may touch what is decided by its owners.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Addresses that show nothing yet, and must not be touched.
    pub fn reserve(length: usize) -> Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: fresh addresses, picked by the system.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::empty(), flags)? };
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, length })
    }

    /// Shows a part of the file at an offset of these addresses, in the place of what is there;
    /// `share` is `SHARED` or `PRIVATE`.
    ///
    /// # Safety
    ///
    /// Whoever refers to these addresses must see the same bytes as before.
    pub unsafe fn place(
        &self,
        offset: usize,
        file: &OwnedFd,
        from: u64,
        length: usize,
        protection: ProtFlags,
        share: MapFlags,
    ) -> Result<()> {
        assert!(
            offset + length <= self.length,
            "inside the reserved addresses"
        );
        // SAFETY: the addresses belong to this mapping; the caller answers for who refers to them.
        unsafe {
            let place = self.start.as_ptr().byte_add(offset);
            mmap(
                place,
                length,
                protection,
                share | MapFlags::FIXED,
                file,
                from,
            )?;
        }
        Ok(())
    }

    /// Where it begins, at a page.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    /// In bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: reserved in `reserve`; whatever referred to it borrowed from this value.
        let _ = unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}

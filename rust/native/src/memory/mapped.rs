//! Files that are read where they are.

use crate::memory::buffer::view;
use bytes::Bytes;
use oka_ipc::Mapping;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use rustix::fs::{fstat, fstatfs};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::slice;

/// The bytes of a file that nobody writes any more, where they are: all processes of the machine have them
/// in memory once, and they stay for as long as the view does, also if the file is deleted. None where it
/// is on no file system of the machine itself: those may take it away, which kills who looks at it. Raises
/// OSError.
#[pyfunction]
#[pyo3(signature = (path: "str") -> "memoryview | None")]
pub(crate) fn mapped(py: Python<'_>, path: PathBuf) -> PyResult<Option<Bound<'_, PyMemoryView>>> {
    let bytes = py.detach(|| map(&OwnedFd::from(File::open(path)?)))?;
    bytes.map(|bytes| view(py, bytes)).transpose()
}

fn map(file: &OwnedFd) -> io::Result<Option<Bytes>> {
    let kind = u32::try_from(fstatfs(file)?.f_type);
    if !kind.is_ok_and(|kind| LOCAL.contains(&kind)) {
        return Ok(None);
    }
    let length = usize::try_from(fstat(file)?.st_size).unwrap_or_default();
    if length == 0 {
        return Ok(Some(Bytes::new())); // of which there are no mappings
    }
    let mapping = Mapping::reserve(length)?;
    // SAFETY: nothing refers to the addresses yet.
    unsafe { mapping.place(0, file, 0, length, ProtFlags::READ, MapFlags::SHARED)? };
    Ok(Some(Bytes::from_owner(Mapped(mapping))))
}

struct Mapped(Mapping);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: all of it shows the file, which nobody writes any more.
        unsafe { slice::from_raw_parts(self.0.start(), self.0.length()) }
    }
}

/// Of ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs and overlayfs, as statfs(2) has them.
const LOCAL: [u32; 7] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0x0102_1994,
    0x794c_7630,
];

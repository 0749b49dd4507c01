//! A blob while it is filled at the node where it begins.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use oka_ipc::Mapping;

use crate::error::FillError;
use crate::memory::Memory;
use crate::shared::{Shared, UNPOISONED};
use crate::table::BlobId;

/// A blob that is being filled where it begins. Nodes along the chain follow behind what is filled.
///
/// Filled in order by [`write`](Self::write) and [`write_file`](Self::write_file), or in any order
/// through its [`view`](Self::view). Aborted if it is dropped before it is finished.
pub struct Landing {
    shared: Arc<Shared>,
    id: BlobId,
    memory: Arc<Memory>,
    chunk_bytes: usize,
    /// Whether it is sent to anyone: only they need its hashes.
    relayed: bool,
    fill: Mutex<Fill>,
}

struct Fill {
    written: u64,
    /// Of the chunk that is not complete yet. Boxed: Python places objects at 16 bytes, and it wants
    /// 64.
    hasher: Box<Xxh3>,
    view: Option<Arc<View>>,
    ended: bool,
}

/// All bytes of a [`Landing`], writable by whoever knows their address.
///
/// What is written after the landing was finished or aborted changes nothing but this view.
#[derive(Debug)]
pub struct View(Option<Mapping>);

impl View {
    /// Where the bytes are; they stay there for as long as this value lives.
    pub fn start(&self) -> *mut u8 {
        self.0
            .as_ref()
            .map_or(std::ptr::dangling_mut(), Mapping::start)
    }

    /// How many there are.
    pub fn length(&self) -> usize {
        self.0.as_ref().map_or(0, Mapping::length)
    }
}

impl Landing {
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: BlobId,
        memory: Arc<Memory>,
        chunk_bytes: u32,
        relayed: bool,
    ) -> Self {
        Self {
            shared,
            id,
            memory,
            chunk_bytes: chunk_bytes as usize,
            relayed,
            fill: Mutex::new(Fill {
                written: 0,
                hasher: Box::new(Xxh3::new()),
                view: None,
                ended: false,
            }),
        }
    }

    /// Bytes in all.
    pub fn size(&self) -> u64 {
        self.memory.size()
    }

    /// Appends bytes.
    pub fn write(&self, bytes: &[u8]) -> Result<(), FillError> {
        let mut fill = self.writable(bytes.len() as u64)?;
        self.append(&mut fill, bytes, true)
    }

    /// Appends `length` bytes of a file from an offset on; without a length, all that are left.
    pub fn write_file(
        &self,
        path: &Path,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(), FillError> {
        let unreadable = |reason: String| FillError::File {
            path: path.display().to_string(),
            reason,
        };
        let source = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let length = if let Some(length) = length {
            length
        } else {
            let metadata = source.metadata();
            let metadata = metadata.map_err(|error| unreadable(error.to_string()))?;
            metadata.len().saturating_sub(offset)
        };
        let mut fill = self.writable(length)?;
        let mut buffer = vec![0; self.chunk_bytes.min(length as usize)];
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let room = self.chunk_bytes - (fill.written % self.chunk_bytes as u64) as usize;
            let piece = room.min((end - at) as usize).min(buffer.len());
            let piece = &mut buffer[..piece];
            source
                .read_exact_at(piece, at)
                .map_err(|error| unreadable(format!("{error}, at byte {at} of {end}")))?;
            self.append(&mut fill, piece, true)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// All bytes, to be filled in any order, and counted by [`advance`](Self::advance).
    pub fn view(&self) -> Result<Arc<View>, FillError> {
        let mut fill = self.fill.lock().expect(UNPOISONED);
        if fill.ended {
            return Err(FillError::Ended);
        }
        if let Some(view) = &fill.view {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(View(self.memory.map_writable()?));
        fill.view = Some(Arc::clone(&view));
        Ok(view)
    }

    /// The next so many bytes were filled through the view, and change no more.
    pub fn advance(&self, count: u64) -> Result<(), FillError> {
        let mut fill = self.fill.lock().expect(UNPOISONED);
        let view = fill.view.clone().ok_or(FillError::NotViewed)?;
        self.check(&fill, count)?;
        // SAFETY: inside the view, checked above; whoever fills it is done with them, says the call.
        let bytes = unsafe {
            let start = view.start().add(fill.written as usize);
            slice::from_raw_parts(start, count as usize)
        };
        self.append(&mut fill, bytes, false)
    }

    /// The blob is whole: nobody can change it any more, and everyone on this machine gets it.
    pub fn finish(&self) -> Result<(), FillError> {
        let mut fill = self.fill.lock().expect(UNPOISONED);
        self.check(&fill, 0)?;
        let (written, size) = (fill.written, self.memory.size());
        if written != size {
            return Err(FillError::TooShort { written, size });
        }
        fill.ended = true;
        let detached = self.detach(&mut fill);
        let landed = detached.and_then(|()| Ok(self.shared.land(self.id)?));
        if let Err(error) = &landed {
            self.shared.fail(self.id, &error.to_string());
        }
        landed
    }

    /// The blob will not be whole: everyone who waits for it is told why.
    pub fn abort(&self, reason: &str) {
        let mut fill = self.fill.lock().expect(UNPOISONED);
        if !fill.ended {
            fill.ended = true;
            let _ = self.detach(&mut fill);
            self.shared.fail(self.id, &format!("was aborted: {reason}"));
        }
    }

    /// The landing, if that many bytes more can be appended to it.
    fn writable(&self, count: u64) -> Result<MutexGuard<'_, Fill>, FillError> {
        let fill = self.fill.lock().expect(UNPOISONED);
        if fill.view.is_some() {
            return Err(FillError::Viewed);
        }
        self.check(&fill, count)?;
        Ok(fill)
    }

    fn check(&self, fill: &Fill, count: u64) -> Result<(), FillError> {
        if fill.ended {
            return Err(FillError::Ended);
        }
        let (written, size) = (fill.written.saturating_add(count), self.memory.size());
        if written > size {
            return Err(FillError::TooLong { written, size });
        }
        Ok(())
    }

    fn append(&self, fill: &mut Fill, mut bytes: &[u8], copy: bool) -> Result<(), FillError> {
        let chunk_bytes = self.chunk_bytes as u64;
        while !bytes.is_empty() {
            let begun = fill.written % chunk_bytes;
            let piece = bytes.len().min((chunk_bytes - begun) as usize);
            let (piece, rest) = bytes.split_at(piece);
            if copy {
                self.memory.write_at(piece, fill.written)?;
            }
            fill.written += piece.len() as u64;
            let complete = fill.written.is_multiple_of(chunk_bytes);
            let complete = complete || fill.written == self.memory.size();
            // While it is in the cache.
            if !self.relayed {
                self.check_running()?;
            } else if begun == 0 && complete {
                self.publish(xxh3_64(piece))?;
            } else {
                fill.hasher.update(piece);
                if complete {
                    self.publish(fill.hasher.digest())?;
                    fill.hasher.reset();
                }
            }
            bytes = rest;
        }
        Ok(())
    }

    fn check_running(&self) -> Result<(), FillError> {
        let stopped = self.shared.is_stopped();
        if stopped {
            Err(FillError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// The next chunk is complete: whoever relays it may.
    fn publish(&self, hash: u64) -> Result<(), FillError> {
        let mut state = self.shared.lock();
        let entry = state.table.get_mut(self.id);
        let Some(content) = entry.and_then(|entry| entry.content.as_mut()) else {
            return Err(FillError::Cancelled);
        };
        content.hashes.push(hash);
        if state.stopped {
            return Err(FillError::Cancelled);
        }
        drop(state);
        self.shared.notify();
        Ok(())
    }

    fn detach(&self, fill: &mut Fill) -> Result<(), FillError> {
        if let Some(view) = fill.view.take()
            && let Some(mapping) = &view.0
        {
            self.memory.detach(mapping)?;
        }
        Ok(())
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.abort("it was given up before it was whole");
    }
}

//! Where there is no futex: no rings between processes, and doorbells within one.
//!
//! On Linux the feature `portable` has this compiled and tested in the place of `shared.rs`.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::doorbell::Bell;
use crate::marks::Marks;
use crate::storage::{Positions, Storage};
use crate::sync::{AtomicU32, Ordering};

/// The memory of a ring that two processes share: there is none.
#[derive(Debug)]
pub struct SharedRing {
    _never: (),
}

impl SharedRing {
    /// An error.
    pub fn create(_capacity: usize) -> Result<(Self, OwnedFd), MapError> {
        Err(MapError::Absent)
    }

    /// An error.
    pub fn open(_descriptor: &OwnedFd) -> Result<Self, MapError> {
        Err(MapError::Absent)
    }
}

// SAFETY: none is ever created.
unsafe impl Storage for SharedRing {
    fn positions(&self) -> &Positions {
        unreachable!("none is ever created")
    }

    fn capacity(&self) -> usize {
        unreachable!("none is ever created")
    }

    unsafe fn write(&self, _position: u64, _bytes: &[u8]) {
        unreachable!("none is ever created")
    }

    unsafe fn read(&self, _position: u64, _length: usize) -> &[u8] {
        unreachable!("none is ever created")
    }
}

/// The word of a doorbell that threads of this process share.
#[derive(Debug, Default)]
pub struct SharedBell {
    word: AtomicU32,
    marks: Marks,
    place: Mutex<()>,
    rung: Condvar,
}

impl SharedBell {
    /// A new word; the descriptor is of nothing, as no other process can open it.
    pub fn create() -> Result<(Self, OwnedFd), MapError> {
        let nothing = File::open("/dev/null")?;
        Ok((Self::default(), nothing.into()))
    }

    /// An error.
    pub fn open(_descriptor: &OwnedFd) -> Result<Self, MapError> {
        Err(MapError::Absent)
    }
}

// SAFETY: they are part of the bell.
unsafe impl Bell for SharedBell {
    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn sleep(&self, expected: u32, timeout: Option<Duration>) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        // Who changes the word wakes afterwards, and waits for the lock to do so.
        if self.word.load(Ordering::SeqCst) != expected {
            return;
        }
        match timeout {
            None => drop(self.rung.wait(place)),
            Some(timeout) => drop(self.rung.wait_timeout(place, timeout)),
        }
    }

    fn wake(&self) {
        let _place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.rung.notify_one();
    }
}

/// Why memory cannot be shared.
#[derive(Debug, Error)]
pub enum MapError {
    /// This system has no means to wait for a change of memory that processes share.
    #[error("channels in shared memory need Linux, take 'ipc' here")]
    Absent,
    /// The operating system refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;
    use crate::Doorbell;

    #[test]
    fn nobody_sleeps_through_a_ring() {
        let here = Arc::new(Doorbell::new(SharedBell::create().unwrap().0));
        let written = Arc::new(AtomicU64::new(0));
        let writing = thread::spawn({
            let (here, written) = (Arc::clone(&here), Arc::clone(&written));
            move || {
                for _ in 0..200_000 {
                    written.fetch_add(1, Ordering::Relaxed);
                    here.ring();
                }
            }
        });
        let mut seen = 0;
        while seen < 200_000 {
            let sleeper = here.announce();
            let now = written.load(Ordering::Relaxed);
            if now == seen {
                sleeper.sleep(None);
            }
            seen = now;
        }
        writing.join().unwrap();
    }

    #[test]
    fn rings_are_refused_with_what_to_take_instead() {
        let error = SharedRing::create(65_536).unwrap_err();
        assert!(error.to_string().contains("take 'ipc' here"));
    }
}

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oka_ring::{Doorbell, MapError, SharedBell, Waiting};

/// What the threads of a task sleep on, one after the other; whoever has something for it rings.
#[derive(Debug)]
pub(crate) struct Sleeper {
    doorbell: Doorbell<SharedBell>,
    place: Mutex<()>,
    /// Whether the last sleep was short.
    busy: AtomicBool,
}

impl Sleeper {
    /// With what other processes open its doorbell by.
    pub(crate) fn new() -> Result<(Self, OwnedFd), MapError> {
        let (bell, descriptor) = SharedBell::create()?;
        let sleeper = Self {
            doorbell: Doorbell::new(bell),
            place: Mutex::default(),
            busy: AtomicBool::new(false),
        };
        Ok((sleeper, descriptor))
    }

    /// Wakes the thread that sleeps.
    pub(crate) fn ring(&self) {
        self.doorbell.ring();
    }

    /// Lets things gather for a moment if they come so often that ringing for each is dear: that
    /// costs both sides tens of µs of CPU. Nobody rings meanwhile. Whether it did.
    pub(crate) fn nap_if_busy(&self) -> bool {
        let busy = self.busy.load(Ordering::Relaxed);
        if busy {
            std::thread::sleep(NAP);
        }
        busy
    }

    /// Announces that the calling thread may sleep; waits for its turn if another does.
    pub(crate) fn announce(&self) -> Turn<'_> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Turn {
            waiting: self.doorbell.announce(),
            busy: &self.busy,
            _place: place,
        }
    }
}

/// A thread's turn to sleep: look once more whether there is a reason, and then do.
pub(crate) struct Turn<'a> {
    waiting: Waiting<'a, SharedBell>,
    busy: &'a AtomicBool,
    _place: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    pub(crate) fn sleep(self, timeout: Option<Duration>) {
        let started = Instant::now();
        self.waiting.sleep(timeout);
        self.busy.store(started.elapsed() < BUSY, Ordering::Relaxed);
    }
}

/// What one wake-up per nap costs in latency; with the kernel's timer slack it is about twice that.
const NAP: Duration = Duration::from_micros(50);

/// Who sleeps for less than this is woken more than ten thousand times a second.
const BUSY: Duration = Duration::from_micros(100);

//! How the threads of a task sleep until something is there for them.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oka_ring::{Doorbell, MapError, SharedBell, TakenMarks, Waiter};

/// What the threads of a task sleep on, one after the other; whoever has something for it rings.
#[derive(Debug)]
pub(crate) struct Sleeper {
    doorbell: Doorbell<SharedBell>,
    place: Mutex<()>,
    /// Whether the last sleep was short.
    busy: AtomicBool,
    nap: Duration,
}

impl Sleeper {
    /// With what other processes open its doorbell by.
    pub(crate) fn new(nap: Duration) -> Result<(Self, OwnedFd), MapError> {
        let (bell, descriptor) = SharedBell::create()?;
        let sleeper = Self {
            doorbell: Doorbell::new(bell),
            place: Mutex::default(),
            busy: AtomicBool::new(false),
            nap,
        };
        Ok((sleeper, descriptor))
    }

    /// Wakes the thread that sleeps.
    pub(crate) fn ring(&self) {
        self.doorbell.ring();
    }

    /// Wakes the thread that sleeps, and leaves it a mark.
    pub(crate) fn ring_with(&self, mark: usize) {
        self.doorbell.ring_with(mark);
    }

    /// The marks that were left since the last call.
    pub(crate) fn take_marks(&self) -> TakenMarks {
        self.doorbell.take_marks()
    }

    /// Lets things gather for a moment if they come so often that ringing for each is dear: that
    /// costs both sides tens of µs of CPU. Nobody rings meanwhile. Whether it did; not for longer than
    /// is `left`.
    pub(crate) fn nap_if_busy(&self, left: Option<Duration>) -> bool {
        let busy = self.busy.load(Ordering::Relaxed);
        if busy {
            std::thread::sleep(left.map_or(self.nap, |left| left.min(self.nap)));
        }
        busy
    }

    /// Announces that the calling thread may sleep; waits for its turn if another does.
    pub(crate) fn announce(&self) -> Turn<'_> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Turn {
            waiting: self.doorbell.announce(),
            sleeper: self,
            _place: place,
        }
    }
}

/// A thread's turn to sleep: look once more whether there is a reason, and then do.
pub(crate) struct Turn<'a> {
    waiting: Waiter<'a, SharedBell>,
    sleeper: &'a Sleeper,
    _place: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    pub(crate) fn sleep(self, timeout: Option<Duration>) {
        let started = Instant::now();
        self.waiting.sleep(timeout);
        let busy = started.elapsed() < 2 * self.sleeper.nap;
        self.sleeper.busy.store(busy, Ordering::Relaxed);
    }
}

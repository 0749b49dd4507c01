use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oka_ring::{Doorbell, MapError, SharedBell, Waiting};

/// What the threads of a task sleep on, one after the other; whoever has something for it rings.
#[derive(Debug)]
pub(crate) struct Sleeper {
    doorbell: Arc<Doorbell<SharedBell>>,
    place: Mutex<()>,
}

impl Sleeper {
    pub(crate) fn new() -> Result<Self, MapError> {
        Ok(Self {
            doorbell: Arc::new(Doorbell::new(SharedBell::create()?)),
            place: Mutex::default(),
        })
    }

    /// What others wake it with.
    pub(crate) fn doorbell(&self) -> &Arc<Doorbell<SharedBell>> {
        &self.doorbell
    }

    /// Wakes the thread that sleeps.
    pub(crate) fn ring(&self) {
        self.doorbell.ring();
    }

    /// Announces that the calling thread may sleep; waits for its turn if another does.
    pub(crate) fn announce(&self) -> Turn<'_> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Turn {
            waiting: self.doorbell.announce(),
            _place: place,
        }
    }
}

/// A thread's turn to sleep: look once more whether there is a reason, and then do.
pub(crate) struct Turn<'a> {
    waiting: Waiting<'a, SharedBell>,
    _place: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    pub(crate) fn sleep(self, timeout: Option<Duration>) {
        self.waiting.sleep(timeout);
    }
}

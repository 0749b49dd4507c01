//! A doorbell: one thread sleeps on it, others ring it.

use std::time::Duration;

use crate::marks::{Marks, TakenMarks};
use crate::sync::{AtomicU32, Ordering, fence};

/// Where a doorbell's word lives, and how a thread sleeps on it.
///
/// # Safety
///
/// Every call of `word` and `marks` gives the same ones, in every thread and process that shares the
/// bell.
pub unsafe trait Bell {
    /// The word; 0 at first.
    fn word(&self) -> &AtomicU32;

    /// The marks; none at first.
    fn marks(&self) -> &Marks;

    /// Sleeps while the word is `expected`, at most `timeout`; may return early.
    fn sleep(&self, expected: u32, timeout: Option<Duration>);

    /// Wakes the thread that sleeps.
    fn wake(&self);
}

/// What one thread sleeps on until someone has something for it; ringing costs a load if it is
/// awake.
///
/// The waiter announces itself, looks once more whether there is something, and only then sleeps;
/// the others change something, and then ring:
///
/// ```no_run
/// # use oka_ring::{Bell, Doorbell};
/// # fn nothing_to_do() -> bool { false }
/// # fn wait<B: Bell>(doorbell: &Doorbell<B>) {
/// while nothing_to_do() {
///     let waiting = doorbell.announce();
///     if nothing_to_do() {
///         waiting.sleep(None);
///     }
/// }
/// # }
/// ```
///
/// Of the two, at least one sees what the other did: nobody sleeps through a ring.
#[derive(Debug)]
pub struct Doorbell<B> {
    bell: B,
}

impl<B: Bell> Doorbell<B> {
    /// The doorbell with its word in `bell`.
    pub fn new(bell: B) -> Self {
        Self { bell }
    }

    /// The memory of the doorbell.
    pub fn bell(&self) -> &B {
        &self.bell
    }

    /// Wakes the waiter if it has announced itself. Whoever rings has made its change before.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        self.wake_if_announced();
    }

    /// As `ring`, and leaves a mark (below [`MARKS`]) that tells what there is.
    #[inline]
    pub fn ring_with(&self, mark: usize) {
        fence(Ordering::SeqCst);
        // A mark that is there will be taken, and what it stands for be looked at, after this.
        if self.bell.marks().leave(mark) {
            fence(Ordering::SeqCst);
        }
        self.wake_if_announced();
    }

    /// The marks that were left since the last call. The waiter calls it before it looks at what
    /// they stand for.
    #[inline]
    pub fn take_marks(&self) -> TakenMarks {
        let marked = self.bell.marks().take();
        fence(Ordering::SeqCst);
        marked
    }

    /// Announces that the calling thread is about to sleep. One thread at a time.
    pub fn announce(&self) -> Waiter<'_, B> {
        let word = self.bell.word();
        let expected = word.fetch_or(ANNOUNCED, Ordering::Relaxed) | ANNOUNCED;
        fence(Ordering::SeqCst);
        Waiter {
            doorbell: self,
            expected,
        }
    }

    #[inline]
    fn wake_if_announced(&self) {
        let word = self.bell.word();
        if word.load(Ordering::Relaxed) & ANNOUNCED != 0 {
            self.wake(word);
        }
    }

    #[cold]
    fn wake(&self, word: &AtomicU32) {
        let rung = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| {
            (value & ANNOUNCED != 0).then(|| (value & !ANNOUNCED).wrapping_add(ROUND))
        });
        if rung.is_ok() {
            self.bell.wake();
        }
    }
}

/// A thread that has announced that it will sleep; withdrawn on drop.
#[derive(Debug)]
pub struct Waiter<'a, B: Bell> {
    doorbell: &'a Doorbell<B>,
    expected: u32,
}

impl<B: Bell> Waiter<'_, B> {
    /// Sleeps until the doorbell is rung, or `timeout` has passed; may return early.
    pub fn sleep(self, timeout: Option<Duration>) {
        self.doorbell.bell.sleep(self.expected, timeout);
    }
}

impl<B: Bell> Drop for Waiter<'_, B> {
    fn drop(&mut self) {
        let word = self.doorbell.bell.word();
        word.fetch_and(!ANNOUNCED, Ordering::Relaxed);
    }
}

/// The waiter has announced itself.
const ANNOUNCED: u32 = 1;

/// Added with every ring, so that a ring between announcement and sleep is seen.
const ROUND: u32 = 2;

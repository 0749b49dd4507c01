//! One budget of bytes for all that clients make a gateway keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How many bytes may be kept: of requests that are read or worked on, and of answers that their
/// clients have not read.
///
/// What is alone has room, however large it is; so do [`SMALL_BYTES`], whatever is kept beside.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    kept: AtomicUsize,
    /// How many were let go of since memory went back to the system.
    freed: AtomicUsize,
    /// There is room again.
    room: Notify,
    /// Enough was let go of for its memory to go back.
    is_over: Notify,
}

/// There is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are kept")]
pub(crate) struct BudgetFull;

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            kept: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            room: Notify::new(),
            is_over: Notify::new(),
        })
    }

    /// Nothing yet, which may grow.
    pub(crate) fn nothing(self: &Arc<Self>) -> BudgetShare {
        BudgetShare {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Room for an answer, or the head of a request; None is that of a small one.
    pub(crate) fn keep(self: &Arc<Self>, bytes: usize) -> Result<Option<BudgetShare>, BudgetFull> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let mut kept = self.nothing();
        kept.grow(bytes)?;
        Ok(Some(kept))
    }

    /// Waits for room.
    pub(crate) async fn wait(self: &Arc<Self>, bytes: usize) -> BudgetShare {
        let mut kept = self.nothing();
        loop {
            let room = self.room.notified();
            if kept.grow(bytes).is_ok() {
                return kept;
            }
            room.await;
        }
    }

    /// Gives memory back to the system, again and again: a moment after much of it was let go of, when
    /// nothing is kept. The allocator would keep it as long as it can.
    pub(crate) async fn give_back(self: Arc<Self>) {
        loop {
            self.is_over.notified().await;
            tokio::time::sleep(PAUSE).await;
            while self.kept.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            self.freed.store(0, Ordering::Relaxed);
            trim();
        }
    }
}

/// A part of a budget, until it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<Budget>,
    bytes: usize,
}

impl BudgetShare {
    /// Whether it is of nothing yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes it larger by so many bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        let (own, most) = (self.bytes, self.budget.most);
        let fits = |kept: usize| kept == own || kept.saturating_add(bytes) <= most;
        let more = |kept: usize| fits(kept).then(|| kept + bytes);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let grown = self.budget.kept.fetch_update(set, get, more);
        grown.map_err(|_| BudgetFull)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let Budget {
            kept,
            freed,
            room,
            is_over,
            ..
        } = &*self.budget;
        if self.bytes > 0 {
            kept.fetch_sub(self.bytes, Ordering::Relaxed);
            room.notify_waiters();
            if freed.fetch_add(self.bytes, Ordering::Relaxed) + self.bytes >= WORTH_BYTES {
                is_over.notify_one();
            }
        }
    }
}

/// Of the allocator of glibc; others give back by themselves.
fn trim() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: it may be called by any thread at any time.
        unsafe { malloc_trim(0) };
    }
}

/// The most connections for which this process has descriptors left.
pub(crate) fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let Some(limit) = limit.current else {
        return usize::MAX;
    };
    let limit = limit as usize;
    let open = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    let open = open.map_or(limit / 2, Iterator::count); // as off Linux, or unknown
    limit.saturating_sub(open + SPARE_DESCRIPTORS)
}

/// What each connection may keep in any case.
pub(crate) const SMALL_BYTES: usize = 16 * 1024;
const WORTH_BYTES: usize = 1 << 20;
const PAUSE: Duration = Duration::from_secs(1);
/// For what else the process opens.
const SPARE_DESCRIPTORS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_fits_or_is_alone_or_small() {
        let budget = Budget::new(100_000);
        let alone = budget.keep(150_000).unwrap();
        assert!(alone.is_some());
        assert_eq!(budget.keep(20_000).unwrap_err(), BudgetFull);
        assert!(budget.keep(SMALL_BYTES).unwrap().is_none());
        drop(alone);
        let mut growing = budget.nothing();
        growing.grow(90_000).unwrap();
        growing.grow(90_000).unwrap(); // it is alone
        assert_eq!(budget.nothing().grow(1), Err(BudgetFull));
        drop(growing);
        let bytes = budget.nothing();
        assert_eq!(budget.kept.load(Ordering::Relaxed), 0);
        drop(bytes);
    }
}

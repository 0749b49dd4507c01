//! How long tasks wait.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::now_ns;

/// For how long a task has waited for something. A wait that goes on counts, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct WaitTime {
    before_ns: AtomicU64,
    /// Since when it waits, 0 while it does not.
    since_ns: AtomicU64,
}

impl WaitTime {
    /// The task waits since then; of waits at once the first counts.
    pub(crate) fn begin(&self, now_ns: u64) {
        let _ = self
            .since_ns
            .compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It has come to an end, if there was one.
    pub(crate) fn end(&self) {
        let since = self.since_ns.swap(0, Ordering::Relaxed);
        if since != 0 {
            let waited = now_ns().saturating_sub(since);
            self.before_ns.fetch_add(waited, Ordering::Relaxed);
        }
    }

    pub(crate) fn total_ns(&self) -> u64 {
        let waits = match self.since_ns.load(Ordering::Relaxed) {
            0 => 0,
            since => now_ns().saturating_sub(since),
        };
        self.before_ns.load(Ordering::Relaxed) + waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_while_it_goes_on_and_once() {
        let second = 1_000_000_000;
        let time = WaitTime::default();
        time.end();
        assert_eq!(time.total_ns(), 0);
        time.begin(now_ns() - 2 * second);
        time.begin(now_ns());
        assert_eq!(time.total_ns() / second, 2);
        time.end();
        let ended = time.total_ns();
        assert_eq!(ended / second, 2);
        assert_eq!(time.total_ns(), ended);
        time.begin(now_ns() - second);
        assert_eq!(time.total_ns() / second, 3);
    }
}

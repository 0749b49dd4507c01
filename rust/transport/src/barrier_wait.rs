//! How long inputs wait at barriers.

use std::time::{Duration, Instant};

/// For how long the first inputs to come to a barrier have waited until all had.
#[derive(Debug, Default)]
pub(crate) struct BarrierWait {
    /// The epoch whose barrier inputs wait at, and since when.
    current: Option<(u64, Instant)>,
    longest: Duration,
}

impl BarrierWait {
    /// Takes in which epoch's barrier inputs wait at now. Reads a clock only if that has changed.
    #[inline]
    pub(crate) fn observe(&mut self, epoch: Option<u64>) {
        if self.current.map(|(current, _)| current) != epoch {
            self.longest = self.longest();
            self.current = epoch.map(|epoch| (epoch, Instant::now()));
        }
    }

    /// The longest that any has waited, or waits.
    pub(crate) fn longest(&self) -> Duration {
        let current = self.current.map(|(_, since)| since.elapsed());
        self.longest.max(current.unwrap_or_default())
    }
}

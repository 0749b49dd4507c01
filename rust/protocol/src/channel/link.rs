//! Counters of what the link below a channel has cost its sender.

/// What the link below a channel has cost its sender. All numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Connections that took the place of an earlier one.
    pub reconnects: u64,
    /// Frames that were sent again.
    pub retransmitted: u64,
    /// The longest time without an answer, in ns, that a lost connection or a silent peer caused;
    /// 0 if there was none.
    pub longest_interruption_ns: u64,
}

impl Link {
    pub(super) fn on_interruption(&mut self, nanoseconds: u64) {
        self.longest_interruption_ns = self.longest_interruption_ns.max(nanoseconds);
    }
}

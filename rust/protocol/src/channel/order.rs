//! The order of a channel's frames: the numbers that leave, and which one comes next.

use crate::{ChannelError, FrameKind};

/// The numbers of the frames that leave on a channel: consecutive from 1, and none behind the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    last: u64,
    ended: bool,
}

impl Numbers {
    /// The number of a frame that leaves now.
    #[inline]
    pub(crate) fn next(&mut self, kind: FrameKind) -> u64 {
        debug_assert!(!self.ended, "nothing follows the end of a channel");
        self.last += 1;
        self.ended |= kind == FrameKind::End;
        self.last
    }

    /// The number of the last frame; 0 before any.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether the end left.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }
}

/// Which frame of a channel comes next: each number once, in order, and none behind the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    arrived: u64,
    ended: bool,
}

/// What became of a frame that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one, and counted.
    Next,
    /// It arrived before.
    Duplicate,
    /// Frames before it are missing; it will come again, behind them.
    Early,
}

impl Order {
    /// Where a frame that arrived belongs.
    #[inline]
    pub(crate) fn place(&self, sequence: u64) -> Result<Arrival, ChannelError> {
        if sequence == self.arrived + 1 && !self.ended {
            return Ok(Arrival::Next);
        }
        self.misplaced(sequence)
    }

    #[cold]
    fn misplaced(&self, sequence: u64) -> Result<Arrival, ChannelError> {
        if sequence <= self.arrived {
            Ok(Arrival::Duplicate)
        } else if self.ended {
            Err(ChannelError::AfterEnd { got: sequence })
        } else {
            Ok(Arrival::Early)
        }
    }

    /// Counts the next frame.
    #[inline]
    pub(crate) fn on_next(&mut self, kind: FrameKind) {
        self.arrived += 1;
        self.ended |= kind == FrameKind::End;
    }

    /// The last frame that arrived with all before it; 0 before any.
    #[inline]
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether the end arrived.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }
}

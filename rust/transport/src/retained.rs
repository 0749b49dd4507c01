//! The sent messages of a channel that are not acknowledged.

use std::collections::VecDeque;

use bytes::Bytes;

/// The messages of one channel that left and were not acknowledged, in order.
///
/// Bounded by the receiver's window: what is sent is only what was granted. Holds on to buffers that
/// the socket sent already; nothing is copied.
#[derive(Debug, Default)]
pub(crate) struct RetainedFrames {
    messages: VecDeque<(u64, Bytes)>,
}

impl RetainedFrames {
    /// Keeps a message whose last frame has this sequence number.
    pub(crate) fn push(&mut self, sequence: u64, message: Bytes) {
        self.messages.push_back((sequence, message));
    }

    /// Lets go of everything up to the acknowledged frame.
    pub(crate) fn release(&mut self, acknowledged: u64) {
        while self
            .messages
            .front()
            .is_some_and(|(sequence, _)| *sequence <= acknowledged)
        {
            self.messages.pop_front();
        }
    }

    /// The messages with any frame after this one.
    pub(crate) fn after(&self, sequence: u64) -> impl Iterator<Item = &Bytes> {
        self.messages
            .iter()
            .filter(move |(last, _)| *last > sequence)
            .map(|(_, message)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_let_go() {
        let mut retained = RetainedFrames::default();
        for (sequence, message) in [(1, "a"), (3, "bc"), (4, "d")] {
            retained.push(sequence, Bytes::from(message));
        }
        assert!(retained.after(0).eq(["a", "bc", "d"]));
        assert!(retained.after(2).eq(["bc", "d"]), "a message goes whole");
        retained.release(2);
        assert!(retained.after(0).eq(["bc", "d"]));
        retained.release(4);
        assert_eq!(retained.after(0).count(), 0);
    }
}

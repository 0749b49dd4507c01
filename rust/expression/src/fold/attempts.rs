//! When a faster way that has not taken a batch is tried again.

/// Whether to try the next batch: after a miss not for a while, which is twice as long as the one before, so that tries in
/// vain cost little. A batch that is taken brings the shortest back.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Batches of the pause that are still to come.
    left: u32,
    /// The next pause.
    pause: u32,
}

impl Attempts {
    /// Whether to try this batch.
    #[inline]
    pub fn are_due(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    /// Takes in how a try went.
    pub fn note(&mut self, taken: bool) {
        self.pause = if taken {
            0
        } else {
            (2 * self.pause + 1).min(LONGEST_PAUSE)
        };
        self.left = self.pause;
    }
}

const LONGEST_PAUSE: u32 = 1023;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_a_batch_is_taken() {
        let mut attempts = Attempts::default();
        let mut tries = Vec::new();
        for batch in 0..40 {
            if attempts.are_due() {
                tries.push(batch);
                attempts.note(batch == 26);
            }
        }
        assert_eq!(tries, [0, 2, 6, 14, 30]);
        attempts.note(true);
        assert!(attempts.are_due());
        assert!(attempts.are_due());
    }
}

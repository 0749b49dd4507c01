//! How much may be on its way on a channel, so that nothing waits behind it for long.

/// What each input channel of a task may hold that the task has not got to: as much as it works off
/// in [`BACKLOG_NS`].
///
/// A barrier waits behind whatever was sent before it. Where a task is slow, a window that is right
/// for a fast one would be seconds of work. (Flink calls this buffer debloating.) How fast a task is
/// tells the time that it did not wait for records: an idle task is as fast as a busy one.
#[derive(Debug)]
pub struct Backlogs {
    most: u64,
    channels: Vec<Channel>,
    /// When they were last looked at: the time, and for how long the task had waited by then.
    last: (u64, u64),
}

#[derive(Debug)]
struct Channel {
    consumed: u64,
    window: u64,
}

impl Backlogs {
    /// Of so many channels with windows of at most so many bytes, which they have at first.
    pub fn new(channels: usize, most: usize) -> Self {
        let channel = || Channel {
            consumed: 0,
            window: most as u64,
        };
        Self {
            most: most as u64,
            channels: std::iter::repeat_with(channel).take(channels).collect(),
            last: (0, 0),
        }
    }

    /// Takes in what the task has consumed of each channel since the start, in bytes, and for how
    /// long it has waited; gives the windows that have changed by much.
    ///
    /// While nothing is consumed the time goes on to count: one batch may take long.
    pub fn observe(
        &mut self,
        now_ns: u64,
        waited_ns: u64,
        consumed: impl Iterator<Item = u64>,
    ) -> Vec<(usize, u64)> {
        let (since, waited_before) = self.last;
        let passed = now_ns.saturating_sub(since);
        if passed < PERIOD_NS {
            return Vec::new();
        }
        let consumed: Vec<_> = consumed.collect();
        let pairs = || self.channels.iter().zip(&consumed);
        if pairs().all(|(channel, consumed)| channel.consumed == *consumed) {
            return Vec::new();
        }
        self.last = (now_ns, waited_ns);
        let busy = passed.saturating_sub(waited_ns.saturating_sub(waited_before));
        let mut changed = Vec::new();
        for (index, (channel, consumed)) in self.channels.iter_mut().zip(consumed).enumerate() {
            let bytes = consumed.saturating_sub(channel.consumed);
            channel.consumed = consumed;
            if since == 0 || bytes == 0 {
                continue; // what there is to go by is older, or nothing
            }
            let fair = u128::from(bytes) * u128::from(BACKLOG_NS) / u128::from(busy.max(1));
            let fair = u64::try_from(fair).unwrap_or(u64::MAX);
            let fair = fair.clamp(LEAST_BYTES, self.most);
            let is_bound = fair == self.most || fair == LEAST_BYTES;
            let difference = fair.abs_diff(channel.window);
            if difference >= channel.window / 8 || (is_bound && difference > 0) {
                // Too small a window would be felt at once, too large a one at the next barrier.
                let window = fair.max(u64::midpoint(channel.window, fair));
                channel.window = window;
                changed.push((index, window));
            }
        }
        changed
    }
}

/// What a task works off in so long may wait for it.
pub const BACKLOG_NS: u64 = 250_000_000;
/// How often windows change.
const PERIOD_NS: u64 = 200_000_000;
/// A window for those that take long for each record: a frame is let go whole, whatever its size.
const LEAST_BYTES: u64 = 4 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1 << 20;
    const SECOND_NS: u64 = 1_000_000_000;

    /// The windows that the last of these tell, each a tenth of a second: bytes consumed by channel,
    /// and the ns waited meanwhile.
    fn windows(steps: impl IntoIterator<Item = (Vec<u64>, u64)>) -> Vec<u64> {
        let (mut now, mut waited, mut consumed) = (SECOND_NS, 0, Vec::new());
        let (mut backlogs, mut found) = (None, Vec::new());
        for (bytes, waits) in steps {
            consumed.resize(bytes.len(), 0);
            found.resize(bytes.len(), MOST as u64);
            let backlogs = backlogs.get_or_insert_with(|| Backlogs::new(bytes.len(), MOST));
            for (consumed, bytes) in consumed.iter_mut().zip(bytes) {
                *consumed += bytes;
            }
            for (index, window) in backlogs.observe(now, waited, consumed.iter().copied()) {
                found[index] = window;
            }
            now += SECOND_NS / 10;
            waited += waits;
        }
        found
    }

    #[test]
    fn a_slow_task_gets_what_it_works_off_in_the_time() {
        let found = windows(vec![(vec![10_000, 30_000], 0); 100]);
        assert!((25_000..=29_000).contains(&found[0]), "{found:?}");
        assert!((75_000..=86_000).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn a_task_that_waits_most_of_its_time_is_not_slow() {
        assert_eq!(
            windows(vec![(vec![10_000], 99_990_000); 100]),
            [MOST as u64]
        );
    }

    #[test]
    fn batches_that_take_long_tell_the_same_in_the_mean() {
        let each = |step: u64| (vec![if step.is_multiple_of(12) { 120_000 } else { 0 }], 0);
        let found = windows((0..200).map(each));
        assert!((25_000..=29_000).contains(&found[0]), "{found:?}");
    }

    #[test]
    fn a_task_that_becomes_fast_gets_all_at_once() {
        let slow = std::iter::repeat_n((vec![100], 0), 50);
        assert_eq!(windows(slow.clone()), [LEAST_BYTES]);
        let fast = std::iter::repeat_n((vec![100_000_000], 0), 3);
        assert_eq!(windows(slow.chain(fast)), [MOST as u64]);
    }

    proptest! {
        #[test]
        fn windows_have_bounds(
            steps in prop::collection::vec(
                (prop::collection::vec(any::<u32>().prop_map(u64::from), 3), any::<u32>().prop_map(u64::from)),
                1..50,
            )
        ) {
            for window in windows(steps) {
                prop_assert!((LEAST_BYTES..=MOST as u64).contains(&window));
            }
        }
    }
}

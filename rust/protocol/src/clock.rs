//! The offset between the clocks of two hosts, estimated from round trips.

/// The offset between two hosts' clocks, estimated from round trips as NTP does.
///
/// With request and answer stamped at both ends, the offset is known to half of the time that they
/// were on their way (RFC 5905, section 8). The best of all round trips counts; as clocks drift
/// apart, the uncertainty of an estimate grows with its age until a fresh one is better.
///
/// ```
/// use oka_protocol::{ClockOffset, RoundTrip};
///
/// let mut clock = ClockOffset::default();
/// clock.on_round_trip(RoundTrip { sent_ns: 100, received_ns: 1_140, answered_ns: 1_150, returned_ns: 190 });
/// assert_eq!(clock.offset_ns(), 1_000);
/// assert_eq!(clock.uncertainty_ns(190), Some(41));
/// assert_eq!(clock.to_peer(200), 1_200);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ClockOffset {
    best: Option<Estimate>,
    round_trips: u32,
    is_same: bool,
}

/// The four stamps of one question and its answer, each in ns of the clock where it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the question left, on the own clock.
    pub sent_ns: u64,
    /// When the question arrived, on the peer's clock.
    pub received_ns: u64,
    /// When the answer left, on the peer's clock.
    pub answered_ns: u64,
    /// When the answer arrived, on the own clock.
    pub returned_ns: u64,
}

impl ClockOffset {
    /// Takes in one round trip; one that contradicts itself is left out.
    pub fn on_round_trip(&mut self, trip: RoundTrip) {
        let (Some(total), Some(held)) = (
            trip.returned_ns.checked_sub(trip.sent_ns),
            trip.answered_ns.checked_sub(trip.received_ns),
        ) else {
            return;
        };
        self.round_trips = self.round_trips.saturating_add(1);
        let there = i128::from(trip.received_ns) - i128::from(trip.sent_ns);
        let back = i128::from(trip.answered_ns) - i128::from(trip.returned_ns);
        let Ok(offset) = i64::try_from(there.midpoint(back)) else {
            return;
        };
        let estimate = Estimate {
            offset,
            // Halves are rounded, hence the last nanosecond.
            uncertainty: total.saturating_sub(held) / 2 + 1,
            asked_ns: trip.sent_ns,
        };
        let now = trip.returned_ns;
        let better = |best: Estimate| estimate.uncertainty_at(now) <= best.uncertainty_at(now);
        if self.best.is_none_or(better) {
            self.best = Some(estimate);
        }
    }

    /// Takes in that the peer says it reads the very same clock, unless round trips contradict it
    /// (a copy of a virtual machine has its original's identity, and not its clock).
    pub fn on_same_clock(&mut self) {
        self.is_same = self
            .best
            .is_some_and(|best| best.offset.unsigned_abs() <= best.uncertainty);
    }

    /// Whether both ends read one clock: then the offset is 0, exactly.
    pub fn is_same(&self) -> bool {
        self.is_same
    }

    /// What to add to a stamp of the own clock to get the peer's; 0 before the first round trip.
    pub fn offset_ns(&self) -> i64 {
        match self.best {
            Some(best) if !self.is_same => best.offset,
            _ => 0,
        }
    }

    /// How far off the offset may be, at this moment of the own clock; `None` before the first
    /// round trip.
    pub fn uncertainty_ns(&self, now_ns: u64) -> Option<u64> {
        let best = self.best?;
        if self.is_same {
            return Some(0);
        }
        Some(best.uncertainty_at(now_ns))
    }

    /// A stamp of the own clock, on the peer's.
    pub fn to_peer(&self, stamp_ns: u64) -> u64 {
        stamp_ns.saturating_add_signed(self.offset_ns())
    }

    /// Round trips that were taken in.
    pub fn round_trips(&self) -> u32 {
        self.round_trips
    }
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// In ns.
    offset: i64,
    /// In ns, when it was taken.
    uncertainty: u64,
    asked_ns: u64,
}

impl Estimate {
    fn uncertainty_at(&self, now_ns: u64) -> u64 {
        let age = u128::from(now_ns.saturating_sub(self.asked_ns));
        let drift = age * DRIFT_PPM / 1_000_000;
        self.uncertainty
            .saturating_add(u64::try_from(drift).unwrap_or(u64::MAX))
    }
}

/// How fast two clocks may drift apart, in parts per million: quartz is good to 50, and there are
/// two of them.
const DRIFT_PPM: u128 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(sent_ns: u64, there: u64, held: u64, back: u64, offset: u64) -> RoundTrip {
        RoundTrip {
            sent_ns,
            received_ns: sent_ns + there + offset,
            answered_ns: sent_ns + there + held + offset,
            returned_ns: sent_ns + there + held + back,
        }
    }

    #[test]
    fn the_shortest_round_trip_counts_until_it_is_old() {
        let mut clock = ClockOffset::default();
        assert_eq!((clock.offset_ns(), clock.uncertainty_ns(0)), (0, None));
        clock.on_round_trip(trip(0, 10_000, 0, 10_000, 500_000));
        clock.on_round_trip(trip(50_000, 90_000, 0, 10_000, 500_000));
        assert_eq!(clock.offset_ns(), 500_000, "the lopsided one is worse");
        let second = 1_000_000_000;
        assert_eq!(clock.uncertainty_ns(second), Some(10_001 + 100_000));
        clock.on_round_trip(trip(second, 40_000, 0, 40_000, 560_000));
        assert_eq!(clock.offset_ns(), 560_000);
        assert_eq!(clock.round_trips(), 3);
    }

    #[test]
    fn the_clock_of_a_slower_host_is_behind() {
        let mut clock = ClockOffset::default();
        clock.on_round_trip(RoundTrip {
            sent_ns: 9_000,
            received_ns: 4_100,
            answered_ns: 4_100,
            returned_ns: 9_200,
        });
        assert_eq!(clock.offset_ns(), -5_000);
        assert_eq!((clock.to_peer(9_000), clock.to_peer(10)), (4_000, 0));
    }

    #[test]
    fn one_clock_is_exact_unless_the_stamps_say_otherwise() {
        let mut clock = ClockOffset::default();
        clock.on_same_clock();
        assert!(!clock.is_same(), "nothing is known yet");
        clock.on_round_trip(trip(0, 70, 5, 10, 0));
        clock.on_same_clock();
        assert_eq!((clock.offset_ns(), clock.uncertainty_ns(99)), (0, Some(0)));

        let mut copied = ClockOffset::default();
        copied.on_round_trip(trip(0, 10, 5, 10, 1_000));
        copied.on_same_clock();
        assert_eq!(copied.offset_ns(), 1_000);
    }

    #[test]
    fn stamps_that_run_backwards_are_left_out() {
        let mut clock = ClockOffset::default();
        let mut backwards = trip(100, 10, 10, 10, 0);
        backwards.returned_ns = 50;
        clock.on_round_trip(backwards);
        assert_eq!(clock.round_trips(), 0);
    }
}

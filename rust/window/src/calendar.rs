//! Days, weeks and months of a time zone.

use crate::windows::{Window, WindowsError};
use std::sync::{Mutex, PoisonError};

/// Windows that begin where clocks of a zone say so, whatever their lengths: a day has 23 hours, or 25,
/// where clocks change.
///
/// One begins at the first moment that its zone calls midnight of its first day, or a later time where
/// clocks pass over midnight. It ends where the next begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Calendar {
    period: Period,
    /// When clocks change, and by how much they are ahead of UTC from then on; the first from ever.
    offsets: Vec<(i64, i64)>,
}

/// How long windows are, in what calendars count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// So many days, of which one begins with this day since 1970.
    Days { count: i64, first: i64 },
    /// So many months, of which one begins with a year.
    Months(i64),
}

impl Calendar {
    /// The one with these offsets, in order of their moments, which is made when it is asked for first and
    /// then kept: a program has few zones.
    pub fn of(period: Period, offsets: Vec<(i64, i64)>) -> Result<&'static Calendar, WindowsError> {
        let (Period::Days { count, .. } | Period::Months(count)) = period;
        let ascend = offsets.is_sorted_by(|one, other| one.0 < other.0);
        let are_near = offsets.iter().all(|(_, offset)| offset.abs() < MOST);
        if count < 1 || offsets.is_empty() || !ascend || !are_near {
            return Err(WindowsError::Calendar);
        }
        let made = Calendar { period, offsets };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|known| ***known == made) {
            return Ok(found);
        }
        let kept: &'static Calendar = Box::leak(Box::new(made));
        known.push(kept);
        Ok(kept)
    }

    /// The window that has this time.
    pub(crate) fn window(&self, time: i64) -> Window {
        let place = self.offsets.partition_point(|(at, _)| *at <= time);
        let offset = self.offsets[place.saturating_sub(1)].1;
        let mut number = self.number(time + offset);
        // Where clocks go back over midnight, a date comes twice.
        while time < self.start(number) {
            number -= 1;
        }
        let mut window = Window {
            start: self.start(number),
            end: self.start(number + 1),
        };
        while time >= window.end {
            number += 1;
            window = Window {
                start: window.end,
                end: self.start(number + 1),
            };
        }
        window
    }

    /// About how long a window is.
    pub(crate) fn length(&self) -> i64 {
        match self.period {
            Period::Days { count, .. } => count * DAY,
            Period::Months(count) => count * 30 * DAY,
        }
    }

    /// The number of the window with this time of the zone's clocks.
    fn number(&self, local: i64) -> i64 {
        let day = local.div_euclid(DAY);
        match self.period {
            Period::Days { count, first } => (day - first).div_euclid(count),
            Period::Months(count) => month(day).div_euclid(count),
        }
    }

    /// The moment at which the window with this number begins.
    fn start(&self, number: i64) -> i64 {
        let day = match self.period {
            Period::Days { count, first } => number * count + first,
            Period::Months(count) => first_day(number * count),
        };
        let local = day * DAY;
        let from = self.offsets.partition_point(|(at, _)| *at <= local - MOST);
        let mut place = from.saturating_sub(1);
        loop {
            let (at, offset) = self.offsets[place];
            let moment = if place == 0 {
                local - offset
            } else {
                at.max(local - offset)
            };
            match self.offsets.get(place + 1) {
                Some((next, _)) if moment >= *next => place += 1,
                _ => return moment,
            }
        }
    }
}

/// The number of months from the year 0 to this day since 1970, in the Gregorian calendar.
///
/// From Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so that a
/// leap day is the last of one.
fn month(day: i64) -> i64 {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(DAYS_OF_ERA);
    let of_era = day.rem_euclid(DAYS_OF_ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    (era * 400 + year) * 12 + (5 * of_year + 2) / 153 + 2
}

/// The first day since 1970 of the month with this number.
fn first_day(month: i64) -> i64 {
    let since_march = month - 2;
    let (year, month) = (since_march.div_euclid(12), since_march.rem_euclid(12));
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let of_era = year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5;
    era * DAYS_OF_ERA + of_era - DAYS_TO_1970
}

static KNOWN: Mutex<Vec<&'static Calendar>> = Mutex::new(Vec::new());

const DAY: i64 = 86_400_000_000;
/// More than clocks are ahead of UTC, or behind it.
const MOST: i64 = 2 * DAY;
/// 400 years.
const DAYS_OF_ERA: i64 = 146_097;
/// From March 1 of the year 0.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = DAY / 24;
    const DAYS: Period = Period::Days { count: 1, first: 0 };

    #[test]
    fn days_are_as_long_as_clocks_say() {
        // Two hours ahead from day 100 on, at 1 o'clock UTC, and one from day 200 on.
        let (spring, autumn) = (100 * DAY + HOUR, 200 * DAY + HOUR);
        let offsets = vec![(i64::MIN, HOUR), (spring, 2 * HOUR), (autumn, HOUR)];
        let days = Calendar::of(DAYS, offsets).expect("offsets");
        let day = |time| {
            let window = days.window(time);
            (window.start, (window.end - window.start) / HOUR)
        };
        assert_eq!(day(spring), (100 * DAY - HOUR, 23));
        assert_eq!(day(101 * DAY - 2 * HOUR), (101 * DAY - 2 * HOUR, 24));
        assert_eq!(day(autumn - 1), (200 * DAY - 2 * HOUR, 25));
        assert_eq!(day(-1), (-HOUR, 24));
    }

    #[test]
    fn what_makes_no_calendar_is_refused() {
        let utc = vec![(i64::MIN, 0)];
        for (period, offsets) in [
            (DAYS, vec![]),
            (DAYS, vec![(5, 0), (5, HOUR)]),
            (DAYS, vec![(5, MOST)]),
            (Period::Months(0), utc.clone()),
            (Period::Days { count: 0, first: 0 }, utc),
        ] {
            assert_eq!(Calendar::of(period, offsets), Err(WindowsError::Calendar));
        }
    }

    #[test]
    fn months_have_the_days_of_the_gregorian_calendar() {
        let days = |from: i64| (from..from + 12).map(|at| first_day(at + 1) - first_day(at));
        let (odd, leap) = (days(1900 * 12), days(2000 * 12));
        assert_eq!(
            odd.collect::<Vec<_>>(),
            [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        );
        assert_eq!(
            leap.collect::<Vec<_>>(),
            [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        );
        assert_eq!(first_day(1970 * 12), 0);
    }

    proptest! {
        #[test]
        fn windows_lie_behind_each_other(
            time in prop_oneof![-(1_i64 << 62)..1_i64 << 62, -900 * DAY..900 * DAY],
            period in prop_oneof![
                Just(DAYS),
                Just(Period::Days { count: 7, first: -3 }),
                (1_i64..13).prop_map(Period::Months),
            ],
            changes in prop::collection::btree_map(-800 * DAY..800 * DAY, -26_i64..26, 0..6),
        ) {
            let mut offsets = vec![(i64::MIN, 0)];
            offsets.extend(changes.into_iter().map(|(at, hours)| (at, hours * HOUR)));
            let calendar = Calendar::of(period, offsets).expect("offsets");
            let window = calendar.window(time);
            prop_assert!(window.has(time));
            prop_assert_eq!(calendar.window(window.start), window);
            prop_assert_eq!(calendar.window(window.end - 1), window);
            prop_assert_eq!(calendar.window(window.end).start, window.end);
            prop_assert_eq!(calendar.window(window.start - 1).end, window.start);
        }
    }
}

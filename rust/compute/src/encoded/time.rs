//! The time of a record: where it is, and how many microseconds it comes to.

use crate::encoded::fields::only_item;
use crate::encoded::path::{Path, PathError};
use crate::encoded::value::{ReadError, Reader, Value};

/// What a number counts that is a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    /// The unit that a user names so.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Seconds,
            "ms" => Self::Milliseconds,
            "us" => Self::Microseconds,
            "ns" => Self::Nanoseconds,
            _ => return None,
        })
    }

    /// Microseconds, as Python computes them: of integers what is finer is cut off downwards. `None`
    /// outside the range of 64 bits.
    ///
    /// ```
    /// use oka_compute::Unit;
    ///
    /// assert_eq!(Unit::Nanoseconds.of_integer(-1), Some(-1));
    /// assert_eq!(Unit::Seconds.of_integer(i64::MAX), None);
    /// ```
    #[inline]
    pub fn of_integer(self, number: i64) -> Option<i64> {
        match self {
            Self::Microseconds => Some(number),
            Self::Milliseconds => number.checked_mul(1_000),
            Self::Seconds => number.checked_mul(1_000_000),
            Self::Nanoseconds => Some(number.div_euclid(1_000)),
        }
    }

    /// How many microseconds it is; 1 of what is less.
    pub fn microseconds(self) -> i64 {
        match self {
            Self::Seconds => 1_000_000,
            Self::Milliseconds => 1_000,
            Self::Microseconds | Self::Nanoseconds => 1,
        }
    }

    /// Of microseconds that are a multiple of it. `None` outside the range of 64 bits.
    pub fn to_integer(self, microseconds: i64) -> Option<i64> {
        match self {
            Self::Nanoseconds => microseconds.checked_mul(1_000),
            other => Some(microseconds / other.microseconds()),
        }
    }

    /// Of microseconds.
    pub fn to_float(self, microseconds: i64) -> f64 {
        match self {
            Self::Nanoseconds => microseconds as f64 * 1e3,
            other => microseconds as f64 / other.microseconds() as f64,
        }
    }

    /// As [`Self::of_integer`], rounded to the nearest, and to even ones between two.
    pub fn of_float(self, number: f64) -> Option<i64> {
        let microseconds = match self {
            Self::Microseconds => number,
            Self::Milliseconds => number * 1e3,
            Self::Seconds => number * 1e6,
            Self::Nanoseconds => number / 1e3,
        };
        let rounded = microseconds.round_ties_even();
        (rounded.abs() < TWO_TO_63).then_some(rounded as i64)
    }
}

/// The way from a record to its time, and what its time counts.
#[derive(Clone, Debug)]
pub struct TimePath {
    pub(crate) path: Path,
    /// Where it is, if it is an item of the record.
    pub(crate) item: Option<usize>,
    unit: Option<Unit>,
    before: i64,
}

impl TimePath {
    /// Without a unit, times are not numbers: all are as [`Read::Other`].
    pub fn new(path: Path, unit: Option<Unit>) -> Self {
        Self {
            item: only_item(&path),
            path,
            unit,
            before: 0,
        }
    }

    /// The time is so many microseconds before the number that is found.
    #[must_use]
    pub fn before(mut self, microseconds: i64) -> Self {
        self.before = microseconds;
        self
    }

    /// The time of a record; or where it is, if it is no number that can be a time.
    pub fn of<'b>(&self, record: &'b [u8]) -> Result<Result<i64, &'b [u8]>, PathError> {
        let encoded = self.path.find(record)?;
        if let Some(time) = self.integer(encoded) {
            return Ok(Ok(time));
        }
        match self.read(encoded)? {
            Read::Microseconds(time) => Ok(Ok(time)),
            Read::Far | Read::Other => Ok(Err(encoded)),
        }
    }

    /// The time that begins here, if it is as most are: 64 bits of an integer. `None` leaves it to [`Self::read`].
    #[inline]
    pub(crate) fn integer(&self, encoded: &[u8]) -> Option<i64> {
        if let [0xcf, number @ ..] = encoded
            && let Some(number) = number.first_chunk()
            && let Ok(number) = i64::try_from(u64::from_be_bytes(*number))
        {
            return self.unit?.of_integer(number)?.checked_sub(self.before);
        }
        None
    }

    /// The time that begins here.
    #[inline(never)]
    pub(crate) fn read(&self, encoded: &[u8]) -> Result<Read, ReadError> {
        let Some(unit) = self.unit else {
            return Ok(Read::Other);
        };
        let time = match Reader::new(encoded).read()? {
            Value::Int(number) => unit.of_integer(number),
            Value::Float(number) if number.is_finite() => unit.of_float(number),
            Value::Unsigned(_) => None,
            _ => return Ok(Read::Other),
        };
        let time = time.and_then(|found| found.checked_sub(self.before));
        Ok(time.map_or(Read::Far, Read::Microseconds))
    }
}

/// What was found for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Microseconds(i64),
    /// More than 64 bits.
    Far,
    /// No number.
    Other,
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_microseconds_as_in_python() {
        assert_eq!(Unit::Seconds.of_float(1.5), Some(1_500_000));
        assert_eq!(Unit::Microseconds.of_float(2.5), Some(2));
        assert_eq!(Unit::Microseconds.of_float(-3.5), Some(-4));
        assert_eq!(Unit::Nanoseconds.of_integer(-1_001), Some(-2));
        assert_eq!(Unit::Milliseconds.of_integer(-7), Some(-7_000));
        assert_eq!(Unit::Seconds.of_float(1e300), None);
        assert_eq!(Unit::Milliseconds.of_integer(i64::MIN), None);
    }

    #[test]
    fn a_time_may_be_before_the_number() {
        let ends = TimePath::new(Path::default(), Some(Unit::Milliseconds)).before(1);
        assert_eq!(ends.read(&[7]), Ok(Read::Microseconds(6_999)));
        let least = [&[0xd3][..], &i64::MIN.to_be_bytes()].concat();
        let ends = TimePath::new(Path::default(), Some(Unit::Microseconds)).before(1);
        assert_eq!(ends.read(&least), Ok(Read::Far));
    }

    #[test]
    fn what_an_integer_of_64_bits_is_does_not_depend_on_who_reads_it() {
        let units = [
            Unit::Seconds,
            Unit::Milliseconds,
            Unit::Microseconds,
            Unit::Nanoseconds,
        ];
        for unit in units.map(Some).into_iter().chain([None]) {
            for number in [0, 7, 1_760_000_000_000_000, i64::MAX as u64, u64::MAX] {
                for before in [0, 1, i64::MIN] {
                    let path = TimePath::new(Path::default(), unit).before(before);
                    let encoded = [&[0xcf][..], &number.to_be_bytes()].concat();
                    let told = match path.read(&encoded) {
                        Ok(Read::Microseconds(time)) => Some(time),
                        _ => None,
                    };
                    assert_eq!(path.integer(&encoded), told, "{unit:?} {number} {before}");
                }
            }
        }
        let seconds = TimePath::new(Path::default(), Some(Unit::Seconds));
        let encoded = [&[0xcf][..], &7_u64.to_be_bytes()].concat();
        assert_eq!(seconds.integer(&encoded), Some(7_000_000));
        assert_eq!(seconds.integer(&[7]), None);
    }

    #[test]
    fn what_is_no_number_is_left_to_others() {
        let read = |encoded: &[u8], unit| TimePath::new(Path::default(), unit).read(encoded);
        let us = Some(Unit::Microseconds);
        assert_eq!(read(&[7], us), Ok(Read::Microseconds(7)));
        assert_eq!(read(&[7], None), Ok(Read::Other));
        assert_eq!(read(&[0xc0], us), Ok(Read::Other));
        assert_eq!(read(&[0xc3], us), Ok(Read::Other));
        let nan = [&[0xcb][..], &f64::NAN.to_be_bytes()].concat();
        assert_eq!(read(&nan, us), Ok(Read::Other));
        let unsigned = [&[0xcf][..], &u64::MAX.to_be_bytes()].concat();
        assert_eq!(read(&unsigned, us), Ok(Read::Far));
    }
}

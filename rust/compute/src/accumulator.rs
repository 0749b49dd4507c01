//! The value of a key so far, and how an encoded value is taken into it.

use crate::encode;
use crate::problem::Problem;
use crate::value::{Reader, Value, extension};
use std::cmp::Ordering;

/// What is computed per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    Count,
    /// Integers and floats; bools count as 0 and 1.
    Sum,
    /// Numbers, or texts, or byte strings.
    Min,
    Max,
    /// The sum divided by the count, a float.
    Mean,
    /// The first value of any kind.
    First,
}

impl Aggregation {
    /// As a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
        }
    }

    /// The aggregation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }

    pub const ALL: [Self; 6] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::First,
    ];
}

/// The value of a key so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// UTF-8, maybe with lone surrogates.
    Text(Box<[u8]>),
    Bytes(Box<[u8]>),
    /// A value of any kind, encoded.
    Encoded(Box<[u8]>),
    /// A mean is its sum and its count until it is asked for.
    IntegerMean {
        count: u64,
        sum: i128,
    },
    FloatMean {
        count: u64,
        sum: f64,
    },
}

impl Accumulated {
    /// That of a key's first value.
    pub(crate) fn first(aggregation: Aggregation, encoded: &[u8]) -> Result<Self, Problem> {
        match aggregation {
            Aggregation::Count => Ok(Self::Integer(1)),
            Aggregation::Sum => number(encoded),
            Aggregation::Min | Aggregation::Max => ordered(encoded),
            Aggregation::Mean => mean(&number(encoded)?, 1),
            Aggregation::First => {
                let mut reader = Reader::new(encoded);
                reader.skip()?;
                Ok(Self::Encoded(reader.since(0).into()))
            }
        }
    }

    /// Appends it as an encoded value: a mean as the pair of its sum and its count.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut mean = |sum: Self, count: u64| {
            encode::array(out, 2);
            sum.encode(out);
            encode::unsigned(out, count);
        };
        match self {
            Self::Bool(truth) => encode::boolean(out, *truth),
            Self::Integer(number) => {
                encode::integer(out, *number < 0, &number.unsigned_abs().to_le_bytes());
            }
            Self::Float(number) => encode::float(out, *number),
            Self::Text(utf8) if str::from_utf8(utf8).is_ok() => encode::text(out, utf8),
            Self::Text(utf8) => encode::extension(out, extension::TEXT, utf8),
            Self::Bytes(data) => encode::bytes(out, data),
            Self::Encoded(encoded) => out.extend_from_slice(encoded),
            Self::IntegerMean { count, sum } => mean(Self::Integer(*sum), *count),
            Self::FloatMean { count, sum } => mean(Self::Float(*sum), *count),
        }
    }

    /// What [`Self::encode`] has appended.
    pub fn decode(aggregation: Aggregation, encoded: &[u8]) -> Result<Self, Problem> {
        match aggregation {
            Aggregation::Count => number(encoded),
            Aggregation::Mean => {
                let parts = parts(encoded, 2)?;
                let count = integral(&number(parts[1])?).ok_or(Problem::NotANumber)?;
                let count = u64::try_from(count).map_err(|_| Problem::Overflow)?;
                mean(&number(parts[0])?, count)
            }
            _ => Self::first(aggregation, encoded),
        }
    }

    /// Takes in what values behind those here have come to.
    pub(crate) fn merge(&mut self, aggregation: Aggregation, other: &Self) -> Result<(), Problem> {
        let wanted = match aggregation {
            Aggregation::Count | Aggregation::Sum => {
                *self = plus(self, other)?;
                return Ok(());
            }
            Aggregation::Mean => {
                let ((left, sum), (right, other)) = (self.mean_parts()?, other.mean_parts()?);
                *self = mean(&plus(&sum, &other)?, left + right)?;
                return Ok(());
            }
            Aggregation::First => return Ok(()),
            Aggregation::Min => Ordering::Less,
            Aggregation::Max => Ordering::Greater,
        };
        if compare(other, self)? == Some(wanted) {
            *self = other.clone();
        }
        Ok(())
    }

    /// Takes out what [`Self::merge`] took in; false, and nothing changes, where that is not exact.
    pub(crate) fn subtract(&mut self, aggregation: Aggregation, other: &Self) -> bool {
        use Accumulated::{Integer, IntegerMean};
        let difference = match (aggregation, &*self, other) {
            (Aggregation::Count | Aggregation::Sum, Integer(sum), Integer(other)) => {
                sum.checked_sub(*other).map(Integer)
            }
            (
                Aggregation::Mean,
                IntegerMean { count, sum },
                IntegerMean {
                    count: fewer,
                    sum: other,
                },
            ) => sum.checked_sub(*other).map(|sum| IntegerMean {
                count: count - fewer,
                sum,
            }),
            _ => None,
        };
        difference.map(|value| *self = value).is_some()
    }

    /// Count and sum of a mean.
    fn mean_parts(&self) -> Result<(u64, Self), Problem> {
        match *self {
            Self::IntegerMean { count, sum } => Ok((count, Self::Integer(sum))),
            Self::FloatMean { count, sum } => Ok((count, Self::Float(sum))),
            _ => Err(Problem::NotANumber),
        }
    }

    /// Takes in a further value; false if the aggregation looks at first ones alone.
    #[expect(
        clippy::inline_always,
        reason = "a call costs a count a tenth of its time"
    )]
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        aggregation: Aggregation,
        encoded: &[u8],
    ) -> Result<bool, Problem> {
        match aggregation {
            Aggregation::Count => count(self),
            Aggregation::Sum => add_number(self, encoded)?,
            Aggregation::Min => replace_if(self, encoded, Ordering::Less)?,
            Aggregation::Max => replace_if(self, encoded, Ordering::Greater)?,
            Aggregation::Mean => add_to_mean(self, encoded)?,
            Aggregation::First => return Ok(false),
        }
        Ok(true)
    }
}

/// The items of an encoded array of so many; the value itself is the only one of one.
pub fn parts(encoded: &[u8], count: usize) -> Result<Vec<&[u8]>, Problem> {
    let mut reader = Reader::new(encoded);
    if count != 1 && reader.read()? != Value::Array(count) {
        return Err(Problem::Parts(count));
    }
    let mut part = || {
        let start = reader.position();
        reader.skip().map(|()| reader.since(start))
    };
    Ok((0..count).map(|_| part()).collect::<Result<_, _>>()?)
}

/// `sum / count`, rounded once, as Python divides integers of any size.
///
/// ```
/// use oka_compute::integer_mean;
///
/// assert_eq!(integer_mean(7, 2), 3.5);
/// assert_eq!(integer_mean(-(1 << 60) - 1, 1), -1_152_921_504_606_846_976.0);
/// ```
pub fn integer_mean(sum: i128, count: u64) -> f64 {
    let (magnitude, count) = (sum.unsigned_abs(), u128::from(count.max(1)));
    let bits = |number: u128| u128::BITS - number.leading_zeros();
    // A quotient of 55 bits or more has one to round by and one behind it, which stands for all
    // that the division leaves.
    let shift = (QUOTIENT_BITS + bits(count)).saturating_sub(bits(magnitude));
    let shifted = magnitude << shift;
    let quotient = (shifted / count) | u128::from(shifted % count != 0);
    let mean = quotient as f64 * 2_f64.powi(-(shift as i32));
    if sum < 0 { -mean } else { mean }
}

const QUOTIENT_BITS: u32 = 55;

#[inline]
fn count(entry: &mut Accumulated) {
    if let Accumulated::Integer(count) = entry {
        *count += 1;
    }
}

fn add_number(entry: &mut Accumulated, encoded: &[u8]) -> Result<(), Problem> {
    *entry = plus(entry, &number(encoded)?)?;
    Ok(())
}

fn plus(left: &Accumulated, right: &Accumulated) -> Result<Accumulated, Problem> {
    use Accumulated::{Float, Integer};
    Ok(match (left, right) {
        (Integer(left), Integer(right)) => {
            Integer(left.checked_add(*right).ok_or(Problem::Overflow)?)
        }
        (Integer(left), Float(right)) => Float(*left as f64 + right),
        (Float(left), Integer(right)) => Float(left + *right as f64),
        (Float(left), Float(right)) => Float(left + right),
        _ => return Err(Problem::NotANumber),
    })
}

fn mean(sum: &Accumulated, count: u64) -> Result<Accumulated, Problem> {
    Ok(match *sum {
        Accumulated::Float(sum) => Accumulated::FloatMean { count, sum },
        Accumulated::Integer(sum) => Accumulated::IntegerMean { count, sum },
        _ => return Err(Problem::NotANumber),
    })
}

fn add_to_mean(entry: &mut Accumulated, encoded: &[u8]) -> Result<(), Problem> {
    let (count, sum) = entry.mean_parts()?;
    *entry = mean(&plus(&sum, &number(encoded)?)?, count + 1)?;
    Ok(())
}

fn replace_if(entry: &mut Accumulated, encoded: &[u8], when: Ordering) -> Result<(), Problem> {
    let new = ordered(encoded)?;
    if compare(&new, entry)? == Some(when) {
        *entry = new;
    }
    Ok(())
}

/// A value as a term of a sum.
fn number(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Integer(i128::from(truth)),
        Value::Int(number) => Accumulated::Integer(i128::from(number)),
        Value::Unsigned(number) => Accumulated::Integer(i128::from(number)),
        Value::Float(number) => Accumulated::Float(number),
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            Accumulated::Integer(integer(*sign, magnitude).ok_or(Problem::Overflow)?)
        }
        _ => return Err(Problem::NotANumber),
    })
}

/// A value that has an order.
fn ordered(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Bool(truth),
        Value::Str(utf8) | Value::Extension(extension::TEXT, utf8) => {
            Accumulated::Text(utf8.into()) // whose bytes are in the order of code points
        }
        Value::Bytes(data) => Accumulated::Bytes(data.into()),
        _ => match number(encoded) {
            Err(Problem::NotANumber) => return Err(Problem::NotOrdered),
            number => number?,
        },
    })
}

/// Order as in Python: numbers by value whatever their type, texts by code points, byte strings.
/// `None` when one side is NaN.
fn compare(left: &Accumulated, right: &Accumulated) -> Result<Option<Ordering>, Problem> {
    use Accumulated::{Bytes, Float, Text};
    match (left, right) {
        (Text(left), Text(right)) | (Bytes(left), Bytes(right)) => Ok(Some(left.cmp(right))),
        (Float(left), Float(right)) => Ok(left.partial_cmp(right)),
        (Float(left), right) => Ok(integral(right)
            .ok_or(Problem::Mixed)
            .map(|right| compare_integer(right, *left))?
            .map(Ordering::reverse)),
        (left, Float(right)) => integral(left)
            .ok_or(Problem::Mixed)
            .map(|left| compare_integer(left, *right)),
        (left, right) => match (integral(left), integral(right)) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            _ => Err(Problem::Mixed),
        },
    }
}

/// An integer, or what a bool counts as.
pub fn integral(value: &Accumulated) -> Option<i128> {
    match value {
        Accumulated::Bool(truth) => Some(i128::from(*truth)),
        Accumulated::Integer(number) => Some(*number),
        _ => None,
    }
}

/// Compares without rounding the integer to a float.
fn compare_integer(left: i128, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        None
    } else if right >= TWO_TO_127 {
        Some(Ordering::Less)
    } else if right < -TWO_TO_127 {
        Some(Ordering::Greater)
    } else {
        let fraction = 0.0.partial_cmp(&right.fract().abs())?;
        Some(left.cmp(&(right.floor() as i128)).then(fraction))
    }
}

fn integer(sign: u8, magnitude: &[u8]) -> Option<i128> {
    let (low, high) = magnitude.split_at(magnitude.len().min(16));
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    let mut bytes = [0; 16];
    bytes[..low.len()].copy_from_slice(low);
    let magnitude = u128::from_le_bytes(bytes);
    match sign {
        0 => i128::try_from(magnitude).ok(),
        _ => 0_i128.checked_sub_unsigned(magnitude),
    }
}

const TWO_TO_127: f64 = 1.701_411_834_604_692_3e38;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = (1_i128 << 60) + 1;
        assert_eq!(
            compare_integer(big, (1_i64 << 60) as f64),
            Some(Ordering::Greater)
        );
        assert_eq!(compare_integer(-2, -1.5), Some(Ordering::Less));
        assert_eq!(compare_integer(-1, -1.5), Some(Ordering::Greater));
        assert_eq!(compare_integer(3, 3.0), Some(Ordering::Equal));
        assert_eq!(
            compare_integer(i128::MAX, f64::INFINITY),
            Some(Ordering::Less)
        );
        assert_eq!(
            compare_integer(i128::MIN, -TWO_TO_127),
            Some(Ordering::Equal)
        );
        assert_eq!(compare_integer(0, f64::NAN), None);
    }

    #[test]
    fn means_are_rounded_once() {
        for (sum, count, mean) in [
            (0, 3, 0.0),
            (1, 3, 1.0 / 3.0),
            (-10, 4, -2.5),
            ((1 << 54) + 6, 2, ((1_i64 << 53) + 4) as f64), // a tie: to the even of two floats
            ((1 << 53) + 1, 1, (1_i64 << 53) as f64),
            (i128::MAX, 1, TWO_TO_127),
            (i128::MIN, u64::MAX, -9_223_372_036_854_775_808.0),
        ] {
            let found = integer_mean(sum, count);
            assert_eq!(found.to_bits(), f64::to_bits(mean), "{sum} / {count}");
        }
    }

    proptest! {
        #[test]
        fn means_of_what_floats_hold_are_plain_divisions(sum in -(1_i64 << 53)..1 << 53, count in 1..1_u64 << 53) {
            let divided = sum as f64 / count as f64;
            let mean = integer_mean(i128::from(sum), count);
            prop_assert_eq!(mean.to_bits(), divided.to_bits());
        }
    }

    #[test]
    fn names_are_unique() {
        for each in Aggregation::ALL {
            assert_eq!(Aggregation::named(each.name()), Some(each));
        }
        assert_eq!(Aggregation::named("median"), None);
    }

    #[test]
    fn a_value_takes_no_more_room_than_its_integer() {
        assert_eq!(size_of::<Accumulated>(), 32);
    }
}

//! Encoded values as terms of sums and as what has an order; how they add up and compare.

use crate::accumulator::Accumulated;
use crate::encoded::fields::first;
use crate::encoded::objects::registered;
use crate::encoded::value::{Reader, Value, extension};
use crate::problem::Problem;
use std::cmp::Ordering;

/// A value as a term of a sum.
pub(crate) fn number(encoded: &[u8]) -> Result<Accumulated, Problem> {
    match plain(encoded)? {
        Some(number) => Ok(number),
        None => told_number(first(encoded)?),
    }
}

/// What such a term was encoded as.
pub(crate) fn kept_number(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(plain(encoded)?.unwrap_or_else(|| Accumulated::Encoded(encoded.into())))
}

/// A number as a float.
pub(crate) fn float(encoded: &[u8]) -> Result<f64, Problem> {
    Ok(match number(encoded)? {
        Accumulated::Float(number) => number,
        Accumulated::Encoded(number) => {
            let objects = registered(Problem::NotANumber)?;
            objects.float(&number).map_err(Problem::Told)?
        }
        number => integral(&number).ok_or(Problem::NotANumber)? as f64,
    })
}

/// A pair of numbers, which is an array of two.
pub(crate) fn pair(encoded: &[u8]) -> Result<(f64, f64), Problem> {
    let mut reader = Reader::new(encoded);
    if reader.read()? != Value::Array(2) {
        return Err(Problem::Parts(2));
    }
    let left = float(reader.rest())?;
    reader.skip()?;
    Ok((left, float(reader.rest())?))
}

/// A bool.
pub(crate) fn truth(encoded: &[u8]) -> Result<bool, Problem> {
    match Reader::new(encoded).read()? {
        Value::Bool(truth) => Ok(truth),
        _ => Err(Problem::NotABool),
    }
}

/// A number that is read here; `None` if it is one of Python's objects, or has more than 128 bits.
fn plain(encoded: &[u8]) -> Result<Option<Accumulated>, Problem> {
    Ok(Some(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Integer(i128::from(truth)),
        Value::Int(number) => Accumulated::Integer(i128::from(number)),
        Value::Unsigned(number) => Accumulated::Integer(i128::from(number)),
        Value::Float(number) => Accumulated::Float(number),
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            return Ok(integer(*sign, magnitude).map(Accumulated::Integer));
        }
        Value::Extension(..) => return Ok(None),
        _ => return Err(Problem::NotANumber),
    }))
}

#[cold]
fn told_number(encoded: &[u8]) -> Result<Accumulated, Problem> {
    let is_integer = matches!(
        Reader::new(encoded).read()?,
        Value::Extension(extension::BIG_INT, _)
    );
    let otherwise = if is_integer {
        Problem::Overflow
    } else {
        Problem::NotANumber
    };
    let number = registered(otherwise)?.number(encoded);
    kept_number(&number.map_err(Problem::Told)?.ok_or(Problem::NotANumber)?)
}

/// A value that has an order.
pub(crate) fn ordered(encoded: &[u8]) -> Result<Accumulated, Problem> {
    let value = kept_ordered(encoded)?;
    if let Accumulated::Encoded(value) = &value {
        let objects = registered(Problem::NotOrdered)?;
        objects.is_less(value, value).map_err(Problem::Told)?;
    }
    Ok(value)
}

/// What such a value was encoded as.
pub(crate) fn kept_ordered(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Bool(truth),
        Value::Str(utf8) | Value::Extension(extension::TEXT, utf8) => {
            Accumulated::Text(utf8.into()) // whose bytes are in the order of code points
        }
        Value::Bytes(data) => Accumulated::Bytes(data.into()),
        Value::Array(_) => Accumulated::Encoded(first(encoded)?.into()),
        _ => match plain(encoded) {
            Err(Problem::NotANumber) => return Err(Problem::NotOrdered),
            number => match number? {
                Some(number) => number,
                None => Accumulated::Encoded(first(encoded)?.into()),
            },
        },
    })
}

/// Whether a value comes before another, in the order that has the least or the greatest first.
pub(crate) fn precedes(
    left: &Accumulated,
    right: &Accumulated,
    order: Ordering,
) -> Result<bool, Problem> {
    let are_plain = !matches!(
        (left, right),
        (Accumulated::Encoded(_), _) | (_, Accumulated::Encoded(_))
    );
    if are_plain {
        return Ok(compare(left, right)? == Some(order));
    }
    let objects = registered(Problem::Mixed)?;
    let (left, right) = (left.encoded(), right.encoded());
    let is_less = match order {
        Ordering::Less => objects.is_less(&left, &right),
        _ => objects.is_less(&right, &left),
    };
    is_less.map_err(Problem::Told)
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
pub(crate) fn compare_integer(left: i128, right: f64) -> Option<Ordering> {
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

/// The sum of two numbers; a float if one is.
pub(crate) fn plus(left: &Accumulated, right: &Accumulated) -> Result<Accumulated, Problem> {
    use Accumulated::{Encoded, Float, Integer};
    Ok(match (left, right) {
        (Integer(left_sum), Integer(right_sum)) => match left_sum.checked_add(*right_sum) {
            Some(sum) => Integer(sum),
            None => told_sum(left, right, Problem::Overflow)?,
        },
        (Integer(left), Float(right)) => Float(*left as f64 + right),
        (Float(left), Integer(right)) => Float(left + *right as f64),
        (Float(left), Float(right)) => Float(left + right),
        (Encoded(_), _) | (_, Encoded(_)) => told_sum(left, right, Problem::NotANumber)?,
        _ => return Err(Problem::NotANumber),
    })
}

#[cold]
fn told_sum(
    left: &Accumulated,
    right: &Accumulated,
    otherwise: Problem,
) -> Result<Accumulated, Problem> {
    let sum = registered(otherwise)?.plus(&left.encoded(), &right.encoded());
    kept_number(&sum.map_err(Problem::Told)?)
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
}

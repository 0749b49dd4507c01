//! Builtins of numbers: `int`, `float`, `round`, `abs`, `sum`, `min` and `max`.

use crate::operations::arithmetic::negative;
use crate::operations::compare::{Comparison, compare};
use crate::unusual::Unusual;
use crate::value::{Computed, Value, utf8};
use bumpalo::Bump;
use bumpalo::collections::String;
use std::cmp::Ordering;
use std::fmt::Write;

/// `int(value)`
pub(crate) fn int(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Int(_) | Value::Bool(_) => value.integer().map(Value::Int),
        Value::Float(number) => whole(number.trunc()),
        Value::Text(text) => parse_int(utf8(text)?),
        _ => Err(value.not_taken()),
    }
}

/// Ten digits of ASCII with a sign; what else is a number is rare.
fn parse_int(text: &str) -> Computed<'_> {
    let text = text.trim_matches(|character: char| character.is_ascii_whitespace());
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Unusual::NoNumber);
    }
    let number = text.parse().map_err(|_| Unusual::BigInteger)?;
    Ok(Value::Int(number))
}

/// `float(value)`
pub(crate) fn float(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Float(_) => Ok(value),
        Value::Int(_) | Value::Bool(_) => Ok(Value::Float(value.integer()? as f64)),
        Value::Text(text) => parse_float(utf8(text)?),
        _ => Err(value.not_taken()),
    }
}

/// Digits of ASCII with sign, point and exponent; neither `inf` nor `1_000`.
fn parse_float(text: &str) -> Computed<'_> {
    let text = text.trim_matches(|character: char| character.is_ascii_whitespace());
    let is_part =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E');
    if !text.bytes().all(is_part) {
        return Err(Unusual::NoNumber);
    }
    text.parse()
        .map(Value::Float)
        .map_err(|_| Unusual::NoNumber)
}

fn whole<'a>(number: f64) -> Computed<'a> {
    // Below: the nearest float is 2**63, which is no i64.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        Ok(Value::Int(number as i64))
    } else if number.is_finite() {
        Err(Unusual::BigInteger)
    } else {
        Err(Unusual::NotFinite)
    }
}

/// `round(value)`
pub(crate) fn round(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Float(number) => whole(number.round_ties_even()),
        _ => value.integer().map(Value::Int),
    }
}

/// `round(value, digits)`
pub(crate) fn round_to<'a>(value: Value<'a>, digits: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    if let Value::None = digits {
        return round(value);
    }
    let digits = digits.integer()?;
    match (value, usize::try_from(digits)) {
        (Value::Float(number), _) if !number.is_finite() => Ok(value),
        (Value::Float(_), Err(_)) => Err(Unusual::Tens),
        (Value::Float(_), Ok(MOST_PLACES..)) => Err(Unusual::Argument),
        (Value::Float(number), Ok(places)) => {
            let mut text = String::new_in(arena);
            let _ = write!(text, "{number:.places$}");
            text.parse()
                .map(Value::Float)
                .map_err(|_| Unusual::NoNumber)
        }
        (_, Ok(_)) => value.integer().map(Value::Int),
        (_, Err(_)) => round_to_tens(value.integer()?, digits.unsigned_abs()),
    }
}

/// `round(number, -zeros)`: half to even.
fn round_to_tens<'a>(number: i64, zeros: u64) -> Computed<'a> {
    if zeros > MOST_ZEROS {
        return Ok(Value::Int(0));
    }
    let (number, unit) = (i128::from(number), 10_i128.pow(zeros as u32));
    let (below, rest) = (number.div_euclid(unit), number.rem_euclid(unit));
    let is_up = match (2 * rest).cmp(&unit) {
        Ordering::Less => false,
        Ordering::Equal => below % 2 != 0,
        Ordering::Greater => true,
    };
    let rounded = (below + i128::from(is_up)) * unit;
    let rounded = i64::try_from(rounded).map_err(|_| Unusual::BigInteger)?;
    Ok(Value::Int(rounded))
}

/// `abs(value)`
pub(crate) fn abs(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Float(number) => Ok(Value::Float(number.abs())),
        Value::Int(number) if number < 0 => negative(value),
        _ => value.integer().map(Value::Int),
    }
}

/// `sum(items)`, of integers: how floats are added depends on the version of Python.
pub(crate) fn sum<'a>(items: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut sum: i64 = 0;
    for item in items.walked(arena)? {
        let sum_of_both = sum.checked_add(item.integer()?);
        sum = sum_of_both.ok_or(Unusual::BigInteger)?;
    }
    Ok(Value::Int(sum))
}

/// The first of these that none comes before (by `Less`), or behind (by `Greater`).
pub(crate) fn extreme<'a>(
    comparison: Comparison,
    items: &[Value<'a>],
    arena: &'a Bump,
) -> Computed<'a> {
    let (first, others) = items.split_first().ok_or(Unusual::Argument)?;
    let mut best = *first;
    for item in others {
        if compare(comparison, *item, best, arena)? {
            best = *item;
        }
    }
    Ok(best)
}

/// Of a float: so many change nothing, and are left to Python.
const MOST_PLACES: usize = 301;
/// Half of a one with more is beyond 64 bits.
const MOST_ZEROS: u64 = 19;

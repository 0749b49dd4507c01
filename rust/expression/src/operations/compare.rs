//! Which values are equal, and which come first.

use crate::unusual::Unusual;
use crate::value::{Kind, Value};
use bumpalo::Bump;
use std::cmp::Ordering;

/// A question about two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
}

/// What Python answers to `left < right` and its like.
#[inline]
pub(crate) fn compare<'a>(
    comparison: Comparison,
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Result<bool, Unusual> {
    let [left, right] = match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            return Ok(holds(comparison, left.partial_cmp(&right)));
        }
        (Value::Float(left), Value::Float(right)) => {
            return Ok(holds(comparison, left.partial_cmp(&right)));
        }
        both => both.into(),
    };
    match comparison {
        Comparison::Equal => equal(left, right, arena),
        Comparison::NotEqual => Ok(!equal(left, right, arena)?),
        _ => {
            let order = order(left, right, arena)?;
            Ok(holds(comparison, order))
        }
    }
}

/// Two numbers of which one is a NaN have no order: they are unequal, and nothing else holds.
#[inline]
pub(crate) fn holds(comparison: Comparison, order: Option<Ordering>) -> bool {
    match comparison {
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// Whether two values are equal, whatever their types.
#[inline]
pub(crate) fn equal<'a>(
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Result<bool, Unusual> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(left == right),
        (Value::Int(left), Value::Int(right)) => Ok(left == right),
        _ => equal_of_any(left, right, arena),
    }
}

/// As containers ask it of their items: what is the same object is equal, too, which a NaN may be.
pub(crate) fn same<'a>(
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Result<bool, Unusual> {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) if left.is_nan() && right.is_nan() => {
            Err(Unusual::Nan)
        }
        _ => equal(left, right, arena),
    }
}

/// Raises where Python cannot hash it, or hashes it by identity.
pub(crate) fn check_hashable<'a>(key: Value<'a>, arena: &'a Bump) -> Result<(), Unusual> {
    match key {
        Value::Float(number) if number.is_nan() => Err(Unusual::Nan),
        Value::None
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Bytes(_) => Ok(()),
        _ if key.is_opaque() => Err(Unusual::Opaque),
        _ if key.kind() == Kind::Tuple => {
            let mut items = key.walked(arena)?.iter();
            items.try_for_each(|item| check_hashable(*item, arena))
        }
        _ => Err(Unusual::NotHashable),
    }
}

/// Which comes first, of a kind that has an order; None of numbers that are none.
pub(crate) fn order<'a>(
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Result<Option<Ordering>, Unusual> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            Ok(Some(left.cmp(right)))
        }
        _ => {
            if let Some(order) = order_of_numbers(left, right) {
                return Ok(order);
            }
            let kind = left.kind();
            if kind != right.kind() || !matches!(kind, Kind::Tuple | Kind::List) {
                return Err(if left.is_opaque() {
                    Unusual::Opaque
                } else {
                    right.not_taken()
                });
            }
            let (left, right) = (left.walked(arena)?, right.walked(arena)?);
            for (left, right) in left.iter().zip(right) {
                if !same(*left, *right, arena)? {
                    return order(*left, *right, arena);
                }
            }
            Ok(Some(left.len().cmp(&right.len())))
        }
    }
}

/// None if they are not both numbers.
#[expect(clippy::option_option, reason = "two numbers may have no order")]
#[inline]
fn order_of_numbers(left: Value<'_>, right: Value<'_>) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(&right),
        (Value::Bool(left), _) => {
            return order_of_numbers(Value::Int(i64::from(left)), right);
        }
        (_, Value::Bool(right)) => {
            return order_of_numbers(left, Value::Int(i64::from(right)));
        }
        (Value::Int(left), Value::Float(right)) => order_of_mixed(left, right),
        (Value::Float(left), Value::Int(right)) => {
            order_of_mixed(right, left).map(Ordering::reverse)
        }
        _ => return None,
    })
}

/// Of the numbers themselves: the integer is not rounded.
fn order_of_mixed(left: i64, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        return None;
    }
    if right >= TWO_TO_63 {
        return Some(Ordering::Less);
    }
    if right < -TWO_TO_63 {
        return Some(Ordering::Greater);
    }
    let whole = right.trunc();
    let of_whole = left.cmp(&(whole as i64));
    Some(of_whole.then(0.0.partial_cmp(&(right - whole))?))
}

#[inline(never)]
fn equal_of_any<'a>(left: Value<'a>, right: Value<'a>, arena: &'a Bump) -> Result<bool, Unusual> {
    if let Some(order) = order_of_numbers(left, right) {
        return Ok(order == Some(Ordering::Equal));
    }
    match (left, right) {
        (Value::None, Value::None) => return Ok(true),
        (Value::Text(left), Value::Text(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            return Ok(left == right);
        }
        (Value::Set(_), _) | (_, Value::Set(_)) => {
            return Err(Unusual::Types);
        }
        _ if left.is_opaque() || right.is_opaque() => return Err(Unusual::Opaque),
        _ => {}
    }
    let kind = left.kind();
    if kind != right.kind() || kind == Kind::Other {
        return Ok(false);
    }
    if left.count()? != right.count()? {
        return Ok(false);
    }
    if kind == Kind::Dict {
        let others = right.entries(arena)?;
        for (key, value) in left.entries(arena)? {
            match find(others, *key, arena)? {
                Some(index) if same(*value, others[index].1, arena)? => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    for (left, right) in left.walked(arena)?.iter().zip(right.walked(arena)?) {
        if !same(*left, *right, arena)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which of the entries of a dict has this key.
pub(crate) fn find<'a>(
    entries: &[(Value<'a>, Value<'a>)],
    key: Value<'a>,
    arena: &'a Bump,
) -> Result<Option<usize>, Unusual> {
    check_hashable(key, arena)?;
    for (index, (known, _)) in entries.iter().enumerate() {
        if same(*known, key, arena)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

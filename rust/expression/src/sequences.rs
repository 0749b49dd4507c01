//! Builtins and methods of tuples, lists and dicts.

use crate::compare::{Comparison, compare, same};
use crate::containers::characters;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value, utf8};
use bumpalo::Bump;
use std::cmp::Ordering;

/// `len(value)`
pub(crate) fn len(value: Value<'_>) -> Computed<'_> {
    Ok(Value::Int(match value {
        Value::Text(text) => characters(utf8(text)?) as i64,
        Value::Bytes(bytes) => bytes.len() as i64,
        _ => value.count()? as i64,
    }))
}

/// `list(value)`
pub(crate) fn list<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    match value {
        Value::View(_) if value.kind() == Kind::List => Ok(value),
        _ => Ok(Value::List(value.walked(arena)?)),
    }
}

/// `tuple(value)`
pub(crate) fn tuple<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    match value {
        Value::View(_) if value.kind() == Kind::Tuple => Ok(value),
        _ => Ok(Value::Tuple(value.walked(arena)?)),
    }
}

/// `sorted(value)`, of what has one order.
pub(crate) fn sorted<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let items = arena.alloc_slice_copy(value.walked(arena)?);
    for item in &*items {
        check_ordered(*item, arena)?;
    }
    let mut failed = None;
    items.sort_by(|left, right| {
        let comes_first = |left, right| match compare(Comparison::Less, left, right, arena) {
            Ok(truth) => truth,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        };
        let mut comes_first = comes_first;
        if comes_first(*left, *right) {
            Ordering::Less
        } else if comes_first(*right, *left) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    });
    failed.map_or(Ok(Value::List(items)), Err)
}

/// A NaN has no place in an order.
fn check_ordered<'a>(value: Value<'a>, arena: &'a Bump) -> Result<(), Unusual> {
    match value {
        Value::Float(number) if number.is_nan() => Err(Unusual::Nan),
        Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Text(_) | Value::Bytes(_) => {
            Ok(())
        }
        _ if matches!(value.kind(), Kind::Tuple | Kind::List) => {
            let mut items = value.walked(arena)?.iter();
            items.try_for_each(|item| check_ordered(*item, arena))
        }
        _ => Err(value.not_taken()),
    }
}

/// `any(value)` is whether there is a true one; `all(value)` whether there is no false one.
pub(crate) fn has<'a>(value: Value<'a>, truth: bool, arena: &'a Bump) -> Result<bool, Unusual> {
    for item in value.walked(arena)? {
        if item.truth()? == truth {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `value.count(item)`, of a tuple or a list.
pub(crate) fn count<'a>(value: Value<'a>, item: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut count = 0;
    for known in value.walked(arena)? {
        count += i64::from(same(*known, item, arena)?);
    }
    Ok(Value::Int(count))
}

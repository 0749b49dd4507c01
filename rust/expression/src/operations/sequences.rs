//! Builtins and methods of tuples, lists and dicts.

use crate::operations::arithmetic::MOST_ITEMS;
use crate::operations::compare::{Comparison, compare, same};
use crate::operations::containers::characters;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value, collected, utf8};
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

/// `dict.keys()`, as a list.
pub(crate) fn keys<'a>(dict: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let keys = dict.entries(arena)?.iter().map(|(key, _)| *key);
    Ok(Value::List(arena.alloc_slice_fill_iter(keys)))
}

/// `dict.values()`, as a list.
pub(crate) fn values<'a>(dict: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let values = dict.entries(arena)?.iter().map(|(_, value)| *value);
    Ok(Value::List(arena.alloc_slice_fill_iter(values)))
}

/// `dict.items()`, as a list.
pub(crate) fn items<'a>(dict: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let entries = dict.entries(arena)?.iter();
    let pairs = entries.map(|(key, value)| pair(*key, *value, arena));
    Ok(Value::List(arena.alloc_slice_fill_iter(pairs)))
}

/// `enumerate(value, start)`, as a list.
pub(crate) fn numbered<'a>(value: Value<'a>, start: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let (items, start) = (value.walked(arena)?, start.integer()?);
    if start.checked_add(items.len() as i64).is_none() {
        return Err(Unusual::BigInteger);
    }
    let numbers = (start..).map(Value::Int).zip(items);
    let pairs = numbers.map(|(number, item)| pair(number, *item, arena));
    Ok(Value::List(collected(arena, pairs)))
}

/// `zip(*values)`, as a list.
pub(crate) fn zipped<'a>(values: &[Value<'a>], arena: &'a Bump) -> Computed<'a> {
    let walks = values.iter().map(|value| value.walked(arena));
    let walks = walks.collect::<Result<Vec<_>, _>>()?;
    let shortest = walks.iter().map(|items| items.len()).min().unwrap_or(0);
    let tuples = (0..shortest).map(|index| {
        let items = walks.iter().map(|items| items[index]);
        Value::Tuple(arena.alloc_slice_fill_iter(items))
    });
    Ok(Value::List(arena.alloc_slice_fill_iter(tuples)))
}

/// `range(start, stop, step)`, as a list.
pub(crate) fn range<'a>(
    start: Value<'a>,
    stop: Value<'a>,
    step: Value<'a>,
    arena: &'a Bump,
) -> Computed<'a> {
    let [start, stop, step] = [start.integer()?, stop.integer()?, step.integer()?].map(i128::from);
    let span = if step < 0 { start - stop } else { stop - start };
    if step == 0 {
        return Err(Unusual::Argument);
    }
    let count = (span.max(0) as u128).div_ceil(step.unsigned_abs());
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MOST_ITEMS {
        return Err(Unusual::TooLarge);
    }
    let number = |index: usize| (start + index as i128 * step) as i64;
    let numbers = (0..count).map(|index| Value::Int(number(index)));
    Ok(Value::List(arena.alloc_slice_fill_iter(numbers)))
}

/// `reversed(value)`, as a list.
pub(crate) fn reversed<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let items = arena.alloc_slice_copy(value.walked(arena)?);
    items.reverse();
    Ok(Value::List(items))
}

fn pair<'a>(first: Value<'a>, second: Value<'a>, arena: &'a Bump) -> Value<'a> {
    Value::Tuple(arena.alloc([first, second]))
}

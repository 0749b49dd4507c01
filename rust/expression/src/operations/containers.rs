//! Items and slices of containers, and containers made of others.

use crate::code::Taken;
use crate::operations::compare::{equal, find, same};
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value, collected, utf8};
use crate::view;
use bumpalo::Bump;
use oka_compute::value::{self as encoded, Reader, extension};
use oka_compute::{Path, encode};
use std::sync::atomic::AtomicUsize;

/// A name of a dict's key that is always looked for at one place of a program.
#[derive(Debug)]
pub(crate) struct Name {
    /// See [`crate::Program::names`].
    number: usize,
    text: Box<[u8]>,
    encoded: Box<[u8]>,
    /// The entry where it was last.
    guess: AtomicUsize,
}

impl Name {
    pub(crate) fn new(number: usize, text: &str) -> Self {
        let mut encoded = Vec::new();
        encode::text(&mut encoded, text.as_bytes());
        Self {
            number,
            text: text.as_bytes().into(),
            encoded: encoded.into(),
            guess: AtomicUsize::new(0),
        }
    }

    /// See [`crate::Program::names`].
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// As a key is encoded.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// `value[name]`, or None where the dict has no such key.
    #[inline]
    pub(crate) fn find<'a>(
        &'a self,
        value: Value<'a>,
        taken: Taken,
        arena: &'a Bump,
    ) -> Result<Option<Value<'a>>, Unusual> {
        match value {
            Value::View(view) if view.kind() == Kind::Dict => {
                match view.field(&self.encoded, &self.guess, arena)? {
                    None => Ok(None),
                    Some(bytes) => taken.value(bytes, arena).map(Some),
                }
            }
            Value::Foreign(foreign) if foreign.kind() == Kind::Dict => {
                foreign.field(self.number, arena)
            }
            Value::Dict(entries) => Ok(entries
                .iter()
                .find(|(key, _)| matches!(key, Value::Text(text) if **text == *self.text))
                .map(|(_, value)| *value)),
            _ => Err(value.not_taken()),
        }
    }
}

/// `value[key]`
pub(crate) fn item<'a>(value: Value<'a>, key: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    match value.kind() {
        Kind::Dict => get(value, key, arena)?.ok_or(Unusual::NoKey),
        _ => at(value, key.integer()?, arena),
    }
}

/// `value[index]`, of a sequence.
pub(crate) fn at<'a>(value: Value<'a>, index: i64, arena: &'a Bump) -> Computed<'a> {
    match value {
        Value::Text(bytes) => {
            let text = utf8(bytes)?;
            let count = characters(text);
            let index = from_start(index, count)?;
            if count == bytes.len() {
                return Ok(Value::Text(&bytes[index..=index]));
            }
            let (start, character) = text.char_indices().nth(index).ok_or(Unusual::NoItem)?;
            Ok(Value::Text(&bytes[start..start + character.len_utf8()]))
        }
        Value::Bytes(bytes) => {
            let index = from_start(index, bytes.len())?;
            Ok(Value::Int(i64::from(bytes[index])))
        }
        _ if matches!(value.kind(), Kind::Tuple | Kind::List) => {
            let index = from_start(index, value.count()?)?;
            value.item(index, arena)
        }
        _ if value.kind() == Kind::Dict => item(value, Value::Int(index), arena),
        _ => Err(value.not_taken()),
    }
}

/// The value of a dict under a key.
pub(crate) fn get<'a>(
    value: Value<'a>,
    key: Value<'a>,
    arena: &'a Bump,
) -> Result<Option<Value<'a>>, Unusual> {
    let entries = value.entries(arena)?;
    Ok(find(entries, key, arena)?.map(|index| entries[index].1))
}

/// The number of code points.
pub(crate) fn characters(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().count()
}

fn from_start(index: i64, count: usize) -> Result<usize, Unusual> {
    let index = if index < 0 {
        index + count as i64
    } else {
        index
    };
    let index = usize::try_from(index).map_err(|_| Unusual::NoItem)?;
    if index < count {
        Ok(index)
    } else {
        Err(Unusual::NoItem)
    }
}

/// `value[start:stop:step]`
pub(crate) fn slice<'a>(
    value: Value<'a>,
    [start, stop, step]: [Value<'a>; 3],
    arena: &'a Bump,
) -> Computed<'a> {
    let range = |count: usize| Range::new(start, stop, step, count);
    match value {
        Value::Text(bytes) => {
            let text = utf8(bytes)?;
            if text.is_ascii() {
                return Ok(Value::Text(range(bytes.len())?.of(bytes, arena)));
            }
            let characters = collected(arena, text.chars());
            let range = range(characters.len())?;
            let mut sliced = bumpalo::collections::String::new_in(arena);
            sliced.extend(range.of(characters, arena));
            Ok(Value::Text(sliced.into_bump_str().as_bytes()))
        }
        Value::Bytes(bytes) => Ok(Value::Bytes(range(bytes.len())?.of(bytes, arena))),
        _ => match value.kind() {
            Kind::Tuple => {
                let items = value.walked(arena)?;
                Ok(Value::Tuple(range(items.len())?.of(items, arena)))
            }
            Kind::List => {
                let items = value.walked(arena)?;
                Ok(Value::List(range(items.len())?.of(items, arena)))
            }
            _ => Err(value.not_taken()),
        },
    }
}

/// Which items a slice has.
struct Range {
    start: usize,
    count: usize,
    step: i64,
}

impl Range {
    /// As `PySlice_AdjustIndices` has it.
    fn new(
        start: Value<'_>,
        stop: Value<'_>,
        step: Value<'_>,
        length: usize,
    ) -> Result<Self, Unusual> {
        let length = length as i64;
        let given = |value: Value<'_>| match value {
            Value::None => Ok(None),
            _ => value.integer().map(Some),
        };
        let step = given(step)?.unwrap_or(1);
        if step == 0 || step == i64::MIN {
            return Err(Unusual::Argument);
        }
        let is_back = step < 0;
        let place = |given: Option<i64>, absent: i64| match given {
            None => absent,
            Some(index) => {
                let index = if index < 0 {
                    index.saturating_add(length)
                } else {
                    index
                };
                let (least, most) = if is_back {
                    (-1, length - 1)
                } else {
                    (0, length)
                };
                index.clamp(least, most.max(least))
            }
        };
        let start = place(given(start)?, if is_back { length - 1 } else { 0 });
        let stop = place(given(stop)?, if is_back { -1 } else { length });
        let count = if is_back && stop < start {
            (start - stop - 1) / -step + 1
        } else if !is_back && start < stop {
            (stop - start - 1) / step + 1
        } else {
            0
        };
        Ok(Self {
            start: start.max(0) as usize,
            count: count as usize,
            step,
        })
    }

    fn of<'a, T: Copy>(&self, items: &'a [T], arena: &'a Bump) -> &'a [T] {
        if self.count == 0 {
            return &[];
        }
        if self.step == 1 {
            return &items[self.start..self.start + self.count];
        }
        let index = |n: usize| (self.start as i64 + n as i64 * self.step) as usize;
        arena.alloc_slice_fill_with(self.count, |n| items[index(n)])
    }
}

/// `{key: value, …}`
pub(crate) fn dict<'a>(
    entries: impl Iterator<Item = (Value<'a>, Value<'a>)>,
    arena: &'a Bump,
) -> Computed<'a> {
    let mut made = bumpalo::collections::Vec::new_in(arena);
    for (key, value) in entries {
        put(&mut made, key, value, arena)?;
    }
    Ok(Value::Dict(made.into_bump_slice()))
}

/// `dict(pairs)`
pub(crate) fn dict_of_pairs<'a>(pairs: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut made = bumpalo::collections::Vec::new_in(arena);
    for pair in pairs.walked(arena)? {
        let [key, value] = *pair.walked(arena)? else {
            return Err(Unusual::Argument);
        };
        put(&mut made, key, value, arena)?;
    }
    Ok(Value::Dict(made.into_bump_slice()))
}

/// `{**first, **second}`
pub(crate) fn merged<'a>(first: Value<'a>, second: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let (first, second) = (first.entries(arena)?, second.entries(arena)?);
    let mut made = bumpalo::collections::Vec::with_capacity_in(first.len() + second.len(), arena);
    made.extend_from_slice_copy(first);
    for (key, value) in second {
        put(&mut made, *key, *value, arena)?;
    }
    Ok(Value::Dict(made.into_bump_slice()))
}

type Entries<'a> = bumpalo::collections::Vec<'a, (Value<'a>, Value<'a>)>;

fn put<'a>(
    entries: &mut Entries<'a>,
    key: Value<'a>,
    value: Value<'a>,
    arena: &'a Bump,
) -> Result<(), Unusual> {
    match find(entries, key, arena)? {
        Some(index) => entries[index].1 = value,
        None => entries.push((key, value)),
    }
    Ok(())
}

/// `[*first, *second]`, of a list.
pub(crate) fn extended<'a>(first: Value<'a>, second: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    if first.kind() != Kind::List {
        return Err(first.not_taken());
    }
    let (first, second) = (first.walked(arena)?, second.walked(arena)?);
    let all = crate::operations::arithmetic::chained(first, second, arena);
    Ok(Value::List(all))
}

/// `value in container`
pub(crate) fn contains<'a>(
    value: Value<'a>,
    container: Value<'a>,
    arena: &'a Bump,
) -> Result<bool, Unusual> {
    match container {
        Value::Text(text) => Ok(utf8(text)?.contains(utf8(value.text()?)?)),
        Value::Set(items) => {
            crate::operations::compare::check_hashable(value, arena)?;
            any_same(value, items, arena)
        }
        Value::Bytes(_) => Err(Unusual::Types),
        _ if container.kind() == Kind::Dict => Ok(get(container, value, arena)?.is_some()),
        _ => any_same(value, container.walked(arena)?, arena),
    }
}

fn any_same<'a>(value: Value<'a>, items: &[Value<'a>], arena: &'a Bump) -> Result<bool, Unusual> {
    for item in items {
        if same(*item, value, arena)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `value.name`, of an object with fields that travels with them in order.
pub(crate) fn attribute<'a>(value: Value<'a>, path: &Path, arena: &'a Bump) -> Computed<'a> {
    let Value::Opaque(bytes) = value else {
        return Err(value.not_taken());
    };
    match Reader::new(bytes).read()? {
        encoded::Value::Extension(
            extension::NAMED_TUPLE | extension::EQUAL_BY_PARTS | extension::OBJECT,
            _,
        ) => {
            let found = path.find(bytes).map_err(|_| Unusual::NoField)?;
            view::first(found, arena)
        }
        _ => Err(Unusual::Opaque),
    }
}

/// `(*value,)`, of so many items.
pub(crate) fn unpacked<'a>(value: Value<'a>, count: usize, arena: &'a Bump) -> Computed<'a> {
    if value.kind() == Kind::Tuple && value.count()? == count {
        return Ok(value);
    }
    let items = value.walked(arena)?;
    if items.len() != count {
        return Err(Unusual::Argument);
    }
    Ok(Value::Tuple(items))
}

/// A class of Python.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    None,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Tuple,
    List,
    Dict,
}

impl Class {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "NoneType" => Self::None,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "str" => Self::Text,
            "bytes" => Self::Bytes,
            "tuple" => Self::Tuple,
            "list" => Self::List,
            "dict" => Self::Dict,
            _ => return None,
        })
    }
}

/// `isinstance(value, classes)`
pub(crate) fn is_instance(value: Value<'_>, classes: &[Class]) -> Result<bool, Unusual> {
    if value.is_opaque() {
        return Err(Unusual::Opaque);
    }
    let is_one = |class: &Class| match class {
        Class::None => matches!(value, Value::None),
        Class::Bool => matches!(value, Value::Bool(_)),
        Class::Int => matches!(value, Value::Int(_) | Value::Bool(_)),
        Class::Float => matches!(value, Value::Float(_)),
        Class::Text => matches!(value, Value::Text(_)),
        Class::Bytes => matches!(value, Value::Bytes(_)),
        Class::Tuple => value.kind() == Kind::Tuple,
        Class::List => value.kind() == Kind::List,
        Class::Dict => value.kind() == Kind::Dict,
    };
    Ok(classes.iter().any(is_one))
}

/// `value is other`, where one of them is None, True or False.
pub(crate) fn is<'a>(left: Value<'a>, right: Value<'a>, arena: &'a Bump) -> Result<bool, Unusual> {
    match (left, right) {
        (Value::None, Value::None) => Ok(true),
        (Value::Bool(_), Value::Bool(_)) => equal(left, right, arena),
        (Value::None | Value::Bool(_), _) | (_, Value::None | Value::Bool(_)) => Ok(false),
        _ => Err(Unusual::Types),
    }
}

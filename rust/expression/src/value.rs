//! The values of a record.

use crate::foreign::Foreign;
use crate::tree::Constant;
use crate::unusual::Unusual;
use crate::view::View;
use bumpalo::Bump;

/// A value of one of Python's types.
///
/// Texts are UTF-8 as it was encoded: [`utf8`] verifies it where that matters.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Tuple(&'a [Value<'a>]),
    List(&'a [Value<'a>]),
    /// No two keys are equal.
    Dict(&'a [(Value<'a>, Value<'a>)]),
    /// A constant of the function, whose elements are looked for and no more.
    Set(&'a [Value<'a>]),
    /// A tuple, a list or a dict where it is encoded.
    View(&'a View<'a>),
    /// A tuple, a list, a dict or something unknown of somebody else.
    Foreign(&'a dyn Foreign<'a>),
    /// The encoding of a value that is only passed on.
    Opaque(&'a [u8]),
}

/// A value, or why there is none.
pub type Computed<'a> = Result<Value<'a>, Unusual>;

/// Of containers: which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tuple,
    List,
    Dict,
    /// Passed on, and no more.
    Other,
}

impl<'a> Value<'a> {
    /// What `bool(value)` is.
    #[inline]
    pub fn truth(self) -> Result<bool, Unusual> {
        Ok(match self {
            Self::Bool(truth) => truth,
            Self::None => false,
            Self::Int(number) => number != 0,
            Self::Float(number) => number != 0.0,
            Self::Text(bytes) | Self::Bytes(bytes) => !bytes.is_empty(),
            Self::Opaque(_) => return Err(Unusual::Opaque),
            _ => self.count()? != 0,
        })
    }

    /// Of containers: which.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Tuple(_) => Kind::Tuple,
            Self::List(_) => Kind::List,
            Self::Dict(_) => Kind::Dict,
            Self::View(view) => view.kind(),
            Self::Foreign(foreign) => foreign.kind(),
            _ => Kind::Other,
        }
    }

    /// The number of items, of a container.
    pub(crate) fn count(self) -> Result<usize, Unusual> {
        match self {
            Self::Tuple(items) | Self::List(items) | Self::Set(items) => Ok(items.len()),
            Self::Dict(entries) => Ok(entries.len()),
            Self::View(view) => Ok(view.count()),
            Self::Foreign(foreign) if foreign.kind() != Kind::Other => Ok(foreign.count()),
            _ => Err(self.not_taken()),
        }
    }

    /// The item of a tuple or a list, by its index from the start.
    #[inline]
    pub(crate) fn item(self, index: usize, arena: &'a Bump) -> Computed<'a> {
        match self {
            Self::Tuple(items) | Self::List(items) => {
                items.get(index).copied().ok_or(Unusual::NoItem)
            }
            Self::View(view) if view.kind() != Kind::Dict => view.item(index, arena),
            Self::Foreign(foreign) if matches!(foreign.kind(), Kind::Tuple | Kind::List) => {
                foreign.item(index, arena)
            }
            _ => Err(self.not_taken()),
        }
    }

    /// All that a walk over a tuple, a list, a dict or a text meets.
    pub(crate) fn walked(self, arena: &'a Bump) -> Result<&'a [Value<'a>], Unusual> {
        match self {
            Self::Tuple(items) | Self::List(items) => Ok(items),
            Self::Text(bytes) => {
                let utf8 = utf8(bytes)?;
                let mut end = 0;
                let characters = utf8.chars().map(|character| {
                    let start = end;
                    end += character.len_utf8();
                    Self::Text(&bytes[start..end])
                });
                Ok(collected(arena, characters))
            }
            Self::Bytes(bytes) => {
                Ok(arena
                    .alloc_slice_fill_iter(bytes.iter().map(|byte| Self::Int(i64::from(*byte)))))
            }
            _ if self.kind() == Kind::Dict => {
                let entries = self.entries(arena)?.iter();
                Ok(arena.alloc_slice_fill_iter(entries.map(|(key, _)| *key)))
            }
            Self::View(_) | Self::Foreign(_) => {
                let count = self.count()?;
                let mut items = bumpalo::collections::Vec::with_capacity_in(count, arena);
                for index in 0..count {
                    items.push(self.item(index, arena)?);
                }
                Ok(items.into_bump_slice())
            }
            _ => Err(self.not_taken()),
        }
    }

    /// The entries of a dict, in order.
    pub(crate) fn entries(self, arena: &'a Bump) -> Result<&'a [(Value<'a>, Value<'a>)], Unusual> {
        match self {
            Self::Dict(entries) => Ok(entries),
            Self::View(view) if view.kind() == Kind::Dict => view.entries(arena),
            Self::Foreign(foreign) if foreign.kind() == Kind::Dict => foreign.entries(arena),
            _ => Err(self.not_taken()),
        }
    }

    /// Why an operation does not take it.
    #[cold]
    pub(crate) fn not_taken(self) -> Unusual {
        match self {
            Self::Opaque(_) => Unusual::Opaque,
            Self::Foreign(foreign) if foreign.kind() == Kind::Other => Unusual::Opaque,
            _ => Unusual::Types,
        }
    }

    /// Whether nothing is known of it.
    pub(crate) fn is_opaque(self) -> bool {
        match self {
            Self::Opaque(_) => true,
            Self::Foreign(foreign) => foreign.kind() == Kind::Other,
            _ => false,
        }
    }

    /// As an integer, of an int or a bool.
    #[inline]
    pub(crate) fn integer(self) -> Result<i64, Unusual> {
        match self {
            Self::Int(number) => Ok(number),
            Self::Bool(truth) => Ok(i64::from(truth)),
            _ => Err(self.not_taken()),
        }
    }

    /// Of a text.
    #[inline]
    pub(crate) fn text(self) -> Result<&'a [u8], Unusual> {
        match self {
            Self::Text(bytes) => Ok(bytes),
            _ => Err(self.not_taken()),
        }
    }
}

impl Constant {
    /// As a value, which lives as long as the arena does.
    pub(crate) fn value<'a>(&'a self, arena: &'a Bump) -> Value<'a> {
        let all = |constants: &'a [Self]| -> &'a [Value<'a>] {
            arena.alloc_slice_fill_iter(constants.iter().map(|constant| constant.value(arena)))
        };
        match self {
            Self::None => Value::None,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Tuple(items) => Value::Tuple(all(items)),
            Self::Set(items) => Value::Set(all(items)),
        }
    }
}

/// The text, if it is one.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Unusual> {
    std::str::from_utf8(bytes).map_err(|_| Unusual::Malformed)
}

/// What an iterator of unknown length gives.
pub(crate) fn collected<T: Copy>(arena: &Bump, items: impl Iterator<Item = T>) -> &[T] {
    let mut collected = bumpalo::collections::Vec::new_in(arena);
    collected.extend(items);
    collected.into_bump_slice()
}

const _: () = assert!(size_of::<Value<'_>>() == 24);

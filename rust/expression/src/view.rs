//! Encoded tuples, lists and dicts, read where they lie.

use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value};
use bumpalo::Bump;
use oka_compute::value::{self as encoded, Reader, extension};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An encoded container, and where its items are once somebody asked.
pub struct View<'a> {
    kind: Kind,
    /// Of items, or of entries.
    count: usize,
    /// All of it, head included.
    bytes: &'a [u8],
    /// Where the first item begins.
    first: usize,
    /// Where each item begins and the last ends, of a dict those of key and value in turn; none before they are
    /// looked for.
    places: Cell<&'a [u32]>,
}

impl<'a> View<'a> {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The whole encoding.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The item of a tuple or a list.
    #[inline]
    pub(crate) fn item(&self, index: usize, arena: &'a Bump) -> Computed<'a> {
        if index >= self.count {
            return Err(Unusual::NoItem);
        }
        self.at(self.places(arena)?, index, arena)
    }

    /// The encoding of a dict's value under a name, which is given encoded, too; None where there is none.
    ///
    /// `guess` is where such a dict had it last.
    #[inline]
    pub(crate) fn field(
        &self,
        name: &[u8],
        guess: &AtomicUsize,
        arena: &'a Bump,
    ) -> Result<Option<&'a [u8]>, Unusual> {
        let places = self.places(arena)?;
        let is_at = |entry: usize| match places.get(2 * entry..2 * entry + 2) {
            Some(&[start, end]) => {
                (end - start) as usize == name.len()
                    && self.bytes[start as usize..end as usize] == *name
            }
            _ => false,
        };
        let mut entry = guess.load(Ordering::Relaxed);
        if !is_at(entry) {
            let Some(found) = (0..self.count).find(|entry| is_at(*entry)) else {
                return Ok(None);
            };
            entry = found;
            guess.store(entry, Ordering::Relaxed);
        }
        let (start, end) = (
            places[2 * entry + 1] as usize,
            places[2 * entry + 2] as usize,
        );
        Ok(Some(&self.bytes[start..end]))
    }

    /// The entries of a dict, in order.
    pub(crate) fn entries(&self, arena: &'a Bump) -> Result<&'a [(Value<'a>, Value<'a>)], Unusual> {
        let places = self.places(arena)?;
        let mut entries = bumpalo::collections::Vec::with_capacity_in(self.count, arena);
        for entry in 0..self.count {
            let key = self.at(places, 2 * entry, arena)?;
            entries.push((key, self.at(places, 2 * entry + 1, arena)?));
        }
        Ok(entries.into_bump_slice())
    }

    #[inline]
    fn at(&self, places: &[u32], index: usize, arena: &'a Bump) -> Computed<'a> {
        let (start, end) = (places[index] as usize, places[index + 1] as usize);
        value(&self.bytes[start..end], arena)
    }

    #[inline]
    fn places(&self, arena: &'a Bump) -> Result<&'a [u32], Unusual> {
        let known = self.places.get();
        if known.is_empty() {
            return self.look(arena);
        }
        Ok(known)
    }

    #[inline(never)]
    fn look(&self, arena: &'a Bump) -> Result<&'a [u32], Unusual> {
        let items = if self.kind == Kind::Dict {
            2 * self.count
        } else {
            self.count
        };
        let places = places(self.bytes, self.first, items, arena)?;
        self.places.set(places);
        Ok(places)
    }
}

/// The value that the bytes begin with.
pub(crate) fn first<'a>(bytes: &'a [u8], arena: &'a Bump) -> Computed<'a> {
    let end = end(bytes, 0)?;
    value(bytes.get(..end).ok_or(Unusual::Malformed)?, arena)
}

/// The value that the bytes are.
#[inline]
pub(crate) fn value<'a>(bytes: &'a [u8], arena: &'a Bump) -> Computed<'a> {
    // What the reader reads out of line, and records are full of.
    match *bytes {
        [0xcb, ref number @ ..] if let Ok(number) = number.try_into() => {
            return Ok(Value::Float(f64::from_be_bytes(number)));
        }
        [0xce, ref number @ ..] if let Ok(number) = number.try_into() => {
            return Ok(Value::Int(i64::from(u32::from_be_bytes(number))));
        }
        _ => {}
    }
    let mut reader = Reader::new(bytes);
    Ok(match reader.read()? {
        encoded::Value::Str(text) => Value::Text(text),
        encoded::Value::Int(number) => Value::Int(number),
        encoded::Value::Float(number) => Value::Float(number),
        encoded::Value::Nil => Value::None,
        encoded::Value::Bool(truth) => Value::Bool(truth),
        encoded::Value::Bytes(data) => Value::Bytes(data),
        encoded::Value::Array(count) => view(Kind::Tuple, count, bytes, reader.position(), arena),
        encoded::Value::Map(count) => view(Kind::Dict, count, bytes, reader.position(), arena),
        encoded::Value::Extension(extension::LIST, payload) => {
            let mut inside = Reader::new(payload);
            let encoded::Value::Array(count) = inside.read()? else {
                return Err(Unusual::Malformed);
            };
            let head = bytes.len() - payload.len() + inside.position();
            view(Kind::List, count, bytes, head, arena)
        }
        encoded::Value::Unsigned(_) | encoded::Value::Extension(..) => Value::Opaque(bytes),
    })
}

#[inline]
fn view<'a>(kind: Kind, count: usize, bytes: &'a [u8], first: usize, arena: &'a Bump) -> Value<'a> {
    Value::View(arena.alloc(View {
        kind,
        count,
        bytes,
        first,
        places: Cell::new(&[]),
    }))
}

/// Where so many items begin from `first` on, and where the last ends.
#[inline]
fn places<'a>(
    bytes: &[u8],
    first: usize,
    items: usize,
    arena: &'a Bump,
) -> Result<&'a [u32], Unusual> {
    if items > bytes.len() {
        return Err(Unusual::Malformed);
    }
    let places = arena.alloc_slice_fill_copy(items + 1, first as u32);
    let mut position = first;
    for place in &mut places[1..] {
        position = end(bytes, position)?;
        *place = position as u32;
    }
    if position > bytes.len() {
        return Err(Unusual::Malformed);
    }
    Ok(places)
}

/// Where the value ends that begins here: perhaps behind the last byte, if they are malformed.
#[inline]
pub(crate) fn end(bytes: &[u8], start: usize) -> Result<usize, Unusual> {
    let marker = *bytes.get(start).ok_or(Unusual::Malformed)?;
    match (SIZES[usize::from(marker)], bytes.get(start + 1)) {
        (0, Some(length)) if matches!(marker, 0xc4 | 0xd9) => Ok(start + 2 + usize::from(*length)),
        (0, _) => end_of_any(bytes, start),
        (size, _) => Ok(start + usize::from(size)),
    }
}

#[inline(never)]
fn end_of_any(bytes: &[u8], start: usize) -> Result<usize, Unusual> {
    let mut reader = Reader::new(&bytes[start..]);
    reader.skip()?;
    Ok(start + reader.position())
}

/// Whether a value nests deeper than `most`: as containers take a byte each, few are asked.
pub(crate) fn is_deeper(bytes: &[u8], most: usize) -> Result<bool, Unusual> {
    if bytes.len() <= most {
        return Ok(false);
    }
    let mut reader = Reader::new(bytes);
    let mut head = reader.read()?;
    if let encoded::Value::Extension(code, payload) = head {
        if !matches!(code, 1..=3 | 5..=7 | 39 | 40) {
            return Ok(false);
        }
        reader = Reader::new(payload);
        head = reader.read()?;
    }
    let items = match head {
        encoded::Value::Array(count) => count,
        encoded::Value::Map(count) => count.saturating_mul(2),
        _ => return Ok(false),
    };
    if most == 0 {
        return Ok(true);
    }
    let (bytes, mut position) = (reader.rest(), 0);
    for _ in 0..items {
        let next = end(bytes, position)?;
        let item = bytes.get(position..next).ok_or(Unusual::Malformed)?;
        if is_deeper(item, most - 1)? {
            return Ok(true);
        }
        position = next;
    }
    Ok(false)
}

/// The bytes of a value by its first one; 0 where more must be read.
pub(crate) static SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut marker = 0;
    while marker < 256 {
        sizes[marker] = match marker {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            0xa0..=0xbf => 1 + (marker as u8 & 0x1f),
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 | 0xd4 => 3,
            0xd5 => 4,
            0xca | 0xce | 0xd2 => 5,
            0xd6 => 6,
            0xcb | 0xcf | 0xd3 => 9,
            0xd7 => 10,
            0xd8 => 18,
            _ => 0,
        };
        marker += 1;
    }
    sizes
};

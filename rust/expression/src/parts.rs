//! Parts of encoded records, which are fields of dicts and items of tuples, found in one pass over each record.
//!
//! Most records have the same names in the same order as one before, and values of the same types. So a pass compares a
//! record with what it remembers of others, and reads it anew only where it is unlike them.

use crate::operations::containers::Name;
use crate::unusual::Unusual;
use crate::view::{SIZES, end};
use oka_compute::encode;
use oka_compute::value::{Reader, Value as Encoded};

/// Finds parts of records that come one after the other.
#[derive(Debug)]
pub(crate) struct Parts {
    wanted: Vec<Wanted>,
    /// What records were like, at most so many as [`MOST_SHAPES`], and which the last one was like.
    shapes: Vec<Shape>,
    last: usize,
    /// Where the parts are, behind the whole record and in front of what nobody looks for.
    places: Vec<Place>,
}

/// A part: the value of a dict under an encoded name or index, or the item of a tuple.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    key: Box<[u8]>,
    item: Option<usize>,
}

/// Where something is in its record: nowhere, if it has no bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    start: u32,
    end: u32,
}

/// Names and types of a record that was there.
#[derive(Debug)]
struct Shape {
    entries: Vec<Entry>,
    /// What is in front of the values, one behind the other.
    names: Vec<u8>,
}

/// A value of a record with what is in front of it: its name, and of the first one the head of the record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The name, if it is no longer, and a bit for each of its bits.
    block: u128,
    mask: u128,
    /// Where the name is among all.
    name: u32,
    length: u32,
    /// How the value began, and its bytes where that tells them.
    marker: u16,
    size: u32,
    /// The place that the value goes to.
    place: u32,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self {
            wanted: Vec::new(),
            shapes: Vec::new(),
            last: 0,
            places: vec![Place::default(); 2],
        }
    }

    /// The number of a part, which is new or not.
    pub(crate) fn field(&mut self, name: &Name) -> usize {
        self.named(name.encoded())
    }

    /// The same of a field whose name is given encoded.
    pub(crate) fn named(&mut self, name: &[u8]) -> usize {
        self.number(Wanted {
            key: name.into(),
            item: None,
        })
    }

    /// The same of an item, counted from the start.
    pub(crate) fn item(&mut self, index: usize) -> usize {
        let mut key = Vec::new();
        encode::unsigned(&mut key, index as u64);
        self.number(Wanted {
            key: key.into(),
            item: Some(index),
        })
    }

    fn number(&mut self, wanted: Wanted) -> usize {
        let known = self.wanted.iter().position(|known| *known == wanted);
        1 + known.unwrap_or_else(|| {
            self.wanted.push(wanted);
            self.places.push(Place::default());
            self.wanted.len() - 1
        })
    }

    /// Where the whole record and its parts are, by their numbers.
    #[inline]
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Finds the parts of the record at the start of the bytes, and where it ends.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Result<usize, Unusual> {
        let end = if self.wanted.is_empty() {
            whole(bytes)?
        } else {
            let known = self.shapes.get(self.last);
            match known.and_then(|shape| shape.pass(bytes, &mut self.places)) {
                Some(end) => end,
                None => self.pass_another(bytes)?,
            }
        };
        if let Some(place) = self.places.get_mut(WHOLE) {
            *place = Place::new(0, end);
        }
        Ok(end)
    }

    /// As `pass`, of a record that is not like the last one.
    #[inline(never)]
    fn pass_another(&mut self, bytes: &[u8]) -> Result<usize, Unusual> {
        for (index, shape) in self.shapes.iter().enumerate() {
            self.places.fill(Place::default());
            if let Some(end) = shape.pass(bytes, &mut self.places) {
                self.last = index;
                return Ok(end);
            }
        }
        self.places.fill(Place::default());
        let learnt = self.learn(bytes);
        if learnt.is_err() {
            self.shapes.clear(); // the last one is but a part of what was to be learnt
        }
        learnt
    }

    fn learn(&mut self, bytes: &[u8]) -> Result<usize, Unusual> {
        let mut reader = Reader::new(bytes);
        let (count, is_dict) = match bytes.first() {
            Some(0x80..=0x9f | 0xdc..=0xdf) => match reader.read()? {
                Encoded::Array(count) => (count, false),
                Encoded::Map(count) => (count, true),
                _ => (0, false),
            },
            _ => (0, false),
        };
        if count == 0 {
            return whole(bytes);
        }
        if self.shapes.len() < MOST_SHAPES {
            self.last = self.shapes.len();
            self.shapes.push(Shape {
                entries: Vec::new(),
                names: Vec::new(),
            });
        } else {
            self.last = (self.last + 1) % MOST_SHAPES;
        }
        let shape = &mut self.shapes[self.last];
        shape.entries.clear();
        shape.names.clear();
        let (mut front, mut position) = (0, reader.position());
        for index in 0..count {
            let name = position;
            if is_dict {
                position = end(bytes, position)?;
            }
            let key = bytes.get(name..position).ok_or(Unusual::Malformed)?;
            let is_it = |wanted: &Wanted| {
                if is_dict {
                    *wanted.key == *key
                } else {
                    wanted.item == Some(index)
                }
            };
            let found = self.wanted.iter().position(is_it);
            let place = found.unwrap_or(self.wanted.len()) + 1;
            let start = position;
            position = end(bytes, position)?;
            self.places[place] = Place::new(start, position);
            shape.push(&bytes[front..start], bytes.get(start), place)?;
            front = position;
        }
        if position > bytes.len() {
            return Err(Unusual::Malformed);
        }
        Ok(position)
    }
}

impl Shape {
    /// Finds the parts of a record that is like this: None of others, and of those that are malformed.
    #[inline]
    fn pass(&self, bytes: &[u8], places: &mut [Place]) -> Option<usize> {
        let mut position = 0;
        for entry in &self.entries {
            let is_like = match entry.length {
                0 => true,
                1 => *bytes.get(position)? == entry.block as u8,
                _ => self.is_named(entry, bytes.get(position..)?),
            };
            if !is_like {
                return None;
            }
            let start = position + entry.length as usize;
            let marker = *bytes.get(start)?;
            position = if u16::from(marker) == entry.marker {
                start + entry.size as usize
            } else {
                end(bytes, start).ok()?
            };
            *places.get_mut(entry.place as usize)? = Place::new(start, position);
        }
        (position <= bytes.len()).then_some(position)
    }

    /// Whether the bytes begin with the name of an entry.
    #[inline]
    fn is_named(&self, entry: &Entry, bytes: &[u8]) -> bool {
        match bytes.first_chunk() {
            Some(block) if entry.length <= BLOCK => {
                (u128::from_le_bytes(*block) ^ entry.block) & entry.mask == 0
            }
            _ => {
                let name = entry.name as usize;
                bytes.starts_with(&self.names[name..name + entry.length as usize])
            }
        }
    }

    fn push(&mut self, name: &[u8], marker: Option<&u8>, place: usize) -> Result<(), Unusual> {
        let marker = *marker.ok_or(Unusual::Malformed)?;
        let size = SIZES[usize::from(marker)];
        let (mut block, mut mask) = ([0; BLOCK as usize], [0; BLOCK as usize]);
        if name.len() <= block.len() {
            block[..name.len()].copy_from_slice(name);
            mask[..name.len()].fill(0xff);
        }
        self.entries.push(Entry {
            block: u128::from_le_bytes(block),
            mask: u128::from_le_bytes(mask),
            name: self.names.len() as u32,
            length: name.len() as u32,
            marker: if size == 0 { NO_MARKER } else { marker.into() },
            size: size.into(),
            place: place as u32,
        });
        self.names.extend_from_slice(name);
        Ok(())
    }
}

impl Place {
    #[inline]
    fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// What is there, if something is.
    #[inline]
    pub(crate) fn of(self, record: &[u8]) -> Option<&[u8]> {
        let found = record.get(self.start as usize..self.end as usize)?;
        (!found.is_empty()).then_some(found)
    }

    #[inline]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn length(self) -> usize {
        self.end.wrapping_sub(self.start) as usize
    }
}

/// Where the value ends that the bytes begin with.
fn whole(bytes: &[u8]) -> Result<usize, Unusual> {
    let end = end(bytes, 0)?;
    if end > bytes.len() {
        return Err(Unusual::Malformed);
    }
    Ok(end)
}

/// The number of the whole record.
pub(crate) const WHOLE: usize = 0;
/// So many kinds of records are known apart.
const MOST_SHAPES: usize = 4;
/// Bytes that are compared at once.
const BLOCK: u32 = 16;
/// No value begins so.
const NO_MARKER: u16 = 0x100;

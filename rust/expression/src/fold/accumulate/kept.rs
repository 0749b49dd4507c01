//! The values of keys, in pieces or whole.

use super::plan::{Layout, Piece, Plan};
use crate::run::Input;
use crate::unusual::Unusual;
use crate::value::{Computed, Value};
use crate::view;
use crate::write::write;
use bumpalo::Bump;
use oka_compute::encode;

/// A number, or another value as it is encoded.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Int(i64),
    Float(f64),
    Encoded(Vec<u8>),
}

/// In what form the value of a key is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    #[default]
    Not,
    Whole,
    InPieces,
}

/// The values of keys, by the numbers of these.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) held: Vec<Held>,
    /// The whole value, or all that no record changes.
    pub(super) fixed: Vec<Vec<u8>>,
    /// Where in that the slots are, in their order.
    ends: Vec<u32>,
    slots: Vec<Slot>,
    /// In which order a dict has its slots, once that is known.
    order: Option<Vec<usize>>,
    /// The keys that are held, in the order in which they came.
    pub(super) all: Vec<u32>,
}

/// The keys of a batch as they were in front of it.
#[derive(Debug, Default)]
pub(super) struct Undo {
    batch: u64,
    /// The last batch of each key.
    last: Vec<u64>,
    pub(super) keys: Vec<(u32, Held, Vec<u8>)>,
    slots: Vec<Slot>,
}

impl Keys {
    /// Whether the value of a key is here.
    #[inline]
    pub(super) fn holds(&self, number: u32) -> bool {
        let held = self.held.get(number as usize);
        held.is_some_and(|held| *held != Held::Not)
    }

    #[inline]
    pub(super) fn resize(&mut self, keys: usize, width: usize) {
        if keys > self.held.len() {
            self.grow(keys, width);
        }
    }

    #[inline(never)]
    fn grow(&mut self, keys: usize, width: usize) {
        self.held.resize(keys, Held::Not);
        self.fixed.resize(keys, Vec::new());
        self.ends.resize(keys * width, 0);
        self.slots.resize(keys * width, Slot::Int(0));
    }

    /// The slots of a key.
    #[inline]
    pub(super) fn slots(&mut self, number: u32, plan: &Plan) -> &mut [Slot] {
        let width = plan.slots.len();
        &mut self.slots[number as usize * width..][..width]
    }

    /// Keeps a value that comes as a whole in pieces.
    pub(super) fn take_apart(
        &mut self,
        number: u32,
        whole: &Input<'_, '_>,
        plan: &Plan,
        arena: &Bump,
    ) -> Result<(), Unusual> {
        let (at, width) = (number as usize, plan.slots.len());
        let part = |number: usize| whole.part(number).ok_or(Unusual::NoKey);
        for (slot, planned) in self.slots(number, plan).iter_mut().zip(&plan.slots) {
            if let Some(number) = planned.part {
                slot.set(&view::value(part(number)?, arena)?)?;
            }
        }
        let fixed = &mut self.fixed[at];
        let mut ends = self.ends[at * width..][..width].iter_mut();
        fixed.clear();
        let mut end_piece = |fixed: &[u8]| -> Result<(), Unusual> {
            if let Some(end) = ends.next() {
                *end = u32::try_from(fixed.len()).map_err(|_| Unusual::TooLarge)?;
            }
            Ok(())
        };
        match &plan.layout {
            Layout::Display(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => fixed.extend_from_slice(bytes),
                        Piece::Part(number) => fixed.extend_from_slice(part(*number)?),
                        Piece::Slot => end_piece(fixed)?,
                    }
                }
            }
            Layout::Dict => {
                if !matches!(whole.bytes.first(), Some(0x80..=0x8f | 0xde | 0xdf)) {
                    return Err(Unusual::NoKey);
                }
                let mut places = Vec::with_capacity(width);
                for (slot, planned) in plan.slots.iter().enumerate() {
                    let place = whole.places[planned.part.ok_or(Unusual::NoKey)?];
                    places.push((place.start(), place.length(), slot));
                }
                places.sort_unstable();
                let found = places.iter().map(|(.., slot)| *slot);
                let order = &mut self.order;
                if !order
                    .get_or_insert_with(|| found.clone().collect())
                    .iter()
                    .copied()
                    .eq(found)
                {
                    return Err(Unusual::NoKey);
                }
                let mut position = 0;
                for (start, length, _) in places {
                    fixed.extend_from_slice(&whole.bytes[position..start]);
                    end_piece(fixed)?;
                    position = start + length;
                }
                fixed.extend_from_slice(&whole.bytes[position..]);
            }
        }
        self.held[at] = Held::InPieces;
        Ok(())
    }

    /// Appends the value of a key.
    #[inline]
    pub(super) fn append(&self, number: u32, out: &mut Vec<u8>) {
        let at = number as usize;
        let fixed = &self.fixed[at][..];
        let mut position = 0;
        if self.held[at] == Held::InPieces {
            let width = self.ends.len() / self.held.len();
            let slots = &self.slots[at * width..][..width];
            for (index, end) in self.ends[at * width..][..width].iter().enumerate() {
                let end = *end as usize;
                out.extend_from_slice(&fixed[position..end]);
                position = end;
                let slot = self.order.as_ref().map_or(index, |order| order[index]);
                slots[slot].append(out);
            }
        }
        out.extend_from_slice(&fixed[position..]);
    }
}

impl Undo {
    pub(super) fn begin(&mut self) {
        self.batch += 1;
        self.keys.clear();
        self.slots.clear();
    }

    /// Keeps a key as it is, before the batch changes it.
    #[inline]
    pub(super) fn save(&mut self, number: u32, keys: &Keys, width: usize) {
        let at = number as usize;
        match self.last.get(at) {
            Some(last) if *last == self.batch => {}
            _ => self.save_first(number, keys, width),
        }
    }

    #[inline(never)]
    fn save_first(&mut self, number: u32, keys: &Keys, width: usize) {
        let at = number as usize;
        if at >= self.last.len() {
            self.last.resize(keys.held.len(), 0);
        }
        self.last[at] = self.batch;
        let held = keys.held[at];
        let whole = match held {
            Held::Whole => keys.fixed[at].clone(),
            _ => Vec::new(),
        };
        if held == Held::InPieces {
            self.slots
                .extend_from_slice(&keys.slots[at * width..][..width]);
        }
        self.keys.push((number, held, whole));
    }

    /// Has all keys be as they were.
    pub(super) fn apply(&mut self, keys: &mut Keys, width: usize) {
        let mut slots = self.slots.drain(..);
        for (number, held, whole) in self.keys.drain(..) {
            let at = number as usize;
            keys.held[at] = held;
            match held {
                Held::InPieces => {
                    for (slot, before) in
                        keys.slots[at * width..][..width].iter_mut().zip(&mut slots)
                    {
                        *slot = before;
                    }
                }
                _ => keys.fixed[at] = whole,
            }
        }
    }
}

impl Slot {
    #[inline]
    pub(super) fn value<'a>(&self, arena: &'a Bump) -> Computed<'a> {
        match self {
            Self::Int(number) => Ok(Value::Int(*number)),
            Self::Float(number) => Ok(Value::Float(*number)),
            Self::Encoded(bytes) => view::value(arena.alloc_slice_copy(bytes), arena),
        }
    }

    /// Puts it straight into a register: a value that goes through memory as a whole waits there until it is written.
    #[inline]
    pub(super) fn read<'a>(
        &self,
        register: &mut Value<'a>,
        arena: &'a Bump,
    ) -> Result<(), Unusual> {
        match self {
            Self::Int(number) => *register = Value::Int(*number),
            Self::Float(number) => *register = Value::Float(*number),
            Self::Encoded(_) => *register = self.value(arena)?,
        }
        Ok(())
    }

    #[inline]
    pub(super) fn set(&mut self, value: &Value<'_>) -> Result<(), Unusual> {
        match (&mut *self, value) {
            (Self::Int(before), Value::Int(number)) => *before = *number,
            (Self::Float(before), Value::Float(number)) => *before = *number,
            _ => return self.set_another(*value),
        }
        Ok(())
    }

    #[inline(never)]
    fn set_another(&mut self, value: Value<'_>) -> Result<(), Unusual> {
        *self = match value {
            Value::Int(number) => Self::Int(number),
            Value::Float(number) => Self::Float(number),
            _ => {
                let mut bytes = match std::mem::replace(self, Self::Int(0)) {
                    Self::Encoded(bytes) => bytes,
                    _ => Vec::new(),
                };
                bytes.clear();
                write(&mut bytes, value, 1)?;
                Self::Encoded(bytes)
            }
        };
        Ok(())
    }

    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => encode::int(out, *number),
            Self::Float(number) => encode::float(out, *number),
            Self::Encoded(bytes) => out.extend_from_slice(bytes),
        }
    }
}

//! What is kept of keys: rows of both sides in the order of their times.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

/// A row that is kept.
#[derive(Debug)]
pub(crate) struct Row {
    pub time: i64,
    pub number: u32,
    /// Whether it has had a partner.
    pub is_joined: bool,
}

/// The rows of one key, by side.
#[derive(Debug)]
pub(crate) struct Key {
    pub number: i64,
    pub rows: [VecDeque<Row>; 2],
    /// When there is something to do next, by queue; what a queue says of another time is void.
    pub due: [i64; 2],
    /// A time of the first session up to which it is known to have no pause.
    pub reached: i64,
}

/// The keys that have rows. Each is in a slot, which another gets when it has none left.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    slots: HashMap<i64, u32, BuildHasherDefault<Mixed>>,
    all: Vec<Key>,
    free: Vec<u32>,
}

impl Key {
    fn new(number: i64) -> Self {
        Self {
            number,
            rows: Default::default(),
            due: [NEVER; 2],
            reached: i64::MIN,
        }
    }

    /// Takes a row in, behind those of its time.
    pub(crate) fn insert(&mut self, side: usize, row: Row) {
        let rows = &mut self.rows[side];
        if rows.back().is_none_or(|last| last.time <= row.time) {
            rows.push_back(row);
        } else {
            let place = rows.partition_point(|other| other.time <= row.time);
            rows.insert(place, row);
        }
    }

    /// The rows of a side, and those of the other.
    pub(crate) fn sides(&mut self, side: usize) -> [&mut VecDeque<Row>; 2] {
        let [left, right] = &mut self.rows;
        if side == 0 {
            [left, right]
        } else {
            [right, left]
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(VecDeque::is_empty)
    }
}

impl Keys {
    /// The slot of the key with this number, if it has rows.
    pub(crate) fn get(&self, number: i64) -> Option<u32> {
        self.slots.get(&number).copied()
    }

    /// The slot of the key with this number, which gets rows.
    pub(crate) fn slot(&mut self, number: i64) -> u32 {
        *self.slots.entry(number).or_insert_with(|| {
            if let Some(slot) = self.free.pop() {
                self.all[slot as usize].number = number;
                return slot;
            }
            self.all.push(Key::new(number));
            self.all.len() as u32 - 1
        })
    }

    /// Forgets a key without rows. The next one gets the memory of a few rows with its slot, unless there
    /// were many more keys than there are now.
    pub(crate) fn remove(&mut self, slot: u32) {
        let few = if self.free.len() > self.slots.len() {
            0
        } else {
            FEW
        };
        let key = &mut self.all[slot as usize];
        self.slots.remove(&key.number);
        key.rows.iter_mut().for_each(|rows| rows.shrink_to(few));
        key.due = [NEVER; 2];
        key.reached = i64::MIN;
        self.free.push(slot);
    }

    pub(crate) fn numbers(&self) -> impl ExactSizeIterator<Item = i64> {
        self.slots.keys().copied()
    }

    /// The slots of all keys.
    pub(crate) fn slots(&self) -> Vec<u32> {
        self.slots.values().copied().collect()
    }

    pub(crate) fn into_rows(self) -> impl Iterator<Item = Row> {
        self.all.into_iter().flat_map(|key| key.rows).flatten()
    }

    pub(crate) fn with_rows(&self) -> impl Iterator<Item = &Key> {
        self.all.iter().filter(|key| !key.is_empty())
    }
}

impl Index<u32> for Keys {
    type Output = Key;

    fn index(&self, slot: u32) -> &Key {
        &self.all[slot as usize]
    }
}

impl IndexMut<u32> for Keys {
    fn index_mut(&mut self, slot: u32) -> &mut Key {
        &mut self.all[slot as usize]
    }
}

/// Not due.
pub(crate) const NEVER: i64 = i64::MAX;
/// Rows for which a slot keeps memory.
const FEW: usize = 4;

/// A hash of one number: numbers are often those behind each other.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_i64(&mut self, number: i64) {
        let mixed = u128::from(number as u64) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (mixed >> 64) as u64 ^ mixed as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

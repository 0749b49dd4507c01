//! What is kept of a key: rows of both sides in the order of their times.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// By the numbers of keys, which nobody chooses.
pub(crate) type Keys = HashMap<i64, Key, BuildHasherDefault<Mixed>>;

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
    pub rows: [VecDeque<Row>; 2],
    /// When there is something to do next, by heap; what a heap says of another time is void.
    pub due: [i64; 2],
    /// A time of the first session up to which it is known to have no pause.
    pub reached: i64,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            rows: Default::default(),
            due: [NEVER; 2],
            reached: i64::MIN,
        }
    }
}

impl Key {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(VecDeque::is_empty)
    }
}

/// Not due.
pub(crate) const NEVER: i64 = i64::MAX;

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

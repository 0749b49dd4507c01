//! Keys in the order in which they came.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers of keys, each once, with their places.
#[derive(Debug, Default)]
pub(super) struct Keys {
    order: Vec<u32>,
    places: HashMap<u32, u32, BuildHasherDefault<Spread>>,
}

impl Keys {
    /// The place of a key; a new one gets the next.
    #[inline]
    pub(super) fn place(&mut self, key: u32) -> usize {
        let next = self.order.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.order.push(key);
        }
        place as usize
    }

    /// The place of a key that is there.
    pub(super) fn find(&self, key: u32) -> Option<usize> {
        self.places.get(&key).map(|place| *place as usize)
    }

    /// All of them.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Gives each another number.
    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        let mut renumbered = Self::default();
        for key in &self.order {
            renumbered.place(number(*key));
        }
        *self = renumbered;
    }
}

/// Hashes a number: a product spreads it over the high bits, and keeps the low ones different.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte) ^ self.0 as u32);
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

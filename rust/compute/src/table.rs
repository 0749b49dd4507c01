//! A hash table that numbers byte strings densely, in the order in which they first appeared.
//!
//! Nothing is ever removed, so that a number stays valid and can index the caller's own arrays.

use crate::short::{LONGEST, equal, hash};

/// Byte strings and their numbers.
#[derive(Debug)]
pub struct KeyTable {
    /// Open addressing, a power of two long and at most three quarters full.
    slots: Vec<Slot>,
    keys: Vec<Box<[u8]>>,
    hashes: Vec<u64>,
    total_bytes: usize,
}

impl KeyTable {
    pub fn new() -> Self {
        Self {
            slots: vec![EMPTY; SMALLEST],
            keys: Vec::new(),
            hashes: Vec::new(),
            total_bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of all keys together.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    #[inline]
    pub fn key(&self, number: usize) -> &[u8] {
        &self.keys[number]
    }

    /// The number of a key; a key that was never seen gets the next one, which is the former length.
    ///
    /// A short key in its own slot is found without a call.
    #[inline]
    pub fn number(&mut self, key: &[u8]) -> usize {
        if key.len() > LONGEST {
            return self.probe(key, hash(key));
        }
        let hash = hash(key);
        let slot = self.slots[hash as usize & (self.slots.len() - 1)];
        if slot.tag == tag(hash)
            && let Some(found) = self.keys.get(slot.number as usize)
            && equal(found, key)
        {
            return slot.number as usize;
        }
        self.probe(key, hash)
    }

    #[inline(never)]
    fn probe(&mut self, key: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index];
            if slot.number == EMPTY.number {
                return self.insert(key, hash, index);
            }
            if slot.tag == tag(hash) && equal(&self.keys[slot.number as usize], key) {
                return slot.number as usize;
            }
            index = (index + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, key: &[u8], hash: u64, index: usize) -> usize {
        let number = self.keys.len();
        self.slots[index] = Slot {
            tag: tag(hash),
            number: u32::try_from(number).expect("fewer than 2^32 keys fit into memory"),
        };
        self.keys.push(key.into());
        self.total_bytes += key.len();
        self.hashes.push(hash);
        if self.keys.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots = vec![EMPTY; mask + 1];
        for (number, hash) in (0..).zip(&self.hashes) {
            let mut index = *hash as usize & mask;
            while self.slots[index].number != EMPTY.number {
                index = (index + 1) & mask;
            }
            self.slots[index] = Slot {
                tag: tag(*hash),
                number,
            };
        }
    }
}

impl Default for KeyTable {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Bits of the hash that did not choose the slot: most misses end here.
    tag: u32,
    number: u32,
}

#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

const EMPTY: Slot = Slot {
    tag: 0,
    number: u32::MAX,
};
/// A slot that is taken costs a mispredicted branch, which is more than all the rest: a few hundred
/// keys, as there often are, should rarely meet. 32 KiB, of which only the lines in use are read.
const SMALLEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_numbers_while_the_table_grows() {
        let mut table = KeyTable::new();
        for round in 0..2 {
            for number in 0_usize..10_000 {
                assert_eq!(table.number(&number.to_le_bytes()), number, "round {round}");
            }
        }
        assert_eq!(table.len(), 10_000);
        assert_eq!(table.key(77), 77_usize.to_le_bytes());
        assert_eq!(table.total_bytes(), 80_000);
        assert_eq!(table.number(b""), 10_000);
    }
}

//! Which values each key has had: pairs of a key's number and a value of 64 bits, each once.

use oka_compute::ahead::prefetch;
use oka_compute::short;

/// Pairs in the order in which they first came.
///
/// A table for each key, or one of byte strings, would take three times the memory, and most of an addition is
/// waiting for memory: here its place is asked for some rows ahead.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// Open addressing, a power of two long and at most three quarters full. The low bits of a slot, as many as
    /// number the slots, are a pair's place; the bits above are of its hash: most misses end there.
    slots: Vec<u32>,
    in_order: Vec<Pair>,
    keys: Vec<OfKey>,
    /// How often each pair came, where that is wanted.
    counts: Option<Vec<u64>>,
    /// What equals zero, and is another value where it is shown.
    other_zero: u64,
    hashes: Vec<u64>,
}

/// A key's number and a value that it had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// As it first came.
    pub(crate) value: u64,
    pub(crate) key: u32,
    /// The place of the key's pair before this one; [`NONE`] of its first.
    before: u32,
}

impl Pair {
    pub(crate) fn new(key: u32, value: u64) -> Self {
        Self {
            value,
            key,
            before: NONE,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct OfKey {
    /// The place of its last pair; [`NONE`] if it has none.
    last: u32,
    count: u32,
}

impl Pairs {
    /// Of values of which this one equals zero; with how often each came, if they are counted.
    pub(crate) fn new(other_zero: u64, are_counted: bool) -> Self {
        Self {
            slots: vec![EMPTY; FEWEST],
            in_order: Vec::new(),
            keys: Vec::new(),
            counts: are_counted.then(Vec::new),
            other_zero,
            hashes: Vec::new(),
        }
    }

    /// Makes room for so many keys.
    pub(crate) fn resize(&mut self, keys: usize) {
        let none = OfKey {
            last: NONE,
            count: 0,
        };
        self.keys.resize(keys, none);
    }

    /// Number of different values of a key.
    pub(crate) fn len(&self, key: usize) -> usize {
        self.keys[key].count as usize
    }

    /// All pairs, and how often each came, where that is counted.
    pub(crate) fn all(&self) -> (&[Pair], Option<&[u64]>) {
        (&self.in_order, self.counts.as_deref())
    }

    /// The places among all of a key's pairs, the last first.
    pub(crate) fn of(&self, key: usize) -> impl Iterator<Item = usize> {
        let place = |place: u32| (place != NONE).then_some(place as usize);
        let before = move |at: &usize| place(self.in_order[*at].before);
        std::iter::successors(place(self.keys[key].last), before)
    }

    /// Takes pairs in; of the one at each place `times` says how often it came.
    pub(crate) fn add(&mut self, pairs: &[Pair], times: impl Fn(usize) -> u64) {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(pairs.iter().map(|pair| self.hash(pair)));
        for (at, pair) in pairs.iter().enumerate() {
            if let Some(hash) = hashes.get(at + AHEAD) {
                prefetch(&raw const self.slots[*hash as usize & (self.slots.len() - 1)]);
            }
            let place = self.place(pair, hashes[at]);
            if let Some(counts) = &mut self.counts {
                counts[place] += times(at);
            }
        }
        self.hashes = hashes;
    }

    /// Where a pair is, which is at the end from now on if it was not there.
    fn place(&mut self, pair: &Pair, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index];
            if slot == EMPTY {
                return self.insert(pair, hash, index);
            }
            if slot & !(mask as u32) == tag(hash, mask) {
                let place = slot as usize & mask;
                let known = &self.in_order[place];
                if known.key == pair.key && self.same(known.value) == self.same(pair.value) {
                    return place;
                }
            }
            index = (index + 1) & mask;
        }
    }

    fn insert(&mut self, pair: &Pair, hash: u64, index: usize) -> usize {
        let place = self.in_order.len();
        self.slots[index] = tag(hash, self.slots.len() - 1) | place as u32;
        let of_key = &mut self.keys[pair.key as usize];
        let before = of_key.last;
        self.in_order.push(Pair { before, ..*pair });
        of_key.last = place as u32;
        of_key.count += 1;
        if let Some(counts) = &mut self.counts {
            counts.push(0);
        }
        if self.in_order.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        u32::try_from(mask).expect("fewer than 3 · 2^30 pairs fit into memory");
        let mut slots = vec![EMPTY; mask + 1];
        let mut hashes = Vec::with_capacity(AHEAD);
        for (first, pairs) in (0..).step_by(AHEAD).zip(self.in_order.chunks(AHEAD)) {
            hashes.clear();
            hashes.extend(pairs.iter().map(|pair| self.hash(pair)));
            for hash in &hashes {
                prefetch(&raw const slots[*hash as usize & mask]);
            }
            for (place, hash) in (first..).zip(&hashes) {
                let mut index = *hash as usize & mask;
                while slots[index] != EMPTY {
                    index = (index + 1) & mask;
                }
                slots[index] = tag(*hash, mask) | place;
            }
        }
        self.slots = slots;
    }

    #[inline]
    fn hash(&self, pair: &Pair) -> u64 {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.same(pair.value).to_le_bytes());
        bytes[8..].copy_from_slice(&pair.key.to_le_bytes());
        short::hash(&bytes)
    }

    /// One of all values that are equal.
    #[inline]
    fn same(&self, value: u64) -> u64 {
        if value == self.other_zero { 0 } else { value }
    }
}

/// The bits of a hash that are kept beside a place.
#[inline]
fn tag(hash: u64, mask: usize) -> u32 {
    (hash >> 32) as u32 & !(mask as u32)
}

const NONE: u32 = u32::MAX;
/// No pair has this place: at most three quarters of all places are taken.
const EMPTY: u32 = u32::MAX;
const FEWEST: usize = 8;
/// So many additions take as long as memory does.
const AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_are_those_of_a_list(
            given in prop::collection::vec((0_u32..5, 0_u64..40, 1_u64..4), 0..300),
            cut in 0_usize..300,
        ) {
            let mut pairs = Pairs::new(7, true);
            let mut expected = Vec::<(u32, u64, u64)>::new();
            pairs.resize(5);
            for part in [&given[..cut.min(given.len())], &given[cut.min(given.len())..]] {
                let rows: Vec<_> = part.iter().map(|it| Pair::new(it.0, it.1)).collect();
                pairs.add(&rows, |at| part[at].2);
            }
            let same = |value| if value == 7 { 0 } else { value };
            for (key, value, times) in given {
                let is = |it: &&mut (u32, u64, u64)| it.0 == key && same(it.1) == same(value);
                match expected.iter_mut().find(is) {
                    Some(known) => known.2 += times,
                    None => expected.push((key, value, times)),
                }
            }
            let (all, counts) = pairs.all();
            let found: Vec<_> = all
                .iter()
                .zip(counts.unwrap())
                .map(|(pair, count)| (pair.key, pair.value, *count))
                .collect();
            prop_assert_eq!(&found, &expected);
            for key in 0..5 {
                let mut places: Vec<_> = pairs.of(key as usize).collect();
                prop_assert_eq!(places.len(), pairs.len(key as usize));
                places.reverse();
                let own = (0..found.len()).filter(|at| found[*at].0 == key);
                prop_assert_eq!(places, own.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn pairs_are_found_while_the_table_grows() {
        let mut pairs = Pairs::new(0, false);
        pairs.resize(100);
        let rows: Vec<_> = (0..100_000_u32)
            .map(|at| Pair::new(at % 100, u64::from(at / 100)))
            .collect();
        for _ in 0..2 {
            pairs.add(&rows, |_| 1);
            assert_eq!(pairs.all().0.len(), rows.len());
        }
        assert!((0..100).all(|key| pairs.len(key) == 1000));
    }
}

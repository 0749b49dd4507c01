//! Keys of a table that only grows, in the order of entries.

use oka_compute::{ByteStrings, Values};
use std::mem;

use crate::Entries;
use crate::state::entries::sort;

/// The keys of a table by their numbers, sorted once: entries of the same keys then take a look at
/// values alone.
#[derive(Debug, Default)]
pub struct KeyOrder {
    /// The numbers of keys in the order of entries.
    order: Vec<u32>,
    /// Whatever their values are.
    entries: Entries,
    /// Whether they are in memory of those that began with them: a whole file, which may be gone
    /// when it is asked for much later.
    borrowed: bool,
}

impl KeyOrder {
    /// The keys of these, numbered in their order.
    pub fn behind(entries: Entries) -> Self {
        Self {
            order: (0..).take(entries.len()).collect(),
            entries,
            borrowed: true,
        }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Takes in the keys behind those so far, with their hashes.
    pub fn add(&mut self, hashes: &[u64], keys: &ByteStrings) {
        if keys.is_empty() {
            return;
        }
        let mut order: Vec<_> = hashes.iter().copied().zip(0..).collect();
        sort(&mut order, |row: u32| keys.get(row as usize));
        let known = self.order.len();
        let sorted = keys.gather(order.iter().map(|(_, row)| *row as usize));
        let new = order.iter().zip(sorted.iter());
        let mut new = new
            .map(|((hash, row), key)| (*hash, key, known as u32 + row))
            .peekable();

        let mut numbers = Vec::with_capacity(known + keys.len());
        let mut hashes = Vec::with_capacity(known + keys.len());
        let bytes = self.entries.key_bytes().len() + sorted.bytes();
        let mut merged = ByteStrings::with_room(known + keys.len(), bytes);
        let mut push = |(hash, key, number): (u64, &[u8], u32)| {
            hashes.push(hash);
            merged.push(key);
            numbers.push(number);
        };
        for ((hash, key, _), number) in self.entries.iter().zip(&self.order) {
            while let Some(each) = new.next_if(|(other, of, _)| (*other, *of) < (hash, key)) {
                push(each);
            }
            push((hash, key, *number));
        }
        new.for_each(push);
        self.entries = Entries::sorted(hashes, merged);
        self.borrowed = false;
        self.order = numbers;
    }

    /// Entries of the keys with these values, which may be those of a time when there were fewer.
    pub fn entries(&mut self, values: &Values) -> Entries {
        assert!(values.len() <= self.order.len(), "a key for each value");
        if mem::take(&mut self.borrowed) {
            self.entries = self.entries.keys_alone();
        }
        let numbers = self.order.iter().map(|number| *number as usize);
        if values.len() == self.order.len() {
            return self.entries.with_values(values.gather(numbers));
        }
        let rows: Vec<_> = (numbers.enumerate())
            .filter(|(_, number)| *number < values.len())
            .collect();
        let keys = rows.iter().map(|(row, _)| self.entries.get(*row));
        let (hashes, keys): (Vec<_>, Vec<_>) = keys.map(|(hash, key, _)| (hash, key)).unzip();
        Entries::sorted(hashes, keys.into_iter().collect())
            .with_values(values.gather(rows.iter().map(|(_, number)| *number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oka_compute::Column;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_that_are_in_order_need_no_sort(
            mut known in prop::collection::vec(0..6_u64, 0..20),
            new in prop::collection::vec(0..6_u64, 0..20),
        ) {
            known.sort_unstable();
            let keys = |numbers: std::ops::Range<usize>| numbers.map(|number| [number as u8]).collect();
            let (old, added) = (keys(0..known.len()), keys(known.len()..known.len() + new.len()));
            let mut behind = KeyOrder::behind(Entries::new(&known, &old, &old));
            let mut added_all = KeyOrder::default();
            added_all.add(&known, &old);
            for placed in [&mut behind, &mut added_all] {
                placed.add(&new, &added);
            }
            let numbers = (0..behind.len() as i64).collect();
            let values = Values::new(vec![Column::Integers(numbers)]);
            prop_assert_eq!(behind.entries(&values), added_all.entries(&values));
        }

        #[test]
        fn entries_are_those_that_a_sort_of_all_gives(
            parts in prop::collection::vec(prop::collection::vec(0..6_u64, 0..20), 1..4),
            fewer in any::<prop::sample::Index>(),
        ) {
            let mut placed = KeyOrder::default();
            let (mut hashes, mut keys) = (Vec::new(), Vec::new());
            for part in parts {
                let new = (0..part.len()).map(|at| vec![(97 * (keys.len() + at)) as u8]);
                let new: Vec<_> = new.collect();
                placed.add(&part, &new.iter().collect());
                hashes.extend(part);
                keys.extend(new);
            }
            for count in [hashes.len(), fewer.index(hashes.len() + 1)] {
                let numbers: Vec<_> = (0..count as i64).collect();
                let encoded = (0..count).map(|number| [number as u8]).collect();
                let keys = keys[..count].iter().collect();
                let expected = Entries::new(&hashes[..count], &keys, &encoded);
                for column in [Column::Integers(numbers), Column::Encoded(encoded)] {
                    prop_assert_eq!(placed.entries(&Values::new(vec![column])), expected.clone());
                }
            }
        }
    }
}

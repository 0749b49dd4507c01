//! What has changed in entries since an earlier time, and the later entries out of that.

use arrow_array::UInt64Array;
use oka_compute::ByteStrings;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::Entries;

/// What entries were, in 20 bytes for each beside its hash: enough to tell later which have changed, and
/// for how long there has been one of the hash.
#[derive(Debug)]
pub struct Digests {
    /// Shares its buffer with that of the entries.
    hashes: UInt64Array,
    values: Vec<u128>,
    /// When the hash was first among them, and has been each time since.
    since: Vec<u32>,
}

/// Changes of entries. All entries of one hash, which is rarely more than one, go together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// All entries of each hash of which one is new, other than before, or gone.
    pub changed: Entries,
    /// The hashes of which there are no entries any more; ascending.
    pub removed: Vec<u64>,
}

impl Digests {
    /// Those of entries at a time, in seconds of any clock; `before` is what they were the last time.
    pub fn of(entries: &Entries, before: Option<&Self>, now: u32) -> Self {
        let digest = |(_, key, value): (u64, &[u8], &[u8])| xxh3_128_with_seed(value, xxh3_64(key));
        let hashes = entries.hashes().clone();
        let mut earlier = before.into_iter().flat_map(Self::times).peekable();
        let since = hashes.values().iter().map(|hash| {
            while earlier.next_if(|(each, _)| each < hash).is_some() {}
            let found = earlier.peek().filter(|(each, _)| each == hash);
            found.map_or(now, |(_, since)| *since)
        });
        Self {
            values: entries.iter().map(digest).collect(),
            since: since.collect(),
            hashes,
        }
    }

    /// Since when there has been the hash that has been there longest; `None` where there are no entries.
    pub fn oldest(&self) -> Option<u32> {
        self.since.iter().min().copied()
    }

    fn times(&self) -> impl Iterator<Item = (u64, u32)> {
        let hashes = self.hashes.values().iter().copied();
        hashes.zip(self.since.iter().copied())
    }

    /// The changes from these entries to `entries`, whose digests are `now`; `None` if they take more
    /// than `most` bytes.
    pub fn changes(&self, now: &Self, entries: &Entries, most: usize) -> Option<Changes> {
        assert_eq!(now.len(), entries.len(), "these are of the entries");
        let (mut rows, mut removed, mut bytes) = (Vec::new(), Vec::new(), 0);
        let (before, after) = (self.hashes.values(), now.hashes.values());
        let (mut old, mut new) = (0..0, 0..0);
        while let Some(hash) = first(before.get(old.end), after.get(new.end)) {
            old = old.end..end(before, old.end, hash);
            new = new.end..end(after, new.end, hash);
            if new.is_empty() {
                removed.push(hash);
                bytes += size_of::<u64>();
            } else if self.values[old.clone()] != now.values[new.clone()] {
                bytes += new.clone().map(|row| size(entries.get(row))).sum::<usize>();
                rows.extend(new.start as u32..new.end as u32);
            }
            if bytes > most {
                return None;
            }
        }
        let changed = of(
            rows.len(),
            rows.into_iter().map(|row| entries.get(row as usize)),
        );
        Some(Changes { changed, removed })
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }
}

impl Entries {
    /// What they are after these changes, the oldest of which is first.
    #[must_use]
    pub fn with_changes(&self, changes: &[Changes]) -> Self {
        let mut told: Vec<(u64, usize)> = (changes.iter().enumerate())
            .flat_map(|(at, each)| each.hashes().map(move |hash| (hash, at)))
            .collect();
        told.sort_unstable_by(|one, other| other.cmp(one));
        told.dedup_by_key(|(hash, _)| *hash); // the last that tells of it is first
        told.reverse();
        let latest = changes.iter().enumerate().map(|(at, each)| {
            let is_latest = |hash: &u64| {
                let found = told.binary_search_by_key(hash, |(hash, _)| *hash);
                found.is_ok_and(|row| told[row].1 == at)
            };
            let rows = each.changed.iter().filter(|(hash, ..)| is_latest(hash));
            of(each.changed.len(), rows)
        });
        let latest = Self::merge(&latest.collect::<Vec<_>>());
        let mut new = latest.iter().peekable();
        let mut told = told.into_iter().map(|(hash, _)| hash).peekable();
        let mut rows = Vec::with_capacity(self.len() + latest.len());
        for entry in self.iter() {
            while let Some(before) = new.next_if(|(hash, ..)| *hash < entry.0) {
                rows.push(before);
            }
            while told.next_if(|hash| *hash < entry.0).is_some() {}
            if told.peek() != Some(&entry.0) {
                rows.push(entry);
            }
        }
        rows.extend(new);
        of(rows.len(), rows.into_iter())
    }
}

impl Changes {
    fn hashes(&self) -> impl Iterator<Item = u64> {
        let changed = self.changed.iter().map(|(hash, ..)| hash);
        changed.chain(self.removed.iter().copied())
    }
}

/// The hash that comes first, unless both have come to their end.
fn first(one: Option<&u64>, other: Option<&u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(*one.min(other)),
        (one, other) => one.or(other).copied(),
    }
}

/// The end of the rows from this one on that have the hash.
fn end(hashes: &[u64], mut row: usize, hash: u64) -> usize {
    while hashes.get(row) == Some(&hash) {
        row += 1;
    }
    row
}

/// Entries of these rows, which are in order, and about so many.
fn of<'a>(len: usize, rows: impl Iterator<Item = (u64, &'a [u8], &'a [u8])>) -> Entries {
    let mut hashes = Vec::with_capacity(len);
    let mut keys = ByteStrings::with_room(len, 0);
    let mut values = ByteStrings::with_room(len, 0);
    for (hash, key, value) in rows {
        hashes.push(hash);
        keys.push(key);
        values.push(value);
    }
    Entries::sorted(hashes, keys).with_values(values)
}

/// Bytes of an entry as it is written: with its hash, and where its key and value end.
fn size((_, key, value): (u64, &[u8], &[u8])) -> usize {
    3 * size_of::<u64>() + key.len() + value.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Two keys have the same hash.
    fn state() -> impl Strategy<Value = BTreeMap<u8, u8>> {
        prop::collection::btree_map(0..12_u8, 0..3_u8, 0..12)
    }

    fn entries(state: &BTreeMap<u8, u8>) -> Entries {
        let hashes: Vec<_> = state.keys().map(|key| u64::from(key / 2) << 60).collect();
        let keys = state.keys().map(|key| [*key]).collect();
        Entries::new(
            &hashes,
            &keys,
            &state.values().map(|value| [*value]).collect(),
        )
    }

    fn digests(entries: &Entries) -> Digests {
        Digests::of(entries, None, 0)
    }

    proptest! {
        #[test]
        fn what_changed_makes_the_later_out_of_the_earlier(
            states in prop::collection::vec(state(), 1..6)
        ) {
            let all: Vec<_> = states.iter().map(entries).collect();
            let told: Vec<_> = all.iter().map(digests).collect();
            let changes = (1..all.len()).map(|at| {
                told[at - 1].changes(&told[at], &all[at], usize::MAX).unwrap()
            });
            let changes: Vec<_> = changes.collect();
            for (at, expected) in all.iter().enumerate() {
                prop_assert_eq!(&all[0].with_changes(&changes[..at]), expected);
            }
        }

        #[test]
        fn what_is_as_before_is_no_change(before in state(), now in state()) {
            let [old, new] = [&before, &now].map(entries);
            let changes = digests(&old).changes(&digests(&new), &new, usize::MAX).unwrap();
            let of_hash = |state: &BTreeMap<u8, u8>, hash: u64| {
                let key = (hash >> 60) as u8 * 2;
                state.range(key..key + 2).map(|(key, value)| (*key, *value)).collect::<Vec<_>>()
            };
            let told: Vec<_> = changes.hashes().collect();
            for hash in (0..6).map(|hash| hash << 60) {
                let is_other = of_hash(&before, hash) != of_hash(&now, hash);
                prop_assert_eq!(told.contains(&hash), is_other, "{}", hash);
            }
            let bytes = 26 * changes.changed.len() + 8 * changes.removed.len();
            let within = |most| digests(&old).changes(&digests(&new), &new, most);
            prop_assert_eq!(within(bytes), Some(changes));
            prop_assert!(bytes == 0 || within(bytes - 1).is_none());
        }
    }

    #[test]
    fn a_hash_has_its_first_time_until_it_is_gone() {
        let of = |hashes: &[u64]| {
            let bytes: ByteStrings = hashes.iter().map(|_| b"x".as_slice()).collect();
            Entries::new(hashes, &bytes, &bytes)
        };
        let steps: [(&[u64], Option<u32>); 6] = [
            (&[], None),
            (&[2, 2, 9], Some(1)),
            (&[1, 2, 5, 9], Some(1)),
            (&[1, 5, 7], Some(2)),
            (&[5, 7, 9], Some(2)),
            (&[0, 9], Some(4)),
        ];
        let mut before = None;
        for (now, (hashes, oldest)) in (0..).zip(steps) {
            let digests = Digests::of(&of(hashes), before.as_ref(), now);
            assert_eq!(digests.oldest(), oldest, "{now}");
            before = Some(digests);
        }
    }

    #[test]
    fn where_a_key_ends_counts() {
        let of = |key: &[u8], value: &[u8]| {
            Entries::new(
                &[7],
                &[key].into_iter().collect(),
                &[value].into_iter().collect(),
            )
        };
        let (before, now) = (of(b"a", b"bc"), of(b"ab", b"c"));
        let changes = digests(&before).changes(&digests(&now), &now, 99);
        assert_eq!(before.with_changes(&[changes.unwrap()]), now);
    }
}

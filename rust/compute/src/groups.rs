//! The values of keys, wherever they were found.

use crate::accumulator::{Accumulated, Aggregation, parts};
use crate::copied::{Column, Keys, Values};
use crate::key;
use crate::path::Path;
use crate::problem::Problem;
use crate::table::KeyTable;
use crate::windows::{Copied, SliceTable};
use oka_window::Table;
use std::iter;
use std::mem;
use std::ops::Range;

/// What is computed of each key's records: one aggregation, and others beside it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) aggregation: Aggregation,
    /// With the way from the record to the value.
    pub(crate) further: Vec<(Aggregation, Path)>,
    /// Whether a record that fails leaves everything as it was.
    pub(crate) careful: bool,
}

impl Wanted {
    pub(crate) fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            further: Vec::new(),
            careful: false,
        }
    }

    /// Each of the aggregations.
    pub(crate) fn all(&self) -> impl Iterator<Item = Aggregation> {
        let further = self.further.iter().map(|(aggregation, _)| *aggregation);
        iter::once(self.aggregation).chain(further)
    }

    /// What a record comes to by itself.
    pub(crate) fn alone(&self, value: &[u8], record: &[u8]) -> Result<Vec<Accumulated>, Problem> {
        let first = Accumulated::first(self.aggregation, value);
        let further = self.further.iter().map(|further| {
            let value = further_value(further, record)?;
            Accumulated::first(further.0, value)
        });
        iter::once(first).chain(further).collect()
    }
}

/// The value of a record that is computed beside the first.
pub(crate) fn further_value<'r>(
    (aggregation, path): &(Aggregation, Path),
    record: &'r [u8],
) -> Result<&'r [u8], Problem> {
    match aggregation {
        Aggregation::Count => Ok(record),
        _ => path.find(record).map_err(Problem::NoValue),
    }
}

/// A key with its values now.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Dense number of the key, the same in every update.
    pub number: usize,
    /// The key as it was first encoded.
    pub key: &'a [u8],
    /// The value of the first aggregation.
    pub value: &'a Accumulated,
    pub(crate) further: &'a [Vec<Accumulated>],
}

impl<'a> Update<'a> {
    /// One value for each aggregation.
    pub fn values(&self) -> impl Iterator<Item = &'a Accumulated> {
        let number = self.number;
        let further = self.further.iter().map(move |each| &each[number]);
        iter::once(self.value).chain(further)
    }
}

/// A key as it is encoded, and its canonical bytes.
pub(crate) type Encoded<'a> = (&'a [u8], &'a [u8]);

/// Keys with their values, and which were touched.
#[derive(Debug)]
pub(crate) struct Groups {
    aggregations: Box<[Aggregation]>,
    table: KeyTable,
    entries: Vec<Entry>,
    /// For each aggregation beside the first, the values by the number of the key.
    further: Vec<Vec<Accumulated>>,
    touched: Vec<usize>,
    /// Counts the calls of `settle`; an entry with this number is in `touched`.
    round: u64,
    /// Of a table that others were merged into, how many have each key.
    holders: Vec<u32>,
    copied: Keys,
}

#[derive(Debug)]
struct Entry {
    round: u64,
    /// The key as it was first encoded, where that differs from the canonical bytes in the table.
    key: Option<Box<Box<[u8]>>>,
    value: Accumulated,
}

impl Groups {
    pub(crate) fn new(wanted: &Wanted) -> Self {
        let further = wanted.further.iter().map(|(aggregation, _)| *aggregation);
        Self {
            aggregations: iter::once(wanted.aggregation).chain(further).collect(),
            table: KeyTable::new(),
            entries: Vec::new(),
            further: vec![Vec::new(); wanted.further.len()],
            touched: Vec::new(),
            round: 1,
            holders: Vec::new(),
            copied: Keys::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Fails where [`Self::add`] would.
    #[cold]
    pub(crate) fn check(
        &self,
        wanted: &Wanted,
        canonical: &[u8],
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let alone = wanted.alone(value, record)?;
        let Some(number) = self.table.find(canonical) else {
            return Ok(());
        };
        let found = self.update(number);
        let mut each = wanted.all().zip(found.values().zip(&alone));
        each.try_for_each(|(aggregation, (so_far, new))| so_far.check(aggregation, new))
    }

    /// Takes in a record's value, and the record itself for what is computed beside.
    #[expect(
        clippy::inline_always,
        reason = "it has two callers, each the loop over records"
    )]
    #[inline(always)]
    pub(crate) fn add<'r>(
        &mut self,
        wanted: &Wanted,
        (key, canonical): Encoded,
        value: &[u8],
        record: impl FnOnce() -> &'r [u8],
    ) -> Result<(), Problem> {
        let number = self.table.number(canonical);
        if number == self.entries.len() {
            let first = Accumulated::first(wanted.aggregation, value);
            let first = first.inspect_err(|_| _ = self.table.remove(canonical))?;
            let differs = canonical != key;
            self.entries.push(Entry {
                round: 0,
                key: differs.then(|| Box::new(key.into())),
                value: first,
            });
        } else {
            let changed = self.entries[number].value.add(wanted.aggregation, value)?;
            if !changed && self.further.is_empty() {
                return Ok(());
            }
        }
        let entry = &mut self.entries[number];
        if entry.round != self.round {
            entry.round = self.round;
            self.touched.push(number);
        }
        if self.further.is_empty() {
            return Ok(());
        }
        self.add_further(wanted, number, record())
    }

    fn add_further(
        &mut self,
        wanted: &Wanted,
        number: usize,
        record: &[u8],
    ) -> Result<(), Problem> {
        for (further, values) in wanted.further.iter().zip(&mut self.further) {
            let (aggregation, value) = (further.0, further_value(further, record)?);
            match values.get_mut(number) {
                Some(so_far) => {
                    so_far.add(aggregation, value)?;
                }
                None => values.push(Accumulated::first(aggregation, value)?),
            }
        }
        Ok(())
    }

    /// Some of the keys touched since the last `settle`, in the order in which they were touched.
    #[inline]
    pub(crate) fn updates(&self, some: Range<usize>) -> impl Iterator<Item = Update<'_>> {
        self.touched[some].iter().map(|number| self.update(*number))
    }

    /// The keys from this number on, as they were first encoded.
    pub(crate) fn keys(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        (first..self.len()).map(|number| self.update(number).key)
    }

    /// What all keys have come to, by their numbers.
    pub(crate) fn values(&self) -> Values {
        let first = Column::of(self.entries.iter().map(|entry| &entry.value));
        let further = self.further.iter().map(|each| Column::of(each.iter()));
        Values::new(iter::once(first).chain(further).collect())
    }

    /// All of those touched, for the last time.
    #[inline]
    pub(crate) fn take_updates(&mut self) -> impl Iterator<Item = Update<'_>> {
        self.round += 1;
        let (entries, table, further) = (&self.entries, &self.table, &self.further);
        let numbers = self.touched.drain(..);
        numbers.map(|number| update(number, entries, table, further))
    }

    /// Reads the places of keys with these hashes.
    pub(crate) fn read_ahead(&self, hashes: &[u64]) {
        self.table.read_ahead(hashes);
    }

    /// Takes in what an update has encoded, of a key that is not here; it may count as touched.
    pub(crate) fn import_key(
        &mut self,
        wanted: &Wanted,
        (key, canonical): Encoded,
        values: &[u8],
        touched: bool,
    ) -> Result<(), Problem> {
        let values = parts(values, self.further.len() + 1)?;
        let value = Accumulated::decode(wanted.aggregation, values[0])?;
        let further = wanted.further.iter().zip(&values[1..]);
        let further =
            further.map(|((aggregation, _), value)| Accumulated::decode(*aggregation, value));
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let number = self.table.number_by_call(canonical);
        if number < self.entries.len() {
            return Err(Problem::Twice);
        }
        let differs = canonical != key;
        self.entries.push(Entry {
            round: if touched { self.round } else { 0 },
            key: differs.then(|| Box::new(key.into())),
            value,
        });
        if touched {
            self.touched.push(number);
        }
        let values = self.further.iter_mut().zip(further);
        values.for_each(|(each, value)| each.push(value));
        Ok(())
    }

    fn merge_number(&mut self, other: &Self, from: usize) -> Result<(), Problem> {
        let number = self.table.number_of(&other.table, from);
        let entry = &other.entries[from];
        if number == self.entries.len() {
            self.entries.push(Entry {
                round: 0,
                key: entry.key.clone(),
                value: entry.value.clone(),
            });
            for (values, others) in self.further.iter_mut().zip(&other.further) {
                values.push(others[from].clone());
            }
            self.holders.push(1);
            return Ok(());
        }
        self.holders[number] += 1;
        let mut aggregations = self.aggregations.iter();
        let mut merge = |so_far: &mut Accumulated, value| match aggregations.next() {
            Some(aggregation) => so_far.merge(*aggregation, value),
            None => Ok(()),
        };
        merge(&mut self.entries[number].value, &entry.value)?;
        let further = self.further.iter_mut().zip(&other.further);
        further
            .into_iter()
            .try_for_each(|(values, others)| merge(&mut values[number], &others[from]))
    }

    /// Takes out what another table has of a key; false where that is not exact.
    fn subtract_number(&mut self, other: &Self, from: usize) -> bool {
        let Some(number) = self.table.find_of(&other.table, from) else {
            return false;
        };
        self.holders[number] -= 1;
        if self.holders[number] == 0 {
            self.table.remove(other.table.key(from));
            self.entries.swap_remove(number);
            self.holders.swap_remove(number);
            for values in &mut self.further {
                values.swap_remove(number);
            }
            return true;
        }
        let mut aggregations = self.aggregations.iter();
        let mut subtract = |so_far: &mut Accumulated, value| {
            aggregations
                .next()
                .is_some_and(|each| so_far.subtract(*each, value))
        };
        subtract(&mut self.entries[number].value, &other.entries[from].value)
            && (self.further.iter_mut().zip(&other.further))
                .all(|(values, others)| subtract(&mut values[number], &others[from]))
    }

    #[inline]
    pub(crate) fn update(&self, number: usize) -> Update<'_> {
        update(number, &self.entries, &self.table, &self.further)
    }
}

impl Table for Groups {
    type Error = Problem;

    fn merge(&mut self, other: &Self) -> Result<(), Problem> {
        (0..other.len()).try_for_each(|number| self.merge_number(other, number))
    }

    fn subtract(&mut self, other: &Self) -> bool {
        (0..other.len()).all(|number| self.subtract_number(other, number))
    }
}

impl SliceTable for Groups {
    type Wanted = Wanted;

    fn with_room(wanted: &Wanted, keys: usize) -> Self {
        Self {
            table: KeyTable::with_room(keys),
            entries: Vec::with_capacity(keys),
            ..Self::new(wanted)
        }
    }

    fn touched(&self) -> usize {
        self.touched.len()
    }

    fn settle(&mut self) {
        drop(self.take_updates());
    }

    fn all(&mut self) -> usize {
        self.len()
    }

    fn touched_in(wanted: &Wanted, tables: &[&Self]) -> Result<Self, Problem> {
        let touched = tables.iter().map(|table| table.touched());
        let mut keys = KeyTable::with_room(touched.sum());
        for table in tables {
            for number in &table.touched {
                keys.number_of(&table.table, *number);
            }
        }
        let mut found = Self::with_room(wanted, keys.len());
        for table in tables {
            for number in 0..keys.len() {
                if let Some(number) = table.table.find_of(&keys, number) {
                    found.merge_number(table, number)?;
                }
            }
        }
        found.touched = (0..found.len()).collect();
        Ok(found)
    }

    fn copy_keys(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    fn copy(&mut self) -> Result<Copied<Problem>, Problem> {
        let mut copied = mem::take(&mut self.copied);
        copied.add(self.keys(copied.len()));
        let (keys, values) = (copied.take(), self.values());
        self.copied = copied;
        Ok(Box::new(move || {
            Ok((keys.iter().collect(), values.gather(0..values.len())))
        }))
    }

    fn import(&mut self, wanted: &Wanted, keys: &[&[u8]], values: &[&[u8]]) -> Result<(), Problem> {
        let mut scratch = Vec::new();
        keys.iter().zip(values).try_for_each(|(key, values)| {
            let canonical = key::canonical(key, &mut scratch)?;
            self.import_key(wanted, (key, canonical), values, true)
        })
    }
}

#[inline]
fn update<'a>(
    number: usize,
    entries: &'a [Entry],
    table: &'a KeyTable,
    further: &'a [Vec<Accumulated>],
) -> Update<'a> {
    let entry = &entries[number];
    Update {
        number,
        key: match &entry.key {
            Some(key) => key,
            None => table.key(number),
        },
        value: &entry.value,
        further,
    }
}

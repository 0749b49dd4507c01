//! Keys with what they have come to, wherever they were found.
//!
//! - [`wanted`]: what is computed; [`results`]: what keys, or windows, have come to by their numbers.
//! - [`touched`]: which keys were touched.
//! - [`copied`]: a copy of what keys have come to, taken in no time; [`kept`]: what is kept of windows, encoded.

pub(crate) mod copied;
pub mod kept;
pub(crate) mod results;
pub(crate) mod touched;
pub(crate) mod wanted;

use self::copied::{Copied, Values};
use crate::accumulator::Aggregation;
use crate::groups::results::{Results, Update};
use crate::groups::touched::Touched;
use crate::groups::wanted::Wanted;
use crate::keys::interner::{Encoded, Interner};
use crate::keys::key;
use crate::problem::Problem;
use crate::windows::SliceTable;
use oka_window::Table;
use std::ops::Range;

/// Keys with their values, and which were touched.
#[derive(Debug)]
pub(crate) struct Groups {
    aggregations: Box<[Aggregation]>,
    keys: Interner,
    results: Results,
    touched: Touched,
    /// Of a table that others were merged into, how many have each key.
    holders: Vec<u32>,
    copied: copied::Keys,
}

impl Groups {
    pub(crate) fn new(wanted: &Wanted) -> Self {
        Self::of(wanted, Interner::default(), Results::default())
    }

    /// For a few keys.
    pub(crate) fn small(wanted: &Wanted) -> Self {
        Self::of(wanted, Interner::small(), Results::default())
    }

    fn of(wanted: &Wanted, keys: Interner, results: Results) -> Self {
        Self {
            aggregations: wanted.all().collect(),
            keys,
            results,
            touched: Touched::default(),
            holders: Vec::new(),
            copied: copied::Keys::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
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
        let found = self.keys.find(canonical);
        self.results.check(wanted, found.into_iter(), &alone)
    }

    /// Takes in a record's value, and the record itself for what is computed beside.
    #[expect(
        clippy::inline_always,
        reason = "it has two callers, each the loop over records"
    )]
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let number = self.keys.find_or_begin(key.1);
        if number == self.keys.len() {
            return self.begin(wanted, key.0, key.1, value, record);
        }
        if self.results.add(wanted, number, value, record)? {
            self.touched.touch(number);
        }
        Ok(())
    }

    /// Takes in the first record of a key.
    #[cold]
    #[inline(never)]
    fn begin(
        &mut self,
        wanted: &Wanted,
        key: &[u8],
        canonical: &[u8],
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let number = self.keys.len();
        self.keys.add((key, canonical));
        let begun = self.results.begin(wanted, value, record);
        self.touched.resize(number + 1);
        begun.inspect_err(|_| self.remove(number))?;
        self.touched.touch(number);
        Ok(())
    }

    /// Forgets a key that was not touched. The key with the last number has that one from now on.
    #[cold]
    fn remove(&mut self, number: usize) {
        self.keys.swap_remove(number);
        self.results.swap_remove(number);
        self.touched.swap_remove(number);
    }

    /// Number of keys touched since the last `settle`.
    pub(crate) fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Some of the keys touched since the last `settle`, in the order in which they were touched.
    #[inline]
    pub(crate) fn updates(&self, some: Range<usize>) -> impl Iterator<Item = Update<'_>> {
        let some = self.touched.some(some).iter();
        some.map(|number| self.update(*number as usize))
    }

    /// The keys from this number on, as they were first encoded.
    pub(crate) fn keys(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.keys.from(first)
    }

    /// What all keys have come to, by their numbers.
    pub(crate) fn values(&self) -> Values {
        self.results.copy(&(0..self.len()))
    }

    /// All of those touched, for the last time.
    #[inline]
    pub(crate) fn take_updates(&mut self) -> impl Iterator<Item = Update<'_>> {
        let (keys, results) = (&self.keys, &self.results);
        let numbers = self.touched.take().map(|number| number as usize);
        numbers.map(|number| results.update(number, keys.get(number)))
    }

    /// Reads the places of keys with these hashes.
    pub(crate) fn read_ahead(&self, hashes: &[u64]) {
        self.keys.read_ahead(hashes);
    }

    /// Takes in what an update has encoded, of a key that is not here; it may count as touched.
    pub(crate) fn import_key(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        values: &[u8],
        touched: bool,
    ) -> Result<(), Problem> {
        let number = self.keys.number_by_call(key);
        if number < self.results.len() {
            return Err(Problem::Twice);
        }
        self.results.import(wanted, values)?;
        self.touched.resize(number + 1);
        if touched {
            self.touched.touch(number);
        } else {
            self.touched.see(number);
        }
        Ok(())
    }

    /// Takes in what an update has encoded, which comes behind what is here of the key.
    pub(crate) fn merge_key(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        values: &[u8],
    ) -> Result<(), Problem> {
        let mut other = Results::default();
        other.import(wanted, values)?;
        let number = self.keys.number_by_call(key);
        self.results
            .merge(&self.aggregations, number, (&other, 0))?;
        self.touched.resize(self.keys.len());
        self.touched.touch(number);
        Ok(())
    }

    fn merge_number(&mut self, other: &Self, from: usize) -> Result<(), Problem> {
        let number = self.keys.number_of(&other.keys, from);
        if number == self.holders.len() {
            self.holders.push(0);
            self.touched.resize(number + 1);
        }
        self.holders[number] += 1;
        self.touched.see(number);
        let others = (&other.results, from);
        self.results.merge(&self.aggregations, number, others)
    }

    /// Takes out what another table has of a key; false where that is not exact.
    fn subtract_number(&mut self, other: &Self, from: usize) -> bool {
        let Some(number) = self.keys.find_of(&other.keys, from) else {
            return false;
        };
        self.holders[number] -= 1;
        if self.holders[number] == 0 {
            self.holders.swap_remove(number);
            self.remove(number);
            return true;
        }
        let others = (&other.results, from);
        self.results.subtract(&self.aggregations, number, others)
    }

    #[inline]
    pub(crate) fn update(&self, number: usize) -> Update<'_> {
        self.results.update(number, self.keys.get(number))
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
        let (interner, results) = (Interner::with_room(keys), Results::with_room(keys));
        Self::of(wanted, interner, results)
    }

    fn touched(&self) -> usize {
        self.touched.len()
    }

    fn settle(&mut self) {
        self.touched.settle();
    }

    fn all(&mut self) -> usize {
        self.len()
    }

    fn touched_in(wanted: &Wanted, tables: &[&Self]) -> Result<Self, Problem> {
        let touched = tables.iter().map(|table| table.touched.len());
        let mut keys = Interner::with_room(touched.sum());
        for table in tables {
            for number in table.touched.some(0..table.touched.len()) {
                keys.number_of(&table.keys, *number as usize);
            }
        }
        let mut found = Self::with_room(wanted, keys.len());
        for table in tables {
            for number in 0..keys.len() {
                if let Some(number) = table.keys.find_of(&keys, number) {
                    found.merge_number(table, number)?;
                }
            }
        }
        found.touched.touch_known();
        Ok(found)
    }

    fn copy_keys(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    fn copy(&mut self) -> Result<Copied, Problem> {
        let keys = self.copied.copy(&self.keys);
        Ok(copied::later(keys, self.values()))
    }

    fn import(&mut self, wanted: &Wanted, keys: &[&[u8]], values: &[&[u8]]) -> Result<(), Problem> {
        let mut scratch = Vec::new();
        keys.iter().zip(values).try_for_each(|(key, values)| {
            let canonical = key::canonical(key, &mut scratch)?;
            self.import_key(wanted, (key, canonical), values, true)
        })
    }

    fn take_in(
        &mut self,
        wanted: &Wanted,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> Result<(), Problem> {
        let mut scratch = Vec::new();
        keys.iter().zip(values).try_for_each(|(key, values)| {
            let canonical = key::canonical(key, &mut scratch)?;
            self.merge_key(wanted, (key, canonical), values)
        })
    }
}

//! How often each of several values came.

use crate::encode;
use crate::fields::first;
use crate::kept::integer;
use crate::key;
use crate::problem::Problem;
use crate::table::KeyTable;
use std::cmp::Reverse;

/// Different values, in the order in which they first came, and how often each did. Values that are
/// equal in Python are one; it is shown as it first came.
#[derive(Debug)]
pub struct Tally {
    table: KeyTable,
    counts: Vec<u64>,
    /// Values that are encoded otherwise than their canonical bytes.
    forms: Vec<Option<Box<[u8]>>>,
}

impl Tally {
    /// Number of different values.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The values that came most often, encoded, with how often they did: at most so many. Of those
    /// that came as often, the first ones.
    pub fn top(&self, most: usize) -> Vec<(&[u8], u64)> {
        let mut values: Vec<_> = self.values().collect();
        values.sort_by_key(|(_, count)| Reverse(*count));
        values.truncate(most);
        values
    }

    /// Counts the value that begins here.
    pub(crate) fn add(&mut self, encoded: &[u8]) -> Result<(), Problem> {
        self.count(first(encoded)?, 1)
    }

    /// Takes in what others have counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (number, count) in other.counts.iter().enumerate() {
            let place = self.table.number_of(&other.table, number);
            self.add_at(place, *count, || other.forms[number].clone());
        }
    }

    /// Appends an array of values, each followed by its count.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::array(out, 2 * self.len());
        for (value, count) in self.values() {
            out.extend_from_slice(value);
            encode::unsigned(out, count);
        }
    }

    /// What [`Self::encode`] has appended, item by item.
    pub(crate) fn decode(items: &[&[u8]]) -> Result<Self, Problem> {
        let mut tally = Self::default();
        for pair in items.chunks(2) {
            let &[value, count] = pair else {
                return Err(Problem::Parts(2));
            };
            let count = u64::try_from(integer(count)?).map_err(|_| Problem::Overflow)?;
            tally.count(value, count)?;
        }
        Ok(tally)
    }

    fn count(&mut self, value: &[u8], count: u64) -> Result<(), Problem> {
        let mut scratch = Vec::new();
        let canonical = key::canonical(value, &mut scratch).map_err(Problem::Untold)?;
        let place = self.table.number_by_call(canonical);
        let differs = canonical != value;
        self.add_at(place, count, || differs.then(|| value.into()));
        Ok(())
    }

    fn add_at(&mut self, place: usize, count: u64, form: impl FnOnce() -> Option<Box<[u8]>>) {
        if place == self.counts.len() {
            self.counts.push(0);
            self.forms.push(form());
        }
        self.counts[place] += count;
    }

    fn values(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let form = |number: usize| self.forms[number].as_deref();
        let value = move |number| form(number).unwrap_or_else(|| self.table.key(number));
        (0..self.len()).map(move |number| (value(number), self.counts[number]))
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            table: KeyTable::small(),
            counts: Vec::new(),
            forms: Vec::new(),
        }
    }
}

impl Clone for Tally {
    fn clone(&self) -> Self {
        let mut other = Self::default();
        other.merge(self);
        other
    }
}

impl PartialEq for Tally {
    fn eq(&self, other: &Self) -> bool {
        self.values().eq(other.values())
    }
}

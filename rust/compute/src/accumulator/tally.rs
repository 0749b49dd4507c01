//! How often each of several values came.

use crate::encoded::encode;
use crate::encoded::fields::first;
use crate::groups::kept::integer;
use crate::keys::interner::Interner;
use crate::keys::key;
use crate::problem::Problem;
use std::cmp::Reverse;

/// Different values, in the order in which they first came, and how often each did. Values that are
/// equal in Python are one; it is shown as it first came.
#[derive(Debug)]
pub struct Tally {
    different: Interner,
    counts: Vec<u64>,
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
            let place = self.different.number_of(&other.different, number);
            self.add_at(place, *count);
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

    /// Counts a value so often.
    pub(crate) fn count(&mut self, value: &[u8], count: u64) -> Result<(), Problem> {
        let mut scratch = Vec::new();
        let canonical = key::canonical(value, &mut scratch).map_err(Problem::Untold)?;
        let place = self.different.number_by_call((value, canonical));
        self.add_at(place, count);
        Ok(())
    }

    fn add_at(&mut self, place: usize, count: u64) {
        self.counts.resize(self.different.len(), 0);
        self.counts[place] += count;
    }

    fn values(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.different.from(0).zip(self.counts.iter().copied())
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            different: Interner::small(),
            counts: Vec::new(),
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

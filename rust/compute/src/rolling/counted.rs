//! Different values within a span, and how often each is there.

use super::fold::Kept;
use crate::accumulator::tally::Tally;
use crate::keys::interner::Interner;
use crate::keys::key;
use crate::problem::Problem;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// Values that are equal in Python are one. A record costs as much as two look-ups.
#[derive(Debug)]
pub(super) struct Counted {
    values: Interner,
    /// By the number of a value.
    counts: Vec<u64>,
    ranks: Option<Ranks>,
    /// A value, and what it is looked for by.
    encoded: (Vec<u8>, Vec<u8>),
}

/// Which values are there most often, and which of these came first.
#[derive(Debug, Default)]
struct Ranks {
    /// By the number of a value, the places of its records.
    places: Vec<VecDeque<u64>>,
    order: BTreeSet<(Reverse<usize>, u64, usize)>,
}

impl Counted {
    /// `are_ranked`: [`Self::top`] is asked for.
    pub(super) fn new(are_ranked: bool) -> Self {
        Self {
            values: Interner::small(),
            counts: Vec::new(),
            ranks: are_ranked.then(Ranks::default),
            encoded: (Vec::new(), Vec::new()),
        }
    }

    /// Number of different values.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn add(&mut self, place: u64, kept: Kept) -> Result<(), Problem> {
        let (value, scratch) = &mut self.encoded;
        kept.encode(place, value);
        let canonical = key::canonical(value, scratch).map_err(Problem::Untold)?;
        let number = self.values.number_by_call((value, canonical));
        if number == self.counts.len() {
            self.counts.push(0);
        }
        self.counts[number] += 1;
        if let Some(ranks) = &mut self.ranks {
            ranks.add(number, place);
        }
        Ok(())
    }

    /// Takes out the one at this place, which is the first of all.
    pub(super) fn remove(&mut self, place: u64, kept: Kept) -> Result<(), Problem> {
        let (value, scratch) = &mut self.encoded;
        kept.encode(place, value);
        let canonical = key::canonical(value, scratch).map_err(Problem::Untold)?;
        let Some(number) = self.values.find(canonical) else {
            return Ok(());
        };
        self.counts[number] -= 1;
        let is_gone = self.counts[number] == 0;
        if let Some(ranks) = &mut self.ranks {
            ranks.remove(number);
            if is_gone {
                ranks.swap_remove(number);
            }
        }
        if is_gone {
            self.counts.swap_remove(number);
            self.values.swap_remove(number);
        }
        Ok(())
    }

    /// The values that are there most often, at most so many; of those that are as often, the first ones.
    pub(super) fn top(&self, most: usize, kept: Kept) -> Result<Tally, Problem> {
        let (mut top, mut value) = (Tally::default(), Vec::new());
        let ranks = self.ranks.iter().flat_map(|ranks| &ranks.order);
        for (Reverse(count), place, _) in ranks.take(most) {
            kept.encode(*place, &mut value);
            top.count(&value, *count as u64)?;
        }
        Ok(top)
    }
}

impl Ranks {
    fn add(&mut self, number: usize, place: u64) {
        if number == self.places.len() {
            self.places.push(VecDeque::new());
        }
        self.take_rank(number);
        self.places[number].push_back(place);
        self.rank(number, number);
    }

    fn remove(&mut self, number: usize) {
        self.take_rank(number);
        self.places[number].pop_front();
        self.rank(number, number);
    }

    /// Forgets a value that is not there any more, whose number the last one then has.
    fn swap_remove(&mut self, number: usize) {
        let last = self.places.len() - 1;
        if number < last {
            self.take_rank(last);
            self.rank(last, number);
        }
        self.places.swap_remove(number);
    }

    fn take_rank(&mut self, number: usize) {
        if let Some(rank) = self.rank_of(number, number) {
            self.order.remove(&rank);
        }
    }

    fn rank(&mut self, number: usize, shown: usize) {
        self.order.extend(self.rank_of(number, shown));
    }

    fn rank_of(&self, number: usize, shown: usize) -> Option<(Reverse<usize>, u64, usize)> {
        let places = &self.places[number];
        Some((Reverse(places.len()), *places.front()?, shown))
    }
}

//! What keys, or windows, have come to.

use crate::accumulator::{Accumulated, Aggregation, parts};
use crate::groups::copied::{Column, Values};
use crate::groups::wanted::Wanted;
use crate::problem::Problem;
use std::hint::black_box;
use std::{iter, mem};

/// By the number of a key, or of a window: one value for each aggregation.
#[derive(Debug, Default)]
pub(crate) struct Results {
    first: Vec<Accumulated>,
    /// For each aggregation beside the first.
    further: Vec<Vec<Accumulated>>,
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
    further: &'a [Vec<Accumulated>],
}

impl<'a> Update<'a> {
    /// One value for each aggregation.
    pub fn values(&self) -> impl Iterator<Item = &'a Accumulated> + use<'a> {
        let number = self.number;
        let further = self.further.iter().map(move |each| &each[number]);
        iter::once(self.value).chain(further)
    }
}

impl Results {
    pub(crate) fn with_room(numbers: usize) -> Self {
        Self {
            first: Vec::with_capacity(numbers),
            further: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// For each aggregation, all values.
    fn each(&mut self) -> impl Iterator<Item = &mut Vec<Accumulated>> {
        iter::once(&mut self.first).chain(&mut self.further)
    }

    /// Makes room for each aggregation that is computed.
    fn widen(&mut self, further: usize) {
        self.further.resize_with(further, Vec::new);
    }

    /// Begins the next number with a record's value, and the record for what is computed beside. There is
    /// such a number then, even where this fails.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        wanted: &Wanted,
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let behind = self.len() + 1;
        let first = match &wanted.first {
            None => Accumulated::first(wanted.aggregation, value),
            Some(term) => term.alone(record),
        };
        let mut made = first.map(|first| self.first.push(first));
        if made.is_ok() && !wanted.further.is_empty() {
            made = self.begin_further(wanted, record);
        }
        if made.is_err() {
            self.widen(wanted.further.len());
            self.each()
                .for_each(|values| values.resize(behind, NOTHING));
        }
        made
    }

    fn begin_further(&mut self, wanted: &Wanted, record: &[u8]) -> Result<(), Problem> {
        self.widen(wanted.further.len());
        for (further, values) in wanted.further.iter().zip(&mut self.further) {
            values.push(further.alone(record)?);
        }
        Ok(())
    }

    /// Takes a record into a number: false if nothing changed, as only first values are looked at.
    #[expect(
        clippy::inline_always,
        reason = "a call costs a count window a twelfth of its time"
    )]
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        wanted: &Wanted,
        number: usize,
        value: &[u8],
        record: &[u8],
    ) -> Result<bool, Problem> {
        if wanted.is_plain() {
            return self.first[number].add(wanted.aggregation, value);
        }
        self.add_all(wanted, number, value, record)
    }

    fn add_all(
        &mut self,
        wanted: &Wanted,
        number: usize,
        value: &[u8],
        record: &[u8],
    ) -> Result<bool, Problem> {
        let first = &mut self.first[number];
        let changed = match &wanted.first {
            None => first.add(wanted.aggregation, value)?,
            Some(term) => term.add(first, record)?,
        };
        for (further, values) in wanted.further.iter().zip(&mut self.further) {
            further.add(&mut values[number], record)?;
        }
        Ok(changed || !wanted.further.is_empty())
    }

    /// Fails where a record that comes to this by itself could not be taken into these numbers.
    #[cold]
    pub(crate) fn check(
        &self,
        wanted: &Wanted,
        mut numbers: impl Iterator<Item = usize>,
        alone: &[Accumulated],
    ) -> Result<(), Problem> {
        numbers.try_for_each(|number| {
            let values = self.update(number, &[]).values();
            let mut each = wanted.all().zip(values.zip(alone));
            each.try_for_each(|(aggregation, (so_far, new))| so_far.check(aggregation, new))
        })
    }

    /// Takes into a number what others have under one; the next number begins with it.
    pub(crate) fn merge(
        &mut self,
        aggregations: &[Aggregation],
        into: usize,
        (others, from): (&Self, usize),
    ) -> Result<(), Problem> {
        self.widen(others.further.len());
        let others = others.update(from, &[]).values();
        for ((values, aggregation), other) in self.each().zip(aggregations).zip(others) {
            match values.get_mut(into) {
                Some(so_far) => so_far.merge(*aggregation, other)?,
                None => values.push(other.clone()),
            }
        }
        Ok(())
    }

    /// Takes out what [`Self::merge`] took in; false where that is not exact.
    pub(crate) fn subtract(
        &mut self,
        aggregations: &[Aggregation],
        into: usize,
        (others, from): (&Self, usize),
    ) -> bool {
        let others = others.update(from, &[]).values();
        let mut each = self.each().zip(aggregations).zip(others);
        each.all(|((values, aggregation), other)| values[into].subtract(*aggregation, other))
    }

    /// Takes into a number what is under another, which is of no use any more.
    pub(crate) fn join(
        &mut self,
        wanted: &Wanted,
        into: usize,
        from: usize,
    ) -> Result<(), Problem> {
        for (aggregation, values) in wanted.all().zip(self.each()) {
            let other = mem::replace(&mut values[from], NOTHING);
            values[into].merge(aggregation, &other)?;
        }
        Ok(())
    }

    /// Begins the next number with encoded values: one, or an array of several.
    pub(crate) fn import(&mut self, wanted: &Wanted, values: &[u8]) -> Result<(), Problem> {
        self.widen(wanted.further.len());
        let parts = parts(values, self.further.len() + 1)?;
        let decode = |(aggregation, part)| Accumulated::decode(aggregation, part);
        let found = wanted.all().zip(parts).map(decode);
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let values = self.each().zip(found);
        values.for_each(|(values, each)| values.push(each));
        Ok(())
    }

    /// A copy of what these numbers have come to.
    pub(crate) fn copy(&self, numbers: &(impl ExactSizeIterator<Item = usize> + Clone)) -> Values {
        let of = |values: &Vec<_>| Column::of(numbers.clone().map(|number| &values[number]));
        let further = self.further.iter().map(of);
        Values::new(iter::once(of(&self.first)).chain(further).collect())
    }

    /// Keeps these numbers alone, which are in order, with their places as numbers.
    pub(crate) fn keep(&mut self, numbers: &[usize]) {
        for values in self.each() {
            for (place, number) in numbers.iter().enumerate() {
                values.swap(place, *number);
            }
            values.truncate(numbers.len());
        }
    }

    pub(crate) fn swap_remove(&mut self, number: usize) {
        self.each()
            .for_each(|values| drop(values.swap_remove(number)));
    }

    /// Reads these numbers all at once.
    pub(crate) fn read(&self, numbers: impl Iterator<Item = usize>) {
        let values = numbers.filter_map(|number| self.first.get(number));
        let are_integers = values.map(|value| matches!(value, Accumulated::Integer(_)));
        black_box(are_integers.fold(false, |all, is| all ^ is));
    }

    /// What is under a number, beside its key.
    #[inline]
    pub(crate) fn update<'a>(&'a self, number: usize, key: &'a [u8]) -> Update<'a> {
        Update {
            number,
            key,
            value: &self.first[number],
            further: &self.further,
        }
    }
}

const NOTHING: Accumulated = Accumulated::Nothing;

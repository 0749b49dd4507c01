//! What windows have come to that have numbers.

use crate::accumulator::{Accumulated, parts};
use crate::copied::{Column, Values};
use crate::groups::{Update, Wanted, further_value};
use crate::problem::Problem;
use std::hint::black_box;
use std::mem;

/// The values of rows, by number.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// For each aggregation.
    values: Vec<Vec<Accumulated>>,
}

impl Rows {
    /// Makes the next row of a record's value, and of the record what is computed beside.
    #[inline]
    pub(super) fn begin<'r>(
        &mut self,
        wanted: &Wanted,
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<(), Problem> {
        let width = wanted.further.len() + 1;
        self.values.resize_with(width, Vec::new);
        let rows = self.values[0].len() + 1;
        let first = Accumulated::first(wanted.aggregation, value);
        let mut made = first.map(|first| self.values[0].push(first));
        for (further, values) in wanted.further.iter().zip(&mut self.values[1..]) {
            made = made.and_then(|()| {
                let value = further_value(further, record())?;
                values.push(Accumulated::first(further.0, value)?);
                Ok(())
            });
        }
        if made.is_err() {
            // There is a row in any case.
            let values = self.values.iter_mut();
            values.for_each(|each| each.resize(rows, NOTHING));
        }
        made
    }

    /// Fails where the record could not be taken into one row that these become.
    #[cold]
    pub(super) fn check(
        &self,
        wanted: &Wanted,
        mut rows: impl Iterator<Item = usize>,
        alone: &[Accumulated],
    ) -> Result<(), Problem> {
        rows.try_for_each(|row| {
            let mut each = wanted.all().zip(&self.values).zip(alone);
            each.try_for_each(|((aggregation, values), new)| values[row].check(aggregation, new))
        })
    }

    /// Takes a record into a row.
    #[inline]
    pub(super) fn add<'r>(
        &mut self,
        number: usize,
        wanted: &Wanted,
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<(), Problem> {
        let [first, others @ ..] = &mut self.values[..] else {
            return Ok(());
        };
        first[number].add(wanted.aggregation, value)?;
        for (further, values) in wanted.further.iter().zip(others) {
            values[number].add(further.0, further_value(further, record())?)?;
        }
        Ok(())
    }

    /// Reads these rows all at once.
    pub(super) fn read_ahead(&self, numbers: impl Iterator<Item = usize>) {
        let Some(first) = self.values.first() else {
            return;
        };
        let rows = numbers.filter_map(|number| first.get(number));
        let are_integers = rows.map(|value| matches!(value, Accumulated::Integer(_)));
        black_box(are_integers.fold(false, |all, is| all ^ is));
    }

    /// Takes into a row what another has come to, which is of no use any more.
    pub(super) fn merge(
        &mut self,
        wanted: &Wanted,
        into: usize,
        from: usize,
    ) -> Result<(), Problem> {
        for (aggregation, values) in wanted.all().zip(&mut self.values) {
            let other = mem::replace(&mut values[from], NOTHING);
            values[into].merge(aggregation, &other)?;
        }
        Ok(())
    }

    /// Keeps these alone, which are in order, with their places as numbers.
    pub(super) fn keep(&mut self, numbers: &[usize]) {
        for values in &mut self.values {
            for (place, number) in numbers.iter().enumerate() {
                values.swap(place, *number);
            }
            values.truncate(numbers.len());
        }
    }

    /// What this key has come to in a row.
    pub(super) fn update<'a>(&'a self, number: usize, key: &'a [u8]) -> Update<'a> {
        Update {
            number,
            key,
            value: &self.values[0][number],
            further: &self.values[1..],
        }
    }

    /// What there is in these rows.
    pub(super) fn copy(&self, numbers: &[u32]) -> Values {
        let of =
            |values: &Vec<_>| Column::of(numbers.iter().map(|number| &values[*number as usize]));
        Values::new(self.values.iter().map(of).collect())
    }

    /// Makes the next row of what an update has encoded.
    pub(super) fn import(&mut self, wanted: &Wanted, encoded: &[u8]) -> Result<(), Problem> {
        let width = wanted.further.len() + 1;
        self.values.resize_with(width, Vec::new);
        let decode = |(aggregation, part)| Accumulated::decode(aggregation, part);
        let found = wanted.all().zip(parts(encoded, width)?).map(decode);
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let values = self.values.iter_mut().zip(found);
        values.for_each(|(values, each)| values.push(each));
        Ok(())
    }
}

const NOTHING: Accumulated = Accumulated::Bool(false);

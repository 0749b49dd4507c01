//! What windows have come to that have numbers, and their keys.

use super::input::Record;
use super::keys::Keys;
use crate::accumulator::{Accumulated, parts};
use crate::copied::{Column, Values};
use crate::groups::{Update, Wanted, further_value};
use crate::key;
use crate::problem::Problem;
use crate::windows::{Copied, Row, WindowTable};
use std::hint::black_box;
use std::mem;

/// Keys, and the values of windows by number.
#[derive(Debug, Default)]
pub(super) struct WindowRows {
    pub(super) keys: Keys,
    /// For each aggregation.
    values: Vec<Vec<Accumulated>>,
}

impl WindowTable for WindowRows {
    type Wanted = Wanted;
    type Error = Problem;
    type Record<'a> = &'a Record<'a>;

    #[inline]
    fn begin(&mut self, _: usize, record: &Record) -> Result<(), Problem> {
        let wanted = record.wanted;
        let width = wanted.further.len() + 1;
        self.values.resize_with(width, Vec::new);
        let rows = self.values[0].len() + 1;
        let first = Accumulated::first(wanted.aggregation, record.value);
        let mut made = first.map(|first| self.values[0].push(first));
        for (further, values) in wanted.further.iter().zip(&mut self.values[1..]) {
            made = made.and_then(|()| {
                let value = further_value(further, record.whole())?;
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

    #[expect(
        clippy::inline_always,
        reason = "a call costs a count window a twelfth of its time"
    )]
    #[inline(always)]
    fn add(&mut self, window: usize, record: &Record) -> Result<(), Problem> {
        let wanted = record.wanted;
        let [first, others @ ..] = &mut self.values[..] else {
            return Ok(());
        };
        first[window].add(wanted.aggregation, record.value)?;
        for (further, values) in wanted.further.iter().zip(others) {
            values[window].add(further.0, further_value(further, record.whole())?)?;
        }
        Ok(())
    }

    fn join(&mut self, into: usize, from: usize, record: &Record) -> Result<(), Problem> {
        for (aggregation, values) in record.wanted.all().zip(&mut self.values) {
            let other = mem::replace(&mut values[from], NOTHING);
            values[into].merge(aggregation, &other)?;
        }
        Ok(())
    }

    fn keep_keys(&mut self, keys: &[usize]) -> Result<Vec<usize>, Problem> {
        Ok(self.keys.keep(keys))
    }

    fn keep_windows(&mut self, windows: &[usize]) -> Result<(), Problem> {
        for values in &mut self.values {
            for (place, number) in windows.iter().enumerate() {
                values.swap(place, *number);
            }
            values.truncate(windows.len());
        }
        Ok(())
    }

    fn copy_keys(&mut self) -> Result<(), Problem> {
        self.keys.copy_new();
        Ok(())
    }

    fn copy(&mut self, windows: &[u32]) -> Result<Copied<Problem>, Problem> {
        let of =
            |values: &Vec<_>| Column::of(windows.iter().map(|number| &values[*number as usize]));
        let values = Values::new(self.values.iter().map(of).collect());
        let keys = self.keys.copy();
        Ok(Box::new(move || {
            Ok((keys.iter().collect(), values.gather(0..values.len())))
        }))
    }

    fn import_keys(&mut self, _: &Wanted, keys: &[&[u8]]) -> Result<Vec<usize>, Problem> {
        let mut scratch = Vec::new();
        let number = |key: &&[u8]| {
            let canonical = key::canonical(key, &mut scratch)?;
            Ok(self.keys.number((key, canonical)))
        };
        keys.iter().map(number).collect()
    }

    fn import(&mut self, wanted: &Wanted, values: &[&[u8]]) -> Result<(), Problem> {
        let width = wanted.further.len() + 1;
        self.values.resize_with(width, Vec::new);
        for encoded in values {
            let decode = |(aggregation, part)| Accumulated::decode(aggregation, part);
            let found = wanted.all().zip(parts(encoded, width)?).map(decode);
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let values = self.values.iter_mut().zip(found);
            values.for_each(|(values, each)| values.push(each));
        }
        Ok(())
    }
}

impl WindowRows {
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

    /// Reads these rows all at once.
    pub(super) fn read_ahead(&self, numbers: impl Iterator<Item = usize>) {
        let Some(first) = self.values.first() else {
            return;
        };
        let rows = numbers.filter_map(|number| first.get(number));
        let are_integers = rows.map(|value| matches!(value, Accumulated::Integer(_)));
        black_box(are_integers.fold(false, |all, is| all ^ is));
    }

    /// Reads the keys and the values of these rows all at once, where keys are many.
    pub(super) fn read(&self, rows: &[Row]) {
        if self.keys.is_large() {
            self.keys.read(rows.iter().map(|row| row.key));
            self.read_ahead(rows.iter().map(|row| row.number));
        }
    }

    /// What a key has come to in a window.
    pub(super) fn update(&self, row: Row) -> Update<'_> {
        Update {
            number: row.number,
            key: self.keys.get(row.key),
            value: &self.values[0][row.number],
            further: &self.values[1..],
        }
    }
}

const NOTHING: Accumulated = Accumulated::Bool(false);

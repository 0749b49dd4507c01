//! Count windows over columns: each key has its own, of so many rows.

use arrow_array::RecordBatch;
use oka_compute::kept::{integer, kept, kept_window, read_kept};
use oka_compute::{Emit, Problem};

use super::rows::{Rows, numbered};
use super::state::{Found, State};
use crate::AggregateError;
use crate::aggregate::{Aggregate, Exported};
use crate::shape::Places;

/// The count windows of keys. A row is added to each that is open.
#[derive(Debug)]
pub(super) struct Counted {
    counts: oka_window::Counted,
    rows: Rows,
    is_over: bool,
}

impl Counted {
    pub(super) fn new(size: i64, slide: i64, emit: Emit) -> Self {
        Self {
            counts: oka_window::Counted::new(size, slide, emit == Emit::Updates),
            rows: Rows::default(),
            is_over: false,
        }
    }

    /// The rows of these windows.
    fn found(&mut self, numbers: &[usize]) -> Found {
        let Self { counts, rows, .. } = self;
        rows.found(numbers, |it| (counts.key(it), counts.window(it)))
    }
}

impl State for Counted {
    fn add_rows(
        &mut self,
        template: &Aggregate,
        rows: (&Places, &RecordBatch),
        _: &[i64],
        _: &mut dyn FnMut(u32),
    ) -> Result<(), AggregateError> {
        let keys = self.rows.numbers(template, rows)?;
        for (row, key) in (0..).zip(keys) {
            let key = key as usize;
            self.counts.begin(key);
            for number in self.counts.of_key(key) {
                self.rows.push(row, number);
            }
            self.counts.add(key);
            if self.rows.pending() > MOST_PENDING {
                self.rows.flush(rows)?;
            }
        }
        self.rows.flush(rows)
    }

    fn len(&self) -> usize {
        self.counts.len()
    }

    fn advance(&mut self, watermark: i64) -> Result<(), AggregateError> {
        if watermark == i64::MAX && !self.is_over {
            self.is_over = true;
            self.counts.finish();
        }
        Ok(())
    }

    fn go_on_from(&mut self, _: i64) {}

    fn give(&mut self, _: &Aggregate, most: usize) -> Found {
        let full = std::iter::from_fn(|| self.counts.full());
        let full: Vec<_> = full.take(most).collect();
        let found = self.found(&full)?;
        if let Some(live) = self.counts.compact() {
            self.rows.keep_windows(&live.windows)?;
            self.counts.renumber(&live);
        }
        Ok(found)
    }

    fn changes(&mut self, template: &Aggregate) -> Found {
        let mut found = self.give(template, usize::MAX)?;
        let changed = self.counts.take_changed();
        found.extend(self.found(&changed)?);
        Ok(found)
    }

    fn has_changes(&self) -> bool {
        self.counts.has_changed()
    }

    fn export(&self) -> Result<Exported, AggregateError> {
        let keys = self.counts.keys();
        let of_key = |key: &usize| {
            let mut found: Vec<_> = self.counts.of_key(*key).collect();
            found.reverse();
            (self.counts.count(*key), found)
        };
        let of_keys: Vec<_> = keys.iter().map(of_key).collect();
        let numbers: Vec<_> = of_keys
            .iter()
            .flat_map(|(_, found)| numbered(found))
            .collect();
        let (layout, keys, values) = self.rows.export(&numbered(&keys), &numbers)?;
        let mut values = values.iter();
        let entry = |(key, (count, numbers)): (Vec<u8>, (i64, Vec<usize>))| {
            let windows = numbers.into_iter().zip(&mut values);
            let windows = windows.map(|(number, values)| {
                kept_window(&[self.counts.window(number).start], &[values])
            });
            (key, kept(Some(count), &windows.collect::<Vec<_>>()))
        };
        Ok((layout, keys.into_iter().zip(of_keys).map(entry).collect()))
    }

    fn import(
        &mut self,
        template: &Aggregate,
        _: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError> {
        let keys: Vec<_> = entries.iter().map(|(key, _)| *key).collect();
        let keys = self.rows.import_keys(template, &keys)?;
        let mut all = Vec::new();
        for (key, (_, kept)) in keys.into_iter().zip(entries) {
            let (count, windows) = read_kept(kept)?;
            let count = count.ok_or(Problem::NoWindows)?;
            let starts = windows.iter().map(|[start, _]| integer(start));
            let starts = starts.collect::<Result<Vec<_>, _>>()?;
            if !self.counts.are_open(starts.iter().copied(), count) {
                return Err(Problem::NoWindows.into());
            }
            for (start, [_, values]) in starts.into_iter().zip(windows) {
                self.counts.open(key, start);
                all.push(values);
            }
            self.counts.restore(key, count);
        }
        self.rows.import(&all)?;
        if !touched {
            self.counts.take_changed();
        }
        Ok(())
    }
}

/// A row may be in many windows: so many are gathered at most.
const MOST_PENDING: usize = 1 << 16;

//! Count windows over columns: each key has its own, of so many rows.

use arrow_array::RecordBatch;
use oka_compute::kept::{integer, kept, kept_window, read_kept};
use oka_compute::{Emit, Problem};

use super::rows::Rows;
use super::state::{Found, State};
use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::copied::Exported;
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

    fn export(&mut self) -> Result<Exported, AggregateError> {
        let all = self.counts.counts();
        // Keys, how many rows each had, and how many windows it has; windows of all keys behind each other, of a
        // key the last first.
        let [mut keys, mut counts, mut numbers] = [(); 3].map(|()| Vec::with_capacity(all.len()));
        let [mut rows, mut starts] = [(); 2].map(|()| Vec::with_capacity(all.len()));
        for (key, count) in all.iter().enumerate().filter(|(_, count)| **count > 0) {
            let before = numbers.len();
            for number in self.counts.of_key(key) {
                numbers.push(number as u32);
                starts.push(self.counts.window(number).start);
            }
            keys.push(key as u32);
            rows.push(*count);
            counts.push((numbers.len() - before) as u32);
        }
        let (layout, copied) = self.rows.copy(&keys, &numbers)?;
        Ok(Exported::later(layout, move || {
            let values = copied.values()?;
            let window = |(start, values): (&i64, &Vec<u8>)| kept_window(&[*start], &[values]);
            let mut windows = starts.iter().zip(&values).map(window);
            let entry = |(key, (rows, count))| {
                let mut found: Vec<_> = windows.by_ref().take(count as usize).collect();
                found.reverse();
                (key, kept(Some(rows), &found))
            };
            let rows = rows.into_iter().zip(counts);
            Ok(copied.keys()?.into_iter().zip(rows).map(entry).collect())
        }))
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

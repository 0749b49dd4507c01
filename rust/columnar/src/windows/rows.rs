//! What windows over columns have come to that have numbers, and their keys.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use oka_compute::Problem;
use oka_window::{Live, Window};

use super::state::Found;
use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::copied::Copied;
use crate::shape::{Places, Shape};

/// Keys and values: those of windows by the windows' numbers.
#[derive(Debug, Default)]
pub(super) struct Rows {
    shape: Option<Shape>,
    /// How many numbers of windows there are.
    count: usize,
    /// Rows of a batch that are not taken in yet, and the numbers of their windows.
    pending: (Vec<u32>, Vec<u32>),
}

impl Rows {
    /// The numbers of the keys of rows.
    pub(super) fn numbers(
        &mut self,
        template: &Aggregate,
        (places, batch): (&Places, &RecordBatch),
    ) -> Result<Vec<u32>, AggregateError> {
        let shape = self.shape(template)?;
        Ok(shape.numbers(places, batch)?.0.to_vec())
    }

    /// Notes that a row is in a window; [`Self::flush`] takes it in.
    #[inline]
    pub(super) fn push(&mut self, row: u32, window: usize) {
        self.count = self.count.max(window + 1);
        self.pending.0.push(row);
        self.pending.1.push(window as u32);
    }

    /// How many rows are noted.
    pub(super) fn pending(&self) -> usize {
        self.pending.0.len()
    }

    /// Takes in what was noted of a batch.
    pub(super) fn flush(
        &mut self,
        (places, batch): (&Places, &RecordBatch),
    ) -> Result<(), AggregateError> {
        let (rows, windows) = &mut self.pending;
        let (Some(first), Some(shape)) = (rows.first(), &mut self.shape) else {
            return Ok(());
        };
        let are_together = (*first..).zip(&*rows).all(|(place, row)| place == *row);
        let part = if are_together {
            batch.slice(*first as usize, rows.len())
        } else {
            let rows = UInt32Array::from(std::mem::take(rows));
            take_record_batch(batch, &rows)?
        };
        Shape::update(&mut shape.results, (windows, self.count), places, &part)?;
        rows.clear();
        windows.clear();
        Ok(())
    }

    /// Takes into a window what another has come to.
    pub(super) fn join(&mut self, into: usize, from: usize) -> Result<(), AggregateError> {
        let results = self.shape.iter_mut().flat_map(|shape| &mut shape.results);
        for result in results {
            result.join(into as u32, from as u32)?;
        }
        Ok(())
    }

    /// The rows of windows, of each of which `of` tells the number of its key, and its times.
    pub(super) fn found(
        &mut self,
        numbers: &[usize],
        of: impl Fn(usize) -> (usize, Window),
    ) -> Found {
        let Some(shape) = self.shape.as_mut().filter(|_| !numbers.is_empty()) else {
            return Ok(Vec::new());
        };
        let of = |number: &usize| {
            let (key, window) = of(*number);
            (key as u32, window)
        };
        let (keys, windows): (Vec<_>, Vec<_>) = numbers.iter().map(of).unzip();
        let batch = shape.take(&keys, &numbered(numbers))?;
        Ok(vec![(windows, batch)])
    }

    /// Keeps these alone, windows with their places as numbers. The numbers of the keys then.
    pub(super) fn keep(&mut self, live: &Live) -> Result<Vec<usize>, AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(Vec::new());
        };
        let mut kept = shape.without_rows()?;
        let keys = shape.keys.plain(&numbered(&live.keys))?;
        let keys = kept.keys.of(&keys)?.0.iter();
        let keys = keys.map(|key| *key as usize).collect();
        std::mem::swap(&mut kept.keys, &mut shape.keys);
        self.keep_windows(&live.windows)?;
        Ok(keys)
    }

    /// Keeps all keys, and of windows these alone.
    pub(super) fn keep_windows(&mut self, windows: &[usize]) -> Result<(), AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(());
        };
        let mut kept = shape.without_rows()?;
        let windows = numbered(windows);
        self.count = windows.len();
        let places: Vec<_> = (0..windows.len() as u32).collect();
        let (ours, theirs) = (
            (&places[..], self.count),
            (&shape.results[..], &windows[..]),
        );
        Shape::merge(&mut kept.results, ours, theirs)?;
        shape.results = kept.results;
        Ok(())
    }

    /// A frame of no rows, and a copy of the keys and the values of these numbers.
    pub(super) fn copy(
        &self,
        keys: &[u32],
        windows: &[u32],
    ) -> Result<(Vec<u8>, Copied), AggregateError> {
        let Some(shape) = &self.shape else {
            return Ok(<_>::default());
        };
        Ok((
            shape.layout()?,
            shape.copy(vec![shape.keys.plain(keys)?], windows)?,
        ))
    }

    /// The numbers of keys that were encoded.
    pub(super) fn import_keys(
        &mut self,
        template: &Aggregate,
        keys: &[&[u8]],
    ) -> Result<Vec<usize>, AggregateError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (numbers, _) = self.shape(template)?.keys.import(keys)?;
        let numbers: Vec<_> = numbers.iter().map(|number| *number as usize).collect();
        let mut each = numbers.clone();
        each.sort_unstable();
        each.dedup();
        if each.len() < numbers.len() {
            return Err(Problem::Twice.into());
        }
        Ok(numbers)
    }

    /// Goes on with the values of windows, which have their places as numbers.
    pub(super) fn import(&mut self, values: &[&[u8]]) -> Result<(), AggregateError> {
        self.count = values.len();
        let numbers: Vec<_> = (0..self.count as u32).collect();
        match &mut self.shape {
            Some(shape) if !values.is_empty() => {
                Shape::import(&mut shape.results, (&numbers, self.count), values)
            }
            _ => Ok(()),
        }
    }

    fn shape(&mut self, template: &Aggregate) -> Result<&mut Shape, AggregateError> {
        if self.shape.is_none() {
            let known = template.shape.as_ref().ok_or(Problem::NoWindows)?;
            self.shape = Some(known.without_rows()?);
        }
        Ok(self.shape.as_mut().ok_or(Problem::NoWindows)?)
    }
}

/// As columns number.
fn numbered(numbers: &[usize]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}

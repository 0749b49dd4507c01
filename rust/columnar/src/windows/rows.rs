//! What windows over columns have come to that have numbers, and their keys.

use arrow_array::RecordBatch;
use oka_compute::windows::{Keyed, KeyedSpans, Row, WindowTable};
use oka_compute::{Copied, Problem};

use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::aggregate::copied::CopiedRows;
use crate::aggregate::places::Places;
use crate::aggregate::shape::Shape;

/// Keys, and the values of windows by number.
#[derive(Debug, Default)]
pub(super) struct WindowRows {
    shape: Option<Shape>,
    /// How many numbers of windows there are.
    count: usize,
    /// Rows of a batch that are not taken in yet, and the numbers of their windows.
    pending: (Vec<u32>, Vec<u32>),
}

/// A row of a batch.
#[derive(Clone, Copy)]
pub(crate) struct InBatch<'a> {
    places: &'a Places,
    batch: &'a RecordBatch,
    row: u32,
}

/// Takes in rows with these times, if they have some; tells of those that are late.
pub(super) fn add_rows<S: KeyedSpans>(
    windows: &mut Keyed<S, WindowRows>,
    template: &Aggregate,
    (places, batch): (&Places, &RecordBatch),
    times: &[i64],
    late: &mut dyn FnMut(u32),
) -> Result<(), AggregateError> {
    let shape = windows.table.shape(template)?;
    let keys = shape.numbers(places, batch)?.0.to_vec();
    for (row, key) in keys.into_iter().enumerate() {
        let time = if S::TIMED { times[row] } else { 0 };
        let row = row as u32;
        let record = InBatch { places, batch, row };
        if !windows.add(key as usize, time, record)? {
            late(row);
        }
    }
    windows.table.flush(places, batch)
}

impl WindowTable for WindowRows {
    type Wanted = Aggregate;
    type Error = AggregateError;
    type Record<'a> = InBatch<'a>;

    #[inline]
    fn begin(&mut self, window: usize, record: InBatch) -> Result<(), AggregateError> {
        self.add(window, record)
    }

    /// Notes that a row is in a window; [`Self::flush`] takes it in.
    #[inline]
    fn add(&mut self, window: usize, record: InBatch) -> Result<(), AggregateError> {
        self.count = self.count.max(window + 1);
        self.pending.0.push(record.row);
        self.pending.1.push(window as u32);
        if self.pending.0.len() > MOST_PENDING {
            self.flush(record.places, record.batch)?;
        }
        Ok(())
    }

    fn join(&mut self, into: usize, from: usize, record: InBatch) -> Result<(), AggregateError> {
        self.flush(record.places, record.batch)?;
        let results = self.shape.iter_mut().flat_map(|shape| &mut shape.results);
        for result in results {
            result.join(into as u32, from as u32)?;
        }
        Ok(())
    }

    fn keep_keys(&mut self, keys: &[usize]) -> Result<Vec<usize>, AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(Vec::new());
        };
        let mut kept = shape.keys.without_rows()?;
        let keys = shape.keys.plain(&numbered(keys))?;
        let keys = kept.of(&keys)?.0.iter();
        let keys = keys.map(|key| *key as usize).collect();
        shape.keys = kept;
        Ok(keys)
    }

    fn keep_windows(&mut self, windows: &[usize]) -> Result<(), AggregateError> {
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

    fn copy_keys(&mut self) -> Result<(), AggregateError> {
        if let Some(shape) = &mut self.shape {
            shape.keys.copy_many()?;
        }
        Ok(())
    }

    fn copy(&mut self, windows: &[u32]) -> Result<Copied<AggregateError>, AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(CopiedRows::default().later());
        };
        let keys = shape.keys.copy_all()?;
        Ok(shape.copy(keys, windows)?.later())
    }

    fn import_keys(
        &mut self,
        wanted: &Aggregate,
        keys: &[&[u8]],
    ) -> Result<Vec<usize>, AggregateError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (numbers, _) = self.shape(wanted)?.keys.import(keys)?;
        Ok(numbers.iter().map(|number| *number as usize).collect())
    }

    fn import(&mut self, _: &Aggregate, values: &[&[u8]]) -> Result<(), AggregateError> {
        self.count = values.len();
        let numbers: Vec<_> = (0..self.count as u32).collect();
        match &mut self.shape {
            Some(shape) if !values.is_empty() => {
                Shape::import(&mut shape.results, (&numbers, self.count), values)
            }
            _ => Ok(()),
        }
    }
}

impl WindowRows {
    /// Takes in what was noted of a batch.
    fn flush(&mut self, places: &Places, batch: &RecordBatch) -> Result<(), AggregateError> {
        let (rows, windows) = &mut self.pending;
        let (false, Some(shape)) = (rows.is_empty(), &mut self.shape) else {
            return Ok(());
        };
        let part = super::part(batch, rows)?;
        Shape::update(&mut shape.results, (windows, self.count), places, &part)?;
        rows.clear();
        windows.clear();
        Ok(())
    }

    /// Keys and values of these rows.
    pub(super) fn found(&mut self, rows: &[Row]) -> Result<RecordBatch, AggregateError> {
        let of = |row: &Row| (row.key as u32, row.number as u32);
        let (keys, numbers): (Vec<_>, Vec<_>) = rows.iter().map(of).unzip();
        let shape = self.shape.as_mut().ok_or(Problem::NoWindows)?;
        shape.take(&keys, &numbers)
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

/// A row may be in many windows: so many are gathered at most.
const MOST_PENDING: usize = 1 << 16;

//! Aggregates per key and window of event time over columns.

use std::collections::{BTreeSet, HashMap};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use oka_compute::kept::{kept, kept_slice, read_kept};
use oka_compute::{Emit, Problem, Unit};
use oka_window::{Missed, Slices, Table, Window, Windows};

use crate::aggregate::{Aggregate, Exported, Places};
use crate::cells::unframed;
use crate::times::{Bounds, microseconds};
use crate::{AggregateError, Columns, Selector};

/// What [`Aggregate`] computes, for each window: a result has two columns more, `window_start` and
/// `window_end`, in the form of the column of times.
///
/// Rows of a batch that lies in one slice are taken in as they are, others slice by slice.
#[derive(Debug)]
pub struct WindowAggregate {
    /// Has had no rows; its columns are those of the first frame.
    template: Aggregate,
    time: Selector,
    unit: Unit,
    bounds: Option<Bounds>,
    slices: Slices<Aggregate>,
    emit: Emit,
    giving: Option<Giving>,
    late: u64,
    late_rows: Option<Vec<RecordBatch>>,
}

/// A complete window of which some rows were given.
#[derive(Debug)]
struct Giving {
    window: Window,
    /// The merge of its slices, where they are several.
    merged: Option<Aggregate>,
    rows: usize,
}

impl Table for Aggregate {
    type Error = AggregateError;

    fn merge(&mut self, other: &Self) -> Result<(), AggregateError> {
        self.merge(other)
    }

    fn subtract(&mut self, _: &Self) -> bool {
        false // keys are not removed
    }
}

impl WindowAggregate {
    /// What `aggregate` computes, by times in a column, which count `unit` where they are numbers.
    /// Late rows are kept for [`Self::take_late`] where that is wanted.
    pub fn new(
        aggregate: Aggregate,
        (time, unit): (Selector, Unit),
        (windows, lateness): (Windows, u64),
        emit: Emit,
        keeps_late: bool,
    ) -> Self {
        Self {
            template: aggregate,
            time,
            unit,
            bounds: None,
            slices: Slices::new(windows, lateness),
            emit,
            giving: None,
            late: 0,
            late_rows: keeps_late.then(Vec::new),
        }
    }

    /// Number of slices there are.
    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// How many rows came when their windows were gone.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Those that came since it was called.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.late_rows
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes in the rows of a frame.
    pub fn add(&mut self, columns: &Columns) -> Result<(), AggregateError> {
        let mut places = self.template.places(columns.schema())?;
        let column = self.time.find(columns.schema())?;
        let time = places.add(column);
        let data_type = columns.schema().field(column).data_type();
        match &self.bounds {
            Some(bounds) if bounds.input == *data_type => {}
            Some(bounds) => {
                return Err(AggregateError::Changed {
                    expected: bounds.input.to_string(),
                    got: data_type.to_string(),
                });
            }
            None => self.bounds = Some(Bounds::new(data_type, self.unit, self.slices.windows())?),
        }
        let (mut late, mut first) = (Vec::new(), 0);
        for batch in columns.in_place(&places.projection) {
            let batch = batch?;
            let times = microseconds(batch.column(time), self.unit, first)?;
            self.add_rows(&places, &batch, &times, |row| late.push(first + row))?;
            first += batch.num_rows() as u32;
        }
        if !late.is_empty() {
            self.late += late.len() as u64;
            if let Some(kept) = &mut self.late_rows {
                kept.push(take_record_batch(
                    &columns.to_batch()?,
                    &UInt32Array::from(late),
                )?);
            }
        }
        Ok(())
    }

    /// Says that event time has come here: what is complete then comes by [`Self::give`].
    pub fn advance(&mut self, watermark: i64) {
        self.slices.advance(watermark);
    }

    /// Says that event time had come here before the first frame.
    pub fn go_on_from(&mut self, watermark: i64) {
        self.slices.go_on_from(watermark);
    }

    /// At most so many rows of a window that is complete; `None` when no further is.
    pub fn give(&mut self, most: usize) -> Result<Option<RecordBatch>, AggregateError> {
        loop {
            if self.giving.is_none() {
                self.giving = self.next_complete()?;
            }
            let Some(giving) = &mut self.giving else {
                return Ok(None);
            };
            let window = giving.window;
            let table = match &mut giving.merged {
                Some(merged) => merged,
                None => only(&mut self.slices, window)?,
            };
            let rows = giving.rows..table.touched().min(giving.rows + most);
            let found = table.updates(rows.clone())?;
            giving.rows = rows.end;
            if rows.end == table.touched() {
                self.giving = None;
                // Sliced windows go on to have changes while one is open, but of those that are final.
                if self.emit == Emit::Final || self.slices.windows().are_slices() {
                    self.slices
                        .of(window)
                        .for_each(|slice| slice.table.settle());
                }
            }
            if let (Some(found), Some(bounds)) = (found, &self.bounds) {
                return bounds.of(window, &found).map(Some);
            }
        }
    }

    /// What the windows that changed since it was called have come to, of each key that did. With
    /// [`Emit::Final`], of those that were given already.
    pub fn changes(&mut self) -> Result<Option<RecordBatch>, AggregateError> {
        let only_given = self.emit == Emit::Final;
        let (starts, changed) = (self.slices).changed(only_given, |table| table.touched() > 0);
        let mut found = Vec::new();
        for window in changed {
            let mut merged = self.merged(window)?;
            let table = match &mut merged {
                Some(merged) => merged,
                None => only(&mut self.slices, window)?,
            };
            let updates = table.updates(0..table.touched())?;
            if let (Some(updates), Some(bounds)) = (updates, &self.bounds) {
                found.push(bounds.of(window, &updates)?);
            }
        }
        for slice in self.slices.iter_mut() {
            if starts.binary_search(&slice.start).is_ok() {
                slice.table.settle();
            }
        }
        match &found[..] {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            [first, ..] => Ok(Some(concat_batches(&first.schema(), &found)?)),
        }
    }

    /// Whether [`Self::changes`] has something to give.
    pub fn has_changes(&self) -> bool {
        self.slices.iter().any(|slice| slice.table.touched() > 0)
    }

    /// A frame of no rows, and each key with what is kept of it, as records' windows keep it.
    pub fn export(&self) -> Result<Exported, AggregateError> {
        let (mut layout, mut places, mut keys) = (Vec::new(), HashMap::new(), Vec::new());
        for slice in self.slices.iter() {
            let (frame, pairs) = slice.table.export()?;
            layout = frame;
            for (key, values) in pairs {
                let at = *places.entry(key.clone()).or_insert(keys.len());
                if at == keys.len() {
                    keys.push((key, Vec::new()));
                }
                keys[at].1.push(kept_slice(slice.start, &NIL, &values));
            }
        }
        let watermark = self.slices.watermark();
        let entry = |(key, slices): (Vec<u8>, Vec<Vec<u8>>)| (key, kept(watermark, &slices));
        Ok((layout, keys.into_iter().map(entry).collect()))
    }

    /// Goes on with keys that others have exported, and with their schema, as if the rows had come
    /// here; `touched` says that [`Self::changes`] shall give them. Called once, before the first
    /// frame.
    pub fn import(
        &mut self,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError> {
        self.add(&unframed(layout.to_vec(), 0)?)?;
        let (mut last, mut slices) = (None, HashMap::<_, (Vec<_>, Vec<_>)>::new());
        for (key, kept) in entries {
            let (watermark, kept) = read_kept(kept)?;
            last = last.max(watermark);
            for (start, _, values) in kept {
                let (keys, each) = slices.entry(start).or_default();
                keys.push(*key);
                each.push(values);
            }
        }
        for (start, (keys, values)) in slices {
            let template = &self.template;
            let table = self.slices.table(start, || template.without_rows());
            let table = table.map_err(|_| Problem::NoWindows)?;
            table.import(layout, (&keys, &values))?;
        }
        if let Some(watermark) = last {
            self.slices.go_on_from(watermark);
        }
        let given: BTreeSet<_> = self.slices.given().map(|slice| slice.start).collect();
        for slice in self.slices.iter_mut() {
            let is_given = given.contains(&slice.start);
            if is_given || (self.emit == Emit::Updates && !touched) {
                slice.table.settle();
            }
        }
        Ok(())
    }

    /// Takes in rows with these times; tells of those that are late.
    fn add_rows(
        &mut self,
        places: &Places,
        batch: &RecordBatch,
        times: &[i64],
        mut late: impl FnMut(u32),
    ) -> Result<(), AggregateError> {
        let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else {
            return Ok(());
        };
        let template = &self.template;
        let windows = self.slices.windows();
        let mut slices: Vec<(Window, Vec<u32>)> = Vec::new();
        let mut current = 0;
        for (row, time) in (0..).zip(times) {
            if slices.is_empty() || !slices[current].0.has(*time) {
                let found = self.slices.table(*time, || template.without_rows());
                match found.map(drop) {
                    Err(Missed::Late) => {
                        late(row);
                        continue;
                    }
                    Err(Missed::Far) => return Err(Problem::FarTime.into()),
                    Ok(()) => {}
                }
                let slice = windows.slice(*time);
                if slice.has(*least) && slice.has(*most) {
                    return self.slice_of(*time)?.add_rows(places, batch);
                }
                let known = slices.iter().position(|(other, _)| *other == slice);
                current = known.unwrap_or(slices.len());
                if known.is_none() {
                    slices.push((slice, Vec::new()));
                }
            }
            slices[current].1.push(row);
        }
        for (slice, rows) in slices {
            let (first, behind) = (rows[0], rows[rows.len() - 1] + 1);
            let part = if (behind - first) as usize == rows.len() {
                batch.slice(first as usize, rows.len())
            } else {
                take_record_batch(batch, &UInt32Array::from(rows))?
            };
            self.slice_of(slice.start)?.add_rows(places, &part)?;
        }
        Ok(())
    }

    /// The table of the slice that has this time, which is not late.
    fn slice_of(&mut self, time: i64) -> Result<&mut Aggregate, AggregateError> {
        let template = &self.template;
        let table = self.slices.table(time, || template.without_rows());
        let table = table.map_err(|_| Problem::NoWindows)?;
        table.shape_as(template)?;
        Ok(table)
    }

    /// The next window that is complete.
    fn next_complete(&mut self) -> Result<Option<Giving>, AggregateError> {
        let Some(window) = self.slices.complete() else {
            return Ok(None);
        };
        let mut merged = self.merged(window)?;
        if let (Some(merged), Emit::Final) = (&mut merged, self.emit) {
            merged.touch_all();
        }
        Ok(Some(Giving {
            window,
            merged,
            rows: 0,
        }))
    }

    /// The merge of the slices of a window; `None` where windows are slices.
    fn merged(&mut self, window: Window) -> Result<Option<Aggregate>, AggregateError> {
        if self.slices.windows().are_slices() {
            return Ok(None);
        }
        let mut merged = self.template.without_rows();
        merged.shape_as(&self.template)?;
        for slice in self.slices.of(window) {
            merged.merge(&slice.table)?;
        }
        Ok(Some(merged))
    }
}

/// The table of a window that is one slice.
fn only(slices: &mut Slices<Aggregate>, window: Window) -> Result<&mut Aggregate, AggregateError> {
    let slice = slices.of(window).next().ok_or(Problem::NoWindows)?;
    Ok(&mut slice.table)
}

/// An encoded None: columns have no form of times but their type.
const NIL: [u8; 1] = [0xc0];

//! Windows of one size over columns.
//!
//! Rows of a batch that lies in one slice are taken in as they are, others slice by slice.

use std::collections::{BTreeSet, HashMap};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use oka_compute::kept::{Kept, integer, kept, kept_window, read_kept};
use oka_compute::{Emit, Problem};
use oka_window::{Missed, Slices, Table, Window, Windows};

use super::state::{Found, NIL, State};
use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::copied::{Copied, Exported};
use crate::shape::Places;

/// Tumbling or sliding windows: slices, each with an aggregate of its rows.
#[derive(Debug)]
pub(super) struct Sliced {
    slices: Slices<Aggregate>,
    emit: Emit,
    giving: Option<Giving>,
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

impl Sliced {
    pub(super) fn new(windows: Windows, lateness: u64, emit: Emit) -> Self {
        Self {
            slices: Slices::new(windows, lateness),
            emit,
            giving: None,
        }
    }

    /// The table of the slice that has this time, which is not late.
    fn slice_of(
        &mut self,
        template: &Aggregate,
        time: i64,
    ) -> Result<&mut Aggregate, AggregateError> {
        let table = self.slices.table(time, || template.without_rows());
        let table = table.map_err(|_| Problem::NoWindows)?;
        table.shape_as(template)?;
        Ok(table)
    }

    /// The next window that is complete.
    fn next_complete(&mut self, template: &Aggregate) -> Result<Option<Giving>, AggregateError> {
        let Some(window) = self.slices.complete() else {
            return Ok(None);
        };
        let mut merged = self.merged(template, window)?;
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
    fn merged(
        &mut self,
        template: &Aggregate,
        window: Window,
    ) -> Result<Option<Aggregate>, AggregateError> {
        if self.slices.windows().are_slices() {
            return Ok(None);
        }
        let mut merged = template.without_rows();
        merged.shape_as(template)?;
        for slice in self.slices.of(window) {
            merged.merge(&slice.table)?;
        }
        Ok(Some(merged))
    }
}

impl State for Sliced {
    fn add_rows(
        &mut self,
        template: &Aggregate,
        (places, batch): (&Places, &RecordBatch),
        times: &[i64],
        late: &mut dyn FnMut(u32),
    ) -> Result<(), AggregateError> {
        let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else {
            return Ok(());
        };
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
                    return self.slice_of(template, *time)?.add_rows(places, batch);
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
            self.slice_of(template, slice.start)?
                .add_rows(places, &part)?;
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.slices.len()
    }

    fn advance(&mut self, watermark: i64) -> Result<(), AggregateError> {
        self.slices.advance(watermark);
        Ok(())
    }

    fn go_on_from(&mut self, watermark: i64) {
        self.slices.go_on_from(watermark);
    }

    fn give(&mut self, template: &Aggregate, most: usize) -> Found {
        loop {
            if self.giving.is_none() {
                self.giving = self.next_complete(template)?;
            }
            let Some(giving) = &mut self.giving else {
                return Ok(Vec::new());
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
            if let Some(found) = found {
                return Ok(vec![(vec![window; found.num_rows()], found)]);
            }
        }
    }

    fn changes(&mut self, template: &Aggregate) -> Found {
        let only_given = self.emit == Emit::Final;
        let (starts, changed) = (self.slices).changed(only_given, |table| table.touched() > 0);
        let mut found = Vec::new();
        for window in changed {
            let mut merged = self.merged(template, window)?;
            let table = match &mut merged {
                Some(merged) => merged,
                None => only(&mut self.slices, window)?,
            };
            let updates = table.updates(0..table.touched())?;
            if let Some(updates) = updates {
                found.push((vec![window; updates.num_rows()], updates));
            }
        }
        for slice in self.slices.iter_mut() {
            if starts.binary_search(&slice.start).is_ok() {
                slice.table.settle();
            }
        }
        Ok(found)
    }

    fn has_changes(&self) -> bool {
        self.slices.iter().any(|slice| slice.table.touched() > 0)
    }

    fn copy_keys(&mut self) -> Result<(), AggregateError> {
        (self.slices.iter_mut()).try_for_each(|slice| slice.table.copy_keys())
    }

    fn export(&mut self) -> Result<Exported, AggregateError> {
        let (mut layout, mut slices) = (Vec::new(), Vec::new());
        for slice in self.slices.iter_mut() {
            let (frame, copied) = slice.table.copy()?;
            layout = frame;
            slices.push((slice.start, copied));
        }
        let watermark = self.slices.watermark();
        Ok(Exported::later(layout, move || entries(watermark, slices)))
    }

    fn import(
        &mut self,
        template: &Aggregate,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError> {
        let (mut last, mut slices) = (None, HashMap::<_, (Vec<_>, Vec<_>)>::new());
        for (key, kept) in entries {
            let (watermark, kept) = read_kept(kept)?;
            last = last.max(watermark);
            for [start, _, values] in kept {
                let (keys, each) = slices.entry(integer(start)?).or_default();
                keys.push(*key);
                each.push(values);
            }
        }
        for (start, (keys, values)) in slices {
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
}

/// Each key with what is kept of it in these slices, of which this is the start.
fn entries(watermark: Option<i64>, slices: Vec<(i64, Copied)>) -> Result<Kept, AggregateError> {
    let (mut places, mut keys) = (HashMap::new(), Vec::<(Vec<u8>, Vec<Vec<u8>>)>::new());
    for (start, copied) in slices {
        for (key, values) in copied.keys()?.into_iter().zip(copied.values()?) {
            let at = *places.entry(key.clone()).or_insert(keys.len());
            if at == keys.len() {
                keys.push((key, Vec::new()));
            }
            keys[at].1.push(kept_window(&[start], &[&NIL, &values]));
        }
    }
    let entry = |(key, slices): (Vec<u8>, Vec<Vec<u8>>)| (key, kept(watermark, &slices));
    Ok(keys.into_iter().map(entry).collect())
}

/// The table of a window that is one slice.
fn only(slices: &mut Slices<Aggregate>, window: Window) -> Result<&mut Aggregate, AggregateError> {
    let slice = slices.of(window).next().ok_or(Problem::NoWindows)?;
    Ok(&mut slice.table)
}

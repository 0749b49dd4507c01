//! What the rows of a slice of time come to, and which slices the rows of a batch are in.

use arrow_array::RecordBatch;
use oka_compute::windows::{SliceTable, Sliced};
use oka_compute::{Copied, Problem};
use oka_window::{Table, Window};

use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::aggregate::places::Places;

impl Table for Aggregate {
    type Error = AggregateError;

    fn merge(&mut self, other: &Self) -> Result<(), AggregateError> {
        self.merge(other)
    }

    fn subtract(&mut self, _: &Self) -> bool {
        false // keys are not removed
    }
}

impl SliceTable for Aggregate {
    /// Has had no rows; its columns are those of the first frame.
    type Wanted = Aggregate;

    fn with_room(wanted: &Self, _: usize) -> Self {
        wanted.without_rows()
    }

    fn touched(&self) -> usize {
        self.touched()
    }

    fn settle(&mut self) {
        self.settle();
    }

    fn all(&mut self) -> usize {
        self.touch_all()
    }

    fn touched_in(wanted: &Self, tables: &[&Self]) -> Result<Self, AggregateError> {
        let mut merged = wanted.without_rows();
        tables.iter().try_for_each(|table| merged.merge(table))?;
        Ok(merged)
    }

    fn copy_keys(&mut self) -> Result<(), AggregateError> {
        self.copy_keys()
    }

    fn copy(&mut self) -> Result<Copied<AggregateError>, AggregateError> {
        self.copy()
    }

    fn import(
        &mut self,
        wanted: &Self,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> Result<(), AggregateError> {
        self.shape_as(wanted)?;
        self.go_on(keys, values)
    }

    fn take_in(
        &mut self,
        wanted: &Self,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> Result<(), AggregateError> {
        let mut other = wanted.without_rows();
        other.shape_as(wanted)?;
        other.go_on(keys, values)?;
        self.merge(&other)
    }
}

/// Takes in rows with these times; tells of those that are late.
///
/// Those of a batch that lies in one slice are taken in as they are, others slice by slice.
pub(super) fn add_rows(
    windows: &mut Sliced<Aggregate>,
    template: &Aggregate,
    (places, batch): (&Places, &RecordBatch),
    times: &[i64],
    late: &mut dyn FnMut(u32),
) -> Result<(), AggregateError> {
    let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else {
        return Ok(());
    };
    let mut slices: Vec<(Window, Vec<u32>)> = Vec::new();
    let mut current = 0;
    for (row, time) in (0..).zip(times) {
        if slices.is_empty() || !slices[current].0.has(*time) {
            if !windows.windows().has(*time) {
                continue; // it lies between two windows
            }
            if windows.table(template, *time)?.is_none() {
                late(row);
                continue;
            }
            let slice = windows.windows().slice(*time);
            if slice.has(*least) && slice.has(*most) {
                return table(windows, template, *time)?.add_rows(places, batch);
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
        let part = super::part(batch, &rows)?;
        table(windows, template, slice.start)?.add_rows(places, &part)?;
    }
    Ok(())
}

/// The table of the slice that has this time, which is not late.
fn table<'a>(
    windows: &'a mut Sliced<Aggregate>,
    template: &Aggregate,
    time: i64,
) -> Result<&'a mut Aggregate, AggregateError> {
    let table = windows.table(template, time)?.ok_or(Problem::NoWindows)?;
    table.shape_as(template)?;
    Ok(table)
}

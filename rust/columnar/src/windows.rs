//! Aggregates per key and window over columns.

mod rows;
mod slices;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use oka_compute::windows::{Rows, Windows};
use oka_compute::{Copied, Emit, Unit};
use oka_window::Assigner;

use self::rows::WindowRows;
use crate::aggregate::Aggregate;
use crate::columns::cells::{NIL, unframed};
use crate::columns::times::{Bounds, microseconds};
use crate::{AggregateError, Columns, Selector};

/// What [`Aggregate`] computes, for each window: a result has two columns more, `window_start` and
/// `window_end`, in the form of the column of times. Those of windows of so many rows are counts.
#[derive(Debug)]
pub struct WindowAggregate {
    /// Has had no rows; its columns are those of the first frame.
    template: Aggregate,
    time: Option<(Selector, Unit)>,
    /// So many microseconds before what the column says.
    before: i64,
    assigner: Assigner,
    bounds: Option<Bounds>,
    windows: Windows<Aggregate, WindowRows>,
    late: u64,
    late_rows: Option<Vec<RecordBatch>>,
}

impl WindowAggregate {
    /// What `aggregate` computes, by times in a column, which count `unit` where they are numbers;
    /// windows of so many rows need none. Late rows are kept for [`Self::take_late`] where that is
    /// wanted.
    pub fn new(
        aggregate: Aggregate,
        time: Option<(Selector, Unit)>,
        (assigner, lateness): (impl Into<Assigner>, u64),
        emit: Emit,
        keeps_late: bool,
    ) -> Self {
        let assigner = assigner.into();
        let is_counted = matches!(assigner, Assigner::Counted { .. });
        Self {
            template: aggregate,
            time,
            before: 0,
            assigner,
            bounds: is_counted.then(Bounds::of_counts),
            windows: Windows::new(assigner, lateness, emit),
            late: 0,
            late_rows: keeps_late.then(Vec::new),
        }
    }

    /// Times are so many microseconds before what the column says.
    #[must_use]
    pub fn before(mut self, microseconds: i64) -> Self {
        self.before = microseconds;
        self
    }

    /// Number of slices there are, or of windows where each key has its own.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        let time = match &self.time {
            None => None,
            Some((column, unit)) => {
                let column = column.find(columns.schema())?;
                let data_type = columns.schema().field(column).data_type();
                match &self.bounds {
                    Some(bounds) => bounds.check(data_type)?,
                    None => {
                        self.bounds =
                            Some(Bounds::new(data_type, (*unit, self.before), self.assigner)?);
                    }
                }
                Some((places.add(column), *unit))
            }
        };
        let (mut late, mut first) = (Vec::new(), 0);
        for batch in columns.in_place(&places.projection)? {
            let batch = batch?;
            let mut times = match time {
                Some((column, unit)) => microseconds(batch.column(column), unit, first)?,
                None => Vec::new(),
            };
            if self.before != 0 {
                for time in &mut times {
                    *time -= self.before; // they are near
                }
            }
            let mut note = |row| late.push(first + row);
            let (template, rows, late) = (&self.template, (&places, &batch), &mut note);
            match &mut self.windows {
                Windows::Sliced(it) => slices::add_rows(it, template, rows, &times, late)?,
                Windows::Sessions(it) => rows::add_rows(it, template, rows, &times, late)?,
                Windows::Counted(it) => rows::add_rows(it, template, rows, &times, late)?,
            }
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
    /// [`i64::MAX`] is the end of all rows.
    pub fn advance(&mut self, watermark: i64) {
        self.windows.advance(watermark);
    }

    /// Says that event time had come here before the first frame.
    pub fn go_on_from(&mut self, watermark: i64) {
        self.windows.go_on_from(watermark);
    }

    /// See [`Windows::clear`].
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// At most so many rows of windows that are complete; `None` when no further is.
    pub fn give(&mut self, most: usize) -> Result<Option<RecordBatch>, AggregateError> {
        let show = |rows: Rows<_, _>| shown(self.bounds.as_ref(), rows);
        Ok(self.windows.give(&self.template, most, show)?.flatten())
    }

    /// What the windows that changed since it was called have come to, of each key that did. With
    /// [`Emit::Final`], of those that were given already. Windows of so many rows that are full come
    /// first.
    pub fn changes(&mut self) -> Result<Option<RecordBatch>, AggregateError> {
        let mut found = Vec::new();
        self.windows.changes(&self.template, |rows| {
            found.extend(shown(self.bounds.as_ref(), rows)?);
            Ok::<_, AggregateError>(())
        })?;
        match &found[..] {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            [first, ..] => Ok(Some(concat_batches(&first.schema(), &found)?)),
        }
    }

    /// Whether [`Self::changes`] has something to give.
    pub fn has_changes(&self) -> bool {
        self.windows.has_changes()
    }

    /// Copies the keys that are new: [`Self::export`] then takes less time.
    pub fn copy_keys(&mut self) -> Result<(), AggregateError> {
        self.windows.copy_keys()
    }

    /// What others go on with: the layout of the columns, and each key with what is kept of it, as records' windows keep it.
    pub fn export(&mut self) -> Result<(Vec<u8>, Copied<AggregateError>), AggregateError> {
        let layout = match self.windows {
            Windows::Sliced(ref sliced) if sliced.is_empty() => Vec::new(),
            _ => self.template.layout()?,
        };
        Ok((layout, self.windows.export(&NIL)?))
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
        (self.windows).import(&self.template, entries, touched, &mut NIL.to_vec())
    }

    /// Takes in slices that another has exported, with its schema, behind what is here. None of them may
    /// be late.
    pub fn merge(
        &mut self,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
    ) -> Result<(), AggregateError> {
        if self.template.merged != layout {
            self.add(&unframed(layout.to_vec(), 0)?)?; // which checks the schema
            self.template.merged = layout.to_vec();
        }
        (self.windows).merge(&self.template, entries, &mut NIL.to_vec())
    }
}

/// These rows of a batch, which ascend: a slice where they are together.
fn part(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, ArrowError> {
    let first = rows.first().copied().unwrap_or_default();
    if (first..).zip(rows).all(|(place, row)| place == *row) {
        return Ok(batch.slice(first as usize, rows.len()));
    }
    take_record_batch(batch, &UInt32Array::from(rows.to_vec()))
}

/// The rows, with the columns of windows.
fn shown(
    bounds: Option<&Bounds>,
    rows: Rows<Aggregate, WindowRows>,
) -> Result<Option<RecordBatch>, AggregateError> {
    let (windows, batch) = match rows {
        Rows::Slice {
            window,
            table,
            some,
            ..
        } => (vec![window; some.len()], table.updates(some)?),
        Rows::Windows(table, rows) => {
            let windows = rows.iter().map(|row| row.window).collect();
            (windows, Some(table.found(rows)?))
        }
    };
    let (Some(bounds), Some(batch)) = (bounds, batch) else {
        return Ok(None);
    };
    bounds.of(&windows, &batch).map(Some)
}

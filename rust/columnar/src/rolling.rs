//! Aggregates of rows within spans that end at each of them.

mod results;
mod shape;

use std::ops::Range;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use oka_compute::kept::integer;
use oka_compute::{
    Accumulated, Aggregation, ByteStrings, Copied, Problem, Rolled, Rolling, Span, Unit, encode,
    parts,
};

use self::shape::{Computed, Shape};
use crate::columns::cells::{encoded, framed, joined, unframed};
use crate::columns::times::microseconds;
use crate::state::rows::RowStore;
use crate::{AggregateError, Columns, Selector};

/// So many rows take as long as memory does.
const AHEAD: usize = 16;

/// Each row with a column for each span and aggregation of the rows of its key within it; see [`Rolling`].
///
/// Null values are left out, as in [`crate::Aggregate`]; a count is of rows.
#[derive(Debug)]
pub struct RollingAggregate {
    key: Vec<Selector>,
    computed: Vec<Computed>,
    time: (Selector, Unit),
    /// So many microseconds before what the column says.
    before: i64,
    spans: Box<[Span]>,
    is_eager: bool,
    /// Once there was a frame.
    begun: Option<Begun>,
    /// Before the first frame.
    watermark: Option<i64>,
    late: u64,
    late_rows: Option<Vec<RecordBatch>>,
}

#[derive(Debug)]
struct Begun {
    shape: Shape,
    rolling: Rolling,
    /// Rows that wait. The number of a row is one more than the one that it has there.
    rows: RowStore,
}

impl RollingAggregate {
    /// By the values of these columns, which are one key; [`Self::compute`] says what. Times are in a
    /// column, which counts `unit` where it has numbers. Late rows are kept for [`Self::take_late`] where that is
    /// wanted.
    pub fn by(
        key: Vec<Selector>,
        time: (Selector, Unit),
        spans: impl Into<Box<[Span]>>,
        keeps_late: bool,
    ) -> Self {
        Self {
            key,
            computed: Vec::new(),
            time,
            before: 0,
            spans: spans.into(),
            is_eager: false,
            begun: None,
            watermark: None,
            late: 0,
            late_rows: keeps_late.then(Vec::new),
        }
    }

    /// Computes this of a column's values, in a column for each span, by its name; a count needs no column. Called
    /// before the first frame.
    #[must_use]
    pub fn compute(
        mut self,
        names: Vec<String>,
        rolled: impl Into<Rolled>,
        value: Option<Selector>,
    ) -> Self {
        self.computed.push(Computed {
            names,
            rolled: rolled.into(),
            value,
            beside: None,
            filter: None,
        });
        self
    }

    /// Has the last one be of pairs of that and of values of a second column, or of rows alone for which a column
    /// is true.
    #[must_use]
    pub fn of(mut self, beside: Option<Selector>, filter: Option<Selector>) -> Self {
        if let Some(last) = self.computed.last_mut() {
            last.rolled.is_filtered = filter.is_some();
            (last.beside, last.filter) = (beside, filter);
        }
        self
    }

    /// Times are so many microseconds before what the column says.
    #[must_use]
    pub fn before(mut self, microseconds: i64) -> Self {
        self.before = microseconds;
        self
    }

    /// Has results come at once; see [`Rolling::at_once`].
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.is_eager = true;
        self
    }

    /// How many keys have rows that wait or that a span may have.
    pub fn len(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.rolling.len())
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows came when the watermark was at their time or behind it.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Those that came since it was called.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        let kept = self.late_rows.as_mut().map(std::mem::take);
        kept.unwrap_or_default()
    }

    /// Takes in the rows of a frame.
    pub fn add(&mut self, columns: &Columns) -> Result<(), AggregateError> {
        let batch = self.begin(&columns.to_batch()?)?;
        let Some(Begun {
            shape,
            rolling,
            rows,
        }) = &mut self.begun
        else {
            return Ok(());
        };
        let mut times = microseconds(batch.column(shape.time), self.time.1, 0)?;
        for time in &mut times {
            *time -= self.before; // they are near
        }
        let cells = shape.terms.iter().map(|term| term.values(&batch));
        let mut cells = cells.collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<_> = shape
            .keys
            .iter()
            .map(|at| batch.column(*at).clone())
            .collect();
        let (keys, _) = shape.numbers.of(&keys)?;
        let (mut numbers, mut late) = (Vec::with_capacity(times.len()), Vec::new());
        let mut own = vec![None; cells.len()];
        for (row, (key, time)) in keys.iter().zip(times).enumerate() {
            if let Some(next) = keys.get(row + AHEAD) {
                rolling.prefetch(*next as usize);
            }
            if rolling.is_late(time) {
                late.push(row as u32);
                numbers.push(0);
                continue;
            }
            for (own, cells) in own.iter_mut().zip(&mut cells) {
                *own = cells[row].take();
            }
            let added = rolling.add(*key as usize, time, &mut own);
            numbers.push(
                1 + added.map_err(|problem| AggregateError::Row {
                    row: row as u32,
                    problem,
                })?,
            );
        }
        if !late.is_empty() {
            self.late += late.len() as u64;
            if let Some(kept) = &mut self.late_rows {
                kept.push(take_record_batch(&batch, &UInt32Array::from(late))?);
            }
        }
        Ok(rows.add(batch, &numbers)?)
    }

    /// Says that event time has come here: what is due then comes by [`Self::give`]. [`i64::MAX`] is the
    /// end of all rows.
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(Some(watermark));
        if let Some(begun) = &mut self.begun {
            begun.rolling.advance(watermark);
        }
    }

    /// About so many rows that are due, in the order of their times, with what spans come to; `None` if no
    /// further is due.
    pub fn give(&mut self, most: usize) -> Result<Option<RecordBatch>, AggregateError> {
        let Some(begun) = &mut self.begun else {
            return Ok(None);
        };
        let mut numbers = Vec::new();
        let mut results = vec![Vec::new(); begun.shape.results.len()];
        begun.rolling.give(most, |number, values| {
            numbers.push(number + 1);
            for (result, value) in results.iter_mut().zip(values) {
                result.push(value.take());
            }
            Ok::<_, Problem>(())
        })?;
        if numbers.is_empty() {
            begun.forget_keys()?;
            return Ok(None);
        }
        let batch = begun.rows.take(&numbers)?;
        begun.rows.remove(&numbers);
        begun.shape.beside(&batch, &results).map(Some)
    }

    /// What others go on with: the layout of the columns, and each key with what is kept of it, and its rows
    /// that wait.
    pub fn export(&mut self) -> Result<(Vec<u8>, Copied<AggregateError>), AggregateError> {
        let Some(begun) = &mut self.begun else {
            return Ok((Vec::new(), Box::new(|| Ok(Default::default()))));
        };
        let layout = framed(&RecordBatch::new_empty(begun.shape.rows.clone()))?;
        let copied = begun.rolling.copy();
        let keys: Vec<_> = copied.keys().map(|key| key as u32).collect();
        let keys = begun.shape.numbers.plain(&keys)?;
        let waiting: Vec<_> = copied.waiting().map(|number| number + 1).collect();
        let waiting = match &waiting[..] {
            [] => None,
            numbers => Some(begun.rows.take(numbers)?),
        };
        let copied: Copied<AggregateError> = Box::new(move || {
            let keys = keys.iter().map(encoded);
            let keys = joined(keys.collect::<Result<_, _>>()?);
            let mut kept = ByteStrings::with_room(keys.len(), 0);
            copied.each(|of_key, own: Range<usize>| {
                let rows = match &waiting {
                    Some(batch) if !own.is_empty() => framed(&batch.slice(own.start, own.len()))?,
                    _ => Vec::new(),
                };
                kept.push_with(|out| {
                    encode::array(out, 3);
                    out.extend_from_slice(of_key);
                    encode::int(out, own.len() as i64);
                    encode::bytes(out, &rows);
                });
                Ok::<_, AggregateError>(())
            })?;
            Ok((keys, kept))
        });
        Ok((layout, copied))
    }

    /// Goes on with keys that others have exported, and with their schema, as if their rows had come here;
    /// before the first frame.
    pub fn import(
        &mut self,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
    ) -> Result<(), AggregateError> {
        self.add(&unframed(layout.to_vec(), 0)?)?;
        let (keys, kept): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
        let Some(begun) = self.begun.as_mut().filter(|_| !keys.is_empty()) else {
            return Ok(());
        };
        let numbers = begun.shape.numbers.import(&keys)?.0.to_vec();
        let (mut watermark, mut waiting) = (None, Vec::new());
        for (number, kept) in numbers.into_iter().zip(kept) {
            let [of_key, rows, own] = parts(kept, 3)?[..] else {
                return Err(Problem::Parts(3).into());
            };
            watermark = watermark.max(begun.rolling.import(number as usize, of_key)?);
            let own = Accumulated::decode(Aggregation::Min, own)?;
            if let (Accumulated::Bytes(own), rows @ 1..) = (own, integer(rows)?) {
                waiting.push(unframed(own.into_vec(), rows as usize)?);
            }
        }
        for rows in &waiting {
            self.add(rows)?;
        }
        if let Some(watermark) = watermark {
            self.advance(watermark);
        }
        Ok(())
    }

    /// The batch in the columns that all before had, which are settled by the first.
    fn begin(&mut self, batch: &RecordBatch) -> Result<RecordBatch, AggregateError> {
        if self.begun.is_none() {
            let shape = Shape::new(
                &batch.schema(),
                (&self.key, &self.time.0, &self.computed),
                self.spans.len(),
            )?;
            let rolled = self.computed.iter().map(|each| each.rolled.clone());
            let mut rolling = Rolling::new(rolled, self.spans.clone());
            if self.is_eager {
                rolling = rolling.at_once();
            }
            if let Some(watermark) = self.watermark {
                rolling.advance(watermark);
            }
            self.begun = Some(Begun {
                shape,
                rolling,
                rows: RowStore::default(),
            });
        }
        match &self.begun {
            Some(begun) => begun.shape.settled(batch),
            None => Ok(batch.clone()),
        }
    }
}

impl Begun {
    /// Forgets keys that have nothing any more, where these are most.
    fn forget_keys(&mut self) -> Result<(), AggregateError> {
        let numbers = &mut self.shape.numbers;
        let Some(live) = self.rolling.live(numbers.len()) else {
            return Ok(());
        };
        let own: Vec<_> = live.iter().map(|key| *key as u32).collect();
        let mut kept = numbers.without_rows()?;
        let places = kept.of(&numbers.plain(&own)?)?.0.iter();
        let places: Vec<_> = places.map(|key| *key as usize).collect();
        self.rolling.renumber(&live, &places);
        *numbers = kept;
        Ok(())
    }
}

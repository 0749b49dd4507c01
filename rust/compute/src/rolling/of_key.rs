//! The records of one key that spans have, and where these spans are.

use super::Span;
use super::cells::Cells;
use super::fold::{Fold, Kept};
use crate::accumulator::{Accumulated, Aggregation, parts};
use crate::encoded::ahead::prefetch;
use crate::encoded::encode;
use crate::encoded::value::{Reader, Value};
use crate::groups::kept::{integer, items};
use crate::problem::Problem;
use std::collections::VecDeque;
use std::ops::Range;

/// The times and values of a key's records from the first that a span has on, in the order of time.
///
/// A record's place is its number among all of the key, however many of them are gone.
#[derive(Clone, Debug, Default)]
pub(super) struct OfKey {
    first: u64,
    times: VecDeque<i64>,
    /// By aggregation.
    cells: Box<[Cells]>,
    spans: Box<[Moving]>,
    /// How many records of the key wait for their time.
    pub(super) waiting: u32,
    /// The place of the one among all waiting records that came last; it need not wait any more.
    pub(super) came_last: u32,
    /// Whether it is among the keys that may have to go.
    pub(super) is_due: bool,
}

/// A span of one key.
#[derive(Clone, Debug)]
struct Moving {
    places: Range<u64>,
    /// By aggregation.
    folds: Box<[Fold]>,
}

impl OfKey {
    pub(super) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The time of the newest record.
    pub(super) fn newest(&self) -> Option<i64> {
        self.times.back().copied()
    }

    /// Asks for the memory that a record needs.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self.cells.as_ptr());
        prefetch(self.spans.as_ptr());
    }

    /// The value of the newest record for an aggregation.
    pub(super) fn last(&self, aggregation: usize) -> Option<Accumulated> {
        self.cells.get(aggregation)?.last()
    }

    /// Forgets all records but those that wait. Memory of few records stays, as a key often comes again.
    pub(super) fn clear(&mut self) {
        self.is_due = false;
        if self.times.capacity() > FEW {
            *self = Self {
                waiting: self.waiting,
                came_last: self.came_last,
                ..Self::default()
            };
            return;
        }
        self.first = 0;
        self.times.clear();
        self.cells.iter_mut().for_each(Cells::clear);
        for moving in &mut self.spans {
            moving.places = 0..0;
            moving.folds.iter_mut().for_each(Fold::clear);
        }
    }

    /// Takes in a record, which is no older than others: its place.
    #[inline]
    pub(super) fn push(
        &mut self,
        (aggregations, spans): (&[Aggregation], &[Span]),
        time: i64,
        values: &mut [Option<Accumulated>],
    ) -> u64 {
        self.begin(aggregations, spans);
        self.times.push_back(time);
        for ((cells, aggregation), value) in self.cells.iter_mut().zip(aggregations).zip(values) {
            if *aggregation != Aggregation::Count {
                cells.push(value.take());
            }
        }
        self.end() - 1
    }

    /// Takes in a record that is older than others, and appends what [`Self::values`] would have if it had
    /// been the newest. It costs as much as the records of its spans.
    #[cold]
    pub(super) fn insert(
        &mut self,
        (aggregations, spans): (&[Aggregation], &[Span]),
        time: i64,
        values: &mut [Option<Accumulated>],
        out: &mut Vec<Option<Accumulated>>,
    ) -> Result<(), Problem> {
        let index = self.times.partition_point(|other| *other <= time);
        self.times.insert(index, time);
        for ((cells, aggregation), value) in self.cells.iter_mut().zip(aggregations).zip(values) {
            if *aggregation != Aggregation::Count {
                cells.insert(index, value.take());
            }
        }
        let (first, newest) = (self.first, self.end() - 1);
        for (at, span) in spans.iter().enumerate() {
            let own = self.within(*span, first + index as u64);
            let places = self.within(*span, newest);
            let moving = &mut self.spans[at];
            moving.places = places.clone();
            for ((fold, cells), aggregation) in
                moving.folds.iter_mut().zip(&self.cells).zip(aggregations)
            {
                let kept = Kept { cells, first };
                let mut alone = Fold::new(*aggregation);
                alone.restore(kept, own.clone(), None)?;
                out.push(alone.value(kept, own.clone())?);
                *fold = Fold::new(*aggregation);
                fold.restore(kept, places.clone(), None)?;
            }
        }
        Ok(())
    }

    /// Lets go of records that neither a span has now, nor one that ends later than the watermark.
    pub(super) fn forget(&mut self, spans: &[Span], watermark: i64) {
        let mut needed = self.end();
        for (moving, span) in self.spans.iter().zip(spans) {
            let from = match span {
                Span::Time(length) => {
                    let from = watermark.saturating_sub(*length);
                    self.times.partition_point(|time| *time <= from)
                }
                Span::Rows(rows) => {
                    let later = self.times.partition_point(|time| *time <= watermark);
                    later.saturating_sub(*rows as usize)
                }
            };
            needed = needed
                .min(moving.places.start)
                .min(self.first + from as u64);
        }
        self.forget_to(needed);
    }

    /// The places within a span that ends at this one.
    fn within(&self, span: Span, place: u64) -> Range<u64> {
        let time = self.times[(place - self.first) as usize];
        match span {
            Span::Time(length) => {
                let from = time.saturating_sub(length);
                let start = self.times.partition_point(|other| *other < from);
                let end = self.times.partition_point(|other| *other <= time);
                self.first + start as u64..self.first + end as u64
            }
            Span::Rows(rows) => (place + 1).saturating_sub(rows).max(self.first)..place + 1,
        }
    }

    fn begin(&mut self, aggregations: &[Aggregation], spans: &[Span]) {
        if self.spans.is_empty() {
            let folds = || aggregations.iter().copied().map(Fold::new).collect();
            let moving = |_| Moving {
                places: 0..0,
                folds: folds(),
            };
            self.spans = (0..spans.len()).map(moving).collect();
            self.cells = aggregations.iter().map(|_| Cells::default()).collect();
        }
    }

    /// Appends what the records in each span come to that ends at the record in this place: of each
    /// span the values of all aggregations.
    #[inline]
    pub(super) fn values(
        &mut self,
        spans: &[Span],
        place: u64,
        out: &mut Vec<Option<Accumulated>>,
    ) -> Result<(), Problem> {
        let (first, newest) = (self.first, self.end());
        let time = self.times[(place - first) as usize];
        for (moving, span) in self.spans.iter_mut().zip(spans) {
            let before = moving.places.clone();
            let after = match span {
                Span::Time(length) => {
                    let from = time.saturating_sub(*length);
                    let is_before = |place: u64| self.times[(place - first) as usize] < from;
                    let mut start = before.start;
                    while start < before.end && is_before(start) {
                        start += 1;
                    }
                    start..newest
                }
                Span::Rows(rows) => {
                    let end = place + 1;
                    before.start.max(end.saturating_sub(*rows))..end
                }
            };
            for (fold, cells) in moving.folds.iter_mut().zip(&self.cells) {
                let kept = Kept { cells, first };
                fold.leave(kept, before.start..after.start, before.end)?;
                for place in before.end..after.end {
                    fold.enter(kept, place, after.start)?;
                }
                out.push(fold.value(kept, after.clone())?);
            }
            moving.places = after;
        }
        Ok(())
    }

    /// Lets go of records that no span has.
    #[inline]
    pub(super) fn forget_all_before(&mut self) {
        let starts = self.spans.iter().map(|moving| moving.places.start);
        self.forget_to(starts.min().unwrap_or(self.first));
    }

    #[inline]
    fn forget_to(&mut self, needed: u64) {
        if needed > self.first {
            let gone = (needed - self.first) as usize;
            self.times.drain(..gone);
            for cells in self.cells.iter_mut().filter(|cells| cells.len() > 0) {
                cells.forget(gone);
            }
            self.first = needed;
        }
    }

    /// Appends what [`Self::restore`] goes on with: times, each behind the one before; the values of each
    /// aggregation; and of each span where it begins, and where the two stacks of each aggregation meet.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode::array(out, 3);
        encode::array(out, self.times.len());
        let mut before = 0;
        for time in &self.times {
            encode::int(out, time - before);
            before = *time;
        }
        encode::array(out, self.cells.len());
        for cells in &self.cells {
            encode::array(out, cells.len());
            for index in 0..cells.len() {
                match cells.get(index) {
                    Some(value @ Accumulated::Encoded(_)) => {
                        encode::array(out, 1); // so that it is no null
                        value.encode(out);
                    }
                    Some(value) => value.encode(out),
                    None => encode::nil(out),
                }
            }
        }
        encode::array(out, self.spans.len());
        for span in &self.spans {
            encode::array(out, 1 + span.folds.len());
            let offset = |out: &mut Vec<u8>, place: Option<u64>| match place {
                Some(place) => encode::unsigned(out, place.saturating_sub(self.first)),
                None => encode::nil(out),
            };
            offset(out, Some(span.places.start));
            for fold in &span.folds {
                offset(out, fold.boundary());
            }
        }
    }

    /// What was encoded.
    pub(super) fn restore(
        (aggregations, spans): (&[Aggregation], &[Span]),
        encoded: &[u8],
    ) -> Result<Self, Problem> {
        let expected = spans.len();
        let [times, cells, spans] = parts(encoded, 3)?[..] else {
            return Err(Problem::Parts(3));
        };
        let mut before = 0_i64;
        let times = items(times)?.into_iter().map(|time| {
            before = before.checked_add(integer(time)?).ok_or(Problem::FarTime)?;
            Ok(before)
        });
        let times = times.collect::<Result<VecDeque<_>, Problem>>()?;
        let (cells, spans) = (items(cells)?, items(spans)?);
        if !times.is_empty() && (cells.len(), spans.len()) != (aggregations.len(), expected) {
            return Err(Problem::Parts(aggregations.len()));
        }
        let mut restored = Self {
            cells: cells.iter().map(|_| Cells::default()).collect(),
            ..Self::default()
        };
        for ((into, aggregation), from) in restored.cells.iter_mut().zip(aggregations).zip(cells) {
            for value in items(from)? {
                into.push(match (value, items(value)) {
                    ([0xc0], _) => None,
                    (_, Ok(inside)) => Some(Accumulated::Encoded(
                        inside.first().copied().unwrap_or_default().into(),
                    )),
                    (value, _) => Some(Accumulated::decode(terms(*aggregation), value)?),
                });
            }
            let expected = if *aggregation == Aggregation::Count {
                0
            } else {
                times.len()
            };
            if into.len() != expected {
                return Err(Problem::Parts(expected));
            }
        }
        let end = times.len() as u64;
        let moving = spans.into_iter().map(|span| {
            let [start, boundaries @ ..] = &parts(span, 1 + aggregations.len())?[..] else {
                return Err(Problem::Parts(1 + aggregations.len()));
            };
            let places = (integer(start)?.clamp(0, end as i64) as u64)..end;
            let mut folds = Vec::new();
            let of = aggregations.iter().zip(&restored.cells).zip(boundaries);
            for ((aggregation, cells), boundary) in of {
                let boundary = match Reader::new(boundary).read()? {
                    Value::Nil => None,
                    Value::Int(boundary) => Some(u64::try_from(boundary).unwrap_or_default()),
                    _ => return Err(Problem::NoWindows),
                };
                let mut fold = Fold::new(*aggregation);
                fold.restore(Kept { cells, first: 0 }, places.clone(), boundary)?;
                folds.push(fold);
            }
            Ok(Moving {
                places,
                folds: folds.into(),
            })
        });
        restored.spans = moving.collect::<Result<_, Problem>>()?;
        restored.times = times;
        Ok(restored)
    }

    /// The place behind the newest record.
    fn end(&self) -> u64 {
        self.first + self.times.len() as u64
    }
}

/// Records for which a key without any keeps memory.
const FEW: usize = 8;

/// How a value was encoded: that of a mean as the number that it is.
fn terms(aggregation: Aggregation) -> Aggregation {
    match aggregation {
        Aggregation::Mean => Aggregation::Sum,
        other => other,
    }
}

//! The records of one key that spans have, and where these spans are.

use super::Span;
use super::fold::{Fold, Folds, Kept};
use super::plan::{Plan, Rolled};
use super::ring::Ring;
use super::stacks::TILE;
use crate::accumulator::{Accumulated, Aggregation, parts};
use crate::encoded::ahead::prefetch;
use crate::encoded::encode;
use crate::encoded::value::{Reader, Value};
use crate::groups::kept::{integer, items};
use crate::problem::Problem;
use std::ops::Range;

/// The times and values of a key's records from the first that a span has on, in the order of time.
///
/// A record's place is its number among all of the key, however many of them are gone.
///
/// It lies in two lines of memory, which a record of one aggregation needs with the ends of the ring alone.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct OfKey {
    first: u64,
    ring: Ring,
    /// Of each span those of all aggregations.
    folds: Folds,
    /// How many records of the key wait for their time.
    pub(super) waiting: u32,
    /// The place of the one among all waiting records that came last; it need not wait any more.
    pub(super) came_last: u32,
    /// Whether it is among the keys that may have to go.
    pub(super) is_due: bool,
}

impl OfKey {
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(super) fn has_something(&self) -> bool {
        self.waiting > 0 || !self.is_empty()
    }

    /// The time of the newest record.
    pub(super) fn newest(&self, plan: &Plan) -> Option<i64> {
        self.ring.newest(plan.width)
    }

    /// Asks for the memory that a record needs.
    #[inline]
    pub(super) fn prefetch(&self, plan: &Plan) {
        for end in self.ring.ends(plan.width) {
            prefetch(end);
        }
        if let Folds::Several(folds) = &self.folds {
            prefetch(folds.as_ptr());
        }
    }

    /// The value of the newest record for an aggregation.
    pub(super) fn last(&self, plan: &Plan, aggregation: usize) -> Option<Accumulated> {
        let last = self.ring.len().checked_sub(1)?;
        self.ring.get(plan.width, last, plan.slots[aggregation]?)
    }

    /// Forgets all records but those that wait. Memory of few records stays, as a key often comes again.
    pub(super) fn clear(&mut self, plan: &Plan) {
        self.is_due = false;
        if self.ring.capacity() > FEW {
            *self = Self {
                waiting: self.waiting,
                came_last: self.came_last,
                ..Self::default()
            };
            return;
        }
        self.first = 0;
        self.ring.clear();
        let folds = self.folds.all_mut().iter_mut();
        for (fold, rolled) in folds.zip(plan.rolled.iter().cycle()) {
            *fold = Fold::new(rolled);
        }
    }

    /// Takes in a record, which is no older than others: its place.
    #[inline]
    pub(super) fn push(
        &mut self,
        plan: &Plan,
        time: i64,
        values: &mut [Option<Accumulated>],
    ) -> u64 {
        if matches!(self.folds, Folds::None) {
            let of_span = |_| plan.rolled.iter().map(Fold::new);
            self.folds = plan.spans.iter().flat_map(of_span).collect();
        }
        self.ring.push(plan, time, values);
        self.end() - 1
    }

    /// Takes in a record that is older than others, and appends what [`Self::values`] would have if it had
    /// been the newest. It costs as much as the records of its spans.
    #[cold]
    pub(super) fn insert(
        &mut self,
        plan: &Plan,
        time: i64,
        values: &mut [Option<Accumulated>],
        out: &mut Vec<Option<Accumulated>>,
    ) -> Result<(), Problem> {
        let index = self.ring.until(plan.width, |other| other <= time);
        self.ring.insert(plan, index, time, values);
        let (own, newest) = (self.first + index as u64, self.end() - 1);
        let mut folds = Vec::with_capacity(self.folds.all().len());
        for span in &plan.spans {
            let [own, newest] = [own, newest].map(|place| self.within(plan, *span, place));
            for (rolled, slot) in plan.rolled.iter().zip(&plan.slots) {
                let kept = self.kept(plan, *slot);
                let mut alone = Fold::of(rolled, kept, own.clone(), None)?;
                out.push(alone.value(rolled, kept)?);
                folds.push(Fold::of(rolled, kept, newest.clone(), None)?);
            }
        }
        self.folds = folds.into_iter().collect();
        Ok(())
    }

    /// Lets go of records that neither a span has now, nor one that ends later than the watermark.
    pub(super) fn forget(&mut self, plan: &Plan, watermark: i64) {
        let mut needed = self.end();
        for (span, start) in plan.spans.iter().zip(self.starts(plan)) {
            let from = match span {
                Span::Time(length) => {
                    let from = watermark.saturating_sub(*length);
                    self.ring.until(plan.width, |time| time <= from)
                }
                Span::Rows(rows) => {
                    let later = self.ring.until(plan.width, |time| time <= watermark);
                    later.saturating_sub(*rows as usize)
                }
            };
            needed = needed.min(start).min(self.first + from as u64);
        }
        self.forget_to(plan, needed);
    }

    /// The places within a span that ends at this one.
    fn within(&self, plan: &Plan, span: Span, place: u64) -> Range<u64> {
        match span {
            Span::Time(length) => {
                let time = self.ring.time(plan.width, (place - self.first) as usize);
                let from = time.saturating_sub(length);
                let start = self.ring.until(plan.width, |other| other < from);
                let end = self.ring.until(plan.width, |other| other <= time);
                self.first + start as u64..self.first + end as u64
            }
            Span::Rows(rows) => (place + 1).saturating_sub(rows).max(self.first)..place + 1,
        }
    }

    /// Appends what the records in each span come to that ends at the record in this place: of each
    /// span the values of all aggregations.
    #[inline]
    pub(super) fn values(
        &mut self,
        plan: &Plan,
        place: u64,
        out: &mut Vec<Option<Accumulated>>,
    ) -> Result<(), Problem> {
        let (first, newest, width) = (self.first, self.end(), plan.width);
        let time_at = |place: u64| self.ring.time(width, (place - first) as usize);
        let of_spans = self.folds.all_mut().chunks_exact_mut(plan.rolled.len());
        for (span, folds) in plan.spans.iter().zip(of_spans) {
            let before = folds[0].places.clone();
            let places = match span {
                Span::Time(length) => {
                    let from = time_at(place).saturating_sub(*length);
                    let mut start = before.start;
                    while start < before.end && time_at(start) < from {
                        start += 1;
                    }
                    start..newest
                }
                Span::Rows(rows) => {
                    let end = place + 1;
                    before.start.max(end.saturating_sub(*rows))..end
                }
            };
            for ((fold, rolled), slot) in folds.iter_mut().zip(&plan.rolled).zip(&plan.slots) {
                let kept = Kept {
                    ring: &self.ring,
                    width,
                    first,
                    slot: slot.unwrap_or_default(),
                };
                fold.move_on(rolled, kept, places.clone())?;
                out.push(fold.value(rolled, kept)?);
            }
        }
        Ok(())
    }

    /// Lets go of records that no span has.
    #[inline]
    pub(super) fn forget_all_before(&mut self, plan: &Plan) {
        let needed = self.starts(plan).min().unwrap_or(self.first);
        self.forget_to(plan, needed);
    }

    #[inline]
    fn forget_to(&mut self, plan: &Plan, needed: u64) {
        if needed > self.first {
            self.ring.forget(plan.width, (needed - self.first) as usize);
            self.first = needed;
        }
    }

    /// Where each span begins.
    fn starts(&self, plan: &Plan) -> impl Iterator<Item = u64> {
        let of_spans = self.folds.all().chunks_exact(plan.rolled.len());
        of_spans.map(|folds| folds[0].places.start)
    }

    fn kept(&self, plan: &Plan, slot: Option<usize>) -> Kept<'_> {
        Kept {
            ring: &self.ring,
            width: plan.width,
            first: self.first,
            slot: slot.unwrap_or_default(),
        }
    }

    /// The place behind the newest record.
    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// What [`CopiedKey::encode`] encodes.
    pub(super) fn copy(&self) -> CopiedKey {
        let bounds = |fold: &Fold| (fold.places.start, fold.boundary());
        CopiedKey {
            first: self.first,
            ring: self.ring.clone(),
            bounds: self.folds.all().iter().map(bounds).collect(),
        }
    }

    /// What [`CopiedKey::encode`] has encoded.
    pub(super) fn restore(plan: &Plan, encoded: &[u8]) -> Result<Self, Problem> {
        let [first, times, cells, spans] = parts(encoded, 4)?[..] else {
            return Err(Problem::Parts(4));
        };
        let first = u64::try_from(integer(first)?).map_err(|_| Problem::Overflow)?;
        let (times, cells, spans) = (items(times)?, items(cells)?, items(spans)?);
        if !times.is_empty() && (cells.len(), spans.len()) != (plan.rolled.len(), plan.spans.len())
        {
            return Err(Problem::Parts(plan.rolled.len()));
        }
        let cells = cells.into_iter().zip(&plan.slots).map(|(cells, slot)| {
            let expected = slot.map_or(0, |_| times.len());
            let cells = items(cells)?;
            (cells.len() == expected)
                .then_some(cells)
                .ok_or(Problem::Parts(expected))
        });
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        let mut restored = Self {
            first: first % TILE,
            ..Self::default()
        };
        let (mut time, mut values) = (0_i64, vec![None; plan.rolled.len()]);
        for (row, step) in times.iter().enumerate() {
            time = time.checked_add(integer(step)?).ok_or(Problem::FarTime)?;
            for ((value, rolled), cells) in values.iter_mut().zip(&plan.rolled).zip(&cells) {
                *value = cells
                    .get(row)
                    .map_or(Ok(None), |cell| decoded(rolled, cell))?;
            }
            restored.ring.push(plan, time, &mut values);
        }
        let (first, length) = (restored.first, restored.ring.len() as i64);
        let place =
            |offset: &[u8]| Ok::<_, Problem>(first + integer(offset)?.clamp(0, length) as u64);
        let mut folds = Vec::new();
        for span in spans {
            let [start, boundaries @ ..] = &parts(span, 1 + plan.rolled.len())?[..] else {
                return Err(Problem::Parts(1 + plan.rolled.len()));
            };
            let places = place(start)?..restored.end();
            for ((rolled, slot), boundary) in plan.rolled.iter().zip(&plan.slots).zip(boundaries) {
                let boundary = match Reader::new(boundary).read()? {
                    Value::Nil => None,
                    _ => Some(place(boundary)?),
                };
                let kept = restored.kept(plan, *slot);
                folds.push(Fold::of(rolled, kept, places.clone(), boundary)?);
            }
        }
        restored.folds = folds.into_iter().collect();
        Ok(restored)
    }
}

/// What is kept of a key, at one time.
#[derive(Debug)]
pub(super) struct CopiedKey {
    first: u64,
    ring: Ring,
    /// Of each fold where it begins, and where its two stacks meet.
    bounds: Box<[(u64, Option<u64>)]>,
}

impl CopiedKey {
    /// Appends what [`OfKey::restore`] goes on with: where the first record is in its tile; times, each behind the one
    /// before; the values of each aggregation; and of each span where it begins, and where the two stacks of
    /// each aggregation meet.
    pub(super) fn encode(&self, plan: &Plan, out: &mut Vec<u8>) {
        encode::array(out, 4);
        encode::unsigned(out, self.first % TILE);
        encode::array(out, self.ring.len());
        let mut before = 0;
        for index in 0..self.ring.len() {
            let time = self.ring.time(plan.width, index);
            encode::int(out, time - before);
            before = time;
        }
        encode::array(out, plan.slots.len());
        for slot in &plan.slots {
            encode::array(out, slot.map_or(0, |_| self.ring.len()));
            for index in (0..self.ring.len()).filter(|_| slot.is_some()) {
                match self.ring.get(plan.width, index, slot.unwrap_or_default()) {
                    Some(value @ Accumulated::Encoded(_)) => {
                        encode::array(out, 1); // so that it is no null
                        value.encode(out);
                    }
                    Some(value) => value.encode(out),
                    None => encode::nil(out),
                }
            }
        }
        let of_spans = self.bounds.chunks_exact(plan.rolled.len());
        encode::array(out, of_spans.len());
        for bounds in of_spans {
            encode::array(out, 1 + bounds.len());
            encode::unsigned(out, bounds[0].0 - self.first);
            for (_, boundary) in bounds {
                match boundary {
                    Some(place) => encode::unsigned(out, place.saturating_sub(self.first)),
                    None => encode::nil(out),
                }
            }
        }
    }
}

/// A value that was kept.
fn decoded(rolled: &Rolled, cell: &[u8]) -> Result<Option<Accumulated>, Problem> {
    Ok(match (cell, items(cell)) {
        ([0xc0], _) => None,
        (_, Ok(inside)) => {
            let inside = inside.first().copied().unwrap_or_default();
            Some(Accumulated::Encoded(inside.into()))
        }
        (cell, _) => {
            let terms = rolled.terms().unwrap_or(Aggregation::Min);
            Some(Accumulated::decode(terms, cell)?)
        }
    })
}

/// Records for which a key without any keeps memory.
const FEW: usize = 8;

const _: () = assert!(size_of::<OfKey>() == 128);

//! What the values within a span come to, as the span moves on.

use super::cells::Cells;
use crate::accumulator::{Accumulated, Aggregation, mean};
use crate::problem::Problem;
use std::ops::Range;

/// One aggregation of the values within one span.
///
/// Values are named by their places among all of their key; the first that is kept is at `first`. A
/// record costs the same however long the span is: a sum of integers gives back what it took in, and
/// what cannot be given back exactly is in [`Stacks`].
#[derive(Clone, Debug)]
pub(super) struct Fold {
    aggregation: Aggregation,
    /// How many values there are that are not null.
    some: u64,
    /// The place of the first or the last of them, where that is asked for.
    at: u64,
    total: Total,
}

#[derive(Clone, Debug)]
enum Total {
    Exact(i128),
    Stacks(Box<Stacks>),
}

/// Values of a key, and the place of the first.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) cells: &'a Cells,
    pub(super) first: u64,
}

impl Kept<'_> {
    #[inline]
    fn get(self, place: u64) -> Option<Accumulated> {
        self.cells.get((place - self.first) as usize)
    }

    #[inline]
    fn is_null(self, place: u64) -> bool {
        self.cells.is_null((place - self.first) as usize)
    }
}

impl Fold {
    pub(super) fn new(aggregation: Aggregation) -> Self {
        let total = match aggregation {
            Aggregation::Sum | Aggregation::Mean => Total::Exact(0),
            _ => Total::Stacks(Box::default()),
        };
        Self {
            aggregation,
            some: 0,
            at: 0,
            total,
        }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.aggregation);
    }

    /// The span, which ended at `end`, lets go of those at these places.
    #[inline]
    pub(super) fn leave(
        &mut self,
        kept: Kept,
        places: Range<u64>,
        end: u64,
    ) -> Result<(), Problem> {
        if self.aggregation == Aggregation::Count {
            return Ok(());
        }
        for place in places {
            if kept.is_null(place) {
                continue;
            }
            self.some -= 1;
            match (&mut self.total, self.aggregation) {
                (_, Aggregation::First | Aggregation::Last) => {}
                (Total::Exact(sum), _) => {
                    if let Some(Accumulated::Integer(number)) = kept.get(place) {
                        *sum -= number;
                    }
                }
                (Total::Stacks(_), Aggregation::Min | Aggregation::Max)
                    if is_nan(kept.get(place).as_ref()) => {}
                (Total::Stacks(stacks), _) => {
                    stacks.leave(terms(self.aggregation), kept, place..end)?;
                }
            }
        }
        Ok(())
    }

    /// The span, which began at `start`, takes in the one at this place, which is the next.
    #[inline]
    pub(super) fn enter(&mut self, kept: Kept, place: u64, start: u64) -> Result<(), Problem> {
        if self.aggregation == Aggregation::Count || kept.is_null(place) {
            return Ok(());
        }
        self.some += 1;
        if self.aggregation == Aggregation::Last {
            self.at = place;
            return Ok(());
        }
        if self.some == 1 {
            self.at = place;
        }
        if self.aggregation == Aggregation::First {
            return Ok(());
        }
        let Some(value) = kept.get(place) else {
            return Ok(());
        };
        if let Total::Exact(sum) = &mut self.total {
            if let Accumulated::Integer(number) = value
                && let Some(total) = sum.checked_add(number)
            {
                *sum = total;
                return Ok(());
            }
            let mut stacks = Stacks::default();
            stacks.turn(Aggregation::Sum, kept, start..place)?;
            self.total = Total::Stacks(Box::new(stacks));
        }
        if let Total::Stacks(stacks) = &mut self.total
            && !(is_ordered(self.aggregation) && is_nan(Some(&value)))
        {
            stacks.enter(terms(self.aggregation), value)?;
        }
        Ok(())
    }

    /// What those within the span come to; `None` if all are null.
    #[inline]
    pub(super) fn value(
        &mut self,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<Option<Accumulated>, Problem> {
        if self.aggregation == Aggregation::Count {
            let count = places.end - places.start;
            return Ok(Some(Accumulated::Integer(count.into())));
        }
        if self.some == 0 {
            return Ok(None);
        }
        if self.aggregation == Aggregation::Last {
            return Ok(kept.get(self.at));
        }
        // Each place is passed once, however often this is asked.
        self.at = self.at.max(places.start);
        while kept.is_null(self.at) {
            self.at += 1;
        }
        if self.aggregation == Aggregation::First {
            return Ok(kept.get(self.at));
        }
        if is_ordered(self.aggregation) {
            // A NaN that comes first stays, as it does in a loop over the records.
            let first = kept.get(self.at);
            if is_nan(first.as_ref()) {
                return Ok(first);
            }
        }
        let total = match &self.total {
            Total::Exact(sum) => Some(Accumulated::Integer(*sum)),
            Total::Stacks(stacks) => stacks.value(terms(self.aggregation))?,
        };
        match (self.aggregation, total) {
            (Aggregation::Mean, Some(sum)) => mean(&sum, self.some).map(Some),
            (_, total) => Ok(total),
        }
    }

    /// Where the older of two stacks ends, where there are two: for who goes on with it.
    pub(super) fn boundary(&self) -> Option<u64> {
        match &self.total {
            Total::Stacks(stacks) => Some(stacks.boundary),
            Total::Exact(_) => None,
        }
    }

    /// Goes on with the values at these places, of which another had two stacks with this boundary.
    pub(super) fn restore(
        &mut self,
        kept: Kept,
        places: Range<u64>,
        boundary: Option<u64>,
    ) -> Result<(), Problem> {
        let (start, end) = (places.start, places.end);
        let middle = boundary.unwrap_or(start).clamp(start, end);
        if let (Some(_), false) = (boundary, self.picks()) {
            let mut stacks = Stacks::default();
            let older = start..middle;
            stacks.turn(terms(self.aggregation), kept, older.clone())?;
            stacks.boundary = middle;
            self.total = Total::Stacks(Box::new(stacks));
            let are_some = older.clone().filter(|place| !kept.is_null(*place));
            self.some = are_some.count() as u64;
            self.at = start;
        }
        let from = if self.picks() { start } else { middle };
        for place in from..end {
            self.enter(kept, place, start)?;
        }
        Ok(())
    }

    /// Whether it shows one of the values, or none of them.
    fn picks(&self) -> bool {
        matches!(
            self.aggregation,
            Aggregation::Count | Aggregation::First | Aggregation::Last
        )
    }
}

/// What is added up: a mean is a sum until it is asked for.
fn terms(aggregation: Aggregation) -> Aggregation {
    match aggregation {
        Aggregation::Mean => Aggregation::Sum,
        other => other,
    }
}

fn is_ordered(aggregation: Aggregation) -> bool {
    matches!(aggregation, Aggregation::Min | Aggregation::Max)
}

fn is_nan(value: Option<&Accumulated>) -> bool {
    matches!(value, Some(Accumulated::Float(number)) if number.is_nan())
}

/// A queue of values that knows what all of them come to, and takes nothing out of a sum: so floats
/// stay as exact as if they were added up anew.
///
/// Of the older values it has what each comes to with all older ones behind it, the first on top; of
/// the newer ones what they come to together. When the older ones are used up, the newer become those:
/// each value moves once.
#[derive(Clone, Debug, Default)]
struct Stacks {
    older: Cells,
    newer: Option<Accumulated>,
    /// The place behind the older ones.
    boundary: u64,
}

impl Stacks {
    fn enter(&mut self, aggregation: Aggregation, value: Accumulated) -> Result<(), Problem> {
        if let Some(newer) = &mut self.newer {
            return newer.merge(aggregation, &value);
        }
        self.newer = Some(value);
        Ok(())
    }

    /// Lets go of the first of those at these places.
    fn leave(
        &mut self,
        aggregation: Aggregation,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<(), Problem> {
        if self.older.len() == 0 {
            self.turn(aggregation, kept, places)?;
        }
        self.older.pop();
        Ok(())
    }

    /// Has all values be older ones: those at these places.
    fn turn(
        &mut self,
        aggregation: Aggregation,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<(), Problem> {
        self.boundary = places.end;
        self.newer = None;
        self.older = Cells::default();
        for place in places.rev() {
            let Some(mut value) = kept.get(place) else {
                continue;
            };
            if is_ordered(aggregation) && is_nan(Some(&value)) {
                continue;
            }
            if let Some(behind) = self.older.last() {
                value.merge(aggregation, &behind)?;
            }
            self.older.push(Some(value));
        }
        Ok(())
    }

    fn value(&self, aggregation: Aggregation) -> Result<Option<Accumulated>, Problem> {
        match (self.older.last(), &self.newer) {
            (Some(mut all), Some(newer)) => {
                all.merge(aggregation, newer)?;
                Ok(Some(all))
            }
            (older, newer) => Ok(older.or_else(|| newer.clone())),
        }
    }
}

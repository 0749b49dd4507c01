//! What the values within a span come to, as the span moves on.

use super::counted::Counted;
use super::plan::Rolled;
use super::ring::Ring;
use super::sorted::Sorted;
use super::stacks::Stacks;
use crate::accumulator::gathered::Gathered;
use crate::accumulator::{Accumulated, Aggregation, mean};
use crate::encoded::encode;
use crate::encoded::value::extension;
use crate::problem::Problem;
use std::ops::Range;

/// One aggregation of the values within one span.
///
/// Values are named by their places among all of their key; the first that is kept is at `first`. A
/// record costs the same however long the span is: what can be taken out of a total again is, as integers of a sum,
/// bools and bits are, and values that are counted, or in order. The totals of all others are in [`Stacks`]. Only a list
/// of all values costs as much as it is long.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) places: Range<u64>,
    /// How many values there are that are not null.
    some: u64,
    /// The place of the first or the last of them, where that is asked for.
    at: u64,
    total: Total,
}

#[derive(Debug)]
enum Total {
    /// Places are enough.
    Places,
    Exact(Sum),
    Stacks(Box<Stacks>),
    Sorted(Box<Sorted>),
    Counted(Box<Counted>),
}

/// A sum of 128 bits that lies as close as one of 64.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed(8))]
struct Sum(i128);

/// The rows of a key, the place of the first, and the slot of an aggregation.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) ring: &'a Ring,
    pub(super) width: usize,
    pub(super) first: u64,
    pub(super) slot: usize,
}

impl Kept<'_> {
    #[inline]
    fn get(self, place: u64) -> Option<Accumulated> {
        let index = (place - self.first) as usize;
        self.ring.get(self.width, index, self.slot)
    }

    #[inline]
    fn is_null(self, place: u64) -> bool {
        let index = (place - self.first) as usize;
        self.ring.is_null(self.width, index, self.slot)
    }

    /// A value that counts in a total: NaN has no place in an order.
    #[inline]
    pub(super) fn counting(self, rolled: &Rolled, place: u64) -> Option<Accumulated> {
        let value = self.get(place);
        value.filter(|value| !(is_ordered(rolled.aggregation) && is_nan(value)))
    }

    /// Writes a value there, encoded.
    pub(super) fn encode(self, place: u64, out: &mut Vec<u8>) {
        out.clear();
        self.visit(place, |value| value.encode(out));
    }

    #[inline]
    fn visit(self, place: u64, visit: impl FnOnce(&Accumulated)) {
        let index = (place - self.first) as usize;
        self.ring.visit(self.width, (index, self.slot), visit);
    }
}

impl Fold {
    pub(super) fn new(rolled: &Rolled) -> Self {
        use Aggregation::{
            Array, BitXor, BoolAnd, BoolOr, Count, CountDistinct, First, Last, Mean, Quantile,
            Quantiles, Sum, Top,
        };
        let total = match rolled.aggregation.exact() {
            Count | First | Last | Array => Total::Places,
            Sum | Mean | BoolAnd | BoolOr | BitXor => Total::Exact(self::Sum::default()),
            Quantile | Quantiles => Total::Sorted(Box::default()),
            CountDistinct => Total::Counted(Box::new(Counted::new(false))),
            Top => Total::Counted(Box::new(Counted::new(true))),
            _ => Total::Stacks(Box::default()),
        };
        Self {
            places: 0..0,
            some: 0,
            at: 0,
            total,
        }
    }

    /// The span is at these places now, which are no earlier than those before.
    #[inline]
    pub(super) fn move_on(
        &mut self,
        rolled: &Rolled,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<(), Problem> {
        if rolled.has_values() {
            self.leave(rolled, kept, self.places.start..places.start)?;
            for place in self.places.end..places.end {
                self.enter(rolled, kept, place, places.start)?;
            }
        }
        self.places = places;
        Ok(())
    }

    #[inline]
    fn leave(&mut self, rolled: &Rolled, kept: Kept, places: Range<u64>) -> Result<(), Problem> {
        for place in places {
            if kept.is_null(place) {
                continue;
            }
            self.some -= 1;
            match &mut self.total {
                Total::Places => {}
                Total::Exact(sum) => {
                    if let Some(Accumulated::Integer(number)) = kept.get(place) {
                        sum.0 = match rolled.aggregation {
                            Aggregation::BitXor => sum.0 ^ number,
                            _ => sum.0 - number,
                        };
                    }
                }
                Total::Stacks(stacks) => {
                    if kept.counting(rolled, place).is_some() {
                        stacks.leave(rolled, kept, place..self.places.end)?;
                    }
                }
                Total::Sorted(sorted) => {
                    if let Some(Accumulated::Float(number)) = kept.get(place) {
                        sorted.remove(number);
                    }
                }
                Total::Counted(counted) => counted.remove(place, kept)?,
            }
        }
        Ok(())
    }

    /// The span, which began at `start`, takes in the one at this place, which is the next.
    #[inline]
    fn enter(
        &mut self,
        rolled: &Rolled,
        kept: Kept,
        place: u64,
        start: u64,
    ) -> Result<(), Problem> {
        if kept.is_null(place) {
            return Ok(());
        }
        self.some += 1;
        if self.some == 1 || rolled.aggregation == Aggregation::Last {
            self.at = place;
        }
        match &mut self.total {
            Total::Places => {}
            Total::Exact(sum) => {
                if let Some(Accumulated::Integer(number)) = kept.get(place)
                    && let Some(total) = match rolled.aggregation {
                        Aggregation::BitXor => Some(sum.0 ^ number),
                        _ => { sum.0 }.checked_add(number),
                    }
                {
                    sum.0 = total;
                } else {
                    let mut stacks = Box::<Stacks>::default();
                    stacks.turn(rolled, kept, start..place + 1)?;
                    self.total = Total::Stacks(stacks);
                }
            }
            Total::Stacks(stacks) => {
                if let Some(value) = kept.counting(rolled, place) {
                    stacks.enter(rolled, &value)?;
                }
            }
            Total::Sorted(sorted) => {
                if let Some(Accumulated::Float(number)) = kept.get(place) {
                    sorted.add(number);
                }
            }
            Total::Counted(counted) => counted.add(place, kept)?,
        }
        Ok(())
    }

    /// What those within the span come to; `None` if all are null.
    #[inline]
    pub(super) fn value(
        &mut self,
        rolled: &Rolled,
        kept: Kept,
    ) -> Result<Option<Accumulated>, Problem> {
        match (&self.total, rolled.aggregation) {
            (_, Aggregation::Count) => {
                let count = if rolled.has_values() {
                    self.some
                } else {
                    self.places.end - self.places.start
                };
                return Ok(Some(Accumulated::Integer(count.into())));
            }
            (Total::Counted(counted), Aggregation::Top) => {
                let most = rolled.parameters.first().map_or(0, |most| *most as usize);
                return Ok(Some(Accumulated::Tally(Box::new(counted.top(most, kept)?))));
            }
            (Total::Counted(counted), _) => {
                return Ok(Some(Accumulated::Integer(counted.len() as i128)));
            }
            (_, Aggregation::Array) => {
                let mut all = Gathered::default();
                for place in self.places.clone() {
                    kept.visit(place, |value| all.push(value));
                }
                return Ok(Some(Accumulated::Gathered(Box::new(all))));
            }
            (_, Aggregation::Last) if self.some > 0 => return Ok(kept.get(self.at)),
            _ if self.some == 0 => return Ok(None),
            (Total::Sorted(sorted), aggregation) => {
                return Ok(Some(quantiles(sorted, aggregation, &rolled.parameters)));
            }
            _ => {}
        }
        if matches!(self.total, Total::Places) || is_ordered(rolled.aggregation) {
            // Each place is passed once, however often this is asked.
            self.at = self.at.max(self.places.start);
            while kept.is_null(self.at) {
                self.at += 1;
            }
            // A NaN that comes first stays, as it does in a loop over the records.
            let first = kept.get(self.at);
            if matches!(self.total, Total::Places) || first.as_ref().is_some_and(is_nan) {
                return Ok(first);
            }
        }
        let total = match &self.total {
            Total::Exact(sum) => Some(Accumulated::Integer(sum.0)),
            Total::Stacks(stacks) => stacks.value(rolled)?,
            _ => None,
        };
        match (rolled.aggregation, total) {
            (Aggregation::Mean, Some(sum)) => mean(&sum, self.some).map(Some),
            (Aggregation::BoolAnd, Some(Accumulated::Integer(trues))) => {
                Ok(Some(Accumulated::Bool(trues == self.some.into())))
            }
            (Aggregation::BoolOr, Some(Accumulated::Integer(trues))) => {
                Ok(Some(Accumulated::Bool(trues > 0)))
            }
            (_, total) => Ok(total),
        }
    }

    /// Where the older of two stacks ends, where there are two: for who goes on with it.
    pub(super) fn boundary(&self) -> Option<u64> {
        match &self.total {
            Total::Stacks(stacks) => Some(stacks.boundary),
            _ => None,
        }
    }

    /// One of the values at these places, of which another had two stacks with this boundary.
    pub(super) fn of(
        rolled: &Rolled,
        kept: Kept,
        places: Range<u64>,
        boundary: Option<u64>,
    ) -> Result<Self, Problem> {
        let mut fold = Self::new(rolled);
        let (start, mut from) = (places.start, places.start);
        fold.at = start;
        if !rolled.has_values() {
            fold.places = places;
            return Ok(fold);
        }
        let turns = matches!(fold.total, Total::Stacks(_) | Total::Exact(_));
        if let (Some(boundary), true) = (boundary, turns) {
            from = boundary.clamp(start, places.end);
            let mut stacks = Box::<Stacks>::default();
            if from > start {
                stacks.turn(rolled, kept, start..from)?;
            }
            stacks.boundary = from;
            fold.total = Total::Stacks(stacks);
            fold.some = (start..from).filter(|place| !kept.is_null(*place)).count() as u64;
        }
        for place in from..places.end {
            fold.enter(rolled, kept, place, start)?;
        }
        fold.places = places;
        Ok(fold)
    }
}

/// Those of a key: of each span those of all aggregations.
#[derive(Debug, Default)]
pub(super) enum Folds {
    #[default]
    None,
    /// The only one lies with its key.
    Alone(Fold),
    Several(Box<[Fold]>),
}

impl Folds {
    #[inline]
    pub(super) fn all(&self) -> &[Fold] {
        match self {
            Self::None => &[],
            Self::Alone(fold) => std::slice::from_ref(fold),
            Self::Several(folds) => folds,
        }
    }

    #[inline]
    pub(super) fn all_mut(&mut self) -> &mut [Fold] {
        match self {
            Self::None => &mut [],
            Self::Alone(fold) => std::slice::from_mut(fold),
            Self::Several(folds) => folds,
        }
    }
}

impl FromIterator<Fold> for Folds {
    fn from_iter<I: IntoIterator<Item = Fold>>(folds: I) -> Self {
        let mut folds = folds.into_iter();
        match (folds.next(), folds.next()) {
            (None, _) => Self::None,
            (Some(only), None) => Self::Alone(only),
            (Some(one), Some(two)) => Self::Several([one, two].into_iter().chain(folds).collect()),
        }
    }
}

fn is_ordered(aggregation: Aggregation) -> bool {
    matches!(aggregation, Aggregation::Min | Aggregation::Max)
}

fn is_nan(value: &Accumulated) -> bool {
    matches!(value, Accumulated::Float(number) if number.is_nan())
}

/// One quantile, or a list of several.
fn quantiles(sorted: &Sorted, aggregation: Aggregation, shares: &[f64]) -> Accumulated {
    if aggregation.exact() == Aggregation::Quantile {
        let share = shares.first().copied().unwrap_or_default();
        return Accumulated::Float(sorted.quantile(share));
    }
    let (mut found, mut list) = (Vec::new(), Vec::new());
    encode::array(&mut found, shares.len());
    for share in shares {
        encode::float(&mut found, sorted.quantile(*share));
    }
    encode::extension(&mut list, extension::LIST, &found);
    Accumulated::Encoded(list.into())
}

//! A queue of values that knows what all of them come to, for what cannot be taken out of a total again.

use super::fold::Kept;
use super::plan::Rolled;
use crate::accumulator::moments::Moments;
use crate::accumulator::{Accumulated, Aggregation};
use crate::problem::Problem;
use std::borrow::Cow;
use std::ops::Range;

/// What the values within a span come to. Nothing is ever taken out of a total: so floats stay as exact as if they
/// were added up anew.
///
/// Values are older or newer ones. Of the newer ones there is what they come to together. Of the older ones there is,
/// for each tile of [`TILE`] places, what its values come to with all older ones behind it; and in the first tile the
/// same of each value, but for the tiles behind it. When the older ones are used up, the newer become those. So each
/// value is taken in three times however long the span is, and what is kept grows with tiles.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Of the first tile, its first value on top.
    first: Totals,
    /// Of the tiles behind it, the second one on top.
    tiles: Totals,
    newer: Option<Accumulated>,
    /// The place behind the older ones.
    pub(super) boundary: u64,
}

impl Stacks {
    /// Takes in a value behind all others.
    pub(super) fn enter(&mut self, rolled: &Rolled, value: &Accumulated) -> Result<(), Problem> {
        merge(rolled, &mut self.newer, &*lifted(rolled, value)?)
    }

    /// Lets go of the first of those at these places, which is one that counts.
    #[inline]
    pub(super) fn leave(
        &mut self,
        rolled: &Rolled,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<(), Problem> {
        if self.first.len() == 0 {
            if places.start < self.boundary {
                self.open(rolled, kept, places.start)?;
            } else {
                self.turn(rolled, kept, places)?;
            }
        }
        self.first.pop();
        Ok(())
    }

    /// Has all values be older ones: those at these places.
    pub(super) fn turn(
        &mut self,
        rolled: &Rolled,
        kept: Kept,
        places: Range<u64>,
    ) -> Result<(), Problem> {
        self.boundary = places.end;
        self.newer = None;
        self.tiles = Totals::default();
        let mut end = places.end;
        while tile_of(end - 1) > tile_of(places.start) {
            let start = (end - 1) / TILE * TILE;
            let mut total = None;
            for place in start..end {
                if let Some(value) = kept.counting(rolled, place) {
                    merge(rolled, &mut total, &*lifted(rolled, &value)?)?;
                }
            }
            if let Some(behind) = self.tiles.last() {
                merge(rolled, &mut total, &behind)?;
            }
            self.tiles.push(total);
            end = start;
        }
        self.open(rolled, kept, places.start)
    }

    /// Has the tile of this place be the first.
    fn open(&mut self, rolled: &Rolled, kept: Kept, start: u64) -> Result<(), Problem> {
        let end = ((tile_of(start) + 1) * TILE).min(self.boundary);
        self.first.clear();
        for place in (start..end).rev() {
            let Some(value) = kept.counting(rolled, place) else {
                continue;
            };
            let mut total = Some(lifted(rolled, &value)?.into_owned());
            if let Some(behind) = self.first.last() {
                merge(rolled, &mut total, &behind)?;
            }
            self.first.push(total);
        }
        let behind = tile_of(self.boundary - 1) - tile_of(start);
        self.tiles.truncate(behind as usize);
        Ok(())
    }

    /// What all come to.
    #[inline]
    pub(super) fn value(&self, rolled: &Rolled) -> Result<Option<Accumulated>, Problem> {
        let mut all = self.first.last();
        if let Some(behind) = self.tiles.last() {
            merge(rolled, &mut all, &behind)?;
        }
        if let Some(newer) = &self.newer {
            merge(rolled, &mut all, newer)?;
        }
        Ok(all)
    }
}

/// Puts behind a total what values behind it come to.
#[inline]
fn merge(
    rolled: &Rolled,
    total: &mut Option<Accumulated>,
    behind: &Accumulated,
) -> Result<(), Problem> {
    let aggregation = rolled.terms().unwrap_or(rolled.aggregation);
    match (total, behind) {
        (Some(Accumulated::Float(sum)), Accumulated::Float(more))
            if aggregation == Aggregation::Sum =>
        {
            *sum += more;
            Ok(())
        }
        (Some(total), _) => total.merge(aggregation, behind),
        (none, _) => {
            *none = Some(behind.clone());
            Ok(())
        }
    }
}

/// What a value comes to by itself.
#[inline]
fn lifted<'a>(rolled: &Rolled, value: &'a Accumulated) -> Result<Cow<'a, Accumulated>, Problem> {
    match (rolled.terms(), value) {
        (Some(_), _) => Ok(Cow::Borrowed(value)),
        (None, Accumulated::Float(number)) => {
            Ok(Cow::Owned(Accumulated::Moments(Moments::of(*number))))
        }
        (None, _) => Accumulated::first(rolled.aggregation, &value.encoded()).map(Cow::Owned),
    }
}

fn tile_of(place: u64) -> u64 {
    place / TILE
}

/// Places whose values are added up together. Where a key goes on elsewhere its tiles do, too.
pub(super) const TILE: u64 = 64;

/// Totals on top of each other. Those that all are floats take 8 bytes each.
#[derive(Debug)]
enum Totals {
    Floats(Vec<f64>),
    Others(Vec<Option<Accumulated>>),
}

impl Default for Totals {
    fn default() -> Self {
        Self::Floats(Vec::new())
    }
}

impl Totals {
    #[inline]
    fn push(&mut self, total: Option<Accumulated>) {
        match (&mut *self, &total) {
            (Self::Floats(totals), Some(Accumulated::Float(total))) => totals.push(*total),
            (Self::Floats(totals), _) => {
                let so_far = totals.iter().map(|total| Some(Accumulated::Float(*total)));
                let mut others: Vec<_> = so_far.collect();
                others.push(total);
                *self = Self::Others(others);
            }
            (Self::Others(totals), _) => totals.push(total),
        }
    }

    /// The one on top, if it is of any value.
    #[inline]
    fn last(&self) -> Option<Accumulated> {
        match self {
            Self::Floats(totals) => totals.last().copied().map(Accumulated::Float),
            Self::Others(totals) => totals.last().cloned().flatten(),
        }
    }

    #[inline]
    fn pop(&mut self) {
        match self {
            Self::Floats(totals) => drop(totals.pop()),
            Self::Others(totals) => drop(totals.pop()),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Floats(totals) => totals.truncate(len),
            Self::Others(totals) => totals.truncate(len),
        }
    }

    fn clear(&mut self) {
        self.truncate(0);
    }

    fn len(&self) -> usize {
        match self {
            Self::Floats(totals) => totals.len(),
            Self::Others(totals) => totals.len(),
        }
    }
}

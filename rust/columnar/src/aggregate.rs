//! Aggregates per key over columns.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use oka_compute::{Aggregation, Problem};

use crate::cells::unframed;
use crate::copied::{Copied, Exported};
use crate::shape::{Places, Shape, Wanted};
use crate::{AggregateError, Columns, Selector};

/// The values of each key so far, over columns that are read in place.
///
/// Null keys are one key. Null values are left out: a key that has no others has null. A sum is of 64
/// bits, and an error where it does not fit; minimum and maximum keep the column's type and the first
/// of equal values, as first and last keep the type; a mean is a float. Values that come with a
/// dictionary, or in runs, are what they stand for.
#[derive(Debug)]
pub struct Aggregate {
    key: Vec<Selector>,
    wanted: Vec<Wanted>,
    pub(crate) shape: Option<Shape>,
    /// Per key, the number of the last round that had it.
    rounds: Vec<u64>,
    round: u64,
    touched: Vec<u32>,
}

impl Aggregate {
    /// By the values of a column, or of several, which are one key; [`Self::compute`] says what.
    pub fn by(key: Vec<Selector>) -> Self {
        Self {
            key,
            wanted: Vec::new(),
            shape: None,
            rounds: Vec::new(),
            round: SEEN + 1,
            touched: Vec::new(),
        }
    }

    /// Computes this of a column's values; a count needs none. Called before the first frame.
    #[must_use]
    pub fn compute(
        self,
        name: impl Into<String>,
        aggregation: Aggregation,
        value: Option<Selector>,
    ) -> Self {
        self.compute_by(name, (aggregation, &[]), value)
    }

    /// As [`Self::compute`], with the shares of quantiles, or with how many values are wanted.
    #[must_use]
    pub fn compute_by(
        mut self,
        name: impl Into<String>,
        (aggregation, parameters): (Aggregation, &[f64]),
        value: Option<Selector>,
    ) -> Self {
        self.wanted.push(Wanted {
            name: name.into(),
            aggregation,
            value,
            parameters: parameters.into(),
        });
        self
    }

    /// Takes in the rows of a frame. The result has the keys that it touched, in the order in which
    /// it touched them, each once with its values after the whole frame: columns named as the keys',
    /// and one for each aggregation. Keys that are text or bytes, or come with a dictionary, have
    /// one in the result, which most results share: keys are not copied again and again.
    ///
    /// `None` if no key was touched. One is by its first row and its first value alone, if nothing else
    /// is computed.
    pub fn update(&mut self, columns: &Columns) -> Result<Option<RecordBatch>, AggregateError> {
        self.add(columns)?;
        let updated = self.updates(0..self.touched.len())?;
        self.settle();
        Ok(updated)
    }

    /// Number of keys touched since the last `update`; of all keys where it was never called.
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// What `update` gives, of some of the keys touched since it was called.
    pub fn updates(&mut self, some: Range<usize>) -> Result<Option<RecordBatch>, AggregateError> {
        let (Some(shape), false) = (&mut self.shape, some.is_empty()) else {
            return Ok(None);
        };
        let touched = &self.touched[some];
        Ok(Some(shape.take(touched, touched)?))
    }

    /// Copies keys that are new: [`Self::export`] then takes less time.
    pub fn copy_keys(&mut self) -> Result<(), AggregateError> {
        if let Some(shape) = &mut self.shape {
            shape.keys.copy_many()?;
        }
        Ok(())
    }

    /// What others go on with: each key with its values.
    pub fn export(&mut self) -> Result<Exported, AggregateError> {
        let (layout, copied) = (self.layout()?, self.copy()?);
        let encode = move || Ok(copied.keys()?.into_iter().zip(copied.values()?).collect());
        Ok(Exported::later(layout, Box::new(encode)))
    }

    /// A frame of no rows with the schema of the first one; no bytes if there was none.
    pub(crate) fn layout(&self) -> Result<Vec<u8>, AggregateError> {
        let layout = self.shape.as_ref().map(Shape::layout).transpose();
        Ok(layout?.unwrap_or_default())
    }

    /// A copy of all keys and values.
    pub(crate) fn copy(&mut self) -> Result<Copied, AggregateError> {
        let numbers = self.numbers();
        let Some(shape) = &mut self.shape else {
            return Ok(Copied::default());
        };
        let keys = shape.keys.copy(&numbers)?;
        shape.copy(keys, &numbers)
    }

    /// Goes on with keys that others have exported, and with their schema, as if the rows had come
    /// here: the keys count as touched. Called once, before the first frame.
    pub fn import(
        &mut self,
        layout: &[u8],
        (keys, values): (&[&[u8]], &[&[u8]]),
    ) -> Result<(), AggregateError> {
        self.add(&unframed(layout.to_vec(), 0)?)?;
        self.go_on(keys, values)
    }

    /// The same, where columns are settled.
    pub(crate) fn go_on(&mut self, keys: &[&[u8]], values: &[&[u8]]) -> Result<(), AggregateError> {
        let (Some(shape), false) = (&mut self.shape, keys.is_empty()) else {
            return Ok(());
        };
        let (numbers, count) = shape.keys.import(keys)?;
        self.rounds.resize(count, 0);
        touch(&mut self.rounds, self.round, numbers, &mut self.touched);
        if self.touched.len() < keys.len() {
            return Err(Problem::Twice.into());
        }
        Shape::import(&mut shape.results, (numbers, count), values)
    }

    /// Forgets which keys were touched, as [`Self::update`] does.
    pub fn settle(&mut self) {
        self.touched.clear();
        self.round += 1;
    }

    /// Takes in the rows of a frame without a result.
    pub fn add(&mut self, columns: &Columns) -> Result<(), AggregateError> {
        let places = self.places(columns.schema())?;
        for batch in columns.in_place(&places.projection)? {
            self.add_rows(&places, &batch?)?;
        }
        Ok(())
    }

    /// Where the columns are that take part, if they suit what came before.
    pub(crate) fn places(&mut self, schema: &SchemaRef) -> Result<Places, AggregateError> {
        let places = Places::of(schema, &self.key, &self.wanted)?;
        let shape = match self.shape.take() {
            Some(shape) => shape.checked(schema, &places)?,
            None => Shape::new(schema, &places, &self.wanted)?,
        };
        self.shape = Some(shape);
        Ok(places)
    }

    /// One that computes the same, of no rows so far.
    pub(crate) fn without_rows(&self) -> Self {
        let mut other = Self::by(self.key.clone());
        other.wanted.clone_from(&self.wanted);
        other
    }

    /// Settles that columns are as those of another, where none came so far.
    pub(crate) fn shape_as(&mut self, other: &Self) -> Result<(), AggregateError> {
        if let (None, Some(shape)) = (&self.shape, &other.shape) {
            self.places(&shape.input)?;
        }
        Ok(())
    }

    /// Takes in rows of a batch that has the columns at these places.
    pub(crate) fn add_rows(
        &mut self,
        places: &Places,
        batch: &RecordBatch,
    ) -> Result<(), AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(());
        };
        let only_new = self
            .wanted
            .iter()
            .all(|w| w.aggregation == Aggregation::First);
        let keys = places.keys.iter().map(|at| Arc::clone(batch.column(*at)));
        let (numbers, count) = shape.keys.of(&keys.collect::<Vec<_>>())?;
        self.rounds.resize(count, 0);
        if only_new {
            touch_new(&mut self.rounds, self.round, numbers, &mut self.touched);
        } else {
            touch(&mut self.rounds, self.round, numbers, &mut self.touched);
        }
        Shape::update(&mut shape.results, (numbers, count), places, batch)?;
        if only_new {
            for numbers in Shape::changed(&shape.results) {
                touch(&mut self.rounds, self.round, numbers, &mut self.touched);
            }
        }
        Ok(())
    }

    /// Takes in what another of the same columns has come to; keys that were touched there are so
    /// here.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), AggregateError> {
        self.shape_as(other)?;
        let (Some(shape), Some(others)) = (&mut self.shape, &other.shape) else {
            return Ok(());
        };
        let theirs = other.numbers();
        let keys = others.keys.plain(&theirs)?;
        let (ours, count) = shape.keys.of(&keys)?;
        self.rounds.resize(count, 0);
        let is_touched = |it: &(&u32, &u32)| other.rounds[*it.1 as usize] == other.round;
        let touched = ours.iter().zip(&theirs).filter(is_touched);
        let touched: Vec<_> = touched.map(|(number, _)| *number).collect();
        for number in ours {
            let last = &mut self.rounds[*number as usize];
            *last = (*last).max(SEEN);
        }
        touch(&mut self.rounds, self.round, &touched, &mut self.touched);
        Shape::merge(
            &mut shape.results,
            (ours, count),
            (&others.results, &theirs),
        )
    }

    /// Has all keys touched, and says how many they are.
    pub(crate) fn touch_all(&mut self) -> usize {
        let all = self.rounds.iter().filter(|last| **last > 0).count();
        if self.touched.len() < all {
            self.touched = self.numbers();
            for number in &self.touched {
                self.rounds[*number as usize] = self.round;
            }
        }
        all
    }

    /// The numbers of the keys there are.
    fn numbers(&self) -> Vec<u32> {
        let rounds = (0..).zip(&self.rounds).filter(|(_, last)| **last > 0);
        rounds.map(|(number, _)| number).collect()
    }
}

/// The round of keys that are there and were not touched.
const SEEN: u64 = 1;

/// Appends each number that this round has not had, once.
///
/// Without a branch: where a key comes up for the first time cannot be predicted.
fn touch(rounds: &mut [u64], round: u64, numbers: &[u32], touched: &mut Vec<u32>) {
    let mut end = touched.len();
    touched.resize(end + numbers.len(), 0);
    for number in numbers {
        let last = &mut rounds[*number as usize];
        touched[end] = *number;
        end += usize::from(*last != round);
        *last = round;
    }
    touched.truncate(end);
}

/// Appends each number that no round has had, once.
fn touch_new(rounds: &mut [u64], round: u64, numbers: &[u32], touched: &mut Vec<u32>) {
    for number in numbers {
        let last = &mut rounds[*number as usize];
        if *last == 0 {
            *last = round;
            touched.push(*number);
        }
    }
}

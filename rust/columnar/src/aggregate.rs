//! Aggregates per key over columns.
//!
//! - [`shape`]: what the first frame settles for all others; [`copied`]: copies of what is kept.
//! - [`values`]: what keys have come to by their numbers: numbers in place, or [`numbers`] of which quantiles are
//!   asked for, [`distinct`] values as [`pairs`] with their keys, those [`picked`] first or last, [`lists`] of all,
//!   or what they were [`folded`] into.

pub(crate) mod copied;
mod distinct;
pub(crate) mod folded;
mod lists;
mod numbers;
mod pairs;
mod picked;
pub(crate) mod places;
pub(crate) mod shape;
pub(crate) mod values;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, NullArray, RecordBatch};
use arrow_schema::SchemaRef;
use oka_compute::{Aggregation, Copied, Problem, Touched};

use crate::aggregate::copied::CopiedRows;
use crate::aggregate::places::Places;
use crate::aggregate::shape::{Shape, Wanted};
use crate::columns::cells::unframed;
use crate::{AggregateError, Columns, Selector};

/// The layout of columns, and what their rows have come to, both encoded.
pub type EncodedPart = (Vec<u8>, Vec<u8>);

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
    touched: Touched,
    /// The layout of the last part that was taken in.
    pub(crate) merged: Vec<u8>,
}

impl Aggregate {
    /// By the values of a column, or of several, which are one key; all rows have the same key without one.
    /// [`Self::compute`] says what.
    pub fn by(key: Vec<Selector>) -> Self {
        Self {
            key,
            wanted: Vec::new(),
            shape: None,
            touched: Touched::default(),
            merged: Vec::new(),
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
            beside: None,
            filter: None,
            parameters: parameters.into(),
        });
        self
    }

    /// Computes the last of these of pairs of its values and another column's, and of rows alone where a
    /// third column is true; called before the first frame.
    #[must_use]
    pub fn of(mut self, beside: Option<Selector>, filter: Option<Selector>) -> Self {
        if let Some(last) = self.wanted.last_mut() {
            (last.beside, last.filter) = (beside, filter);
        }
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
        let touched = self.touched.some(some);
        Ok(Some(shape.take(touched, touched)?))
    }

    /// Copies keys that are new: [`Self::export`] then takes less time.
    pub fn copy_keys(&mut self) -> Result<(), AggregateError> {
        if let Some(shape) = &mut self.shape {
            shape.keys.copy_many()?;
        }
        Ok(())
    }

    /// What others go on with: the layout of the columns, and each key with its values.
    pub fn export(&mut self) -> Result<(Vec<u8>, Copied<AggregateError>), AggregateError> {
        Ok((self.layout()?, self.copy()?))
    }

    /// A frame of no rows with the schema of the first one; no bytes if there was none.
    pub(crate) fn layout(&self) -> Result<Vec<u8>, AggregateError> {
        let layout = self.shape.as_ref().map(Shape::layout).transpose();
        Ok(layout?.unwrap_or_default().to_vec())
    }

    /// A copy of all keys and values.
    pub(crate) fn copy(&mut self) -> Result<Copied<AggregateError>, AggregateError> {
        let numbers = self.touched.known();
        let Some(shape) = &mut self.shape else {
            return Ok(CopiedRows::default().later());
        };
        let keys = shape.keys.copy(&numbers)?;
        Ok(shape.copy(keys, &numbers)?.later())
    }

    /// Goes on with keys that others have exported, and with their schema, as if the rows had come
    /// here; the keys may count as touched. Called once, before the first frame.
    pub fn import(
        &mut self,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError> {
        self.add(&unframed(layout.to_vec(), 0)?)?;
        let (keys, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
        self.go_on(&keys, &values)?;
        if !touched {
            self.settle();
        }
        Ok(())
    }

    /// Without a key, what all rows so far have come to: the layout of the columns, and the values, encoded.
    /// `None` if there were no rows.
    pub fn part(&self) -> Result<Option<EncodedPart>, AggregateError> {
        let (Some(shape), [number, ..]) = (&self.shape, &self.touched.known()[..]) else {
            return Ok(None);
        };
        let values = shape.copy(Vec::new(), &[*number])?.values()?;
        Ok(Some((shape.layout()?.to_vec(), values.get(0).to_vec())))
    }

    /// Forgets what all rows so far have come to.
    pub fn clear(&mut self) {
        if let Some(shape) = &mut self.shape {
            shape.clear();
        }
        self.touched = Touched::default();
    }

    /// Without a key, takes in the [`Self::part`] of another, behind what is here.
    pub fn merge_part(&mut self, layout: &[u8], values: &[u8]) -> Result<(), AggregateError> {
        if self.merged != layout {
            self.add(&unframed(layout.to_vec(), 0)?)?; // which checks the schema
            self.merged = layout.to_vec();
        }
        match (self.touch_only()?, &mut self.shape) {
            (Some(at), Some(shape)) => shape.merge_one(at, values),
            _ => Ok(()),
        }
    }

    /// Without a key, takes in so many rows of the last columns, where each aggregation is a count of all.
    pub fn count(&mut self, rows: usize) -> Result<(), AggregateError> {
        if rows > 0
            && let (Some(at), Some(shape)) = (self.touch_only()?, &mut self.shape)
        {
            shape.count(at, rows);
        }
        Ok(())
    }

    /// Without a key, the number of the only one, which is touched, and how many numbers there are.
    fn touch_only(&mut self) -> Result<Option<(u32, usize)>, AggregateError> {
        let Some(shape) = &mut self.shape else {
            return Ok(None);
        };
        let no_key = Arc::new(NullArray::new(1)) as ArrayRef;
        let (numbers, count) = shape.keys.of(&[no_key])?;
        let number = numbers[0];
        self.touched.resize(count);
        self.touched.touch(number as usize);
        Ok(Some((number, count)))
    }

    /// The same, where columns are settled.
    pub(crate) fn go_on(&mut self, keys: &[&[u8]], values: &[&[u8]]) -> Result<(), AggregateError> {
        let (Some(shape), false) = (&mut self.shape, keys.is_empty()) else {
            return Ok(());
        };
        let (numbers, count) = shape.keys.import(keys)?;
        self.touched.resize(count);
        self.touched.touch_all(numbers);
        if self.touched.len() < keys.len() {
            return Err(Problem::Twice.into());
        }
        Shape::import(&mut shape.results, (numbers, count), values)
    }

    /// Forgets which keys were touched, as [`Self::update`] does.
    pub fn settle(&mut self) {
        self.touched.settle();
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
            self.shape = Some(shape.without_rows()?);
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
        let (numbers, count) = shape.keys.of(&places.key_columns(batch))?;
        self.touched.resize(count);
        if only_new {
            self.touched.touch_new(numbers);
        } else {
            self.touched.touch_all(numbers);
        }
        Shape::update(&mut shape.results, (numbers, count), places, batch)?;
        if only_new {
            let changed = Shape::changed(&shape.results);
            changed.for_each(|numbers| self.touched.touch_all(numbers));
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
        let theirs = other.touched.known();
        let keys = others.keys.plain(&theirs)?;
        let (ours, count) = shape.keys.of(&keys)?;
        self.touched.resize(count);
        for (number, from) in ours.iter().zip(&theirs) {
            if other.touched.has(*from) {
                self.touched.touch(*number as usize);
            } else {
                self.touched.see(*number as usize);
            }
        }
        Shape::merge(
            &mut shape.results,
            (ours, count),
            (&others.results, &theirs),
        )
    }

    /// Has all keys touched, and says how many they are.
    pub(crate) fn touch_all(&mut self) -> usize {
        self.touched.touch_known()
    }
}

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use oka_compute::{Aggregation, Problem};
use thiserror::Error;

use crate::cells::{framed, joined, split, unframed};
use crate::key::plain;
use crate::keys::Keys;
use crate::values::Values;
use crate::{ColumnError, Columns, DecodeError, EncodeError, KeyError, Selector};

/// The values of each key so far, over columns that are read in place.
///
/// Null keys are one key. Null values are left out, but not of first ones: a key that has no others
/// has null. A sum is of 64 bits, and an error where it does not fit; minimum and maximum keep the
/// column's type and the first of equal values; a mean is a float.
#[derive(Debug)]
pub struct Aggregate {
    key: Vec<Selector>,
    wanted: Vec<Wanted>,
    shape: Option<Shape>,
    /// Per key, the number of the last round that had it.
    rounds: Vec<u64>,
    round: u64,
    touched: Vec<u32>,
}

/// A frame of no rows, and encoded keys with their values.
pub type Exported = (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

/// What is computed, of which column, and how it is named.
#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    aggregation: Aggregation,
    value: Option<Selector>,
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
        mut self,
        name: impl Into<String>,
        aggregation: Aggregation,
        value: Option<Selector>,
    ) -> Self {
        let name = name.into();
        self.wanted.push(Wanted {
            name,
            aggregation,
            value,
        });
        self
    }

    /// Takes in the rows of a frame. The result has the keys that it touched, in the order in which
    /// it touched them, each once with its values after the whole frame: columns named as the keys',
    /// and one for each aggregation. Keys that are text or bytes, or come with a dictionary, have
    /// one in the result, which most results share: keys are not copied again and again.
    ///
    /// `None` if no key was touched. One is by its first value alone, if nothing else is computed.
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
        let mut columns = shape.keys.arrays(touched)?;
        for result in &shape.results {
            columns.push(result.values.take(touched, &result.data_type)?);
        }
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&shape.schema),
            columns,
        )?))
    }

    /// A frame of no rows with the schema of the first one, and each key with its values, encoded.
    pub fn export(&self) -> Result<Exported, AggregateError> {
        let Some(shape) = &self.shape else {
            return Ok(<_>::default());
        };
        let layout = framed(&RecordBatch::new_empty(Arc::clone(&shape.input)))?;
        let numbers = self.numbers();
        let values = shape.results.iter();
        let values = values.map(|each| each.values.export(&numbers, &each.data_type));
        let values = joined(values.collect::<Result<_, _>>()?);
        let keys = shape.keys.export(&numbers)?;
        Ok((layout, keys.into_iter().zip(values).collect()))
    }

    /// Goes on with keys that others have exported, and with their schema, as if the rows had come
    /// here: the keys count as touched. Called once, before the first frame.
    pub fn import(
        &mut self,
        layout: &[u8],
        (keys, values): (&[&[u8]], &[&[u8]]),
    ) -> Result<(), AggregateError> {
        self.add(&unframed(layout.to_vec(), 0)?)?;
        let (Some(shape), false) = (&mut self.shape, keys.is_empty()) else {
            return Ok(());
        };
        let (numbers, count) = shape.keys.import(keys)?;
        self.rounds.resize(count, 0);
        touch(&mut self.rounds, self.round, numbers, &mut self.touched);
        if self.touched.len() < keys.len() {
            return Err(Problem::Twice.into());
        }
        let cells = split(values, shape.results.len())?;
        for (result, cells) in shape.results.iter_mut().zip(cells) {
            result.values.resize(count);
            result.values.import(numbers, &cells, &result.data_type)?;
        }
        Ok(())
    }

    /// Forgets which keys were touched, as [`Self::update`] does.
    pub fn settle(&mut self) {
        self.touched.clear();
        self.round += 1;
    }

    /// Takes in the rows of a frame without a result.
    pub fn add(&mut self, columns: &Columns) -> Result<(), AggregateError> {
        let places = self.places(columns.schema())?;
        for batch in columns.in_place(&places.projection) {
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
        let (numbers, count) = shape.keys.of(&keys.collect::<Vec<_>>());
        self.rounds.resize(count, 0);
        if only_new {
            touch_new(&mut self.rounds, self.round, numbers, &mut self.touched);
        } else {
            touch(&mut self.rounds, self.round, numbers, &mut self.touched);
        }
        for (result, value) in shape.results.iter_mut().zip(&places.values) {
            result.values.resize(count);
            let column = batch.column(value.unwrap_or_default());
            result.values.update(result.aggregation, numbers, column)?;
        }
        Ok(())
    }

    /// Takes in what another of the same columns has come to; keys that were touched there are so
    /// here.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), AggregateError> {
        let (Some(shape), Some(others)) = (&mut self.shape, &other.shape) else {
            return Ok(());
        };
        let theirs = other.numbers();
        let keys = others.keys.plain(&theirs)?;
        let (ours, count) = shape.keys.of(&keys);
        self.rounds.resize(count, 0);
        let is_touched = |it: &(&u32, &u32)| other.rounds[*it.1 as usize] == other.round;
        let touched = ours.iter().zip(&theirs).filter(is_touched);
        let touched: Vec<_> = touched.map(|(number, _)| *number).collect();
        for number in ours {
            let last = &mut self.rounds[*number as usize];
            *last = (*last).max(SEEN);
        }
        touch(&mut self.rounds, self.round, &touched, &mut self.touched);
        for (result, other) in shape.results.iter_mut().zip(&others.results) {
            result.values.resize(count);
            let from = (&other.values, &theirs[..], &other.data_type);
            result.values.merge(result.aggregation, ours, from)?;
        }
        Ok(())
    }

    /// Has all keys touched.
    pub(crate) fn touch_all(&mut self) {
        self.touched = self.numbers();
    }

    /// The numbers of the keys there are.
    fn numbers(&self) -> Vec<u32> {
        let rounds = (0..).zip(&self.rounds).filter(|(_, last)| **last > 0);
        rounds.map(|(number, _)| number).collect()
    }
}

/// The round of keys that are there and were not touched.
const SEEN: u64 = 1;

/// Where the columns of a frame are that take part.
#[derive(Default)]
pub(crate) struct Places {
    /// Their indexes, each once.
    pub(crate) projection: Vec<usize>,
    /// Where in `projection` the keys are.
    keys: Vec<usize>,
    /// Where in `projection` the value of each aggregation is.
    values: Vec<Option<usize>>,
}

impl Places {
    fn of(schema: &Schema, key: &[Selector], wanted: &[Wanted]) -> Result<Self, ColumnError> {
        let mut places = Self::default();
        for selector in key {
            let place = places.add(selector.find(schema)?);
            places.keys.push(place);
        }
        for each in wanted {
            let column = each.value.as_ref().map(|value| value.find(schema));
            let place = column.transpose()?.map(|column| places.add(column));
            places.values.push(place);
        }
        Ok(places)
    }

    pub(crate) fn add(&mut self, column: usize) -> usize {
        let known = self.projection.iter().position(|at| *at == column);
        known.unwrap_or_else(|| {
            self.projection.push(column);
            self.projection.len() - 1
        })
    }

    /// The fields of the keys, and of each value.
    fn fields<'a>(&self, schema: &'a Schema) -> (Vec<&'a Field>, Vec<Option<&'a Field>>) {
        let field = |place: usize| schema.field(self.projection[place]);
        let keys = self.keys.iter().map(|place| field(*place));
        let values = self.values.iter().map(|place| place.map(field));
        (keys.collect(), values.collect())
    }
}

/// A frame cannot be aggregated.
#[derive(Debug, Error)]
pub enum AggregateError {
    /// There is no such column.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The key column holds no keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value column does not suit the aggregation.
    #[error("{aggregation} of a column of type {data_type}")]
    Value {
        /// What was to be computed.
        aggregation: &'static str,
        /// The type of the column.
        data_type: DataType,
    },
    /// The types of key and value are not those of the frames before.
    #[error("columns of type {got} after columns of type {expected}")]
    Changed {
        /// Key and value of the frames before.
        expected: String,
        /// Key and value now.
        got: String,
    },
    /// A row has no time.
    #[error("row {row} of the batch: {problem}")]
    Row {
        /// Its number.
        row: u32,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The bytes are no columns.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is not what an aggregate of this kind has exported.
    #[error("a state that cannot go on here: {0}")]
    State(#[from] Problem),
    /// The first frame had a schema that cannot be kept.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A result that cannot be expressed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What the first frame settles for all others.
#[derive(Debug)]
struct Shape {
    keys: Keys,
    results: Vec<Computed>,
    schema: SchemaRef,
    /// That of the first frame.
    input: SchemaRef,
}

/// One aggregation.
#[derive(Debug)]
struct Computed {
    aggregation: Aggregation,
    /// Type of the column in the input; `None` where there is none.
    input: Option<DataType>,
    /// Type of the column in the result.
    data_type: DataType,
    values: Values,
}

impl Shape {
    fn new(schema: &SchemaRef, places: &Places, wanted: &[Wanted]) -> Result<Self, AggregateError> {
        let (key, value) = places.fields(schema);
        let keys = Keys::new(&key)?;
        let mut results = Vec::with_capacity(wanted.len());
        let mut shown: Vec<Field> = keys.fields().cloned().collect();
        for (each, value) in wanted.iter().zip(value) {
            let input = value.map(|field| field.data_type().clone());
            let column = input.as_ref().unwrap_or(&DataType::Null);
            let Some((values, data_type)) = Values::of(each.aggregation, column) else {
                return Err(AggregateError::Value {
                    aggregation: each.aggregation.name(),
                    data_type: column.clone(),
                });
            };
            shown.push(Field::new(&each.name, data_type.clone(), true));
            results.push(Computed {
                aggregation: each.aggregation,
                input,
                data_type,
                values,
            });
        }
        Ok(Self {
            keys,
            results,
            schema: Arc::new(Schema::new(shown)),
            input: Arc::clone(schema),
        })
    }

    /// The shape, if these columns have it, too. Layouts of keys may differ.
    fn checked(self, schema: &Schema, places: &Places) -> Result<Self, AggregateError> {
        let (key, value) = places.fields(schema);
        let same = |(result, field): (&Computed, Option<&Field>)| {
            result.input.as_ref() == field.map(Field::data_type)
        };
        if self.keys.suit(&key)? && self.results.iter().zip(value.iter().copied()).all(same) {
            return Ok(self);
        }
        let inputs = self
            .results
            .iter()
            .filter_map(|result| result.input.as_ref());
        let expected = self
            .keys
            .fields()
            .map(|field| plain(field.data_type()))
            .chain(inputs);
        let got = key.iter().chain(value.iter().flatten());
        Err(AggregateError::Changed {
            expected: listed(expected),
            got: listed(got.map(|field| field.data_type())),
        })
    }
}

fn listed<'a>(types: impl Iterator<Item = &'a DataType>) -> String {
    types
        .map(DataType::to_string)
        .collect::<Vec<_>>()
        .join(" and ")
}

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

//! What the first frame settles for all others: where columns are, and of which types.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use oka_compute::Aggregation;

use crate::aggregate::copied::CopiedRows;
use crate::aggregate::places::Places;
use crate::aggregate::values::Values;
use crate::columns::cells::{framed, split};
use crate::columns::plain::{extension as extension_of, plain_type};
use crate::keys::Keys;
use crate::{AggregateError, Selector};

/// What is computed, of which column, and how it is named.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) aggregation: Aggregation,
    pub(crate) value: Option<Selector>,
    /// The second one of pairs.
    pub(crate) beside: Option<Selector>,
    /// A column that is true where a row counts.
    pub(crate) filter: Option<Selector>,
    /// The shares of quantiles, or how many values are wanted.
    pub(crate) parameters: Arc<[f64]>,
}

/// Fails unless the column says which rows count.
pub(crate) fn check_filter(field: &Field) -> Result<(), AggregateError> {
    if *plain_type(field.data_type()) == DataType::Boolean {
        return Ok(());
    }
    Err(AggregateError::Filter {
        column: field.name().clone(),
        data_type: field.data_type().clone(),
    })
}

/// The type of two columns as one.
pub(crate) fn pair_type(of: [&DataType; 2]) -> DataType {
    let [value, beside] = of.map(|of| plain_type(of).clone());
    let field = |name: &str, of| Field::new(name, of, true);
    DataType::Struct(
        [field("y", value), field("x", beside)]
            .into_iter()
            .collect(),
    )
}

/// What the first frame settles for all others.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) keys: Keys,
    pub(crate) results: Vec<Computed>,
    schema: SchemaRef,
    /// That of the first frame.
    pub(crate) input: SchemaRef,
    /// A frame of no rows with it, once that was asked for.
    layout: OnceLock<Vec<u8>>,
}

/// One aggregation.
#[derive(Debug)]
pub(crate) struct Computed {
    aggregation: Aggregation,
    /// Type of the column in the input; `None` where there is none.
    input: Option<DataType>,
    /// Type of the column in the result.
    data_type: DataType,
    parameters: Arc<[f64]>,
    values: Values,
}

impl Computed {
    /// Takes in under one number what is under another.
    pub(crate) fn join(&mut self, into: u32, from: u32) -> Result<(), AggregateError> {
        let column = self.input.as_ref().unwrap_or(&DataType::Null);
        let Some((mut part, _)) = Values::of(self.aggregation, column, &self.parameters) else {
            return Ok(());
        };
        part.resize(1);
        let (aggregation, data_type) = (self.aggregation, &self.data_type);
        part.merge(aggregation, &[0], (&self.values, &[from], data_type))?;
        self.values
            .merge(aggregation, &[into], (&part, &[0], data_type))
    }
}

impl Shape {
    pub(crate) fn new(
        schema: &SchemaRef,
        places: &Places,
        wanted: &[Wanted],
    ) -> Result<Self, AggregateError> {
        places.check_filters(schema)?;
        let (key, value) = places.fields(schema);
        let nothing = Field::new("", DataType::Null, true);
        let none = [&nothing];
        let keys = Keys::new(if key.is_empty() { &none } else { &key })?;
        let mut results = Vec::with_capacity(wanted.len());
        let mut shown = Vec::new();
        for key in keys.fields().take(key.len()) {
            shown.push(key.clone().with_name(unused(key.name(), &shown)));
        }
        for (each, value) in wanted.iter().zip(value) {
            let input = value.as_ref().map(|field| field.data_type().clone());
            let column = input.as_ref().unwrap_or(&DataType::Null);
            let Some((values, data_type)) = Values::of(each.aggregation, column, &each.parameters)
            else {
                return Err(AggregateError::Value {
                    aggregation: each.aggregation,
                    column: value.map(|field| field.name().clone()).unwrap_or_default(),
                    data_type: column.clone(),
                });
            };
            let field = Field::new(unused(&each.name, &shown), data_type.clone(), true);
            let extension = value.filter(|of| *plain_type(of.data_type()) == data_type);
            let extension = extension.map(|of| extension_of(&of)).unwrap_or_default();
            shown.push(field.with_metadata(extension));
            results.push(Computed {
                aggregation: each.aggregation,
                input,
                data_type,
                parameters: Arc::clone(&each.parameters),
                values,
            });
        }
        Ok(Self {
            keys,
            results,
            schema: Arc::new(Schema::new(shown)),
            input: Arc::clone(schema),
            layout: OnceLock::new(),
        })
    }

    /// One of the same columns, of no rows so far.
    pub(crate) fn without_rows(&self) -> Result<Self, AggregateError> {
        Ok(Self {
            keys: self.keys.without_rows()?,
            results: self.no_results(),
            schema: Arc::clone(&self.schema),
            input: Arc::clone(&self.input),
            layout: self.layout.clone(),
        })
    }

    /// The same aggregations, of no rows so far.
    fn no_results(&self) -> Vec<Computed> {
        let result = |known: &Computed| {
            let column = known.input.as_ref().unwrap_or(&DataType::Null);
            let (values, data_type) = Values::of(known.aggregation, column, &known.parameters)?;
            Some(Computed {
                aggregation: known.aggregation,
                input: known.input.clone(),
                data_type,
                parameters: Arc::clone(&known.parameters),
                values,
            })
        };
        self.results.iter().filter_map(result).collect()
    }

    /// Forgets all values; keys go on with their numbers.
    pub(crate) fn clear(&mut self) {
        self.results = self.no_results();
    }

    /// Takes in under this number, of so many, the values of one that another has encoded.
    pub(crate) fn merge_one(
        &mut self,
        (number, count): (u32, usize),
        values: &[u8],
    ) -> Result<(), AggregateError> {
        let mut others = self.no_results();
        Self::import(&mut others, (&[0], 1), &[values])?;
        Self::merge(&mut self.results, (&[number], count), (&others, &[0]))
    }

    /// Adds so many rows to the counts under this number, of so many.
    pub(crate) fn count(&mut self, (number, count): (u32, usize), rows: usize) {
        for result in &mut self.results {
            result.values.resize(count);
            if let Values::Count(counts) = &mut result.values {
                counts[number as usize] += rows as i64;
            }
        }
    }

    /// The numbers of the keys of rows, and how many numbers there are then.
    pub(crate) fn numbers(
        &mut self,
        places: &Places,
        batch: &RecordBatch,
    ) -> Result<(&[u32], usize), ArrowError> {
        self.keys.of(&places.key_columns(batch))
    }

    /// The numbers of the keys whose first values came with the last rows.
    pub(crate) fn changed(results: &[Computed]) -> impl Iterator<Item = &[u32]> {
        results.iter().map(|result| result.values.changed())
    }

    /// Takes the values of rows in under these numbers, of which there are so many.
    pub(crate) fn update(
        results: &mut [Computed],
        (numbers, count): (&[u32], usize),
        places: &Places,
        batch: &RecordBatch,
    ) -> Result<(), AggregateError> {
        for (result, term) in results.iter_mut().zip(&places.terms) {
            result.values.resize(count);
            let (numbers, values) = term.values(numbers, batch)?;
            result
                .values
                .update(result.aggregation, &numbers, &values)?;
        }
        Ok(())
    }

    /// The keys and the values of these numbers.
    pub(crate) fn take(
        &mut self,
        keys: &[u32],
        values: &[u32],
    ) -> Result<RecordBatch, AggregateError> {
        let mut columns = self.keys.arrays(keys)?;
        columns.truncate(self.schema.fields().len() - self.results.len());
        for result in &self.results {
            columns.push(result.values.take(values, &result.data_type)?);
        }
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    /// A frame of no rows with the schema of the first one.
    pub(crate) fn layout(&self) -> Result<&[u8], AggregateError> {
        if let Some(layout) = self.layout.get() {
            return Ok(layout);
        }
        let layout = framed(&RecordBatch::new_empty(Arc::clone(&self.input)))?;
        Ok(self.layout.get_or_init(|| layout))
    }

    /// These keys, with a copy of the values of these numbers.
    pub(crate) fn copy(
        &self,
        keys: Vec<Vec<ArrayRef>>,
        values: &[u32],
    ) -> Result<CopiedRows, AggregateError> {
        let each = |each: &Computed| each.values.copy(values, &each.data_type);
        Ok(CopiedRows {
            keys,
            values: self.results.iter().map(each).collect::<Result<_, _>>()?,
        })
    }

    /// Goes on with such values.
    pub(crate) fn import(
        results: &mut [Computed],
        (numbers, count): (&[u32], usize),
        values: &[&[u8]],
    ) -> Result<(), AggregateError> {
        let cells = split(values, results.len())?;
        for (result, cells) in results.iter_mut().zip(cells) {
            result.values.resize(count);
            result.values.import(numbers, &cells, &result.data_type)?;
        }
        Ok(())
    }

    /// Takes in under these numbers what others have under those.
    pub(crate) fn merge(
        results: &mut [Computed],
        (ours, count): (&[u32], usize),
        (others, theirs): (&[Computed], &[u32]),
    ) -> Result<(), AggregateError> {
        for (result, other) in results.iter_mut().zip(others) {
            result.values.resize(count);
            let from = (&other.values, theirs, &other.data_type);
            result.values.merge(result.aggregation, ours, from)?;
        }
        Ok(())
    }

    /// The shape, if these columns have it, too. Layouts of keys may differ.
    pub(crate) fn checked(self, schema: &Schema, places: &Places) -> Result<Self, AggregateError> {
        places.check_filters(schema)?;
        let (key, value) = places.fields(schema);
        let same = |(result, field): (&Computed, &Option<Cow<Field>>)| {
            result.input.as_ref().map(plain_type)
                == field.as_ref().map(|field| plain_type(field.data_type()))
        };
        if self.keys.suit(&key)? && self.results.iter().zip(&value).all(same) {
            return Ok(self);
        }
        let inputs = self
            .results
            .iter()
            .filter_map(|result| result.input.as_ref());
        let expected = self
            .keys
            .fields()
            .map(|field| plain_type(field.data_type()))
            .chain(inputs);
        let key = key.iter().map(|field| field.data_type());
        let value = value.iter().flatten().map(|field| field.data_type());
        Err(AggregateError::Changed {
            expected: listed(expected),
            got: listed(key.chain(value)),
        })
    }
}

/// The name, with "_right" behind it, as in joins, where others have it.
pub(crate) fn unused(name: &str, others: &[Field]) -> String {
    let mut name = name.to_owned();
    while others.iter().any(|field| *field.name() == name) {
        name.push_str("_right");
    }
    name
}

fn listed<'a>(types: impl Iterator<Item = &'a DataType>) -> String {
    types
        .map(DataType::to_string)
        .collect::<Vec<_>>()
        .join(" and ")
}

//! What the first frame settles for all others: where columns are, and of which types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use oka_compute::{Accumulated, Aggregation, Rolled};

use super::results::{Results, values};
use crate::aggregate::folded::floats;
use crate::aggregate::shape::{check_filter, pair_type, unused};
use crate::aggregate::values::Values;
use crate::columns::plain::{extension, plain, plain_type};
use crate::keys::Keys;
use crate::{AggregateError, Selector};

/// An aggregation of a column, and how it is named in each span.
#[derive(Clone, Debug)]
pub(super) struct Computed {
    pub(super) names: Vec<String>,
    pub(super) rolled: Rolled,
    pub(super) value: Option<Selector>,
    /// The second one of pairs.
    pub(super) beside: Option<Selector>,
    /// A column that is true where a row counts.
    pub(super) filter: Option<Selector>,
}

/// What is computed of which columns.
#[derive(Debug)]
pub(super) struct Term {
    aggregation: Aggregation,
    value: Option<usize>,
    beside: Option<usize>,
    filter: Option<usize>,
}

impl Computed {
    fn find(&self, schema: &Schema) -> Result<Term, AggregateError> {
        let place = |selector: &Option<Selector>| {
            let place = selector.as_ref().map(|selector| selector.find(schema));
            place.transpose()
        };
        let term = Term {
            aggregation: self.rolled.aggregation,
            value: place(&self.value)?,
            beside: place(&self.beside)?,
            filter: place(&self.filter)?,
        };
        if let Some(filter) = term.filter {
            check_filter(schema.field(filter))?;
        }
        Ok(term)
    }
}

impl Term {
    /// What each row comes to by itself; `None` if it does not count.
    pub(super) fn values(
        &self,
        batch: &RecordBatch,
    ) -> Result<Vec<Option<Accumulated>>, AggregateError> {
        let column = |place: usize| plain(batch.column(place));
        let mut values = match (self.value, self.beside) {
            (Some(y), Some(x)) => {
                let both = floats(&column(y)?)?.into_iter().zip(floats(&column(x)?)?);
                both.map(|(y, x)| Some(Rolled::pair(y?, x?))).collect()
            }
            (Some(value), None) => values(self.aggregation, &column(value)?)?,
            (None, _) => {
                let one = self.filter.map(|_| Accumulated::Integer(1));
                vec![one; batch.num_rows()]
            }
        };
        if let Some(filter) = self.filter {
            let filter = column(filter)?;
            for (value, counts) in values.iter_mut().zip(filter.as_boolean()) {
                value.take_if(|_| counts != Some(true));
            }
        }
        Ok(values)
    }

    /// The type that all values are of.
    fn of(&self, schema: &Schema) -> DataType {
        let of = |place: Option<usize>| place.map(|place| schema.field(place).data_type());
        match (of(self.value), of(self.beside)) {
            (Some(y), Some(x)) => pair_type([y, x]),
            (of, _) => of.map_or(DataType::Null, |of| plain_type(of).clone()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Shape {
    /// Of the rows as they are kept.
    pub(super) rows: SchemaRef,
    result: SchemaRef,
    /// Where the columns are of the key and of the time, and those of each aggregation.
    pub(super) keys: Vec<usize>,
    pub(super) time: usize,
    pub(super) terms: Vec<Term>,
    pub(super) numbers: Keys,
    /// Of each span those of all aggregations.
    pub(super) results: Vec<Results>,
}

impl Shape {
    pub(super) fn new(
        schema: &Schema,
        (key, time, computed): (&[Selector], &Selector, &[Computed]),
        spans: usize,
    ) -> Result<Self, AggregateError> {
        let keys = key.iter().map(|key| key.find(schema));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let fields: Vec<_> = keys.iter().map(|key| schema.field(*key)).collect();
        let numbers = Keys::new(&fields)?;
        let time = time.find(schema)?;
        let mut shown: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| wide_field(field))
            .collect();
        let rows = Schema::new_with_metadata(shown.clone(), schema.metadata().clone());
        let terms = computed.iter().map(|each| each.find(schema));
        let terms = terms.collect::<Result<Vec<_>, _>>()?;
        let mut results = Vec::new();
        for span in 0..spans {
            for (each, term) in computed.iter().zip(&terms) {
                let of = term.of(schema);
                let field = result_field(each, &of, term.value.map(|place| schema.field(place)))?;
                results.push(Results {
                    rolled: each.rolled.clone(),
                    of,
                    data_type: field.data_type().clone(),
                });
                shown.push(field.with_name(unused(&each.names[span], &shown)));
            }
        }
        Ok(Self {
            result: Arc::new(Schema::new_with_metadata(shown, schema.metadata().clone())),
            rows: Arc::new(rows),
            keys,
            time,
            terms,
            numbers,
            results,
        })
    }

    /// The rows of another batch in the columns of the first.
    pub(super) fn settled(&self, batch: &RecordBatch) -> Result<RecordBatch, AggregateError> {
        let (known, schema) = (self.rows.fields(), batch.schema());
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| wide_field(field))
            .collect();
        let same = |(known, field): (&Arc<Field>, &Field)| {
            known.name() == field.name() && known.data_type() == field.data_type()
        };
        if known.len() != fields.len() || !known.iter().zip(&fields).all(same) {
            let told = |fields: &mut dyn Iterator<Item = &Field>| {
                let each = fields.map(|field| format!("{}: {}", field.name(), field.data_type()));
                each.collect::<Vec<_>>().join(" and ")
            };
            return Err(AggregateError::Changed {
                expected: told(&mut known.iter().map(|field| &**field)),
                got: told(&mut fields.iter()),
            });
        }
        let columns = batch.columns().iter().map(wide).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = Arc::clone(&self.rows);
        Ok(RecordBatch::try_new_with_options(rows, columns, &options)?)
    }

    /// These rows with what spans came to.
    pub(super) fn beside(
        &self,
        rows: &RecordBatch,
        results: &[Vec<Option<Accumulated>>],
    ) -> Result<RecordBatch, AggregateError> {
        let mut columns = rows.columns().to_vec();
        for (of, values) in self.results.iter().zip(results) {
            columns.push(of.column(values)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.result), columns)?)
    }
}

/// The column of an aggregation of such values in a result, without its name.
fn result_field(
    computed: &Computed,
    of: &DataType,
    input: Option<&Field>,
) -> Result<Field, AggregateError> {
    let Rolled {
        aggregation,
        parameters,
        ..
    } = &computed.rolled;
    let Some((_, data_type)) = Values::of(*aggregation, of, parameters) else {
        return Err(AggregateError::Value {
            aggregation: *aggregation,
            column: input.map(|field| field.name().clone()).unwrap_or_default(),
            data_type: of.clone(),
        });
    };
    let same = input.filter(|field| *plain_type(field.data_type()) == data_type);
    let metadata = same.map(extension).unwrap_or_default();
    Ok(Field::new("", data_type, true).with_metadata(metadata))
}

/// A field that may be null, as a row of another batch may, with codes for many values.
fn wide_field(field: &Field) -> Field {
    let field = field.clone().with_nullable(true);
    match field.data_type() {
        DataType::Dictionary(_, values) => {
            let wide = DataType::Dictionary(Box::new(DataType::Int32), values.clone());
            field.with_data_type(wide)
        }
        _ => field,
    }
}

/// The column with such codes: rows of many batches may have more values than small codes tell.
fn wide(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = column.as_any_dictionary_opt() else {
        return Ok(Arc::clone(column));
    };
    if *dictionary.keys().data_type() == DataType::Int32 {
        return Ok(Arc::clone(column));
    }
    let codes: Int32Array = if dictionary.values().is_empty() {
        (0..column.len()).map(|_| None::<i32>).collect()
    } else {
        let codes = dictionary.normalized_keys().into_iter().enumerate();
        let code = |(row, code)| dictionary.keys().is_valid(row).then_some(code as i32);
        codes.map(code).collect()
    };
    let values = Arc::clone(dictionary.values());
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
        codes, values,
    )?))
}

//! Where in a frame the columns are that take part in an aggregate.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use crate::aggregate::shape::{Wanted, check_filter, pair_type};
use crate::columns::plain::plain;
use crate::{AggregateError, ColumnError, Selector};

/// Where the columns of a frame are that take part.
#[derive(Default)]
pub(crate) struct Places {
    /// Their indexes, each once.
    pub(crate) projection: Vec<usize>,
    /// Where in `projection` the keys are.
    pub(crate) keys: Vec<usize>,
    /// Where in `projection` what each aggregation needs is.
    pub(super) terms: Vec<Term>,
}

/// Where the columns are that an aggregation needs.
#[derive(Clone, Copy, Default)]
pub(super) struct Term {
    value: Option<usize>,
    beside: Option<usize>,
    filter: Option<usize>,
}

impl Places {
    pub(crate) fn of(
        schema: &Schema,
        key: &[Selector],
        wanted: &[Wanted],
    ) -> Result<Self, ColumnError> {
        let mut places = Self::default();
        for selector in key {
            let place = places.add(selector.find(schema)?);
            places.keys.push(place);
        }
        for each in wanted {
            let mut place = |selector: &Option<Selector>| {
                let column = selector.as_ref().map(|selector| selector.find(schema));
                Ok(column.transpose()?.map(|column| places.add(column)))
            };
            let term = Term {
                value: place(&each.value)?,
                beside: place(&each.beside)?,
                filter: place(&each.filter)?,
            };
            places.terms.push(term);
        }
        if places.projection.is_empty() && !schema.fields().is_empty() {
            places.add(0); // for the number of rows
        }
        Ok(places)
    }

    /// The columns of the key: nulls where there is none.
    pub(crate) fn key_columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        if self.keys.is_empty() {
            return vec![Arc::new(NullArray::new(batch.num_rows()))];
        }
        let keys = self.keys.iter().map(|at| Arc::clone(batch.column(*at)));
        keys.collect()
    }

    pub(crate) fn add(&mut self, column: usize) -> usize {
        let known = self.projection.iter().position(|at| *at == column);
        known.unwrap_or_else(|| {
            self.projection.push(column);
            self.projection.len() - 1
        })
    }

    /// The fields of the keys, and of each value: of pairs a struct.
    pub(super) fn fields<'a>(
        &self,
        schema: &'a Schema,
    ) -> (Vec<&'a Field>, Vec<Option<Cow<'a, Field>>>) {
        let field = |place: usize| schema.field(self.projection[place]);
        let value = |term: &Term| {
            let value = field(term.value?);
            let Some(beside) = term.beside.map(field) else {
                return Some(Cow::Borrowed(value));
            };
            let name = format!("{} and {}", value.name(), beside.name());
            Some(Cow::Owned(Field::new(
                name,
                pair_type([value, beside].map(Field::data_type)),
                true,
            )))
        };
        let keys = self.keys.iter().map(|place| field(*place));
        (keys.collect(), self.terms.iter().map(value).collect())
    }

    /// Fails where a column does not say which rows count.
    pub(super) fn check_filters(&self, schema: &Schema) -> Result<(), AggregateError> {
        let filters = self.terms.iter().filter_map(|term| term.filter);
        let mut fields = filters.map(|place| schema.field(self.projection[place]));
        fields.try_for_each(check_filter)
    }
}

impl Term {
    /// The values of rows, without dictionaries, and their numbers: of those that count.
    pub(super) fn values<'n>(
        self,
        numbers: &'n [u32],
        batch: &RecordBatch,
    ) -> Result<(Cow<'n, [u32]>, ArrayRef), ArrowError> {
        let column = |place: usize| plain(batch.column(place));
        let value = match (self.value, self.beside) {
            (Some(value), Some(beside)) => {
                let pair = [column(value)?, column(beside)?];
                let DataType::Struct(fields) = pair_type(pair.each_ref().map(Array::data_type))
                else {
                    return Err(ArrowError::NotYetImplemented("a pair".to_owned()));
                };
                Some(Arc::new(StructArray::try_new(fields, pair.to_vec(), None)?) as ArrayRef)
            }
            (value, _) => value.map(column).transpose()?,
        };
        // A count looks at numbers alone.
        let nothing = || Arc::new(NullArray::new(0)) as ArrayRef;
        let Some(filter) = self.filter else {
            return Ok((Cow::Borrowed(numbers), value.unwrap_or_else(nothing)));
        };
        let filter = column(filter)?;
        let filter = filter.as_boolean();
        let own = numbers
            .iter()
            .zip(filter)
            .filter(|(_, counts)| *counts == Some(true));
        let value = value.map(|value| arrow_select::filter::filter(&value, filter));
        Ok((
            own.map(|(number, _)| *number).collect(),
            value.transpose()?.unwrap_or_else(nothing),
        ))
    }
}

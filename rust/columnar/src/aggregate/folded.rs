//! Moments of numbers, or of pairs of them, and sketches, as records have them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use oka_compute::{Accumulated, Aggregation, Found, PairMoments, Problem};

use crate::aggregate::values::each_number;
use crate::columns::cells::{NIL, kind};
use crate::keys::each::{each_bytes, each_float};
use crate::keys::kind::KeyKind;

/// Values by the number of their key; nulls are none.
#[derive(Debug)]
pub(crate) struct Folded {
    aggregation: Aggregation,
    kind: KeyKind,
    parameters: Box<[f64]>,
    of_keys: Vec<Option<Accumulated>>,
}

impl Folded {
    /// For a column of this type, and the type of the results; `None` if it has no such values.
    pub(crate) fn of(
        aggregation: Aggregation,
        column: &DataType,
        parameters: &[f64],
    ) -> Option<(Self, DataType)> {
        let is_suitable = match (aggregation, column) {
            (Aggregation::ApproxCountDistinct, _) => kind(column).is_some(),
            (_, DataType::Struct(pair)) if aggregation.is_of_pairs() => {
                pair.iter().all(|each| has_numbers(each.data_type()))
            }
            _ => !aggregation.is_of_pairs() && has_numbers(column),
        };
        let folded = Self {
            aggregation,
            kind: kind(column).unwrap_or(KeyKind::Null),
            parameters: parameters.into(),
            of_keys: Vec::new(),
        };
        is_suitable.then(|| (folded, shown_as(aggregation)))
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.of_keys.resize(keys, None);
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, keys: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        if self.aggregation.is_of_pairs() {
            let pairs = column.as_struct();
            let (y, x) = (floats(pairs.column(0))?, floats(pairs.column(1))?);
            for (key, pair) in keys.iter().zip(y.into_iter().zip(x)) {
                if let (Some(y), Some(x)) = pair
                    && let Accumulated::PairMoments(moments) = self.of_key(*key)
                {
                    moments.add(y, x);
                }
            }
            return Ok(());
        }
        let (kind, mut keys) = (self.kind, keys.iter());
        if self.aggregation == Aggregation::ApproxCountDistinct {
            let mut count = |value: Option<&[u8]>| {
                if let (Some(key), Some(value)) = (keys.next(), value)
                    && let Accumulated::Distinct(sketch) = self.of_key(*key)
                {
                    sketch.add(value);
                }
            };
            match kind {
                KeyKind::Null => {}
                KeyKind::Text | KeyKind::Bytes => each_bytes(column, count),
                KeyKind::Float => each_float(column, |value| {
                    count(value.map(bits).as_ref().map(<[u8; 8]>::as_slice));
                }),
                _ => each_number(column, |value| {
                    let value = value.map(i128::to_le_bytes);
                    count(value.as_ref().map(<[u8; 16]>::as_slice));
                })?,
            }
            return Ok(());
        }
        each_as_float(column, |value| {
            if let (Some(key), Some(number)) = (keys.next(), value) {
                match self.of_key(*key) {
                    Accumulated::Moments(moments) => moments.add(number),
                    Accumulated::Digest(sketch) => sketch.add(number),
                    _ => {}
                }
            }
        })
    }

    #[inline]
    fn of_key(&mut self, key: u32) -> &mut Accumulated {
        let aggregation = self.aggregation;
        self.of_keys[key as usize].get_or_insert_with(|| Accumulated::empty(aggregation))
    }

    /// Takes in under these numbers of keys what others have under those.
    pub(crate) fn merge(
        &mut self,
        keys: &[u32],
        others: &Self,
        theirs: &[u32],
    ) -> Result<(), Problem> {
        for (key, from) in keys.iter().zip(theirs) {
            match (
                &mut self.of_keys[*key as usize],
                &others.of_keys[*from as usize],
            ) {
                (Some(so_far), Some(other)) => so_far.merge(self.aggregation, other)?,
                (_, None) => {}
                (none, other) => none.clone_from(other),
            }
        }
        Ok(())
    }

    /// Goes on with what was kept of keys.
    pub(crate) fn import(&mut self, keys: &[u32], cells: &[&[u8]]) -> Result<(), Problem> {
        for (key, cell) in keys.iter().zip(cells).filter(|it| **it.1 != NIL) {
            self.of_keys[*key as usize] = Some(Accumulated::decode(self.aggregation, cell)?);
        }
        Ok(())
    }

    /// Has these be what all keys have come to.
    pub(crate) fn set(&mut self, of_keys: Vec<Option<Accumulated>>) {
        self.of_keys = of_keys;
    }

    /// What the keys of these numbers have come to; `None` where there is nothing.
    pub(crate) fn copy(&self, keys: &[u32]) -> Vec<Option<Accumulated>> {
        let own = keys.iter().map(|key| &self.of_keys[*key as usize]);
        own.cloned().collect()
    }

    /// The results of the keys of these numbers.
    pub(crate) fn take(&self, keys: &[u32], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let nothing = Accumulated::empty(self.aggregation);
        let found = keys.iter().filter_map(|key| {
            let value = self.of_keys[*key as usize].as_ref().unwrap_or(&nothing);
            value.found(self.aggregation, &self.parameters)
        });
        Ok(match data_type {
            DataType::Int64 => {
                let count = |found| match found {
                    Found::Count(count) => count as i64,
                    _ => 0,
                };
                Arc::new(Int64Array::from_iter_values(found.map(count)))
            }
            DataType::List(item) => {
                let numbers = |found| match found {
                    Found::Floats(numbers) => numbers,
                    _ => Vec::new(),
                };
                let found: Vec<_> = found.map(numbers).collect();
                let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
                let numbers: ArrayRef = Arc::new(Float64Array::from(found.concat()));
                Arc::new(ListArray::try_new(
                    Arc::clone(item),
                    offsets,
                    numbers,
                    None,
                )?)
            }
            DataType::Struct(fields) => {
                let of = |found| match found {
                    Found::Regression(found) => found,
                    _ => PairMoments::default().regression(),
                };
                let found: Vec<_> = found.map(of).collect();
                let column = |field: &Arc<Field>| -> ArrayRef {
                    if field.data_type() == &DataType::Int64 {
                        let counts = found.iter().map(|each| each.count);
                        return Arc::new(Int64Array::from_iter_values(counts));
                    }
                    let figure = |each: &oka_compute::Regression| {
                        let figures = each.figures();
                        let own = figures.iter().find(|(name, _)| name == field.name());
                        own.and_then(|(_, figure)| *figure)
                    };
                    Arc::new(found.iter().map(figure).collect::<Float64Array>())
                };
                let columns = fields.iter().map(column).collect();
                Arc::new(StructArray::try_new(fields.clone(), columns, None)?)
            }
            _ => {
                let number = |found| match found {
                    Found::Float(number) => number,
                    _ => None,
                };
                Arc::new(found.map(number).collect::<Float64Array>())
            }
        })
    }
}

/// The type of the results.
fn shown_as(aggregation: Aggregation) -> DataType {
    match aggregation {
        Aggregation::ApproxCountDistinct => DataType::Int64,
        Aggregation::ApproxQuantiles => {
            DataType::List(Arc::new(Field::new_list_field(DataType::Float64, false)))
        }
        Aggregation::Regression => {
            let figures = PairMoments::default().regression().figures();
            let field = |(name, _): &(&str, _)| Field::new(*name, DataType::Float64, true);
            let mut fields: Vec<_> = figures.iter().map(field).collect();
            fields.insert(COUNT_AT, Field::new("count", DataType::Int64, false));
            DataType::Struct(Fields::from(fields))
        }
        _ => DataType::Float64,
    }
}

fn has_numbers(column: &DataType) -> bool {
    kind(column).is_some() && (*column == DataType::Boolean || column.is_numeric())
}

/// Of a float: all NaN are one, and so are both zeros.
fn bits(number: f64) -> [u8; 8] {
    let number = if number.is_nan() {
        f64::NAN
    } else {
        number + 0.0
    };
    number.to_le_bytes()
}

/// Each number of a column that has some, `None` for null.
pub(crate) fn floats(column: &ArrayRef) -> Result<Vec<Option<f64>>, ArrowError> {
    let mut found = Vec::with_capacity(column.len());
    each_as_float(column, |number| found.push(number))?;
    Ok(found)
}

/// Calls `visit` with each number of a column that has some.
pub(crate) fn each_as_float(
    column: &ArrayRef,
    mut visit: impl FnMut(Option<f64>),
) -> Result<(), ArrowError> {
    if column.data_type().is_floating() {
        each_float(column, visit);
        return Ok(());
    }
    each_number(column, |number| visit(number.map(|number| number as f64)))
}

/// As records show it: slope, intercept, r2, count.
const COUNT_AT: usize = 3;

//! Values of columns by themselves, and columns of what they came to.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType;
use oka_compute::{Accumulated, Aggregation, Problem, encode, integer_mean, integral};

use crate::AggregateError;
use crate::aggregate::values::each_number;
use crate::columns::build;
use crate::columns::cells::{decoded, encoded, kind};
use crate::keys::kind::{KeyKind, each_bytes, each_float, each_integer};

/// Each value of a column, `None` for null.
pub(super) fn values(column: &ArrayRef) -> Result<Vec<Option<Accumulated>>, AggregateError> {
    use Accumulated::{Bytes, Encoded, Float, Integer, Text};
    let mut values = Vec::with_capacity(column.len());
    match kind(column.data_type()) {
        Some(KeyKind::Null) => values.resize(column.len(), None),
        Some(KeyKind::Bool) => each_integer(column, |value| {
            values.push(value.map(|value| Integer(value.into())));
        }),
        Some(KeyKind::Integer | KeyKind::Unsigned) => {
            each_number(column, |value| values.push(value.map(Integer)))?;
        }
        Some(KeyKind::Float) => each_float(column, |value| values.push(value.map(Float))),
        Some(KeyKind::Text) => each_bytes(column, |value| {
            values.push(value.map(|utf8| Text(utf8.into())));
        }),
        Some(KeyKind::Bytes) => each_bytes(column, |value| {
            values.push(value.map(|data| Bytes(data.into())));
        }),
        Some(KeyKind::Form) | None => {
            let cells = encoded(column)?;
            let own = cells.iter().enumerate();
            let own = own.map(|(row, cell)| column.is_valid(row).then(|| Encoded(cell.into())));
            values.extend(own);
        }
    }
    Ok(values)
}

/// A column of this type of what an aggregation came to.
pub(super) fn column(
    data_type: &DataType,
    values: &[Option<Accumulated>],
) -> Result<ArrayRef, AggregateError> {
    // One that was kept may be encoded, as first values of records are.
    let read = |value: &Option<Accumulated>| match value {
        Some(Accumulated::Encoded(encoded)) => {
            Accumulated::decode(Aggregation::Min, encoded).map(Some)
        }
        value => Ok(value.clone()),
    };
    let read = || values.iter().map(read).collect::<Result<Vec<_>, Problem>>();
    Ok(match kind(data_type) {
        Some(KeyKind::Bool | KeyKind::Integer | KeyKind::Unsigned) => {
            let numbers = read()?.into_iter();
            build::integers(data_type, numbers.map(|it| integral(&it?)))?
        }
        Some(KeyKind::Float) if *data_type == DataType::Float64 => {
            let numbers = read()?.into_iter().map(|it| float(&it?));
            Arc::new(numbers.collect::<Float64Array>())
        }
        Some(KeyKind::Float) => {
            let numbers = read()?.into_iter();
            build::floats(data_type, numbers.map(|it| float(&it?)))?
        }
        Some(KeyKind::Text | KeyKind::Bytes) => {
            let values = read()?;
            let bytes = values.iter().map(|it| match it {
                Some(Accumulated::Text(bytes) | Accumulated::Bytes(bytes)) => Some(&**bytes),
                _ => None,
            });
            build::bytes(data_type, bytes)?
        }
        _ => forms(data_type, values)?,
    })
}

/// A column of values of a type that no record has.
fn forms(data_type: &DataType, values: &[Option<Accumulated>]) -> Result<ArrayRef, AggregateError> {
    let null = if values.iter().all(Option::is_some) {
        Vec::new()
    } else {
        let null = encoded(&arrow_array::new_null_array(data_type, 1))?;
        null.get(0).to_vec()
    };
    let cell = |value: &Option<Accumulated>| match value {
        Some(value) => {
            let mut out = Vec::new();
            value.encode(&mut out);
            out
        }
        None if null.is_empty() => {
            let mut out = Vec::new();
            encode::nil(&mut out);
            out
        }
        None => null.clone(),
    };
    let cells: Vec<_> = values.iter().map(cell).collect();
    decoded(
        data_type,
        &cells.iter().map(|cell| &cell[..]).collect::<Vec<_>>(),
    )
}

fn float(value: &Accumulated) -> Option<f64> {
    match *value {
        Accumulated::Float(number) => Some(number),
        Accumulated::IntegerMean { count, sum } => Some(integer_mean(sum, count)),
        Accumulated::FloatMean { count, sum } => Some(sum / count as f64),
        _ => None,
    }
}

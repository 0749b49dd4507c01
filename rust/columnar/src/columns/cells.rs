//! The values of a column as encoded values, one for each row, and back.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, UInt64Array, new_empty_array};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;
use oka_compute::{
    Accumulated, Aggregation, ByteStrings, Problem, encode, encode_text, integral, parts,
};

use crate::aggregate::values::each_number;
use crate::columns::build;
use crate::keys::each::{each_bytes, each_float, each_integer};
use crate::keys::kind::KeyKind;
use crate::{AggregateError, Columns, DecodeError, Decoder, Encoder};

use Accumulated::{Bytes, Float, Integer, Text};

/// Each value as a record's would be encoded, times as the integers that they consist of. A value of
/// a type that no record has is a column with it alone, as bytes.
pub(crate) fn encoded(column: &ArrayRef) -> Result<ByteStrings, AggregateError> {
    let mut cells = ByteStrings::with_room(column.len(), 0);
    let mut put = |is_there: bool, write: &dyn Fn(&mut Vec<u8>)| {
        cells.push_with(|out| {
            if is_there {
                write(out);
            } else {
                encode::nil(out);
            }
        });
    };
    match kind(column.data_type()) {
        Some(KeyKind::Null) => (0..column.len()).for_each(|_| put(false, &|_| ())),
        Some(KeyKind::Bool) => each_integer(column, |value| {
            let bit = value.unwrap_or_default() != 0;
            put(value.is_some(), &|out| encode::boolean(out, bit));
        }),
        Some(KeyKind::Integer | KeyKind::Unsigned) => each_number(column, |value| {
            let number = value.unwrap_or_default();
            put(value.is_some(), &|out| Integer(number).encode(out));
        })?,
        Some(KeyKind::Float) => each_float(column, |value| {
            let number = value.unwrap_or_default();
            put(value.is_some(), &|out| encode::float(out, number));
        }),
        Some(KeyKind::Text) => each_bytes(column, |value| {
            let utf8 = value.unwrap_or_default();
            put(value.is_some(), &|out| encode_text(out, utf8));
        }),
        Some(KeyKind::Bytes) => each_bytes(column, |value| {
            let data = value.unwrap_or_default();
            put(value.is_some(), &|out| encode::bytes(out, data));
        }),
        Some(KeyKind::Form) | None => {
            for row in 0..column.len() {
                // Taken: a slice would bring bits of the rows around it.
                let row = take(column, &UInt64Array::from_value(row as u64, 1), None)?;
                let batch = RecordBatch::try_from_iter_with_nullable([("", row, true)])?;
                let framed = framed(&batch)?;
                put(true, &|out| encode::bytes(out, &framed));
            }
        }
    }
    Ok(cells)
}

/// A column of this type, of the values that [`encoded`] gave.
pub(crate) fn decoded(data_type: &DataType, cells: &[&[u8]]) -> Result<ArrayRef, AggregateError> {
    let bytes = |value| match value {
        Text(data) | Bytes(data) => Some(data),
        _ => None,
    };
    let float = |value| match value {
        Float(number) => Some(number),
        _ => None,
    };
    Ok(match kind(data_type) {
        Some(KeyKind::Null) => Arc::new(NullArray::new(cells.len())),
        Some(KeyKind::Text | KeyKind::Bytes) => {
            let values = each(cells, bytes)?;
            build::bytes(data_type, values.iter().map(Option::as_deref))?
        }
        Some(KeyKind::Float) => build::floats(data_type, each(cells, float)?.into_iter())?,
        Some(KeyKind::Bool | KeyKind::Integer | KeyKind::Unsigned) => build::integers(
            data_type,
            each(cells, |value| integral(&value))?.into_iter(),
        )?,
        Some(KeyKind::Form) | None if cells.is_empty() => new_empty_array(data_type),
        Some(KeyKind::Form) | None => {
            let rows = each(cells, bytes)?.into_iter().flatten();
            let rows = rows.map(|row| Ok(unframed(row.into_vec(), 1)?.to_batch()?));
            let rows = rows.collect::<Result<Vec<RecordBatch>, AggregateError>>()?;
            let rows: Vec<&dyn Array> = rows.iter().map(|row| &**row.column(0)).collect();
            concat(&rows)?
        }
    })
}

/// What each of these is as it is kept, nil for null.
pub(crate) fn cells<T>(values: &[T], value: impl Fn(&T) -> Option<Accumulated>) -> ByteStrings {
    let mut cells = ByteStrings::with_room(values.len(), 0);
    for each in values {
        cells.push_with(|out| match value(each) {
            None => encode::nil(out),
            Some(value) => value.encode(out),
        });
    }
    cells
}

/// What `get` makes of each value that is not nil.
pub(crate) fn each<T>(
    cells: &[&[u8]],
    get: impl Fn(Accumulated) -> Option<T>,
) -> Result<Vec<Option<T>>, Problem> {
    let value = |cell: &&[u8]| match cell {
        [0xc0] => Ok(None),
        cell => match get(Accumulated::decode(Aggregation::Min, cell)?) {
            None => Err(Problem::Mixed),
            value => Ok(value),
        },
    };
    cells.iter().map(value).collect()
}

/// Of each row, the values of these columns: an array of several.
pub(crate) fn joined(mut columns: Vec<ByteStrings>) -> ByteStrings {
    if columns.len() == 1 {
        return columns.remove(0);
    }
    let rows = columns.first().map_or(0, ByteStrings::len);
    let mut joined = ByteStrings::with_room(rows, 0);
    for row in 0..rows {
        joined.push_with(|out| {
            encode::array(out, columns.len());
            for cells in &columns {
                out.extend_from_slice(cells.get(row));
            }
        });
    }
    joined
}

/// The columns of rows that [`joined`] gave.
pub(crate) fn split<'a>(rows: &[&'a [u8]], width: usize) -> Result<Vec<Vec<&'a [u8]>>, Problem> {
    let mut columns = vec![Vec::with_capacity(rows.len()); width];
    for row in rows {
        let cells = parts(row, width)?;
        columns
            .iter_mut()
            .zip(cells)
            .for_each(|(column, cell)| column.push(cell));
    }
    Ok(columns)
}

/// The batch as the body of a frame.
pub(crate) fn framed(batch: &RecordBatch) -> Result<Vec<u8>, AggregateError> {
    let mut body = Vec::new();
    Encoder::default().append(batch, &mut body)?;
    Ok(body)
}

/// The rows of such a body.
pub(crate) fn unframed(body: Vec<u8>, rows: usize) -> Result<Columns, DecodeError> {
    let mut runs = Vec::new();
    Decoder::default().accept(body.into(), rows, &mut runs)?;
    runs.pop().ok_or(DecodeError::NoSchema)
}

/// What values of this type are to a record; `None` if no record has such.
pub(crate) fn kind(data_type: &DataType) -> Option<KeyKind> {
    match data_type {
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => None,
        DataType::UInt64 => Some(KeyKind::Unsigned),
        kind if build::physical(kind).is_some() => Some(KeyKind::Integer),
        kind => KeyKind::of(kind).filter(|kind| *kind != KeyKind::Form),
    }
}

/// An encoded null.
pub(crate) const NIL: [u8; 1] = [0xc0];

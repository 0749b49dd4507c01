//! Rows of columns as encoded dicts, made without an object of Python.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, LargeBinaryType,
    LargeUtf8Type, StringViewType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Utf8Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field};
use oka_compute::encode;

/// The encoded dict of each row, one behind the other; `None` where Python is to make the dicts: of a type that
/// is not plain, or of names that are not each once.
pub(crate) fn encoded_rows(batch: &RecordBatch) -> Option<Vec<u8>> {
    let schema = batch.schema_ref();
    let mut names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < batch.num_columns() {
        return None;
    }
    let columns = schema.fields().iter().zip(batch.columns());
    let columns: Vec<_> = columns
        .map(|(field, array)| Some((name_of(field), writer_of(field, array)?)))
        .collect::<Option<_>>()?;
    let mut out = Vec::with_capacity(batch.num_rows() * (8 + 16 * columns.len()));
    for row in 0..batch.num_rows() {
        encode::map(&mut out, columns.len());
        for (name, write) in &columns {
            out.extend_from_slice(name);
            write(&mut out, row);
        }
    }
    Some(out)
}

/// Writes the value of a row.
type Writer = Box<dyn Fn(&mut Vec<u8>, usize)>;

fn name_of(field: &Field) -> Vec<u8> {
    let mut name = Vec::new();
    encode::text(&mut name, field.name().as_bytes());
    name
}

fn writer_of(field: &Field, array: &ArrayRef) -> Option<Writer> {
    if field.metadata().contains_key(EXTENSION_TYPE_NAME_KEY) {
        return None;
    }
    let write: Writer = match field.data_type() {
        DataType::Null => return Some(Box::new(|out, _| encode::nil(out))),
        DataType::Boolean => {
            let array = array.as_boolean().clone();
            Box::new(move |out, row| encode::boolean(out, array.value(row)))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>().clone();
            Box::new(move |out, row| encode::unsigned(out, array.value(row)))
        }
        DataType::Float16 => floats::<Float16Type>(array),
        DataType::Float32 => floats::<Float32Type>(array),
        DataType::Float64 => floats::<Float64Type>(array),
        DataType::Utf8 => arrays::<Utf8Type>(array, encode::text),
        DataType::LargeUtf8 => arrays::<LargeUtf8Type>(array, encode::text),
        DataType::Utf8View => views::<StringViewType>(array, encode::text),
        DataType::Binary => arrays::<BinaryType>(array, encode::bytes),
        DataType::LargeBinary => arrays::<LargeBinaryType>(array, encode::bytes),
        DataType::BinaryView => views::<BinaryViewType>(array, encode::bytes),
        DataType::Dictionary(_, _) => coded(array)?,
        _ => return None,
    };
    if array.null_count() == 0 {
        return Some(write);
    }
    let array = array.clone();
    Some(Box::new(move |out, row| {
        if array.is_null(row) {
            encode::nil(out);
        } else {
            write(out, row);
        }
    }))
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Writer {
    let array = array.as_primitive::<T>().clone();
    Box::new(move |out, row| encode::int(out, array.value(row).into()))
}

fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Writer {
    let array = array.as_primitive::<T>().clone();
    Box::new(move |out, row| encode::float(out, array.value(row).into()))
}

fn arrays<T: ByteArrayType>(array: &ArrayRef, write: fn(&mut Vec<u8>, &[u8])) -> Writer {
    let array = array.as_bytes::<T>().clone();
    Box::new(move |out, row| write(out, array.value(row).as_ref()))
}

fn views<T: ByteViewType>(array: &ArrayRef, write: fn(&mut Vec<u8>, &[u8])) -> Writer {
    let array = array.as_byte_view::<T>().clone();
    Box::new(move |out, row| write(out, array.value(row).as_ref()))
}

/// Of a dictionary: its values are encoded once.
fn coded(array: &ArrayRef) -> Option<Writer> {
    let array = array.as_any_dictionary();
    let values = array.values();
    if values.data_type().is_nested() {
        return None;
    }
    let write = writer_of(&Field::new("", values.data_type().clone(), true), values)?;
    let mut encoded = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        let mut value = Vec::new();
        write(&mut value, row);
        encoded.push(value);
    }
    let codes = match values.len() {
        0 => Vec::new(), // and all are null
        _ => array.normalized_keys(),
    };
    Some(Box::new(move |out, row| {
        out.extend_from_slice(&encoded[codes[row]]);
    }))
}

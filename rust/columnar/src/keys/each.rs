//! Loops over the values of a column, whatever it has in its array.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, PrimitiveArray, downcast_integer_array};
use arrow_schema::DataType;

use crate::channel::ahead::prefetch;

/// Calls `visit` with each code of a dictionary's column, `None` for null.
pub(super) fn each_code(codes: &dyn Array, mut visit: impl FnMut(Option<usize>)) {
    downcast_integer_array!(
        codes => match codes.nulls() {
            None => codes.values().iter().for_each(|code| visit(Some(index(*code)))),
            Some(_) => codes.iter().for_each(|code| visit(code.map(index))),
        },
        _ => (0..codes.len()).for_each(|_| visit(None)),
    );
}

/// An index that is in no array if the code is negative.
#[inline]
fn index<N: TryInto<usize>>(code: N) -> usize {
    code.try_into().unwrap_or(usize::MAX)
}

/// Calls `visit` with the bytes of each text or byte string.
pub(crate) fn each_bytes<'a>(column: &'a dyn Array, mut visit: impl FnMut(Option<&'a [u8]>)) {
    macro_rules! each {
        ($array:expr) => {{
            let array = $array;
            match array.nulls() {
                None => (0..array.len()).for_each(|row| visit(Some(array.value(row).as_ref()))),
                Some(_) => array
                    .iter()
                    .for_each(|value| visit(value.map(AsRef::as_ref))),
            }
        }};
    }
    // Values behind each other in one buffer.
    macro_rules! each_in_order {
        ($array:expr) => {{
            let array = $array;
            let (ends, bytes) = (array.value_offsets(), array.value_data());
            match array.nulls() {
                None => ends.windows(2).for_each(|ends| {
                    let (start, end) = (ends[0] as usize, ends[1] as usize);
                    prefetch(bytes, start, end);
                    visit(Some(&bytes[start..end]));
                }),
                Some(_) => each!(array),
            }
        }};
    }
    match column.data_type() {
        DataType::Utf8 => each_in_order!(column.as_string::<i32>()),
        DataType::LargeUtf8 => each_in_order!(column.as_string::<i64>()),
        DataType::Utf8View => each!(column.as_string_view()),
        DataType::Binary => each_in_order!(column.as_binary::<i32>()),
        DataType::LargeBinary => each_in_order!(column.as_binary::<i64>()),
        DataType::BinaryView => each!(column.as_binary_view()),
        DataType::FixedSizeBinary(_) => column.as_fixed_size_binary().iter().for_each(visit),
        other => unreachable!("{other} is checked before"),
    }
}

/// Calls `visit` with each bool, or integer of up to 64 bits with a sign or 32 without.
pub(crate) fn each_integer(column: &dyn Array, mut visit: impl FnMut(Option<i64>)) {
    fn primitive<T>(array: &PrimitiveArray<T>, mut visit: impl FnMut(Option<i64>))
    where
        T: ArrowPrimitiveType,
        T::Native: TryInto<i64>,
    {
        let wide = |value: T::Native| value.try_into().unwrap_or(i64::MAX);
        match array.nulls() {
            None => array
                .values()
                .iter()
                .for_each(|value| visit(Some(wide(*value)))),
            Some(_) => array.iter().for_each(|value| visit(value.map(wide))),
        }
    }
    if let Some(array) = column.as_boolean_opt() {
        return array.iter().for_each(|value| visit(value.map(i64::from)));
    }
    downcast_integer_array!(
        column => primitive(column, visit),
        other => unreachable!("{other} is checked before"),
    );
}

/// Calls `visit` with each float.
pub(crate) fn each_float(column: &dyn Array, mut visit: impl FnMut(Option<f64>)) {
    match column.data_type() {
        DataType::Float16 => {
            let array = column.as_primitive::<Float16Type>();
            array.iter().for_each(|value| visit(value.map(f64::from)));
        }
        DataType::Float32 => {
            let array = column.as_primitive::<Float32Type>();
            array.iter().for_each(|value| visit(value.map(f64::from)));
        }
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().for_each(visit),
        other => unreachable!("{other} is checked before"),
    }
}

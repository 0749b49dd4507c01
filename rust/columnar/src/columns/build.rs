//! Arrays of a given type, from plain values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, downcast_integer, make_array,
};
use arrow_schema::{ArrowError, DataType};

/// Texts or byte strings; texts are checked.
pub(crate) fn bytes<'a>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, ArrowError> {
    let array: ArrayRef = match data_type {
        DataType::Utf8 | DataType::Binary => Arc::new(values.collect::<BinaryArray>()),
        DataType::LargeUtf8 | DataType::LargeBinary => {
            Arc::new(values.collect::<LargeBinaryArray>())
        }
        DataType::Utf8View | DataType::BinaryView => Arc::new(values.collect::<BinaryViewArray>()),
        DataType::FixedSizeBinary(size) => {
            let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *size)?;
            return Ok(Arc::new(values));
        }
        other => return Err(unsuitable(other)),
    };
    checked(array, data_type)
}

/// The array as this type; differs from the array's own where texts came as bytes.
pub(crate) fn checked(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(match (array.data_type(), data_type) {
        (DataType::Binary, DataType::Utf8) => {
            Arc::new(StringArray::try_from_binary(array.as_binary().clone())?)
        }
        (DataType::LargeBinary, DataType::LargeUtf8) => Arc::new(
            LargeStringArray::try_from_binary(array.as_binary().clone())?,
        ),
        (DataType::BinaryView, DataType::Utf8View) => {
            Arc::new(array.as_binary_view().clone().to_string_view()?)
        }
        _ => array,
    })
}

/// Bools, integers, or what time types are inside. A value outside the type's range is an error.
pub(crate) fn integers(
    data_type: &DataType,
    values: impl Iterator<Item = Option<i128>>,
) -> Result<ArrayRef, ArrowError> {
    if *data_type == DataType::Boolean {
        let values = values.map(|value| value.map(|value| value != 0));
        return Ok(Arc::new(values.collect::<BooleanArray>()));
    }
    let inside = physical(data_type).ok_or_else(|| unsuitable(data_type))?;
    macro_rules! build {
        ($kind:ty) => {
            narrowed::<$kind>(values)?
        };
    }
    let array = downcast_integer!(
        inside => (build),
        ref other => return Err(unsuitable(other)),
    );
    reinterpreted(&array, data_type)
}

/// Floats of 16, 32 or 64 bits.
pub(crate) fn floats(
    data_type: &DataType,
    values: impl Iterator<Item = Option<f64>>,
) -> Result<ArrayRef, ArrowError> {
    Ok(match data_type {
        DataType::Float16 => {
            let narrow = values.map(|value| value.map(Half::from_f64));
            Arc::new(narrow.collect::<PrimitiveArray<Float16Type>>())
        }
        DataType::Float32 => {
            let narrow = values.map(|value| value.map(|value| value as f32));
            Arc::new(narrow.collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => Arc::new(values.collect::<PrimitiveArray<Float64Type>>()),
        other => return Err(unsuitable(other)),
    })
}

/// The integers that a type consists of, if it does.
pub(crate) fn physical(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Date32 | DataType::Time32(_) => Some(DataType::Int32),
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => Some(DataType::Int64),
        kind if kind.is_integer() => Some(kind.clone()),
        _ => None,
    }
}

/// The same memory as a type of the same layout.
pub(crate) fn reinterpreted(
    array: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data().into_builder();
    Ok(make_array(data.data_type(data_type.clone()).build()?))
}

fn narrowed<T>(values: impl Iterator<Item = Option<i128>>) -> Result<ArrayRef, ArrowError>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let narrow = |value: Option<i128>| {
        value
            .map(|value| {
                T::Native::try_from(value).map_err(|_| {
                    ArrowError::ArithmeticOverflow(format!("{value} is no {}", T::DATA_TYPE))
                })
            })
            .transpose()
    };
    let values = values.map(narrow).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(PrimitiveArray::<T>::from_iter(values)))
}

fn unsuitable(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("a column of type {data_type}"))
}

type Half = <Float16Type as ArrowPrimitiveType>::Native;

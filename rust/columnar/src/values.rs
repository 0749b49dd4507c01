//! The value of each key so far, by the key's number.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{ArrowError, DataType};
use oka_compute::Aggregation;

use crate::build;
use crate::key::{each_bytes, each_float, each_integer};

/// What there is per key; `None` where a key had only nulls.
#[derive(Debug)]
pub(crate) enum Values {
    Count(Vec<i64>),
    Integers(Vec<Option<i128>>),
    Floats(Vec<Option<f64>>),
    Bytes(Vec<Option<Box<[u8]>>>),
}

impl Values {
    /// For a column of this type, and the type of the results; `None` if it has no such values.
    pub(crate) fn of(aggregation: Aggregation, column: &DataType) -> Option<(Self, DataType)> {
        let ordered = match aggregation {
            Aggregation::Count => return Some((Self::Count(Vec::new()), DataType::Int64)),
            Aggregation::Sum => false,
            Aggregation::Min | Aggregation::Max => true,
            Aggregation::First => return None,
        };
        let kept = |data_type| if ordered { column.clone() } else { data_type };
        match column {
            DataType::Boolean => Some((Self::Integers(Vec::new()), kept(DataType::Int64))),
            kind if kind.is_unsigned_integer() => {
                Some((Self::Integers(Vec::new()), kept(DataType::UInt64)))
            }
            kind if kind.is_integer() => Some((Self::Integers(Vec::new()), kept(DataType::Int64))),
            DataType::Float32 | DataType::Float64 => {
                Some((Self::Floats(Vec::new()), kept(DataType::Float64)))
            }
            kind if ordered && build::physical(kind).is_some() => {
                Some((Self::Integers(Vec::new()), kind.clone()))
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
                if ordered =>
            {
                Some((Self::Bytes(Vec::new()), column.clone()))
            }
            _ => None,
        }
    }

    /// Makes room for this many keys.
    pub(crate) fn resize(&mut self, keys: usize) {
        match self {
            Self::Count(values) => values.resize(keys, 0),
            Self::Integers(values) => values.resize(keys, None),
            Self::Floats(values) => values.resize(keys, None),
            Self::Bytes(values) => values.resize(keys, None),
        }
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(
        &mut self,
        aggregation: Aggregation,
        numbers: &[u32],
        column: &ArrayRef,
    ) -> Result<(), ArrowError> {
        let wanted = match aggregation {
            Aggregation::Min => Ordering::Less,
            _ => Ordering::Greater,
        };
        let mut numbers = numbers.iter().map(|number| *number as usize);
        let mut slot = || numbers.next().unwrap_or_default();
        match self {
            Self::Count(values) => numbers.for_each(|number| values[number] += 1),
            Self::Integers(values) => {
                let mut overflow = false;
                each_number(column, |value| {
                    let (slot, Some(value)) = (&mut values[slot()], value) else {
                        return;
                    };
                    match *slot {
                        None => *slot = Some(value),
                        Some(so_far) if aggregation == Aggregation::Sum => {
                            overflow |= so_far.checked_add(value).is_none();
                            *slot = Some(so_far.wrapping_add(value));
                        }
                        Some(so_far) if value.cmp(&so_far) == wanted => *slot = Some(value),
                        Some(_) => {}
                    }
                })?;
                if overflow {
                    let message = "a sum outside the range of 128 bits";
                    return Err(ArrowError::ArithmeticOverflow(message.to_owned()));
                }
            }
            Self::Floats(values) => each_float(column, |value| {
                let (slot, Some(value)) = (&mut values[slot()], value) else {
                    return;
                };
                match *slot {
                    None => *slot = Some(value),
                    Some(so_far) if aggregation == Aggregation::Sum => *slot = Some(so_far + value),
                    Some(so_far) if value.partial_cmp(&so_far) == Some(wanted) => {
                        *slot = Some(value);
                    }
                    Some(_) => {}
                }
            }),
            Self::Bytes(values) => each_bytes(column, |value| {
                let (slot, Some(value)) = (&mut values[slot()], value) else {
                    return;
                };
                if slot
                    .as_deref()
                    .is_none_or(|so_far| value.cmp(so_far) == wanted)
                {
                    *slot = Some(value.into());
                }
            }),
        }
        Ok(())
    }

    /// The values of the keys of these numbers.
    pub(crate) fn take(
        &self,
        numbers: &[u32],
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let numbers = numbers.iter().map(|number| *number as usize);
        match self {
            Self::Count(values) => Ok(Arc::new(Int64Array::from_iter_values(
                numbers.map(|number| values[number]),
            ))),
            Self::Integers(values) => build::integers(data_type, numbers.map(|n| values[n])),
            Self::Floats(values) => build::floats(data_type, numbers.map(|n| values[n])),
            Self::Bytes(values) => build::bytes(data_type, numbers.map(|n| values[n].as_deref())),
        }
    }
}

/// Calls `visit` with each bool, integer, or what a time is inside.
fn each_number(column: &ArrayRef, mut visit: impl FnMut(Option<i128>)) -> Result<(), ArrowError> {
    if let Some(array) = column.as_primitive_opt::<UInt64Type>() {
        array.iter().for_each(|value| visit(value.map(i128::from)));
        return Ok(());
    }
    let inside = build::physical(column.data_type());
    let column = build::reinterpreted(column, inside.as_ref().unwrap_or(column.data_type()))?;
    each_integer(&column, |value| visit(value.map(i128::from)));
    Ok(())
}

//! The values of a column of dicts: of one plain class, else they are left to PyArrow.

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    TimestampMicrosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    ArrayRef, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray,
    StringArray, StringViewArray, new_null_array,
};
use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, NaiveDate};
use oka_codec::utf8;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateAccess, PyDateTime, PyFloat, PyInt, PyString, PyTimeAccess,
    PyTzInfo, PyTzInfoAccess,
};
use std::sync::Arc;

/// Values of one class, and None.
pub(super) enum Values {
    Nothing,
    Truths(BooleanBuilder),
    Integers(Int64Builder),
    Floats(Float64Builder),
    Texts(StringBuilder),
    Bytes(BinaryBuilder),
    Days(Date32Builder),
    /// Of no zone, or all of them in UTC.
    Moments {
        values: TimestampMicrosecondBuilder,
        in_utc: bool,
    },
    /// Something else, or several classes.
    Others,
}

impl Values {
    /// For values of the class of this one.
    pub(super) unsafe fn like(py: Python<'_>, value: *mut ffi::PyObject) -> Self {
        // SAFETY: the GIL is held and the value is valid.
        let value = unsafe { Bound::from_borrowed_ptr(py, value) };
        if value.is_exact_instance_of::<PyString>() {
            Self::Texts(StringBuilder::new())
        } else if value.is_exact_instance_of::<PyInt>() {
            Self::Integers(Int64Builder::new())
        } else if value.is_exact_instance_of::<PyFloat>() {
            Self::Floats(Float64Builder::new())
        } else if value.is_exact_instance_of::<PyBool>() {
            Self::Truths(BooleanBuilder::new())
        } else if value.is_exact_instance_of::<PyBytes>() {
            Self::Bytes(BinaryBuilder::new())
        } else if let Ok(moment) = value.cast_exact::<PyDateTime>() {
            Self::Moments {
                values: TimestampMicrosecondBuilder::new(),
                in_utc: moment.get_tzinfo().is_some(),
            }
        } else if value.is_exact_instance_of::<PyDate>() {
            Self::Days(Date32Builder::new())
        } else {
            Self::Others
        }
    }

    #[inline]
    pub(super) fn nulls(&mut self, count: usize) {
        match self {
            Self::Nothing | Self::Others => {}
            Self::Truths(values) => values.append_nulls(count),
            Self::Integers(values) => values.append_nulls(count),
            Self::Floats(values) => values.append_nulls(count),
            Self::Texts(values) => values.append_nulls(count),
            Self::Bytes(values) => values.append_nulls(count),
            Self::Days(values) => values.append_nulls(count),
            Self::Moments { values, .. } => values.append_nulls(count),
        }
    }

    /// Takes one in; false where it is of another class, or cannot be held.
    #[inline]
    pub(super) unsafe fn push(
        &mut self,
        value: *mut ffi::PyObject,
        utc: Borrowed<'_, '_, PyTzInfo>,
    ) -> bool {
        // SAFETY: the GIL is held and the value is valid; each call suits the exact type that was just
        // established.
        unsafe {
            let kind = ffi::Py_TYPE(value);
            match self {
                Self::Integers(values) if kind == &raw mut ffi::PyLong_Type => {
                    let mut overflow = 0;
                    let number = ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow);
                    values.append_value(number);
                    overflow == 0
                }
                Self::Floats(values) if kind == &raw mut ffi::PyFloat_Type => {
                    values.append_value(ffi::PyFloat_AS_DOUBLE(value));
                    true
                }
                Self::Texts(values) if kind == &raw mut ffi::PyUnicode_Type => {
                    let Some(text) = utf8(value) else {
                        return false;
                    };
                    let fits = fits(values.values_slice().len() + text.len());
                    if fits {
                        values.append_value(std::str::from_utf8_unchecked(text));
                    }
                    fits
                }
                Self::Truths(values) if kind == &raw mut ffi::PyBool_Type => {
                    values.append_value(value == ffi::Py_True());
                    true
                }
                Self::Bytes(values) if kind == &raw mut ffi::PyBytes_Type => {
                    let value = Bound::from_borrowed_ptr(utc.py(), value);
                    let value: &[u8] = value.cast_unchecked::<PyBytes>().as_bytes();
                    let fits = fits(values.values_slice().len() + value.len());
                    if fits {
                        values.append_value(value);
                    }
                    fits
                }
                _ => self.push_time(&Bound::from_borrowed_ptr(utc.py(), value), utc),
            }
        }
    }

    #[inline(never)]
    fn push_time(&mut self, value: &Bound<'_, PyAny>, utc: Borrowed<'_, '_, PyTzInfo>) -> bool {
        match self {
            Self::Moments { values, in_utc } => {
                let Ok(moment) = value.cast_exact::<PyDateTime>() else {
                    return false;
                };
                let zone = moment.get_tzinfo();
                if zone.is_some() != *in_utc || zone.is_some_and(|zone| !zone.is(utc)) {
                    return false;
                }
                let second = day(moment).and_then(|day| {
                    let [hour, minute, second] =
                        [moment.get_hour(), moment.get_minute(), moment.get_second()];
                    day.and_hms_micro_opt(
                        hour.into(),
                        minute.into(),
                        second.into(),
                        moment.get_microsecond(),
                    )
                });
                let microseconds = second.map(|at| at.and_utc().timestamp_micros());
                values.append_option(microseconds);
                microseconds.is_some()
            }
            Self::Days(values) => {
                let days = value.cast_exact::<PyDate>().ok().and_then(day);
                let days = days.map(|day| {
                    let since = day.signed_duration_since(DateTime::UNIX_EPOCH.date_naive());
                    since.num_days() as i32
                });
                values.append_option(days);
                days.is_some()
            }
            _ => false,
        }
    }

    /// As a column of the type that PyArrow would take.
    pub(super) fn finish(self, rows: usize) -> Option<ArrayRef> {
        Some(match self {
            Self::Nothing => Arc::new(NullArray::new(rows)),
            Self::Truths(mut values) => Arc::new(values.finish()),
            Self::Integers(mut values) => Arc::new(values.finish()),
            Self::Floats(mut values) => Arc::new(values.finish()),
            Self::Texts(mut values) => Arc::new(values.finish()),
            Self::Bytes(mut values) => Arc::new(values.finish()),
            Self::Days(mut values) => Arc::new(values.finish()),
            Self::Moments { mut values, in_utc } => {
                let zone = in_utc.then_some("UTC");
                Arc::new(values.finish().with_timezone_opt(zone))
            }
            Self::Others => return None,
        })
    }

    /// As a column of this type, where that holds them all as they are; of floats, rounded.
    pub(super) fn finish_as(self, kind: &DataType, rows: usize) -> Option<ArrayRef> {
        let (is_null, in_utc) = match &self {
            Self::Nothing => (true, false),
            Self::Moments { in_utc, .. } => (false, *in_utc),
            _ => (false, false),
        };
        if is_null {
            let is_plain = kind.is_primitive() || kind.is_string() || kind.is_binary();
            return is_plain.then(|| new_null_array(kind, rows));
        }
        let made = self.finish(rows)?;
        if made.data_type() == kind {
            return Some(made);
        }
        let any = made.as_any();
        if let Some(numbers) = any.downcast_ref::<Int64Array>() {
            return match kind {
                DataType::Int8 => narrowed::<Int8Type>(numbers),
                DataType::Int16 => narrowed::<Int16Type>(numbers),
                DataType::Int32 => narrowed::<Int32Type>(numbers),
                DataType::UInt8 => narrowed::<UInt8Type>(numbers),
                DataType::UInt16 => narrowed::<UInt16Type>(numbers),
                DataType::UInt32 => narrowed::<UInt32Type>(numbers),
                DataType::UInt64 => narrowed::<UInt64Type>(numbers),
                DataType::Float64 => converted::<_, Float64Type>(numbers, |number: i64| {
                    (number.unsigned_abs() <= EXACT).then_some(number as f64)
                }),
                _ => None,
            };
        }
        if let Some(numbers) = any.downcast_ref::<PrimitiveArray<Float64Type>>() {
            return match kind {
                DataType::Float32 => converted::<_, Float32Type>(numbers, |number: f64| {
                    let rounded = number as f32;
                    (rounded.is_infinite() == number.is_infinite()).then_some(rounded)
                }),
                _ => None,
            };
        }
        if let Some(texts) = any.downcast_ref::<StringArray>() {
            return match kind {
                DataType::LargeUtf8 => Some(Arc::new(LargeStringArray::from_iter(texts))),
                DataType::Utf8View => Some(Arc::new(StringViewArray::from_iter(texts))),
                _ => None,
            };
        }
        if let Some(values) = any.downcast_ref::<arrow_array::BinaryArray>() {
            return match kind {
                DataType::LargeBinary => Some(Arc::new(LargeBinaryArray::from_iter(values))),
                _ => None,
            };
        }
        let moments = any.downcast_ref::<PrimitiveArray<TimestampMicrosecondType>>()?;
        match kind {
            // Where there is a zone, a moment without one is one in UTC.
            DataType::Timestamp(TimeUnit::Microsecond, zone)
                if zone.as_deref().is_none_or(|zone| zone == "UTC") =>
            {
                Some(Arc::new(moments.clone().with_timezone_opt(zone.clone())))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, None) if !in_utc => {
                converted::<_, TimestampNanosecondType>(moments, |at: i64| at.checked_mul(1000))
            }
            _ => None,
        }
    }
}

fn narrowed<T>(numbers: &Int64Array) -> Option<ArrayRef>
where
    T: ArrowPrimitiveType<Native: TryFrom<i64>>,
{
    converted::<_, T>(numbers, |number| T::Native::try_from(number).ok())
}

/// The values as this makes them of each; None where it makes none of one.
fn converted<S: ArrowPrimitiveType, T: ArrowPrimitiveType>(
    values: &PrimitiveArray<S>,
    convert: impl Fn(S::Native) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let convert = |value| convert(value).ok_or(());
    let made = values.try_unary::<_, T, _>(convert);
    made.ok().map(|made| Arc::new(made) as ArrayRef)
}

fn day(date: &impl PyDateAccess) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(
        date.get_year(),
        date.get_month().into(),
        date.get_day().into(),
    )
}

/// Whether so many bytes have room in a column with offsets of 32 bits.
fn fits(bytes: usize) -> bool {
    i32::try_from(bytes).is_ok()
}

/// Up to here each integer is a float.
const EXACT: u64 = 1 << 53;

//! Times and decimals as keys: byte strings that are equal where values are, whatever their unit or scale.
//!
//! Dates, times of day, durations, and instants with and without a zone are kinds apart, as in Python.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use crate::aggregate::values::each_number;
use crate::columns::build;
use crate::keys::each::each_bytes;

/// Whether keys of this type are such byte strings.
pub(crate) fn has_form(data_type: &DataType) -> bool {
    data_type.is_decimal() || Time::of(data_type).is_some()
}

/// Calls `visit` with each key of such a column; of a column of bytes, with those.
pub(crate) fn each_form(column: &dyn Array, mut visit: impl FnMut(Option<&[u8]>)) {
    if let Some(time) = Time::of(column.data_type()) {
        let mut form = [time.tag; 1 + TIME_BYTES];
        let put = |value: Option<i128>| {
            visit(match value {
                None => None,
                Some(value) => {
                    let whole = (value * time.times).div_euclid(time.parts).to_le_bytes();
                    form[1..].copy_from_slice(&whole[..TIME_BYTES]);
                    Some(&form)
                }
            });
        };
        let column = column.slice(0, column.len());
        return each_number(&column, put).expect("what consists of integers is read as such");
    }
    match column.data_type() {
        DataType::Decimal32(_, scale) => {
            decimals::<Decimal32Type>(column.as_primitive(), *scale, visit);
        }
        DataType::Decimal64(_, scale) => {
            decimals::<Decimal64Type>(column.as_primitive(), *scale, visit);
        }
        DataType::Decimal128(_, scale) => {
            decimals::<Decimal128Type>(column.as_primitive(), *scale, visit);
        }
        DataType::Decimal256(_, scale) => {
            decimals::<Decimal256Type>(column.as_primitive(), *scale, visit);
        }
        _ => each_bytes(column, visit),
    }
}

/// A column of this type, or of bytes, of such keys.
pub(crate) fn restored<'a>(
    data_type: &DataType,
    forms: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, ArrowError> {
    if let Some(time) = Time::of(data_type) {
        let read = |form: &[u8]| -> Result<i128, ArrowError> {
            let whole = form.get(1..).and_then(<[u8]>::first_chunk);
            let whole: &[u8; TIME_BYTES] = whole.ok_or_else(malformed)?;
            let mut bytes = [if whole[TIME_BYTES - 1] >> 7 == 1 {
                0xff
            } else {
                0
            }; 16];
            bytes[..TIME_BYTES].copy_from_slice(whole);
            Ok(i128::from_le_bytes(bytes) * time.parts / time.times)
        };
        let values = forms.map(|form| form.map(read).transpose());
        return build::integers(
            data_type,
            values.collect::<Result<Vec<_>, _>>()?.into_iter(),
        );
    }
    match data_type {
        DataType::Decimal32(precision, scale) => {
            restored_decimals::<Decimal32Type>((*precision, *scale), forms)
        }
        DataType::Decimal64(precision, scale) => {
            restored_decimals::<Decimal64Type>((*precision, *scale), forms)
        }
        DataType::Decimal128(precision, scale) => {
            restored_decimals::<Decimal128Type>((*precision, *scale), forms)
        }
        DataType::Decimal256(precision, scale) => {
            restored_decimals::<Decimal256Type>((*precision, *scale), forms)
        }
        _ => build::bytes(data_type, forms),
    }
}

/// A type of times: a value times `times`, divided by `parts`, is nanoseconds, or days of a date.
struct Time {
    tag: u8,
    times: i128,
    parts: i128,
}

impl Time {
    fn of(data_type: &DataType) -> Option<Self> {
        let (tag, times, parts) = match data_type {
            DataType::Date32 => (b'd', 1, 1),
            DataType::Date64 => (b'd', 1, MILLISECONDS_PER_DAY),
            DataType::Time32(unit) | DataType::Time64(unit) => (b'c', nanoseconds(*unit), 1),
            DataType::Duration(unit) => (b'u', nanoseconds(*unit), 1),
            DataType::Timestamp(unit, None) => (b't', nanoseconds(*unit), 1),
            DataType::Timestamp(unit, Some(_)) => (b'z', nanoseconds(*unit), 1),
            _ => return None,
        };
        Some(Self { tag, times, parts })
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Digits without zeros at the end, and by which power of ten they are multiplied.
fn decimals<T: DecimalType>(
    column: &PrimitiveArray<T>,
    scale: i8,
    mut visit: impl FnMut(Option<&[u8]>),
) where
    T::Native: Display,
{
    for value in column {
        let form = value.map(|value| {
            let digits = value.to_string();
            match digits.trim_end_matches('0') {
                "" => "n0e0".to_owned(),
                some => {
                    let power = (digits.len() - some.len()) as i64 - i64::from(scale);
                    format!("n{some}e{power}")
                }
            }
        });
        visit(form.as_deref().map(str::as_bytes));
    }
}

fn restored_decimals<'a, T: DecimalType>(
    (precision, scale): (u8, i8),
    forms: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, ArrowError>
where
    T::Native: FromStr,
{
    let read = |form: &[u8]| -> Option<T::Native> {
        let (digits, power) = std::str::from_utf8(form)
            .ok()?
            .strip_prefix('n')?
            .split_once('e')?;
        if digits == "0" {
            return digits.parse().ok();
        }
        let zeros = power.parse::<i64>().ok()?.checked_add(i64::from(scale))?;
        let zeros = usize::try_from(zeros)
            .ok()
            .filter(|zeros| *zeros <= MOST_DIGITS)?;
        format!("{digits}{:0<zeros$}", "").parse().ok()
    };
    let values = forms.map(|form| {
        form.map(|form| read(form).ok_or_else(malformed))
            .transpose()
    });
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let array = PrimitiveArray::<T>::from_iter(values);
    Ok(Arc::new(array.with_precision_and_scale(precision, scale)?))
}

fn malformed() -> ArrowError {
    ArrowError::InvalidArgumentError("a key of another type".to_owned())
}

/// Of seconds in 64 bits as nanoseconds.
const TIME_BYTES: usize = 12;
const MILLISECONDS_PER_DAY: i128 = 86_400_000;
const MOST_DIGITS: usize = 76;

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Date64Array, Decimal256Array, TimestampSecondArray};

    fn again(column: &ArrayRef) -> ArrayRef {
        let mut forms = Vec::new();
        each_form(column, |form| forms.push(form.map(<[u8]>::to_vec)));
        restored(column.data_type(), forms.iter().map(Option::as_deref)).unwrap()
    }

    #[test]
    fn what_had_a_form_comes_out_of_it() {
        let farthest =
            TimestampSecondArray::from(vec![Some(i64::MIN), None, Some(-1), Some(i64::MAX)]);
        let days = Date64Array::from(vec![Some(-86_400_000), Some(0), None, Some(86_400_000)]);
        let digits = "9".repeat(MOST_DIGITS);
        let decimals = [
            Some(digits.as_str()),
            None,
            Some("-1200"),
            Some("0"),
            Some("7"),
        ];
        let decimals = decimals.map(|digits| digits.map(|it| it.parse().unwrap()));
        let decimals = Decimal256Array::from_iter(decimals);
        let decimals = decimals.with_precision_and_scale(76, 3).unwrap();
        let columns: [ArrayRef; 3] = [Arc::new(farthest), Arc::new(days), Arc::new(decimals)];
        for column in columns {
            assert_eq!(&again(&column), &column);
        }
    }

    #[test]
    fn bytes_of_others_are_refused() {
        for data_type in [DataType::Date32, DataType::Decimal128(5, 2)] {
            for form in [&b""[..], b"d", b"n1e", b"n1e-9", b"n1e999999999", b"nxe1"] {
                assert!(restored(&data_type, [Some(form)].into_iter()).is_err());
            }
        }
    }
}

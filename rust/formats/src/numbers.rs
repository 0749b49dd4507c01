//! Columns of numbers and times from JSON: a value that the column cannot hold is an error, and never another.
//!
//! Arrow's own decoders truncate `1.5` in a column of integers, and take `"NaN"` for a number.

use crate::words;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType};
use arrow_json::reader::{ArrayDecoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use arrow_schema::{ArrowError, DataType, FieldRef};
use std::marker::PhantomData;
use std::sync::Arc;

/// Makes the decoders of this file.
#[derive(Debug)]
pub(crate) struct Exact;

impl DecoderFactory for Exact {
    fn make_default_decoder(
        &self,
        context: &DecoderContext,
        field: &FieldRef,
        is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        let allows = match field.data_type() {
            DataType::Int8 => return numbers::<Int8Type>(),
            DataType::Int16 => return numbers::<Int16Type>(),
            DataType::Int32 => return numbers::<Int32Type>(),
            DataType::Int64 => return numbers::<Int64Type>(),
            DataType::UInt8 => return numbers::<UInt8Type>(),
            DataType::UInt16 => return numbers::<UInt16Type>(),
            DataType::UInt32 => return numbers::<UInt32Type>(),
            DataType::UInt64 => return numbers::<UInt64Type>(),
            DataType::Float32 => return numbers::<Float32Type>(),
            DataType::Float64 => return numbers::<Float64Type>(),
            DataType::Float16 => |value: Value<'_>| value.is_finite_number(),
            DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_) => |value: Value<'_>| value.is_text_or_integer(),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => |_: Value<'_>| true,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => |value: Value<'_>| value.has_whole_bytes(),
            _ => return Ok(None),
        };
        let inner = context.make_builtin_decoder(field, is_nullable)?;
        Ok(Some(Box::new(Checked {
            inner,
            allows,
            kind: field.data_type().clone(),
        })))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the factory gives it")]
fn numbers<T: Number>() -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
    Ok(Some(Box::new(Numbers::<T>(PhantomData))))
}

/// A column of numbers of one type.
struct Numbers<T>(PhantomData<fn() -> T>);

impl<T: Number> ArrayDecoder for Numbers<T> {
    fn decode(&mut self, tape: &Tape<'_>, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut column = PrimitiveBuilder::<T>::with_capacity(rows.len());
        for &row in rows {
            match tape.get(row) {
                TapeElement::Number(at) => {
                    let text = tape.get_string(at);
                    let value = T::parse(text).ok_or_else(|| unlike(text, &T::DATA_TYPE))?;
                    column.append_value(value);
                }
                TapeElement::Null => column.append_null(),
                _ => return Err(tape.error(row, "a number")),
            }
        }
        Ok(Arc::new(column.finish()))
    }
}

/// Arrow's own decoder, behind a check of each value that is a number or a text.
struct Checked {
    inner: Box<dyn ArrayDecoder>,
    allows: fn(Value<'_>) -> bool,
    kind: DataType,
}

impl ArrayDecoder for Checked {
    fn decode(&mut self, tape: &Tape<'_>, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        for &row in rows {
            let (text, value) = match tape.get(row) {
                TapeElement::Number(at) => (tape.get_string(at), Value::Number as fn(_) -> _),
                TapeElement::String(at) => (tape.get_string(at), Value::Text as fn(_) -> _),
                _ => continue,
            };
            if !(self.allows)(value(text)) {
                return Err(unlike(text, &self.kind));
            }
        }
        let decoded = self.inner.decode(tape, rows);
        decoded.map_err(|error| ArrowError::JsonError(words(&error))) // which gets the field's name
    }
}

enum Value<'a> {
    Number(&'a str),
    Text(&'a str),
}

impl Value<'_> {
    fn is_finite_number(&self) -> bool {
        matches!(self, Self::Number(text) if f32::parse_finite(text).is_some_and(|n| n.abs() < 65520.0))
    }

    fn is_text_or_integer(&self) -> bool {
        match self {
            Self::Number(text) => text.parse::<i64>().is_ok(),
            Self::Text(_) => true,
        }
    }

    fn has_whole_bytes(&self) -> bool {
        matches!(self, Self::Text(text) if text.len().is_multiple_of(2))
    }
}

fn unlike(text: &str, kind: &DataType) -> ArrowError {
    ArrowError::JsonError(format!("{text} is not of the type {kind}"))
}

/// A type of numbers that JSON may have.
trait Number: ArrowPrimitiveType {
    fn parse(text: &str) -> Option<Self::Native>;
}

macro_rules! integers {
    ($($kind:ty),+) => {$(
        impl Number for $kind {
            #[inline]
            fn parse(text: &str) -> Option<Self::Native> {
                text.parse().ok().or_else(|| Self::Native::try_from(whole(text)?).ok())
            }
        }
    )+};
}

integers!(
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type
);

/// An integer that is written as `1.0` or `1e3`, if a float has it exactly.
#[cold]
fn whole(text: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    let value = text
        .contains(['.', 'e', 'E'])
        .then(|| f64::parse_finite(text))??;
    (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i64)
}

impl Number for Float32Type {
    #[inline]
    fn parse(text: &str) -> Option<f32> {
        f32::parse_finite(text)
    }
}

impl Number for Float64Type {
    #[inline]
    fn parse(text: &str) -> Option<f64> {
        f64::parse_finite(text)
    }
}

trait ParseFinite: Sized {
    fn parse_finite(text: &str) -> Option<Self>;
}

impl ParseFinite for f32 {
    #[inline]
    fn parse_finite(text: &str) -> Option<Self> {
        text.parse().ok().filter(|value: &Self| value.is_finite())
    }
}

impl ParseFinite for f64 {
    #[inline]
    fn parse_finite(text: &str) -> Option<Self> {
        text.parse().ok().filter(|value: &Self| value.is_finite())
    }
}

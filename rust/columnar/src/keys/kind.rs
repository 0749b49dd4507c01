//! Key columns: a value's hash, which is that of a record with the same key, and its number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, NullArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use oka_compute::table::KeyTable;
use oka_protocol::partition::{
    hash_bytes, hash_float, hash_int, hash_none, hash_unsigned, hash_utf8,
};
use thiserror::Error;

use crate::channel::form::{each_form, has_form, restored};
use crate::channel::partition::PartitionError;
use crate::columns::build;
use crate::columns::plain::{plain, plain_type};
use crate::keys::dictionary::Dictionary;
use crate::keys::each::{each_bytes, each_code, each_float, each_integer};

/// A column of this type holds no keys.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "column {column:?} of type {data_type} holds no keys; string, binary, int, float, bool, date, time, \
     timestamp, duration, decimal and dictionaries of them do"
)]
pub struct KeyError {
    /// Its name.
    pub column: String,
    /// Its type.
    pub data_type: DataType,
}

/// What a key column's values are, whichever way they are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Text,
    Bytes,
    Bool,
    Integer,
    Unsigned,
    Float,
    /// Times and decimals, by their forms.
    Form,
    /// Every key is null.
    Null,
}

impl KeyKind {
    /// Of the values of a type; `None` if they are no keys.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match plain_type(data_type) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Boolean => Self::Bool,
            DataType::UInt64 => Self::Unsigned,
            kind if kind.is_integer() => Self::Integer,
            kind if kind.is_floating() => Self::Float,
            DataType::Null => Self::Null,
            kind if has_form(kind) => Self::Form,
            _ => return None,
        })
    }

    /// Of a column.
    pub(crate) fn of_field(field: &Field) -> Result<Self, KeyError> {
        Self::of(field.data_type()).ok_or_else(|| KeyError {
            column: field.name().clone(),
            data_type: field.data_type().clone(),
        })
    }

    /// The type that has all values of the kind.
    pub(crate) fn widest(self) -> DataType {
        match self {
            Self::Text => DataType::LargeUtf8,
            Self::Bytes | Self::Form => DataType::LargeBinary,
            Self::Bool => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Null => DataType::Null,
        }
    }
}

/// Columns of keys as those that have all values of their kinds, without dictionaries: two keys are
/// equal where they are.
pub fn plain_keys(batch: &RecordBatch) -> Result<RecordBatch, PartitionError> {
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| -> Result<_, PartitionError> {
        let kind = KeyKind::of_field(field)?;
        let column = plain(column)?;
        let widest = kind.widest();
        Ok(match kind {
            KeyKind::Text if *column.data_type() != DataType::Utf8View => column,
            KeyKind::Text | KeyKind::Bytes | KeyKind::Form => {
                let mut forms = Vec::with_capacity(column.len());
                each_form(&column, |form| forms.push(form.map(<[u8]>::to_vec)));
                build::bytes(&widest, forms.iter().map(Option::as_deref))?
            }
            KeyKind::Float => {
                let mut floats = Vec::with_capacity(column.len());
                each_float(&column, |value| floats.push(value));
                build::floats(&widest, floats.into_iter())?
            }
            _ => column,
        })
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields = columns
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| Field::new(field.name(), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Hashes key columns; keeps the hashes of the last dictionary.
#[derive(Debug, Default)]
pub(crate) struct KeyHashes {
    hashes: Vec<u64>,
    dictionary: Dictionary<u64>,
}

impl KeyHashes {
    /// The hash of each value of the column.
    pub(crate) fn of(
        &mut self,
        column: &ArrayRef,
        field: &Field,
    ) -> Result<&[u64], PartitionError> {
        let Self { hashes, dictionary } = self;
        let kind = KeyKind::of_field(field)?;
        hashes.resize(column.len(), 0);
        let mut slots = hashes.iter_mut();
        let mut set = |hash| {
            if let Some(slot) = slots.next() {
                *slot = hash;
            }
        };
        if let Some(coded) = column.as_any_dictionary_opt() {
            let of_values = dictionary.of(coded.values(), |values| {
                let mut of_values = Vec::with_capacity(values.len());
                hash_values(values, kind, |hash| of_values.push(hash));
                of_values
            });
            each_code(coded.keys(), |code| {
                let hash = code.and_then(|code| of_values.get(code)).copied();
                set(hash.unwrap_or_else(hash_none));
            });
        } else {
            hash_values(&plain(column)?, kind, set);
        }
        Ok(hashes)
    }
}

/// Numbers keys densely in the order in which they appear. Null always has [`NULL`].
#[derive(Debug, Default)]
pub(crate) struct KeyNumbers {
    table: KeyTable,
    numbers: Vec<u32>,
    dictionary: Dictionary<u32>,
}

impl KeyNumbers {
    /// For a few keys, where there are many of these.
    pub(crate) fn few() -> Self {
        Self {
            table: KeyTable::with_room(0),
            ..Self::default()
        }
    }

    /// Numbers there are: one more than the highest.
    pub(crate) fn len(&self) -> usize {
        self.table.len() + 1
    }

    /// The canonical bytes of a key that is not null.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        self.table.key(number as usize - 1)
    }

    /// The number of a key by its canonical bytes.
    pub(crate) fn number(&mut self, key: &[u8]) -> u32 {
        self.table.number_by_call(key) as u32 + 1
    }

    /// Bytes of all keys together.
    pub(crate) fn total_bytes(&self) -> usize {
        self.table.total_bytes()
    }

    /// The number of each value of the column, and how many numbers there are then. Texts may come
    /// as bytes: `kind` says what they are.
    pub(crate) fn of(
        &mut self,
        column: &ArrayRef,
        kind: KeyKind,
    ) -> Result<(&[u32], usize), ArrowError> {
        let Self {
            table,
            numbers,
            dictionary,
        } = self;
        numbers.clear();
        numbers.reserve(column.len());
        if let Some(coded) = column.as_any_dictionary_opt() {
            let of_values = dictionary.of(coded.values(), |values| {
                let mut of_values = Vec::with_capacity(values.len());
                number_values(values, kind, table, |number| of_values.push(number));
                of_values
            });
            each_code(coded.keys(), |code| {
                let number = code.and_then(|code| of_values.get(code)).copied();
                numbers.push(number.unwrap_or(NULL));
            });
        } else {
            number_values(&plain(column)?, kind, table, |number| numbers.push(number));
        }
        Ok((numbers, table.len() + 1))
    }
}

/// The number of the null key.
pub(crate) const NULL: u32 = 0;

/// A column of the keys of these numbers.
pub(crate) fn keys(
    numbers: &KeyNumbers,
    kind: KeyKind,
    data_type: &DataType,
    wanted: Wanted<'_>,
) -> Result<ArrayRef, ArrowError> {
    let mut found = wanted.map(|number| (number != NULL).then(|| numbers.bytes(number)));
    let eight = |bytes: &[u8]| bytes.first_chunk().copied().unwrap_or_default();
    match kind {
        KeyKind::Text | KeyKind::Bytes => build::bytes(data_type, found),
        KeyKind::Form => restored(data_type, found),
        KeyKind::Bool | KeyKind::Integer => build::integers(
            data_type,
            found.map(|key| key.map(|key| i128::from(i64::from_le_bytes(eight(key))))),
        ),
        KeyKind::Unsigned => build::integers(
            data_type,
            found.map(|key| key.map(|key| i128::from(u64::from_le_bytes(eight(key))))),
        ),
        KeyKind::Float => build::floats(
            data_type,
            found.map(|key| key.map(|key| f64::from_le_bytes(eight(key)))),
        ),
        KeyKind::Null => Ok(Arc::new(NullArray::new(found.by_ref().count()))),
    }
}

pub(crate) type Wanted<'a> = &'a mut dyn Iterator<Item = u32>;

fn hash_values(column: &dyn Array, kind: KeyKind, mut visit: impl FnMut(u64)) {
    match kind {
        // Most keys are; of several places, the hash would be called, which takes half as long again.
        KeyKind::Text
            if let Some(texts) = column.as_string_opt::<i32>()
                && texts.nulls().is_none() =>
        {
            let (ends, bytes) = (texts.value_offsets(), texts.value_data());
            for ends in ends.windows(2) {
                visit(hash_utf8(&bytes[ends[0] as usize..ends[1] as usize]));
            }
        }
        KeyKind::Text => each_bytes(column, |value| {
            visit(value.map_or_else(hash_none, hash_utf8));
        }),
        KeyKind::Bytes => each_bytes(column, |value| {
            visit(value.map_or_else(hash_none, hash_bytes));
        }),
        KeyKind::Unsigned => column
            .as_primitive::<UInt64Type>()
            .iter()
            .for_each(|value| visit(value.map_or_else(hash_none, hash_unsigned))),
        KeyKind::Integer | KeyKind::Bool => each_integer(column, |value| {
            visit(value.map_or_else(hash_none, hash_int));
        }),
        KeyKind::Float => each_float(column, |value| {
            visit(value.map_or_else(hash_none, hash_float));
        }),
        KeyKind::Form => each_form(column, |form| {
            visit(form.map_or_else(hash_none, hash_bytes));
        }),
        KeyKind::Null => (0..column.len()).for_each(|_| visit(hash_none())),
    }
}

fn number_values(
    column: &dyn Array,
    kind: KeyKind,
    table: &mut KeyTable,
    mut visit: impl FnMut(u32),
) {
    if table.is_large() && !matches!(kind, KeyKind::Form | KeyKind::Null) {
        let mut numbers = Vec::with_capacity(column.len());
        let mut keys = Vec::with_capacity(column.len());
        match kind {
            KeyKind::Unsigned => {
                let values = column.as_primitive::<UInt64Type>().iter();
                numbers.extend(values.map(|value| value.map(u64::to_le_bytes)));
            }
            KeyKind::Integer | KeyKind::Bool => {
                each_integer(column, |value| numbers.push(value.map(i64::to_le_bytes)));
            }
            KeyKind::Float => each_float(column, |value| {
                numbers.push(value.map(|value| canonical(value).to_le_bytes()));
            }),
            _ => each_bytes(column, |key| keys.push(key)),
        }
        keys.extend(numbers.iter().map(|key| key.as_ref().map(|key| &key[..])));
        table.numbers(&keys, |number| {
            visit(number.map_or(NULL, |number| number as u32 + 1));
        });
        return;
    }
    let mut number = |key: Option<&[u8]>| {
        let number = key.map_or(NULL, |key| table.number(key) as u32 + 1);
        visit(number);
    };
    match kind {
        KeyKind::Text | KeyKind::Bytes => each_bytes(column, number),
        KeyKind::Form => each_form(column, number),
        KeyKind::Unsigned => column
            .as_primitive::<UInt64Type>()
            .iter()
            .for_each(|value| number(value.map(u64::to_le_bytes).as_ref().map(|b| &b[..]))),
        KeyKind::Integer | KeyKind::Bool => each_integer(column, |value| {
            number(value.map(i64::to_le_bytes).as_ref().map(|b| &b[..]));
        }),
        KeyKind::Float => each_float(column, |value| {
            let bytes = value.map(|value| canonical(value).to_le_bytes());
            number(bytes.as_ref().map(|b| &b[..]));
        }),
        KeyKind::Null => (0..column.len()).for_each(|_| number(None)),
    }
}

/// One float for all that are one key.
fn canonical(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else {
        value + 0.0 // -0.0 becomes 0.0
    }
}

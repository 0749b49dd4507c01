//! Keys of one column, or of several, whose values make a tuple.
//!
//! [`kind`] numbers those of one column, and [`dictionary`] is one that results share.

pub(crate) mod dictionary;
pub(crate) mod each;
pub(crate) mod kind;

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, Field};
use oka_compute::table::KeyTable;

use crate::columns::cells::{decoded, split};
use crate::columns::plain::{extension, plain_type};
use crate::keys::dictionary::SharedDictionary;
use crate::keys::kind::{KeyKind, KeyNumbers, Wanted, keys};
use crate::{AggregateError, KeyError};

/// Numbers the keys of rows, and makes columns of keys again.
#[derive(Debug)]
pub(crate) struct Keys {
    columns: Vec<KeyColumn>,
    /// The numbers of the columns' keys as one key, where there are several columns.
    tuples: KeyTable,
    numbers: Vec<u32>,
    /// Columns of the keys from number 1 on, part by part: those who take them share the parts.
    copied: Vec<Vec<ArrayRef>>,
    /// The number behind them.
    next: u32,
}

impl Keys {
    /// For columns of these types.
    pub(crate) fn new(fields: &[&Field]) -> Result<Self, KeyError> {
        let columns = fields.iter().map(|field| KeyColumn::new(field));
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
            tuples: KeyTable::new(),
            numbers: Vec::new(),
            copied: Vec::new(),
            next: 1,
        })
    }

    /// For the same columns, of no rows so far.
    pub(crate) fn without_rows(&self) -> Result<Self, KeyError> {
        Self::new(&self.fields().collect::<Vec<_>>())
    }

    /// The columns of keys in a result.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.columns.iter().map(|column| &column.field)
    }

    /// Whether columns of these types hold such keys, too. Layouts may differ.
    pub(crate) fn suit(&self, fields: &[&Field]) -> Result<bool, KeyError> {
        for (column, field) in self.columns.iter().zip(fields) {
            let types = [field.data_type(), column.field.data_type()].map(plain_type);
            let has_one_layout = column.kind == KeyKind::Form
                || types
                    .iter()
                    .any(|it| matches!(it, DataType::FixedSizeBinary(_)));
            if KeyKind::of_field(field)? != column.kind || (has_one_layout && types[0] != types[1])
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of each row's key, and how many numbers there are then.
    pub(crate) fn of(&mut self, columns: &[ArrayRef]) -> Result<(&[u32], usize), ArrowError> {
        let Self {
            columns: known,
            tuples,
            numbers,
            ..
        } = self;
        if known.len() == 1 {
            let only = &mut known[0];
            return only.numbers.of(&columns[0], only.kind);
        }
        let width = known.len();
        let rows = columns[0].len();
        let mut tuple = vec![0; width * rows * NUMBER_BYTES];
        for (at, (known, column)) in known.iter_mut().zip(columns).enumerate() {
            let (numbers, _) = known.numbers.of(column, known.kind)?;
            let places = tuple.chunks_exact_mut(NUMBER_BYTES).skip(at).step_by(width);
            for (place, number) in places.zip(numbers) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
        numbers.clear();
        let rows = tuple.chunks_exact(width * NUMBER_BYTES);
        numbers.extend(rows.map(|row| tuples.number(row) as u32));
        Ok((numbers, tuples.len()))
    }

    /// Columns of the keys of these numbers. Keys that are text or bytes, or come with a dictionary,
    /// have one.
    pub(crate) fn arrays(&mut self, wanted: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        let numbers = self.inside(wanted);
        let columns = self.columns.iter_mut().zip(numbers);
        columns
            .map(|(column, wanted)| column.array(&wanted))
            .collect()
    }

    /// Columns of the keys of these numbers, without dictionaries, in the widest type of their kind.
    pub(crate) fn plain(&self, wanted: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        let columns = self.columns.iter().zip(self.inside(wanted));
        let plain = |(column, wanted): (&KeyColumn, Cow<'_, [u32]>)| {
            let kind = column.kind;
            let mut wanted = wanted.iter().copied();
            keys(&column.numbers, kind, &kind.widest(), &mut wanted)
        };
        columns.map(plain).collect()
    }

    /// Copies the keys that are new where they are many: [`Self::copy`] then takes less time.
    pub(crate) fn copy_many(&mut self) -> Result<(), ArrowError> {
        if self.len() >= self.next as usize + MANY {
            self.copy_new()?;
        }
        Ok(())
    }

    /// What `plain` gives of these numbers, which ascend, in parts.
    pub(crate) fn copy(&mut self, wanted: &[u32]) -> Result<Vec<Vec<ArrayRef>>, ArrowError> {
        let first = usize::from(wanted.first() == Some(&0));
        if wanted.len() - first + 1 < self.len() {
            return Ok(vec![self.plain(wanted)?]); // a dictionary has keys that no row had
        }
        self.copy_new()?;
        let mut parts = vec![self.plain(&wanted[..first])?];
        parts.extend_from_slice(&self.copied);
        Ok(parts)
    }

    /// What `plain` gives of all numbers, in parts.
    pub(crate) fn copy_all(&mut self) -> Result<Vec<Vec<ArrayRef>>, ArrowError> {
        let all: Vec<_> = (0..self.len() as u32).collect();
        self.copy(&all)
    }

    /// A part of few keys is made again, with those behind it.
    fn copy_new(&mut self) -> Result<(), ArrowError> {
        let all = self.len() as u32;
        if self.next >= all {
            return Ok(());
        }
        let few = |part: &mut Vec<ArrayRef>| part[0].len() < MANY;
        if let Some(last) = self.copied.pop_if(few) {
            self.next -= last[0].len() as u32;
        }
        let new: Vec<_> = (self.next..all).collect();
        self.copied.push(self.plain(&new)?);
        self.next = all;
        Ok(())
    }

    /// Numbers there are: one more than the highest.
    pub(crate) fn len(&self) -> usize {
        match &self.columns[..] {
            [only] => only.numbers.len(),
            _ => self.tuples.len(),
        }
    }

    /// The numbers of keys that were encoded, and how many numbers there are then.
    pub(crate) fn import(&mut self, keys: &[&[u8]]) -> Result<(&[u32], usize), AggregateError> {
        let cells = split(keys, self.columns.len())?;
        let columns = self.columns.iter().zip(&cells);
        let arrays = columns.map(|(column, cells)| decoded(&column.kind.widest(), cells));
        Ok(self.of(&arrays.collect::<Result<Vec<_>, _>>()?)?)
    }

    /// For each column, the numbers that its keys have in the keys of these numbers.
    fn inside<'a>(&self, wanted: &'a [u32]) -> Vec<Cow<'a, [u32]>> {
        if self.columns.len() == 1 {
            return vec![Cow::Borrowed(wanted)];
        }
        let inside = |at: usize| {
            let number = move |number: &u32| {
                let (numbers, _) = self
                    .tuples
                    .key(*number as usize)
                    .as_chunks::<NUMBER_BYTES>();
                u32::from_le_bytes(numbers[at])
            };
            wanted.iter().map(number).collect()
        };
        (0..self.columns.len()).map(inside).collect()
    }
}

/// So many keys are worth a part of their own.
const MANY: usize = 1 << 12;
const NUMBER_BYTES: usize = size_of::<u32>();

#[derive(Debug)]
struct KeyColumn {
    kind: KeyKind,
    /// Name and type in a result.
    field: Field,
    numbers: KeyNumbers,
    dictionary: SharedDictionary,
}

impl KeyColumn {
    fn new(field: &Field) -> Result<Self, KeyError> {
        let kind = KeyKind::of_field(field)?;
        let extension = extension(field);
        let values = plain_type(field.data_type());
        let is_coded = matches!(field.data_type(), DataType::Dictionary(..))
            || matches!(kind, KeyKind::Text | KeyKind::Bytes);
        let data_type = if is_coded && extension.is_empty() {
            // Numbers of keys are the codes, and there may be many.
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.clone()))
        } else {
            values.clone()
        };
        Ok(Self {
            kind,
            field: Field::new(field.name(), data_type, true).with_metadata(extension),
            numbers: KeyNumbers::default(),
            dictionary: SharedDictionary::default(),
        })
    }

    fn array(&mut self, wanted: &[u32]) -> Result<ArrayRef, ArrowError> {
        let (numbers, kind) = (&self.numbers, self.kind);
        match self.field.data_type() {
            DataType::Dictionary(_, values) => {
                let keys = |wanted: Wanted<'_>| keys(numbers, kind, values, wanted);
                self.dictionary.column(wanted, numbers, keys)
            }
            plain => keys(numbers, kind, plain, &mut wanted.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use std::sync::Arc;

    #[test]
    fn keys_that_come_one_by_one_are_in_few_parts() {
        let mut keys = Keys::new(&[&Field::new("n", DataType::Int64, false)]).unwrap();
        for last in 0..500 {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![last]));
            let (_, count) = keys.of(&[column]).unwrap();
            let all: Vec<_> = (1..count as u32).collect();
            let parts = keys.copy(&all).unwrap();
            assert!(parts.len() <= 2, "{} parts", parts.len()); // one is for rows without a key
            let copied = parts
                .iter()
                .flat_map(|part| part[0].as_primitive::<Int64Type>().values());
            assert!(copied.copied().eq(0..=last), "{last}");
        }
    }
}

//! All values of each key, of any type.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, UInt32Array, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use oka_compute::{ByteStrings, encode, kept};

use crate::AggregateError;
use crate::columns::build;
use crate::columns::cells::{NIL, decoded, encoded};
use crate::columns::compact::compact;

/// Values by the number of their key, in the order in which they came. Nulls are none.
///
/// Invariant: nothing is kept of the memory that a column came in, which may be a channel's.
#[derive(Debug)]
pub(crate) struct Lists {
    data_type: DataType,
    /// In which of `arrays` each value of a key is, and in which row.
    of_keys: Vec<Vec<(u32, u32)>>,
    /// The first has values of many columns, each of the others those of one.
    arrays: Vec<ArrayRef>,
}

impl Lists {
    /// For a column of this type, and the type of the results.
    pub(crate) fn of(column: &DataType) -> (Self, DataType) {
        let lists = Self {
            data_type: column.clone(),
            of_keys: Vec::new(),
            arrays: vec![new_empty_array(column)],
        };
        let item = Field::new_list_field(column.clone(), false);
        (lists, DataType::List(Arc::new(item)))
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.of_keys.resize(keys, Vec::new());
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, keys: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let nulls = column.logical_nulls();
        let is_there = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows: Vec<_> = (0..keys.len()).filter(|row| is_there(*row)).collect();
        let keys = rows.iter().map(|row| keys[*row]);
        let keys: Vec<_> = keys.collect();
        let rows = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
        self.push(keys.into_iter(), &take(column, &rows, None)?)
    }

    /// Takes in under these numbers of keys what others have under those.
    pub(crate) fn merge(
        &mut self,
        keys: &[u32],
        others: &Self,
        theirs: &[u32],
    ) -> Result<(), ArrowError> {
        let (values, lengths) = others.values(theirs)?;
        let keys = keys.iter().zip(lengths);
        let keys = keys.flat_map(|(key, length)| std::iter::repeat_n(*key, length));
        self.push(keys, &values)
    }

    /// Goes on with what [`Self::copy`] gave of keys.
    pub(crate) fn import(&mut self, keys: &[u32], cells: &[&[u8]]) -> Result<(), AggregateError> {
        let (mut owners, mut items) = (Vec::new(), Vec::new());
        for (key, cell) in keys.iter().zip(cells).filter(|it| **it.1 != NIL) {
            for item in kept::items(cell)? {
                owners.push(*key);
                items.push(item);
            }
        }
        let values = decoded(&self.data_type, &items)?;
        Ok(self.push(owners.into_iter(), &values)?)
    }

    /// What is kept of the keys of these numbers.
    pub(crate) fn copy(&self, keys: &[u32]) -> Result<CopiedLists, ArrowError> {
        let (values, lengths) = self.values(keys)?;
        Ok(CopiedLists { values, lengths })
    }

    /// The results of the keys of these numbers.
    pub(crate) fn take(&self, keys: &[u32], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let DataType::List(item) = data_type else {
            return Err(ArrowError::NotYetImplemented(data_type.to_string()));
        };
        let (values, lengths) = self.values(keys)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(item),
            offsets,
            values,
            None,
        )?))
    }

    /// Takes in values, each with its key.
    fn push(
        &mut self,
        keys: impl Iterator<Item = u32>,
        values: &ArrayRef,
    ) -> Result<(), ArrowError> {
        if values.is_empty() {
            return Ok(());
        }
        let array = self.arrays.len() as u32;
        for (row, key) in (0..).zip(keys) {
            self.of_keys[key as usize].push((array, row));
        }
        let values = compact(values)?;
        self.arrays.push(build::checked(values, &self.data_type)?);
        // Each joining copies all: not so often that it costs more than what it joins.
        if self.arrays.len() > FEWEST_JOINED + self.arrays[0].len() / ROWS_PER_ARRAY {
            self.join()?;
        }
        Ok(())
    }

    /// Has all values in one array, those of a key together.
    fn join(&mut self) -> Result<(), ArrowError> {
        let keys: Vec<_> = (0..self.of_keys.len() as u32).collect();
        let (values, _) = self.values(&keys)?;
        let mut rows = 0..;
        for place in self.of_keys.iter_mut().flatten() {
            *place = (0, rows.next().unwrap_or_default());
        }
        self.arrays = vec![values];
        Ok(())
    }

    /// The values of the keys of these numbers, and how many each has.
    fn values(&self, keys: &[u32]) -> Result<(ArrayRef, Vec<usize>), ArrowError> {
        let of_keys = || keys.iter().map(|key| &self.of_keys[*key as usize]);
        let places = of_keys().flatten();
        let places: Vec<_> = places
            .map(|(array, row)| (*array as usize, *row as usize))
            .collect();
        let arrays: Vec<_> = self.arrays.iter().map(|array| &**array).collect();
        let values = interleave(&arrays, &places)?;
        Ok((values, of_keys().map(Vec::len).collect()))
    }
}

/// A copy of the values of some keys.
#[derive(Debug)]
pub(crate) struct CopiedLists {
    values: ArrayRef,
    lengths: Vec<usize>,
}

impl CopiedLists {
    /// For each key an array of its values.
    pub(crate) fn encode(&self) -> Result<ByteStrings, AggregateError> {
        let values = encoded(&self.values)?;
        let mut cells = ByteStrings::with_room(self.lengths.len(), 0);
        let mut next = 0;
        for length in &self.lengths {
            cells.push_with(|out| {
                encode::array(out, *length);
                for place in next..next + length {
                    out.extend_from_slice(values.get(place));
                }
            });
            next += length;
        }
        Ok(cells)
    }
}

const FEWEST_JOINED: usize = 64;
const ROWS_PER_ARRAY: usize = 1024;

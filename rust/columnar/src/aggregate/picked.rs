//! The first or the last value of each key, of any type.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::columns::build;
use crate::columns::compact::compact;

/// Values by the number of their key: rows that were picked out of columns, the first of a key or the
/// last so far. Nulls are none.
///
/// Invariant: nothing is kept of the memory that a column came in, which may be a channel's.
#[derive(Debug)]
pub(crate) struct Picked {
    /// Type of the column; texts come as bytes.
    data_type: DataType,
    /// In which of `arrays` a key's value is, and in which row.
    places: Vec<Option<(u32, u32)>>,
    /// The first begins with a null and has values of many columns, each of the others those of one.
    arrays: Vec<ArrayRef>,
    /// Whether later values count.
    last: bool,
    /// The keys whose values came with the last column.
    changed: Vec<u32>,
}

impl Picked {
    pub(crate) fn new(data_type: &DataType, last: bool) -> Self {
        Self {
            data_type: data_type.clone(),
            places: Vec::new(),
            arrays: vec![new_null_array(data_type, 1)],
            last,
            changed: Vec::new(),
        }
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.places.resize(keys, None);
    }

    /// The numbers of the keys whose values came with the last column.
    pub(crate) fn changed(&self) -> &[u32] {
        &self.changed
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, numbers: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let array = self.arrays.len() as u32;
        let nulls = column.logical_nulls();
        let is_there = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let mut rows = Vec::new();
        self.changed.clear();
        let mut pick = |row: usize, counts: fn(Option<(u32, u32)>, u32) -> bool| {
            let place = &mut self.places[numbers[row] as usize];
            if counts(*place, array) && is_there(row) {
                *place = Some((array, rows.len() as u32));
                rows.push(row as u32);
                self.changed.push(numbers[row]);
            }
        };
        if self.last {
            let is_later = |place: Option<(u32, u32)>, array| place.is_none_or(|at| at.0 != array);
            (0..numbers.len()).rev().for_each(|row| pick(row, is_later));
        } else {
            (0..numbers.len()).for_each(|row| pick(row, |place, _| place.is_none()));
        }
        if !rows.is_empty() {
            let values = compact(&take(column, &UInt32Array::from(rows), None)?)?;
            self.arrays.push(build::checked(values, &self.data_type)?);
            // Each joining copies all: not so often that it costs more than what it joins.
            if self.arrays.len() > FEWEST_JOINED + self.arrays[0].len() / ROWS_PER_ARRAY {
                self.join()?;
            }
        }
        Ok(())
    }

    /// The values of the keys of these numbers.
    pub(crate) fn take(&self, numbers: &[u32]) -> Result<ArrayRef, ArrowError> {
        let place = |number: &u32| {
            let (array, row) = self.places[*number as usize].unwrap_or(NO_PLACE);
            (array as usize, row as usize)
        };
        let wanted: Vec<_> = numbers.iter().map(place).collect();
        let last = self.arrays.len() - 1;
        if wanted
            .iter()
            .copied()
            .eq((0..self.arrays[last].len()).map(|row| (last, row)))
        {
            return Ok(Arc::clone(&self.arrays[last])); // what the last column brought
        }
        interleave(&self.slices(), &wanted)
    }

    /// Keeps the values that count, in one array.
    fn join(&mut self) -> Result<(), ArrowError> {
        let place = |(array, row): (u32, u32)| (array as usize, row as usize);
        let kept = self.places.iter().flatten().copied();
        let kept: Vec<_> = [NO_PLACE].into_iter().chain(kept).map(place).collect();
        let joined = compact(&interleave(&self.slices(), &kept)?)?;
        for (place, row) in self.places.iter_mut().flatten().zip(1..) {
            *place = (0, row);
        }
        self.arrays = vec![joined];
        Ok(())
    }

    fn slices(&self) -> Vec<&dyn Array> {
        self.arrays.iter().map(|array| &**array).collect()
    }
}

/// Where the null is.
const NO_PLACE: (u32, u32) = (0, 0);
const FEWEST_JOINED: usize = 64;
const ROWS_PER_ARRAY: usize = 1024;

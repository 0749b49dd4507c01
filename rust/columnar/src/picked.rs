//! The first or the last value of each key, of any type.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::build;

/// Values by the number of their key: rows that were picked out of columns, the first of a key or the
/// last so far.
#[derive(Debug)]
pub(crate) struct Picked {
    /// Type of the column; texts come as bytes.
    data_type: DataType,
    /// In which of `arrays` a key's value is, and in which row.
    places: Vec<Option<(u32, u32)>>,
    /// The first has those of many columns, each of the others those of one.
    arrays: Vec<ArrayRef>,
    /// Whether later values count.
    last: bool,
}

impl Picked {
    pub(crate) fn new(data_type: &DataType, last: bool) -> Self {
        Self {
            data_type: data_type.clone(),
            places: Vec::new(),
            arrays: vec![new_empty_array(data_type)],
            last,
        }
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.places.resize(keys, None);
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, numbers: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let array = self.arrays.len() as u32;
        let mut rows = Vec::new();
        let mut pick = |row: usize, counts: fn(Option<(u32, u32)>, u32) -> bool| {
            let place = &mut self.places[numbers[row] as usize];
            if counts(*place, array) {
                *place = Some((array, rows.len() as u32));
                rows.push(row as u32);
            }
        };
        if self.last {
            let is_later = |place: Option<(u32, u32)>, array| place.is_none_or(|at| at.0 != array);
            (0..numbers.len()).rev().for_each(|row| pick(row, is_later));
        } else {
            (0..numbers.len()).for_each(|row| pick(row, |place, _| place.is_none()));
        }
        if !rows.is_empty() {
            let values = take(column, &UInt32Array::from(rows), None)?;
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
            let (array, row) = self.places[*number as usize].unwrap_or_default();
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
        let kept: Vec<_> = self.places.iter().flatten().copied().map(place).collect();
        let joined = interleave(&self.slices(), &kept)?;
        for (place, row) in self.places.iter_mut().flatten().zip(0..) {
            *place = (0, row);
        }
        self.arrays = vec![joined];
        Ok(())
    }

    fn slices(&self) -> Vec<&dyn Array> {
        self.arrays.iter().map(|array| &**array).collect()
    }
}

const FEWEST_JOINED: usize = 64;
const ROWS_PER_ARRAY: usize = 1024;

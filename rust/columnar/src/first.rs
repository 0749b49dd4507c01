//! The first value of each key, of any type.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::build;

/// Values by the number of their key: rows that were picked out of columns as keys appeared.
#[derive(Debug)]
pub(crate) struct Firsts {
    /// Type of the column; texts come as bytes.
    data_type: DataType,
    /// In which of `arrays` a key's value is, and in which row.
    places: Vec<Option<(u32, u32)>>,
    /// The first has those of many columns, each of the others those of one.
    arrays: Vec<ArrayRef>,
}

impl Firsts {
    pub(crate) fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            places: Vec::new(),
            arrays: vec![new_empty_array(data_type)],
        }
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.places.resize(keys, None);
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, numbers: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let array = self.arrays.len() as u32;
        let mut rows = Vec::new();
        for (row, number) in (0_u32..).zip(numbers) {
            let place = &mut self.places[*number as usize];
            if place.is_none() {
                *place = Some((array, rows.len() as u32));
                rows.push(row);
            }
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

    fn join(&mut self) -> Result<(), ArrowError> {
        let mut starts = Vec::with_capacity(self.arrays.len());
        let mut rows = 0;
        for array in &self.arrays {
            starts.push(rows);
            rows += array.len() as u32;
        }
        for place in self.places.iter_mut().flatten() {
            *place = (0, starts[place.0 as usize] + place.1);
        }
        self.arrays = vec![concat(&self.slices())?];
        Ok(())
    }

    fn slices(&self) -> Vec<&dyn Array> {
        self.arrays.iter().map(|array| &**array).collect()
    }
}

const FEWEST_JOINED: usize = 64;
const ROWS_PER_ARRAY: usize = 1024;

//! All numbers of each key, of which quantiles are asked for.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field};
use oka_compute::{Accumulated, Aggregation, Problem, quantiles};

use crate::aggregate::values::each_number;
use crate::columns::cells::{NIL, kind};
use crate::keys::each::each_float;

/// Numbers by the number of their key; nulls are none.
#[derive(Debug)]
pub(crate) struct Numbers {
    shares: Box<[f64]>,
    of_keys: Vec<Vec<f64>>,
}

impl Numbers {
    /// For a column of this type, and the type of the results; `None` if it has no numbers.
    pub(crate) fn of(
        aggregation: Aggregation,
        column: &DataType,
        shares: &[f64],
    ) -> Option<(Self, DataType)> {
        kind(column)?;
        let data_type = match aggregation {
            _ if *column != DataType::Boolean && !column.is_numeric() => return None,
            Aggregation::Quantile => DataType::Float64,
            Aggregation::Quantiles => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Float64, false)))
            }
            _ => return None,
        };
        let numbers = Self {
            shares: shares.into(),
            of_keys: Vec::new(),
        };
        Some((numbers, data_type))
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.of_keys.resize(keys, Vec::new());
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, keys: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let mut keys = keys.iter();
        let mut push = |number: Option<f64>| {
            if let (Some(key), Some(number)) = (keys.next(), number) {
                self.of_keys[*key as usize].push(number);
            }
        };
        if column.data_type().is_floating() {
            each_float(column, push);
            return Ok(());
        }
        each_number(column, |number| push(number.map(|number| number as f64)))
    }

    /// Takes in under these numbers of keys what others have under those.
    pub(crate) fn merge(&mut self, keys: &[u32], others: &Self, theirs: &[u32]) {
        for (key, from) in keys.iter().zip(theirs) {
            self.of_keys[*key as usize].extend_from_slice(&others.of_keys[*from as usize]);
        }
    }

    /// Goes on with what was kept of keys.
    pub(crate) fn import(&mut self, keys: &[u32], cells: &[&[u8]]) -> Result<(), Problem> {
        for (key, cell) in keys.iter().zip(cells).filter(|it| **it.1 != NIL) {
            match Accumulated::decode(Aggregation::Quantiles, cell)? {
                Accumulated::Numbers(numbers) => self.of_keys[*key as usize] = numbers,
                _ => return Err(Problem::Mixed),
            }
        }
        Ok(())
    }

    /// The numbers of the keys of these numbers; `None` where there are none.
    pub(crate) fn copy(&self, keys: &[u32]) -> Vec<Option<Accumulated>> {
        let own = keys.iter().map(|key| &self.of_keys[*key as usize]);
        own.map(|own| (!own.is_empty()).then(|| Accumulated::Numbers(own.clone())))
            .collect()
    }

    /// The results of the keys of these numbers.
    pub(crate) fn take(&self, keys: &[u32], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let found = keys
            .iter()
            .map(|key| match &self.of_keys[*key as usize][..] {
                [] => Vec::new(),
                own => quantiles(own, &self.shares),
            });
        let DataType::List(item) = data_type else {
            let first = found.map(|of_shares| of_shares.first().copied());
            return Ok(Arc::new(first.collect::<Float64Array>()));
        };
        let found: Vec<_> = found.collect();
        let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
        let numbers: ArrayRef = Arc::new(Float64Array::from(found.concat()));
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(item),
            offsets,
            numbers,
            None,
        )?))
    }
}

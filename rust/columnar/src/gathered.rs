//! What is gathered of each key's values: numbers for quantiles, or how often each value came.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use oka_compute::{Accumulated, Aggregation, quantiles};

use crate::AggregateError;
use crate::build::unchecked;
use crate::cells::{decoded, each_cell, kind};

/// Values by the number of their key; `None` where a key had only nulls.
#[derive(Debug)]
pub(crate) struct Gathered {
    aggregation: Aggregation,
    /// The shares of quantiles, or how many values are wanted.
    parameters: Box<[f64]>,
    values: Vec<Option<Accumulated>>,
}

impl Gathered {
    /// For a column of this type, and the type of the results; `None` if it has no such values.
    pub(crate) fn of(
        aggregation: Aggregation,
        column: &DataType,
        parameters: &[f64],
    ) -> Option<(Self, DataType)> {
        kind(column)?;
        let is_number = *column == DataType::Boolean || column.is_numeric();
        let data_type = match aggregation {
            Aggregation::CountDistinct => DataType::Int64,
            Aggregation::Top => {
                let fields = [("value", column.clone()), ("count", DataType::Int64)];
                let fields = fields.map(|(name, kind)| Field::new(name, kind, false));
                list(DataType::Struct(Fields::from_iter(fields)))
            }
            Aggregation::Quantile if is_number => DataType::Float64,
            Aggregation::Quantiles if is_number => list(DataType::Float64),
            _ => return None,
        };
        let gathered = Self {
            aggregation,
            parameters: parameters.into(),
            values: Vec::new(),
        };
        Some((gathered, data_type))
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.values.resize(keys, None);
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Accumulated> {
        self.values[slot].as_ref()
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(
        &mut self,
        numbers: &[u32],
        column: &ArrayRef,
    ) -> Result<(), AggregateError> {
        let (aggregation, mut numbers, mut wrong) = (self.aggregation, numbers.iter(), None);
        // Texts are bytes in a column that was read in place, and texts out of a dictionary or runs.
        each_cell(&unchecked(column), |cell| {
            let (Some(number), Some(cell)) = (numbers.next(), cell) else {
                return;
            };
            let taken = match &mut self.values[*number as usize] {
                Some(value) => value.add(aggregation, cell).map(drop),
                none => Accumulated::first(aggregation, cell).map(|value| *none = Some(value)),
            };
            if let Err(problem) = taken {
                wrong = Some(problem);
            }
        })?;
        wrong.map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// Takes in under one number what others have under another.
    pub(crate) fn merge(
        &mut self,
        slot: usize,
        others: &Self,
        from: usize,
    ) -> Result<(), AggregateError> {
        match (&mut self.values[slot], &others.values[from]) {
            (_, None) => {}
            (Some(value), Some(other)) => value.merge(self.aggregation, other)?,
            (none, some) => none.clone_from(some),
        }
        Ok(())
    }

    /// Goes on with what was kept of a key.
    pub(crate) fn import(&mut self, slot: usize, cell: &[u8]) -> Result<(), AggregateError> {
        if *cell != [0xc0] {
            self.values[slot] = Some(Accumulated::decode(self.aggregation, cell)?);
        }
        Ok(())
    }

    /// The results of the keys of these numbers.
    pub(crate) fn take(
        &self,
        slots: impl Iterator<Item = usize>,
        data_type: &DataType,
    ) -> Result<ArrayRef, AggregateError> {
        let values = slots.map(|slot| self.values[slot].as_ref());
        Ok(match (self.aggregation, data_type) {
            (Aggregation::Top, DataType::List(item)) => self.tops(values, item)?,
            (Aggregation::Quantiles, DataType::List(item)) => {
                let found: Vec<_> = values.map(|value| self.quantiles(value)).collect();
                let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
                let numbers: ArrayRef = Arc::new(Float64Array::from(found.concat()));
                Arc::new(ListArray::try_new(
                    Arc::clone(item),
                    offsets,
                    numbers,
                    None,
                )?)
            }
            (Aggregation::Quantile, _) => {
                let first = |value| self.quantiles(value).first().copied();
                Arc::new(values.map(first).collect::<Float64Array>())
            }
            _ => {
                let count = |value: Option<&Accumulated>| match value {
                    Some(Accumulated::Tally(tally)) => tally.len() as i64,
                    _ => 0,
                };
                Arc::new(Int64Array::from_iter_values(values.map(count)))
            }
        })
    }

    fn quantiles(&self, value: Option<&Accumulated>) -> Vec<f64> {
        match value {
            Some(Accumulated::Numbers(numbers)) => quantiles(numbers, &self.parameters),
            _ => Vec::new(),
        }
    }

    fn tops<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a Accumulated>>,
        item: &Arc<Field>,
    ) -> Result<ArrayRef, AggregateError> {
        let most = self.parameters.first().map_or(0, |most| *most as usize);
        let top = |value: Option<&'a Accumulated>| match value {
            Some(Accumulated::Tally(tally)) => tally.top(most),
            _ => Vec::new(),
        };
        let DataType::Struct(fields) = item.data_type() else {
            return Err(ArrowError::NotYetImplemented(item.to_string()).into());
        };
        let found: Vec<_> = values.map(top).collect();
        let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
        let (cells, counts): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
        let counts = counts.into_iter().map(|count| count as i64);
        let columns: Vec<ArrayRef> = vec![
            decoded(fields[0].data_type(), &cells)?,
            Arc::new(Int64Array::from_iter_values(counts)),
        ];
        let rows = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(item),
            offsets,
            rows,
            None,
        )?))
    }
}

fn list(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, false)))
}

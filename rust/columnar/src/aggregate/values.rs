//! The value of each key so far, by the key's number.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_schema::{ArrowError, DataType};
use oka_compute::{Accumulated, Aggregation, Problem, integer_mean, integral};

use crate::AggregateError;
use crate::aggregate::copied::CopiedValues;
use crate::aggregate::distinct::Distinct;
use crate::aggregate::folded::Folded;
use crate::aggregate::lists::Lists;
use crate::aggregate::numbers::Numbers;
use crate::aggregate::picked::Picked;
use crate::columns::build;
use crate::columns::cells::{decoded, each};
use crate::columns::plain::plain_type;
use crate::keys::each::{each_bytes, each_float, each_integer};

/// What there is per key; `None` where a key had only nulls.
#[derive(Debug)]
pub(crate) enum Values {
    Count(Vec<i64>),
    Integers(Vec<Option<i128>>),
    Floats(Vec<Option<f64>>),
    Bytes(Vec<Option<Box<[u8]>>>),
    /// Counts and sums.
    IntegerMeans(Vec<(u64, i128)>),
    FloatMeans(Vec<(u64, f64)>),
    /// First or last ones.
    Picked(Picked),
    /// All, of which quantiles are asked for.
    Numbers(Numbers),
    Distinct(Box<Distinct>),
    /// All values.
    Lists(Lists),
    /// Moments and sketches.
    Folded(Folded),
}

impl Values {
    /// For a column of this type, and the type of the results; `None` if it has no such values.
    ///
    /// `parameters` are the shares of quantiles, or how many values are wanted.
    pub(crate) fn of(
        aggregation: Aggregation,
        column: &DataType,
        parameters: &[f64],
    ) -> Option<(Self, DataType)> {
        let column = plain_type(column);
        let ordered = match aggregation {
            Aggregation::Count => return Some((Self::Count(Vec::new()), DataType::Int64)),
            Aggregation::Sum => false,
            Aggregation::Min | Aggregation::Max => true,
            Aggregation::Mean => {
                let values = match column {
                    DataType::Boolean => Self::IntegerMeans(Vec::new()),
                    kind if kind.is_integer() => Self::IntegerMeans(Vec::new()),
                    kind if kind.is_floating() => Self::FloatMeans(Vec::new()),
                    _ => return None,
                };
                return Some((values, DataType::Float64));
            }
            Aggregation::First | Aggregation::Last => {
                let last = aggregation == Aggregation::Last;
                return Some((Self::Picked(Picked::new(column, last)), column.clone()));
            }
            Aggregation::Quantile | Aggregation::Quantiles => {
                let (numbers, data_type) = Numbers::of(aggregation, column, parameters)?;
                return Some((Self::Numbers(numbers), data_type));
            }
            Aggregation::CountDistinct | Aggregation::Top => {
                let (distinct, data_type) = Distinct::of(aggregation, column, parameters)?;
                return Some((Self::Distinct(Box::new(distinct)), data_type));
            }
            Aggregation::BoolAnd | Aggregation::BoolOr => {
                let is_bool = *column == DataType::Boolean;
                return is_bool.then(|| (Self::Integers(Vec::new()), DataType::Boolean));
            }
            Aggregation::BitAnd | Aggregation::BitOr | Aggregation::BitXor => {
                let is_suitable = *column == DataType::Boolean || column.is_integer();
                return is_suitable.then(|| (Self::Integers(Vec::new()), column.clone()));
            }
            Aggregation::Array => {
                let (lists, data_type) = Lists::of(column);
                return Some((Self::Lists(lists), data_type));
            }
            _ => {
                let (folded, data_type) = Folded::of(aggregation, column, parameters)?;
                return Some((Self::Folded(folded), data_type));
            }
        };
        let kept = |data_type| if ordered { column.clone() } else { data_type };
        match column {
            DataType::Boolean => Some((Self::Integers(Vec::new()), kept(DataType::Int64))),
            kind if kind.is_unsigned_integer() => {
                Some((Self::Integers(Vec::new()), kept(DataType::UInt64)))
            }
            kind if kind.is_integer() => Some((Self::Integers(Vec::new()), kept(DataType::Int64))),
            kind if kind.is_floating() => Some((Self::Floats(Vec::new()), kept(DataType::Float64))),
            kind if ordered && build::physical(kind).is_some() => {
                Some((Self::Integers(Vec::new()), kind.clone()))
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
                if ordered =>
            {
                Some((Self::Bytes(Vec::new()), column.clone()))
            }
            _ => None,
        }
    }

    /// Makes room for this many keys.
    pub(crate) fn resize(&mut self, keys: usize) {
        match self {
            Self::Count(values) => values.resize(keys, 0),
            Self::Integers(values) => values.resize(keys, None),
            Self::Floats(values) => values.resize(keys, None),
            Self::Bytes(values) => values.resize(keys, None),
            Self::IntegerMeans(values) => values.resize(keys, (0, 0)),
            // To -0.0 every number is added unchanged.
            Self::FloatMeans(values) => values.resize(keys, (0, -0.0)),
            Self::Picked(values) => values.resize(keys),
            Self::Numbers(values) => values.resize(keys),
            Self::Distinct(values) => values.resize(keys),
            Self::Lists(values) => values.resize(keys),
            Self::Folded(values) => values.resize(keys),
        }
    }

    /// Where these are first values, the numbers of the keys that have theirs since the last column.
    pub(crate) fn changed(&self) -> &[u32] {
        match self {
            Self::Picked(values) => values.changed(),
            _ => &[],
        }
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(
        &mut self,
        aggregation: Aggregation,
        numbers: &[u32],
        column: &ArrayRef,
    ) -> Result<(), AggregateError> {
        let wanted = match aggregation {
            Aggregation::Min | Aggregation::BoolAnd => Ordering::Less,
            _ => Ordering::Greater,
        };
        let bitwise = bitwise(aggregation);
        let mut slots = numbers.iter().map(|number| *number as usize);
        let mut slot = || slots.next().unwrap_or_default();
        match self {
            Self::Picked(values) => values.update(numbers, column)?,
            Self::Numbers(values) => values.update(numbers, column)?,
            Self::Distinct(values) => values.update(numbers, column)?,
            Self::Lists(values) => values.update(numbers, column)?,
            Self::Folded(values) => values.update(numbers, column)?,
            Self::Count(values) => slots.for_each(|slot| values[slot] += 1),
            Self::Integers(values) => {
                let mut overflow = false;
                each_number(column, |value| {
                    let (slot, Some(value)) = (&mut values[slot()], value) else {
                        return;
                    };
                    match *slot {
                        None => *slot = Some(value),
                        Some(so_far) if aggregation == Aggregation::Sum => {
                            overflow |= so_far.checked_add(value).is_none();
                            *slot = Some(so_far.wrapping_add(value));
                        }
                        Some(so_far) if let Some(bitwise) = bitwise => {
                            *slot = Some(bitwise(so_far, value));
                        }
                        Some(so_far) if value.cmp(&so_far) == wanted => *slot = Some(value),
                        Some(_) => {}
                    }
                })?;
                if overflow {
                    return Err(overflown().into());
                }
            }
            Self::IntegerMeans(values) => {
                let mut overflow = false;
                each_number(column, |value| {
                    if let ((count, sum), Some(value)) = (&mut values[slot()], value) {
                        *count += 1;
                        overflow |= sum.checked_add(value).is_none();
                        *sum = sum.wrapping_add(value);
                    }
                })?;
                if overflow {
                    return Err(overflown().into());
                }
            }
            Self::FloatMeans(values) => each_float(column, |value| {
                if let ((count, sum), Some(value)) = (&mut values[slot()], value) {
                    *count += 1;
                    *sum += value;
                }
            }),
            Self::Floats(values) => each_float(column, |value| {
                let (slot, Some(value)) = (&mut values[slot()], value) else {
                    return;
                };
                match *slot {
                    None => *slot = Some(value),
                    Some(so_far) if aggregation == Aggregation::Sum => *slot = Some(so_far + value),
                    Some(so_far) if value.partial_cmp(&so_far) == Some(wanted) => {
                        *slot = Some(value);
                    }
                    Some(_) => {}
                }
            }),
            Self::Bytes(values) => each_bytes(column, |value| {
                let (slot, Some(value)) = (&mut values[slot()], value) else {
                    return;
                };
                if slot
                    .as_deref()
                    .is_none_or(|so_far| value.cmp(so_far) == wanted)
                {
                    *slot = Some(value.into());
                }
            }),
        }
        Ok(())
    }

    /// Takes in values of others, for keys that have these numbers here; those here come first.
    pub(crate) fn merge(
        &mut self,
        aggregation: Aggregation,
        numbers: &[u32],
        (others, theirs, data_type): (&Self, &[u32], &DataType),
    ) -> Result<(), AggregateError> {
        let slots = || numbers.iter().map(|number| *number as usize);
        let from = || theirs.iter().map(|number| *number as usize);
        match (self, others) {
            (Self::Count(values), Self::Count(others)) => {
                for (slot, from) in slots().zip(from()) {
                    values[slot] += others[from];
                }
            }
            (Self::IntegerMeans(values), Self::IntegerMeans(others)) => {
                for (slot, from) in slots().zip(from()) {
                    let ((count, sum), (more, other)) = (&mut values[slot], others[from]);
                    *count += more;
                    *sum = sum.checked_add(other).ok_or_else(overflown)?;
                }
            }
            (Self::FloatMeans(values), Self::FloatMeans(others)) => {
                for (slot, from) in slots().zip(from()) {
                    values[slot].0 += others[from].0;
                    values[slot].1 += others[from].1;
                }
            }
            (Self::Integers(values), Self::Integers(others)) => {
                for (slot, from) in slots().zip(from()) {
                    let Some(value) = others[from] else { continue };
                    values[slot] = Some(match values[slot] {
                        None => value,
                        Some(so_far) => match aggregation {
                            Aggregation::Sum => so_far.checked_add(value).ok_or_else(overflown)?,
                            Aggregation::Min | Aggregation::BoolAnd => so_far.min(value),
                            Aggregation::Max | Aggregation::BoolOr => so_far.max(value),
                            _ => bitwise(aggregation).map_or(value, |of| of(so_far, value)),
                        },
                    });
                }
            }
            (Self::Numbers(values), Self::Numbers(others)) => values.merge(numbers, others, theirs),
            (Self::Distinct(values), Self::Distinct(others)) => {
                values.merge(numbers, others, theirs);
            }
            (Self::Lists(values), Self::Lists(others)) => values.merge(numbers, others, theirs)?,
            (Self::Folded(values), Self::Folded(others)) => {
                values.merge(numbers, others, theirs)?;
            }
            // As if the values of others were a column.
            (values, others) => {
                let column = others.take(theirs, data_type)?;
                values.update(aggregation, numbers, &column)?;
            }
        }
        Ok(())
    }

    /// What is kept of the keys of these numbers: a mean as the pair of sum and count.
    pub(crate) fn copy(
        &self,
        numbers: &[u32],
        data_type: &DataType,
    ) -> Result<CopiedValues, AggregateError> {
        let slots = numbers.iter().map(|number| *number as usize);
        Ok(match self {
            Self::Integers(values) => {
                // Of a quarter of the size: most are small, and new memory takes time.
                let mut small = Vec::with_capacity(numbers.len());
                let narrow = |slot: usize| values[slot].and_then(|value| i64::try_from(value).ok());
                small.extend(slots.clone().map_while(narrow));
                if small.len() == numbers.len() {
                    CopiedValues::Column(Arc::new(Int64Array::from(small)))
                } else {
                    CopiedValues::Integers(slots.map(|slot| values[slot]).collect())
                }
            }
            Self::IntegerMeans(values) => {
                CopiedValues::IntegerMeans(slots.map(|slot| values[slot]).collect())
            }
            Self::FloatMeans(values) => {
                CopiedValues::FloatMeans(slots.map(|slot| values[slot]).collect())
            }
            Self::Numbers(values) => CopiedValues::Folded(values.copy(numbers)),
            Self::Distinct(values) => CopiedValues::Distinct(values.copy(numbers)?),
            Self::Lists(values) => CopiedValues::Lists(values.copy(numbers)?),
            Self::Folded(values) => CopiedValues::Folded(values.copy(numbers)),
            _ => CopiedValues::Column(self.take(numbers, data_type)?),
        })
    }

    /// Goes on with what [`Self::copy`] gave, for keys that had no value so far.
    pub(crate) fn import(
        &mut self,
        numbers: &[u32],
        cells: &[&[u8]],
        data_type: &DataType,
    ) -> Result<(), AggregateError> {
        let slots = numbers.iter().map(|number| *number as usize);
        let mean = |cell| Accumulated::decode(Aggregation::Mean, cell);
        match self {
            Self::Count(values) => {
                let counts = decoded(&DataType::Int64, cells)?;
                let counts = counts.as_primitive::<Int64Type>().values();
                slots
                    .zip(counts)
                    .for_each(|(slot, count)| values[slot] = *count);
            }
            Self::Integers(values) => {
                for (slot, value) in slots.zip(each(cells, |value| integral(&value))?) {
                    values[slot] = value;
                }
            }
            Self::IntegerMeans(values) => {
                for (slot, cell) in slots.zip(cells) {
                    let Accumulated::IntegerMean { count, sum } = mean(cell)? else {
                        return Err(Problem::Mixed.into());
                    };
                    values[slot] = (count, sum);
                }
            }
            Self::FloatMeans(values) => {
                for (slot, cell) in slots.zip(cells) {
                    let Accumulated::FloatMean { count, sum } = mean(cell)? else {
                        return Err(Problem::Mixed.into());
                    };
                    values[slot] = (count, sum);
                }
            }
            Self::Numbers(values) => values.import(numbers, cells)?,
            Self::Distinct(values) => values.import(numbers, cells)?,
            Self::Lists(values) => values.import(numbers, cells)?,
            Self::Folded(values) => values.import(numbers, cells)?,
            _ => self.update(Aggregation::First, numbers, &decoded(data_type, cells)?)?,
        }
        Ok(())
    }

    /// The values of the keys of these numbers.
    pub(crate) fn take(
        &self,
        numbers: &[u32],
        data_type: &DataType,
    ) -> Result<ArrayRef, AggregateError> {
        let slots = numbers.iter().map(|number| *number as usize);
        Ok(match self {
            Self::Picked(values) => values.take(numbers)?,
            Self::Numbers(values) => values.take(numbers, data_type)?,
            Self::Distinct(values) => values.take(numbers, data_type)?,
            Self::Lists(values) => values.take(numbers, data_type)?,
            Self::Folded(values) => values.take(numbers, data_type)?,
            Self::Count(values) => {
                Arc::new(Int64Array::from_iter_values(slots.map(|slot| values[slot])))
            }
            Self::Integers(values) => build::integers(data_type, slots.map(|slot| values[slot]))?,
            Self::Floats(values) => build::floats(data_type, slots.map(|slot| values[slot]))?,
            Self::Bytes(values) => {
                build::bytes(data_type, slots.map(|slot| values[slot].as_deref()))?
            }
            Self::IntegerMeans(values) => {
                let mean =
                    |(count, sum): (u64, i128)| (count > 0).then(|| integer_mean(sum, count));
                let means = slots.map(|slot| mean(values[slot]));
                Arc::new(means.collect::<Float64Array>())
            }
            Self::FloatMeans(values) => {
                let mean = |(count, sum): (u64, f64)| (count > 0).then(|| sum / count as f64);
                let means = slots.map(|slot| mean(values[slot]));
                Arc::new(means.collect::<Float64Array>())
            }
        })
    }
}

/// What bits come to, where that is computed.
fn bitwise(aggregation: Aggregation) -> Option<fn(i128, i128) -> i128> {
    match aggregation {
        Aggregation::BitAnd => Some(|left, right| left & right),
        Aggregation::BitOr => Some(|left, right| left | right),
        Aggregation::BitXor => Some(|left, right| left ^ right),
        _ => None,
    }
}

#[cold]
fn overflown() -> ArrowError {
    ArrowError::ArithmeticOverflow("a sum outside the range of 128 bits".to_owned())
}

/// Calls `visit` with each bool, integer, or what a time is inside.
pub(crate) fn each_number(
    column: &ArrayRef,
    mut visit: impl FnMut(Option<i128>),
) -> Result<(), ArrowError> {
    if let Some(array) = column.as_primitive_opt::<UInt64Type>() {
        array.iter().for_each(|value| visit(value.map(i128::from)));
        return Ok(());
    }
    let inside = build::physical(column.data_type());
    let column = build::reinterpreted(column, inside.as_ref().unwrap_or(column.data_type()))?;
    each_integer(&column, |value| visit(value.map(i128::from)));
    Ok(())
}

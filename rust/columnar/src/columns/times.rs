//! Times in columns: those of rows, and those of windows in results.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use oka_compute::{Problem, Unit};
use oka_window::{Assigner, Window, is_near};

use crate::AggregateError;
use crate::aggregate::shape::unused;
use crate::aggregate::values::each_number;
use crate::columns::build;
use crate::keys::each::each_float;

/// How the start and the end of a window are shown.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Type of the column of times.
    input: DataType,
    /// Type of the columns in results.
    data_type: DataType,
    /// What they count, if they are integers inside.
    unit: Unit,
}

impl Bounds {
    pub(crate) fn new(
        input: &DataType,
        (unit, before): (Unit, i64),
        assigner: Assigner,
    ) -> Result<Self, AggregateError> {
        let are_whole = |unit: Unit| match assigner {
            Assigner::Sliced(windows) => windows.are_whole(unit.microseconds()),
            Assigner::Sessions { gap, .. } => {
                gap % unit.microseconds() == 0 && before % unit.microseconds() == 0
            }
            Assigner::Counted { .. } => true,
        };
        let (data_type, unit) = match input {
            DataType::Timestamp(unit, zone) => {
                let fits = are_whole(of_type(*unit));
                let unit = if fits { *unit } else { TimeUnit::Microsecond };
                (DataType::Timestamp(unit, zone.clone()), of_type(unit))
            }
            DataType::Float32 | DataType::Float64 => (DataType::Float64, unit),
            kind if kind.is_integer() && are_whole(unit) => (DataType::Int64, unit),
            kind if kind.is_integer() => (DataType::Float64, unit),
            other => {
                return Err(AggregateError::Time(other.clone()));
            }
        };
        Ok(Self {
            input: input.clone(),
            data_type,
            unit,
        })
    }

    /// Of windows of so many rows.
    pub(crate) fn of_counts() -> Self {
        Self {
            input: DataType::Null,
            data_type: DataType::Int64,
            unit: Unit::Microseconds, // as they are
        }
    }

    /// Whether a column of times is as those before.
    pub(crate) fn check(&self, input: &DataType) -> Result<(), AggregateError> {
        if self.input == *input {
            return Ok(());
        }
        Err(AggregateError::Changed {
            expected: self.input.to_string(),
            got: input.to_string(),
        })
    }

    /// The batch with columns of the rows' windows.
    pub(crate) fn of(
        &self,
        windows: &[Window],
        batch: &RecordBatch,
    ) -> Result<RecordBatch, AggregateError> {
        let schema = batch.schema();
        let fields = schema.fields().iter();
        let mut fields: Vec<_> = fields.map(|it| it.as_ref().clone()).collect();
        let mut columns = batch.columns().to_vec();
        let starts = self.column(windows.iter().map(|window| window.start))?;
        let ends = self.column(windows.iter().map(|window| window.end))?;
        for (name, column) in [("window_start", starts), ("window_end", ends)] {
            fields.push(Field::new(
                unused(name, &fields),
                self.data_type.clone(),
                false,
            ));
            columns.push(column);
        }
        Ok(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?)
    }

    fn column(&self, times: impl Iterator<Item = i64>) -> Result<ArrayRef, ArrowError> {
        if self.data_type == DataType::Float64 {
            let times = times.map(|time| self.unit.to_float(time));
            return Ok(Arc::new(Float64Array::from_iter_values(times)));
        }
        let times = times.map(|time| {
            self.unit.to_integer(time).ok_or_else(|| {
                let told = format!("{time} us in a column of {}", self.data_type);
                ArrowError::ArithmeticOverflow(told)
            })
        });
        let times: Int64Array = times.collect::<Result<Vec<_>, _>>()?.into();
        build::reinterpreted(&(Arc::new(times) as ArrayRef), &self.data_type)
    }
}

/// The times of a column, whose first row has this number.
pub(crate) fn microseconds(
    column: &ArrayRef,
    unit: Unit,
    first: u32,
) -> Result<Vec<i64>, AggregateError> {
    let unit = match column.data_type() {
        DataType::Timestamp(unit, _) => of_type(*unit),
        _ => unit,
    };
    if let Some(times) = of_integers(column, unit)? {
        return Ok(times);
    }
    let mut times = Vec::with_capacity(column.len());
    let mut wrong = None;
    let mut push = |time: Option<Option<i64>>| {
        let problem = match time {
            Some(Some(time)) if is_near(time) => return times.push(time),
            Some(_) => Problem::FarTime,
            None => Problem::NotATime,
        };
        wrong.get_or_insert((times.len() as u32, problem));
        times.push(0);
    };
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => each_float(column, |number| {
            let number = number.filter(|number| number.is_finite());
            push(number.map(|number| unit.of_float(number)));
        }),
        _ => each_number(column, |number| {
            let of_integer = |number| unit.of_integer(i64::try_from(number).ok()?);
            push(number.map(of_integer));
        })?,
    }
    match wrong {
        Some((row, problem)) => Err(AggregateError::Row {
            row: first + row,
            problem,
        }),
        None => Ok(times),
    }
}

/// The times of a column of 64-bit integers, or of what consists of them, if each row has one that is near.
fn of_integers(column: &ArrayRef, unit: Unit) -> Result<Option<Vec<i64>>, ArrowError> {
    if build::physical(column.data_type()) != Some(DataType::Int64) || column.null_count() > 0 {
        return Ok(None);
    }
    let integers = build::reinterpreted(column, &DataType::Int64)?;
    let integers = integers.as_primitive::<Int64Type>().values();
    let times: Option<Vec<_>> = match unit {
        Unit::Microseconds => Some(integers.to_vec()),
        unit => integers
            .iter()
            .map(|number| unit.of_integer(*number))
            .collect(),
    };
    Ok(times.filter(|times| times.iter().all(|time| is_near(*time))))
}

/// What timestamps of this type count.
fn of_type(unit: TimeUnit) -> Unit {
    match unit {
        TimeUnit::Second => Unit::Seconds,
        TimeUnit::Millisecond => Unit::Milliseconds,
        TimeUnit::Microsecond => Unit::Microseconds,
        TimeUnit::Nanosecond => Unit::Nanoseconds,
    }
}

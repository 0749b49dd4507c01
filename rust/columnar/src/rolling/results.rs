//! Values of columns by themselves, and columns of what they came to.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef};
use oka_compute::{
    Accumulated, Aggregation, Problem, Reader, Rolled, Value, encode, integer_mean, integral,
};

use crate::AggregateError;
use crate::aggregate::values::{Values, each_number};
use crate::columns::build;
use crate::columns::cells::{cells, decoded, encoded, kind};
use crate::keys::each::{each_bytes, each_float, each_integer};
use crate::keys::kind::KeyKind;

/// Each value of a column, `None` for null.
pub(super) fn values(
    aggregation: Aggregation,
    column: &ArrayRef,
) -> Result<Vec<Option<Accumulated>>, AggregateError> {
    use Accumulated::{Bytes, Encoded, Float, Integer, Text};
    let mut values = Vec::with_capacity(column.len());
    let of_floats = matches!(
        aggregation.exact(),
        Aggregation::Quantile
            | Aggregation::Quantiles
            | Aggregation::Variance
            | Aggregation::Stddev
    );
    match kind(column.data_type()) {
        Some(KeyKind::Bool | KeyKind::Integer | KeyKind::Unsigned) if of_floats => {
            each_number(column, |value| {
                values.push(value.map(|it| Float(it as f64)));
            })?;
        }
        Some(KeyKind::Null) => values.resize(column.len(), None),
        Some(KeyKind::Bool) => each_integer(column, |value| {
            values.push(value.map(|value| Integer(value.into())));
        }),
        Some(KeyKind::Integer | KeyKind::Unsigned) => {
            each_number(column, |value| values.push(value.map(Integer)))?;
        }
        Some(KeyKind::Float) => each_float(column, |value| values.push(value.map(Float))),
        Some(KeyKind::Text) => each_bytes(column, |value| {
            values.push(value.map(|utf8| Text(utf8.into())));
        }),
        Some(KeyKind::Bytes) => each_bytes(column, |value| {
            values.push(value.map(|data| Bytes(data.into())));
        }),
        Some(KeyKind::Form) | None => {
            let cells = encoded(column)?;
            let own = cells.iter().enumerate();
            let own = own.map(|(row, cell)| column.is_valid(row).then(|| Encoded(cell.into())));
            values.extend(own);
        }
    }
    Ok(values)
}

/// A column of what an aggregation came to.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) rolled: Rolled,
    /// The type of the values that it is of.
    pub(super) of: DataType,
    pub(super) data_type: DataType,
}

impl Results {
    pub(super) fn column(
        &self,
        values: &[Option<Accumulated>],
    ) -> Result<ArrayRef, AggregateError> {
        use Aggregation as A;
        match (self.rolled.aggregation.exact(), &self.data_type) {
            (A::Quantiles, DataType::List(item)) => lists(item, values),
            (A::Array | A::Top | A::Variance | A::Stddev, _) => self.states(values),
            (of_pairs, _) if of_pairs.is_of_pairs() => self.states(values),
            _ => column(&self.data_type, values),
        }
    }

    /// The column of states, as another that goes on with them would have it.
    fn states(&self, values: &[Option<Accumulated>]) -> Result<ArrayRef, AggregateError> {
        let Rolled {
            aggregation,
            parameters,
            ..
        } = &self.rolled;
        let Some((mut states, _)) = Values::of(*aggregation, &self.of, parameters) else {
            return Err(Problem::Mixed.into());
        };
        let all: Vec<_> = (0..values.len() as u32).collect();
        if let Values::Folded(folded) = &mut states {
            folded.set(values.to_vec());
            return states.take(&all, &self.data_type);
        }
        let some = (0..).zip(values).filter(|(_, value)| value.is_some());
        let (numbers, some): (Vec<u32>, Vec<_>) = some.unzip();
        let cells = cells(&some, |value| (*value).clone());
        let cells: Vec<_> = cells.iter().collect();
        states.resize(values.len());
        states.import(&numbers, &cells, &self.data_type)?;
        states.take(&all, &self.data_type)
    }
}

/// A column of lists of floats, which are encoded; an empty one for none.
fn lists(item: &FieldRef, values: &[Option<Accumulated>]) -> Result<ArrayRef, AggregateError> {
    let (mut numbers, mut lengths) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let before = numbers.len();
        if let Some(Accumulated::Encoded(list)) = value
            && let Value::Extension(_, list) = Reader::new(list).read().map_err(Problem::from)?
        {
            let mut reader = Reader::new(list);
            reader.read().map_err(Problem::from)?; // how many there are
            while let Ok(Value::Float(number)) = reader.read() {
                numbers.push(number);
            }
        }
        lengths.push(numbers.len() - before);
    }
    let numbers: ArrayRef = Arc::new(Float64Array::from(numbers));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(Arc::clone(item), offsets, numbers, None)?;
    Ok(Arc::new(lists))
}

/// A column of this type of what an aggregation came to.
fn column(
    data_type: &DataType,
    values: &[Option<Accumulated>],
) -> Result<ArrayRef, AggregateError> {
    let kind = match kind(data_type) {
        None | Some(KeyKind::Null | KeyKind::Form) => return forms(data_type, values),
        Some(kind) => kind,
    };
    // One that was kept may be encoded, as first values of records are.
    let is_encoded = |value: &Option<Accumulated>| matches!(value, Some(Accumulated::Encoded(_)));
    let read = |value: &Option<Accumulated>| match value {
        Some(Accumulated::Encoded(encoded)) => {
            Accumulated::decode(Aggregation::Min, encoded).map(Some)
        }
        value => Ok(value.clone()),
    };
    let mut own = Vec::new();
    if values.iter().any(is_encoded) {
        own = values.iter().map(read).collect::<Result<_, _>>()?;
    }
    let values = if own.is_empty() { values } else { &own };
    let values = values.iter().map(Option::as_ref);
    Ok(match kind {
        KeyKind::Text | KeyKind::Bytes => {
            let bytes = values.map(|it| match it {
                Some(Accumulated::Text(bytes) | Accumulated::Bytes(bytes)) => Some(&**bytes),
                _ => None,
            });
            build::bytes(data_type, bytes)?
        }
        KeyKind::Float if *data_type == DataType::Float64 => {
            Arc::new(values.map(|it| float(it?)).collect::<Float64Array>())
        }
        KeyKind::Float => build::floats(data_type, values.map(|it| float(it?)))?,
        _ => build::integers(data_type, values.map(|it| integral(it?)))?,
    })
}

/// A column of values of a type that no record has.
fn forms(data_type: &DataType, values: &[Option<Accumulated>]) -> Result<ArrayRef, AggregateError> {
    let null = if values.iter().all(Option::is_some) {
        Vec::new()
    } else {
        let null = encoded(&arrow_array::new_null_array(data_type, 1))?;
        null.get(0).to_vec()
    };
    let cell = |value: &Option<Accumulated>| match value {
        Some(value) => {
            let mut out = Vec::new();
            value.encode(&mut out);
            out
        }
        None if null.is_empty() => {
            let mut out = Vec::new();
            encode::nil(&mut out);
            out
        }
        None => null.clone(),
    };
    let cells: Vec<_> = values.iter().map(cell).collect();
    decoded(
        data_type,
        &cells.iter().map(|cell| &cell[..]).collect::<Vec<_>>(),
    )
}

fn float(value: &Accumulated) -> Option<f64> {
    match *value {
        Accumulated::Float(number) => Some(number),
        Accumulated::IntegerMean { count, sum } => Some(integer_mean(sum, count)),
        Accumulated::FloatMean { count, sum } => Some(sum / count as f64),
        _ => None,
    }
}

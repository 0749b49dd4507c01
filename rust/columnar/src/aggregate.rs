use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, NullArray, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;
use oka_compute::Aggregation;
use thiserror::Error;

use crate::key::{KeyKind, KeyNumbers, NULL, Wanted, keys, plain};
use crate::values::Values;
use crate::{ColumnError, Columns, DecodeError, KeyError, Selector, build};

/// The value of each key so far, over columns that are read in place.
///
/// Null keys are one key. Null values are left out: a key that has no others has null. A sum is of
/// 64 bits, and an error where it does not fit; minimum and maximum keep the column's type and the
/// first of equal values.
#[derive(Debug)]
pub struct Aggregate {
    aggregation: Aggregation,
    key: Selector,
    value: Option<Selector>,
    shape: Option<Shape>,
    numbers: KeyNumbers,
    /// Per key, the number of the last update that had it.
    rounds: Vec<u64>,
    round: u64,
    touched: Vec<u32>,
    dictionary: SharedDictionary,
}

impl Aggregate {
    /// Over the values of a column by the keys of another; a count needs no value.
    pub fn new(aggregation: Aggregation, key: Selector, value: Option<Selector>) -> Self {
        Self {
            aggregation,
            key,
            value,
            shape: None,
            numbers: KeyNumbers::default(),
            rounds: Vec::new(),
            round: 0,
            touched: Vec::new(),
            dictionary: SharedDictionary::default(),
        }
    }

    /// Takes in the rows of a frame. The result has the keys that it touched, in the order in which
    /// it touched them, each once with its value after the whole frame: a column named as the key's,
    /// and one named for the aggregation. Keys that are text or bytes, or come with a dictionary, have
    /// one in the result, which most results share: keys are not copied again and again.
    ///
    /// `None` if no key was touched.
    pub fn update(&mut self, columns: &Columns) -> Result<Option<RecordBatch>, AggregateError> {
        let schema = columns.schema();
        let key = self.key.find(schema)?;
        let value = match &self.value {
            Some(value) => value.find(schema)?,
            None => key,
        };
        let shape = match self.shape.take() {
            Some(shape) => shape.checked(schema, key, value)?,
            None => Shape::new(self.aggregation, schema, key, value)?,
        };
        let shape = self.shape.insert(shape);
        self.round += 1;
        self.touched.clear();
        let mut firsts = Vec::new();
        for batch in columns.in_place(&[key, value]) {
            let batch = batch?;
            let (key, value) = (batch.column(0), batch.column(1));
            let (numbers, count) = self.numbers.of(key, shape.kind);
            self.rounds.resize(count, 0);
            if let Some(values) = &mut shape.values {
                touch(&mut self.rounds, self.round, numbers, &mut self.touched);
                values.resize(count);
                values.update(self.aggregation, numbers, value)?;
                continue;
            }
            let mut rows = Vec::new();
            for (row, number) in (0_u32..).zip(numbers) {
                let round = &mut self.rounds[*number as usize];
                if *round == 0 {
                    *round = self.round;
                    self.touched.push(*number);
                    rows.push(row);
                }
            }
            if !rows.is_empty() {
                let value = take(value, &UInt32Array::from(rows), None)?;
                firsts.push(build::checked(value, &shape.value)?);
            }
        }
        if self.touched.is_empty() {
            return Ok(None);
        }
        let values = match (&shape.values, &firsts[..]) {
            (Some(values), _) => values.take(&self.touched, &shape.result)?,
            (None, [first]) => Arc::clone(first),
            (None, _) => concat(&firsts.iter().map(|first| &**first).collect::<Vec<_>>())?,
        };
        let schema = Arc::clone(&shape.schema);
        let keys = self.touched_keys()?;
        Ok(Some(RecordBatch::try_new(schema, vec![keys, values])?))
    }

    fn touched_keys(&mut self) -> Result<ArrayRef, ArrowError> {
        let Some(shape) = &self.shape else {
            return Ok(Arc::new(NullArray::new(0)));
        };
        let (numbers, kind) = (&self.numbers, shape.kind);
        match &shape.key {
            DataType::Dictionary(_, values) => {
                let keys = |wanted: Wanted<'_>| keys(numbers, kind, values, wanted);
                self.dictionary.column(&self.touched, numbers, keys)
            }
            plain => keys(numbers, kind, plain, &mut self.touched.iter().copied()),
        }
    }
}

/// A dictionary of all keys so far, for many results.
///
/// While new keys come it would have to be made anew each time, so that results have dictionaries of
/// their own then, until these have cost as much as it does: what is copied, here and on channels, is
/// at most twice what it would be without dictionaries.
#[derive(Debug, Default)]
struct SharedDictionary {
    keys: Option<ArrayRef>,
    /// Keys that results were given since one had a key that is not in the dictionary.
    copied: usize,
}

impl SharedDictionary {
    /// The keys of these numbers as codes.
    fn column(
        &mut self,
        touched: &[u32],
        numbers: &KeyNumbers,
        keys: impl Fn(Wanted<'_>) -> Result<ArrayRef, ArrowError>,
    ) -> Result<ArrayRef, ArrowError> {
        let known = self.keys.as_ref().map_or(0, |keys| keys.len());
        let all = numbers.len() - 1;
        let is_stale = known < all
            && (self.copied > 0 || touched.iter().any(|number| *number as usize > known));
        if is_stale {
            self.copied += touched.len();
            if self.copied >= all && numbers.total_bytes() <= MOST_SHARED_BYTES {
                self.keys = Some(keys(&mut (NULL + 1..numbers.len() as u32))?);
                self.copied = 0;
            }
        }
        let shared = self.keys.as_ref().filter(|_| self.copied == 0);
        let (codes, values): (PrimitiveArray<Int32Type>, _) = if let Some(keys) = shared {
            let code = |number: &u32| (*number != NULL).then(|| *number as i32 - 1);
            (touched.iter().map(code).collect(), Arc::clone(keys))
        } else {
            let mut next = 0;
            let code = |number: &u32| {
                let code = (*number != NULL).then_some(next);
                next += i32::from(code.is_some());
                code
            };
            let mut wanted = touched.iter().copied().filter(|number| *number != NULL);
            (touched.iter().map(code).collect(), keys(&mut wanted)?)
        };
        Ok(Arc::new(DictionaryArray::try_new(codes, values)?))
    }
}

/// A dictionary beyond this would not stay in a cache, and offsets into it must fit 32 bits.
const MOST_SHARED_BYTES: usize = 64 << 20;

/// A frame cannot be aggregated.
#[derive(Debug, Error)]
pub enum AggregateError {
    /// There is no such column.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The key column holds no keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value column does not suit the aggregation.
    #[error("{aggregation} of a column of type {data_type}")]
    Value {
        /// What was to be computed.
        aggregation: &'static str,
        /// The type of the column.
        data_type: DataType,
    },
    /// The types of key and value are not those of the frames before.
    #[error("columns of type {got} after columns of type {expected}")]
    Changed {
        /// Key and value of the frames before.
        expected: String,
        /// Key and value now.
        got: String,
    },
    /// The bytes are no columns.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A result that cannot be expressed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What the first frame settles for all others.
#[derive(Debug)]
struct Shape {
    kind: KeyKind,
    /// Type of the key column in the result.
    key: DataType,
    /// Type of the value column in the input.
    value: DataType,
    /// Type of the value column in the result.
    result: DataType,
    /// `None` for the first values: the table of keys tells whether there was one.
    values: Option<Values>,
    schema: SchemaRef,
}

impl Shape {
    fn new(
        aggregation: Aggregation,
        schema: &Schema,
        key: usize,
        value: usize,
    ) -> Result<Self, AggregateError> {
        let (key, value) = (schema.field(key), schema.field(value).data_type().clone());
        let kind = KeyKind::of(key.data_type())?;
        let (values, result) = match Values::of(aggregation, &value) {
            Some((values, result)) => (Some(values), result),
            None if aggregation == Aggregation::First => (None, value.clone()),
            None => {
                return Err(AggregateError::Value {
                    aggregation: name(aggregation),
                    data_type: value,
                });
            }
        };
        // Numbers of keys are the codes, and there may be many.
        let coded = |values| DataType::Dictionary(Box::new(DataType::Int32), values);
        let key_type = match key.data_type() {
            DataType::Dictionary(_, values) => coded(values.clone()),
            plain if matches!(kind, KeyKind::Text | KeyKind::Bytes) => {
                coded(Box::new(plain.clone()))
            }
            plain => plain.clone(),
        };
        let fields = vec![
            Field::new(key.name(), key_type.clone(), true),
            Field::new(name(aggregation), result.clone(), true),
        ];
        Ok(Self {
            kind,
            key: key_type,
            value,
            result,
            values,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The shape, if these columns have it, too. Layouts of the key may differ.
    fn checked(self, schema: &Schema, key: usize, value: usize) -> Result<Self, AggregateError> {
        let (key, value) = (
            schema.field(key).data_type(),
            schema.field(value).data_type(),
        );
        let counts = matches!(self.values, Some(Values::Count(_)));
        if KeyKind::of(key)? == self.kind && (counts || *value == self.value) {
            return Ok(self);
        }
        let expected = plain(&self.key);
        Err(AggregateError::Changed {
            expected: format!("{expected} and {}", self.value),
            got: format!("{key} and {value}"),
        })
    }
}

/// Appends each number that this round has not had, once.
///
/// Without a branch: where a key comes up for the first time cannot be predicted.
fn touch(rounds: &mut [u64], round: u64, numbers: &[u32], touched: &mut Vec<u32>) {
    let mut end = touched.len();
    touched.resize(end + numbers.len(), 0);
    for number in numbers {
        let last = &mut rounds[*number as usize];
        touched[end] = *number;
        end += usize::from(*last != round);
        *last = round;
    }
    touched.truncate(end);
}

fn name(aggregation: Aggregation) -> &'static str {
    match aggregation {
        Aggregation::Count => "count",
        Aggregation::Sum => "sum",
        Aggregation::Min => "min",
        Aggregation::Max => "max",
        Aggregation::First => "first",
    }
}

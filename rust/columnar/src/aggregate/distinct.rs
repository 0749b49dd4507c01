//! The different values of each key: how many there are, or which of them came most often.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use oka_compute::{Aggregation, ByteStrings, Problem, Reader, Value, encode};

use crate::aggregate::pairs::{Pair, Pairs};
use crate::columns::build;
use crate::columns::cells::{NIL, kind};
use crate::keys::each::{each_float, each_integer};
use crate::keys::kind::{KeyKind, KeyNumbers, NULL, keys};

/// Values by the number of their key; nulls are none. Those that are equal in Python are one, which is shown
/// as it first came.
#[derive(Debug)]
pub(crate) struct Distinct {
    kind: KeyKind,
    /// How many of the most frequent ones are wanted; `None`: how many there are.
    most: Option<usize>,
    pairs: Pairs,
    /// Texts and byte strings, which pairs have the numbers of; of other values they have the bits.
    texts: KeyNumbers,
    rows: Vec<Pair>,
}

impl Distinct {
    /// For a column of this type, and the type of the results; `None` if it has no such values. The only parameter
    /// says how many are wanted.
    pub(crate) fn of(
        aggregation: Aggregation,
        column: &DataType,
        parameters: &[f64],
    ) -> Option<(Self, DataType)> {
        let kind = kind(column)?;
        let (most, data_type) = match aggregation {
            Aggregation::CountDistinct => (None, DataType::Int64),
            Aggregation::Top => {
                let most = parameters.first().map_or(0, |most| *most as usize);
                let fields = [("value", column.clone()), ("count", DataType::Int64)];
                let fields = fields.map(|(name, kind)| Field::new(name, kind, false));
                let item = DataType::Struct(Fields::from_iter(fields));
                let list = DataType::List(Arc::new(Field::new_list_field(item, false)));
                (Some(most), list)
            }
            _ => return None,
        };
        let other_zero = if kind == KeyKind::Float {
            (-0.0_f64).to_bits()
        } else {
            0
        };
        let distinct = Self {
            kind,
            most,
            pairs: Pairs::new(other_zero, most.is_some()),
            texts: KeyNumbers::few(),
            rows: Vec::new(),
        };
        Some((distinct, data_type))
    }

    pub(crate) fn resize(&mut self, keys: usize) {
        self.pairs.resize(keys);
    }

    /// Takes in a column whose rows have the keys of these numbers.
    pub(crate) fn update(&mut self, keys: &[u32], column: &ArrayRef) -> Result<(), ArrowError> {
        let (mut keys, rows) = (keys.iter(), &mut self.rows);
        rows.clear();
        rows.reserve(column.len());
        let mut push = |value: Option<u64>| {
            if let (Some(key), Some(value)) = (keys.next(), value) {
                rows.push(Pair::new(*key, value));
            }
        };
        match self.kind {
            KeyKind::Null => {}
            KeyKind::Unsigned => {
                let numbers = column.as_primitive::<UInt64Type>();
                numbers.iter().for_each(push);
            }
            KeyKind::Bool | KeyKind::Integer => {
                let inside = build::physical(column.data_type());
                let inside = inside.as_ref().unwrap_or(column.data_type());
                let numbers = build::reinterpreted(column, inside)?;
                each_integer(&numbers, |value| push(value.map(|value| value as u64)));
            }
            KeyKind::Float => each_float(column, |value| push(value.map(bits))),
            KeyKind::Text | KeyKind::Bytes | KeyKind::Form => {
                let (numbers, _) = self.texts.of(column, self.kind)?;
                let value = |number: &u32| (*number != NULL).then_some(u64::from(*number));
                numbers.iter().map(value).for_each(push);
            }
        }
        self.pairs.add(&self.rows, |_| 1);
        Ok(())
    }

    /// Takes in under these numbers of keys what others have under those.
    pub(crate) fn merge(&mut self, keys: &[u32], others: &Self, theirs: &[u32]) {
        let (all, counts) = others.pairs.all();
        for (key, from) in keys.iter().zip(theirs) {
            let places = others.places(*from);
            self.rows.clear();
            for place in &places {
                let value = all[*place].value;
                let value = match self.kind {
                    KeyKind::Text | KeyKind::Bytes | KeyKind::Form => {
                        u64::from(self.texts.number(others.texts.bytes(value as u32)))
                    }
                    _ => value,
                };
                self.rows.push(Pair::new(*key, value));
            }
            let times = |at: usize| counts.map_or(1, |counts| counts[places[at]]);
            self.pairs.add(&self.rows, times);
        }
    }

    /// Goes on with what [`Self::copy`] gave of keys.
    pub(crate) fn import(&mut self, keys: &[u32], cells: &[&[u8]]) -> Result<(), Problem> {
        let mut times = Vec::new();
        self.rows.clear();
        for (key, cell) in keys.iter().zip(cells).filter(|it| **it.1 != NIL) {
            let mut reader = Reader::new(cell);
            let Value::Array(parts) = reader.read()? else {
                return Err(Problem::Mixed);
            };
            if parts % 2 == 1 {
                return Err(Problem::Parts(2));
            }
            for _ in 0..parts / 2 {
                let value = self.value(reader.read()?)?;
                let Value::Int(count) = reader.read()? else {
                    return Err(Problem::NotANumber);
                };
                self.rows.push(Pair::new(*key, value));
                times.push(u64::try_from(count).map_err(|_| Problem::Overflow)?);
            }
        }
        self.pairs.add(&self.rows, |at| times[at]);
        Ok(())
    }

    /// A value that was encoded.
    fn value(&mut self, encoded: Value) -> Result<u64, Problem> {
        Ok(match (self.kind, encoded) {
            (KeyKind::Bool, Value::Bool(truth)) => u64::from(truth),
            (KeyKind::Integer | KeyKind::Unsigned, Value::Int(number)) => number as u64,
            (KeyKind::Unsigned, Value::Unsigned(number)) => number,
            (KeyKind::Float, Value::Float(number)) => bits(number),
            (KeyKind::Text | KeyKind::Bytes, Value::Bytes(bytes) | Value::Str(bytes)) => {
                u64::from(self.texts.number(bytes))
            }
            _ => return Err(Problem::Mixed),
        })
    }

    /// What is kept of the keys of these numbers.
    pub(crate) fn copy(&self, wanted: &[u32]) -> Result<CopiedDistinct, ArrowError> {
        let (pairs, counts) = self.pairs.all();
        let mut texts = 1..self.texts.len() as u32;
        let count = |key: &u32| (*key, self.pairs.len(*key as usize));
        Ok(CopiedDistinct {
            kind: self.kind,
            keys: wanted.iter().map(count).collect(),
            pairs: pairs.to_vec(),
            counts: counts.map(<[u64]>::to_vec),
            texts: keys(
                &self.texts,
                KeyKind::Bytes,
                &DataType::LargeBinary,
                &mut texts,
            )?,
        })
    }

    /// The results of the keys of these numbers.
    pub(crate) fn take(
        &self,
        wanted: &[u32],
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let (Some(most), DataType::List(item)) = (self.most, data_type) else {
            let count = |key: &u32| self.pairs.len(*key as usize) as i64;
            return Ok(Arc::new(Int64Array::from_iter_values(
                wanted.iter().map(count),
            )));
        };
        let DataType::Struct(fields) = item.data_type() else {
            return Err(ArrowError::NotYetImplemented(item.to_string()));
        };
        let found: Vec<_> = wanted.iter().map(|key| self.top(*key, most)).collect();
        let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
        let (values, counts): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
        let columns: Vec<ArrayRef> = vec![
            self.column(fields[0].data_type(), values.into_iter())?,
            Arc::new(Int64Array::from(counts)),
        ];
        let rows = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(item),
            offsets,
            rows,
            None,
        )?))
    }

    /// The values of a key that came most often, and how often they did. Of those that came as often, the first
    /// ones.
    fn top(&self, key: u32, most: usize) -> Vec<(u64, i64)> {
        let (pairs, counts) = self.pairs.all();
        let count = |place: usize| counts.map_or(1, |counts| counts[place]);
        let places = self.pairs.of(key as usize);
        let mut found: Vec<_> = places.map(|place| (Reverse(count(place)), place)).collect();
        if most < found.len() {
            found.select_nth_unstable(most);
            found.truncate(most);
        }
        found.sort_unstable();
        let value = |(Reverse(count), place): (_, usize)| (pairs[place].value, count as i64);
        found.into_iter().map(value).collect()
    }

    /// A column of values.
    fn column(
        &self,
        data_type: &DataType,
        values: impl Iterator<Item = u64>,
    ) -> Result<ArrayRef, ArrowError> {
        match self.kind {
            KeyKind::Bool | KeyKind::Integer => {
                build::integers(data_type, values.map(|it| Some(i128::from(it as i64))))
            }
            KeyKind::Unsigned => build::integers(data_type, values.map(|it| Some(i128::from(it)))),
            KeyKind::Float => build::floats(data_type, values.map(|it| Some(f64::from_bits(it)))),
            kind => keys(
                &self.texts,
                kind,
                data_type,
                &mut values.map(|it| it as u32),
            ),
        }
    }

    /// The places of a key's pairs, the first one first.
    fn places(&self, key: u32) -> Vec<usize> {
        let mut places: Vec<_> = self.pairs.of(key as usize).collect();
        places.reverse();
        places
    }
}

/// A copy of the different values of some keys.
#[derive(Debug)]
pub(crate) struct CopiedDistinct {
    kind: KeyKind,
    /// Numbers, and how many values each has.
    keys: Vec<(u32, usize)>,
    /// Those of other keys, too.
    pairs: Vec<Pair>,
    counts: Option<Vec<u64>>,
    texts: ArrayRef,
}

impl CopiedDistinct {
    /// For each key an array of values, as they first came, each followed by its count; nil if it has none.
    pub(crate) fn encode(&self) -> ByteStrings {
        let highest = self.keys.iter().map(|(key, _)| *key as usize).max();
        // Where the next pair of a key comes among those of all keys, in the order of keys.
        let mut next = vec![None; highest.map_or(0, |highest| highest + 1)];
        let mut all = 0;
        for (key, count) in &self.keys {
            next[*key as usize] = Some(all);
            all += count;
        }
        let mut places = vec![0; all];
        for (place, pair) in self.pairs.iter().enumerate() {
            if let Some(Some(next)) = next.get_mut(pair.key as usize) {
                places[*next] = place;
                *next += 1;
            }
        }
        let mut rest = &places[..];
        let cell = |(_, count): &(u32, usize)| {
            let own;
            (own, rest) = rest.split_at(*count);
            self.cell(own)
        };
        self.keys.iter().map(cell).collect()
    }

    fn cell(&self, places: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        if places.is_empty() {
            encode::nil(&mut out);
            return out;
        }
        encode::array(&mut out, 2 * places.len());
        for place in places {
            let value = self.pairs[*place].value;
            match self.kind {
                KeyKind::Null => encode::nil(&mut out),
                KeyKind::Bool => encode::boolean(&mut out, value != 0),
                KeyKind::Integer => encode::int(&mut out, value as i64),
                KeyKind::Unsigned => encode::unsigned(&mut out, value),
                KeyKind::Float => encode::float(&mut out, f64::from_bits(value)),
                KeyKind::Text | KeyKind::Bytes | KeyKind::Form => {
                    let texts = self.texts.as_binary::<i64>();
                    encode::bytes(&mut out, texts.value(value as usize - 1));
                }
            }
            let count = self.counts.as_ref().map_or(1, |counts| counts[*place]);
            encode::unsigned(&mut out, count);
        }
        out
    }
}

/// Of a float; all NaN are one.
fn bits(number: f64) -> u64 {
    if number.is_nan() { f64::NAN } else { number }.to_bits()
}

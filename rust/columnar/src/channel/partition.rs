//! Partitioning the rows of a batch by the hash of their key.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use oka_protocol::partition::{combine, target};
use thiserror::Error;

use crate::columns::plain::extension;
use crate::keys::kind::{KeyHashes, KeyKind};
use crate::{ColumnError, KeyError, Selector};

/// Tells which rows of a batch go to which target, by the hash of a key column, or of several, whose
/// values are one key: a tuple.
///
/// A row goes where a record with the same key goes, and rows of one target stay in order.
///
/// ```
/// use arrow_array::record_batch;
/// use oka_columnar::{Partitioner, Selector};
///
/// let batch = record_batch!(("word", Utf8, ["to", "be", "or", "to"])).unwrap();
/// let mut partitioner = Partitioner::new(vec![Selector::Name("word".to_owned())]);
/// let parts = partitioner.split(&batch, 3).unwrap();
/// assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 4);
/// ```
#[derive(Debug)]
pub struct Partitioner {
    key: Vec<Selector>,
    hashes: Vec<KeyHashes>,
    /// Of each target.
    rows: Vec<Vec<u32>>,
}

impl Partitioner {
    /// By these columns.
    pub fn new(key: Vec<Selector>) -> Self {
        Self {
            hashes: key.iter().map(|_| KeyHashes::default()).collect(),
            key,
            rows: Vec::new(),
        }
    }

    /// The columns that it looks at.
    pub fn key(&self) -> &[Selector] {
        &self.key
    }

    /// For each target its rows, ascending.
    pub fn split(
        &mut self,
        batch: &RecordBatch,
        targets: usize,
    ) -> Result<&[Vec<u32>], PartitionError> {
        let mut columns = Vec::with_capacity(self.key.len());
        for (key, hashes) in self.key.iter().zip(&mut self.hashes) {
            let key = key.find(batch.schema_ref())?;
            columns.push(hashes.of(batch.column(key), batch.schema_ref().field(key))?);
        }
        self.rows.resize_with(targets, Vec::new);
        self.rows.iter_mut().for_each(Vec::clear);
        let mut add = |row, hash| self.rows[target(hash, targets)].push(row);
        match &columns[..] {
            [only] => (0..).zip(*only).for_each(|(row, hash)| add(row, *hash)),
            all => (0..batch.num_rows()).for_each(|row| {
                add(row as u32, combine(all.iter().map(|hashes| hashes[row])));
            }),
        }
        Ok(&self.rows)
    }
}

/// Whether rows of such columns go where records with their key go: not those of times, of decimals
/// and of types that are others' extensions.
pub fn goes_as_records(key: &[Selector], schema: &Schema) -> bool {
    let columns = key.iter().filter_map(|key| key.find(schema).ok());
    let mut fields = columns.map(|column| schema.field(column));
    fields.all(|field| {
        KeyKind::of(field.data_type()) != Some(KeyKind::Form) && extension(field).is_empty()
    })
}

/// A batch that cannot be cut.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// It has no such column.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The column holds no keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A dictionary, or runs, that Arrow cannot read.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow_array::{
        Array, ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int64Array, StringArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };
    use arrow_array::{record_batch, types::Int32Type};
    use arrow_schema::{DataType, Field};
    use oka_protocol::partition::{hash_float, hash_int, hash_none, hash_str};

    use super::*;

    fn by_first() -> Partitioner {
        Partitioner::new(vec![Selector::Index(0)])
    }

    fn hashed(hashes: &mut KeyHashes, column: impl Array + 'static) -> Vec<u64> {
        let field = Field::new("key", column.data_type().clone(), true);
        let column: ArrayRef = Arc::new(column);
        hashes.of(&column, &field).unwrap().to_vec()
    }

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("key", column)]).unwrap()
    }

    #[test]
    fn rows_go_where_records_with_the_key_go() {
        let words: Vec<String> = (0..500)
            .map(|number| format!("word {}", number % 50))
            .collect();
        let texts = StringArray::from_iter_values(&words);
        let coded: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
        let mut partitioner = by_first();
        let parts = partitioner.split(&batch(Arc::new(texts)), 7).unwrap();
        for (index, rows) in parts.iter().enumerate() {
            let expected = (0..).zip(&words);
            let expected = expected.filter(|(_, word)| target(hash_str(word), 7) == index);
            assert!(
                rows.iter()
                    .copied()
                    .eq(expected.map(|(row, _): (u32, _)| row))
            );
        }
        let mut partitioner = by_first();
        assert_eq!(
            partitioner.split(&batch(Arc::new(coded)), 7).unwrap(),
            parts
        );
    }

    #[test]
    fn rows_of_several_key_columns_go_where_the_tuple_goes() {
        let rows = record_batch!(
            ("n", Int64, [1, 2, 3, 4]),
            ("word", Utf8, [Some("a"), None, Some("c"), Some("a")])
        );
        let rows = rows.unwrap();
        let mut partitioner =
            Partitioner::new(vec![Selector::Name("word".to_owned()), Selector::Index(0)]);
        let words = [Some("a"), None, Some("c"), Some("a")];
        let parts = partitioner.split(&rows, 3).unwrap();
        for (number, word) in (1_i64..).zip(words) {
            let key = [word.map_or_else(hash_none, hash_str), hash_int(number)];
            assert!(parts[target(combine(key), 3)].contains(&(number as u32 - 1)));
        }
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 4);
    }

    #[test]
    fn numbers_and_nulls_hash_as_in_python() {
        let mut hashes = KeyHashes::default();
        let integers = Int64Array::from(vec![Some(1), None]);
        assert_eq!(hashed(&mut hashes, integers), [hash_int(1), hash_none()]);
        let floats = Float64Array::from(vec![1.0, -0.0, 0.5]);
        let expected = [hash_int(1), hash_int(0), hash_float(0.5)];
        assert_eq!(hashed(&mut hashes, floats), expected);
    }

    #[test]
    fn equal_times_and_decimals_are_one_key_whatever_their_unit_or_scale() {
        let seconds = TimestampSecondArray::from(vec![Some(-2), Some(3), None]);
        let nanos = vec![Some(-2_000_000_000), Some(3_000_000_000), None];
        let mut hashes = KeyHashes::default();
        let expected = hashed(&mut hashes, seconds);
        let nanos = TimestampNanosecondArray::from(nanos);
        assert_eq!(hashed(&mut hashes, nanos.clone()), expected);
        assert_ne!(
            hashed(&mut hashes, nanos.with_timezone("UTC"))[..2],
            expected[..2]
        );
        assert_eq!(expected[2], hash_none());
        let decimals = |values: Vec<i128>, scale| {
            let array = Decimal128Array::from(values);
            hashed(
                &mut KeyHashes::default(),
                array.with_precision_and_scale(20, scale).unwrap(),
            )
        };
        assert_eq!(
            decimals(vec![150, 0, -7000], 2),
            decimals(vec![15, 0, -700], 1)
        );
    }

    #[test]
    fn rows_go_as_records_unless_their_key_is_a_time_or_of_another_type() {
        let field = |name: &str, kind| Field::new(name, kind, true);
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let uuid = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
        let schema = Schema::new(vec![
            field("word", text),
            field("day", DataType::Date32),
            field("id", DataType::FixedSizeBinary(16)).with_metadata(HashMap::from(uuid)),
        ]);
        let by = |names: &[&str]| {
            let key = names.iter().map(|name| Selector::Name((*name).to_owned()));
            goes_as_records(&key.collect::<Vec<_>>(), &schema)
        };
        assert!(by(&["word"]));
        assert!(!by(&["word", "day"]));
        assert!(!by(&["id"]));
    }

    #[test]
    fn a_new_dictionary_is_hashed_anew() {
        let mut hashes = KeyHashes::default();
        for word in ["a", "b", "c"] {
            let coded: DictionaryArray<Int32Type> = [word].into_iter().collect();
            assert_eq!(hashed(&mut hashes, coded), [hash_str(word)]);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let numbers = record_batch!(("n", Int64, [1])).unwrap();
        let mut missing = Partitioner::new(vec![Selector::Name("m".to_owned())]);
        let missing = missing.split(&numbers, 2);
        let message = missing.unwrap_err().to_string();
        assert_eq!(message, "there is no column \"m\"; the columns are n");
        let months = arrow_array::IntervalYearMonthArray::from(vec![1]);
        let refused = by_first()
            .split(&batch(Arc::new(months)), 2)
            .map(<[_]>::len);
        let message = refused.unwrap_err().to_string();
        assert!(
            message.starts_with("column \"key\" of type Interval"),
            "{message}"
        );
    }
}

use arrow_array::types::UInt32Type;
use arrow_array::{PrimitiveArray, RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::ArrowError;
use arrow_select::take::take_record_batch;
use oka_protocol::partition::{combine, target};
use thiserror::Error;

use crate::key::KeyHashes;
use crate::{ColumnError, KeyError, Selector};

/// Cuts batches into one for each target, by the hash of a key column, or of several, whose values
/// are one key: a tuple.
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
/// assert_eq!(parts.iter().map(|(_, part)| part.num_rows()).sum::<usize>(), 4);
/// ```
#[derive(Debug)]
pub struct Partitioner {
    key: Vec<Selector>,
    hashes: Vec<KeyHashes>,
    targets: Vec<u32>,
}

impl Partitioner {
    /// By these columns.
    pub fn new(key: Vec<Selector>) -> Self {
        Self {
            hashes: key.iter().map(|_| KeyHashes::default()).collect(),
            key,
            targets: Vec::new(),
        }
    }

    /// The part of each target that has rows, ascending.
    pub fn split(
        &mut self,
        batch: &RecordBatch,
        targets: usize,
    ) -> Result<Vec<(usize, RecordBatch)>, PartitionError> {
        let mut columns = Vec::with_capacity(self.key.len());
        for (key, hashes) in self.key.iter().zip(&mut self.hashes) {
            let key = key.find(batch.schema_ref())?;
            columns.push(hashes.of(batch.column(key))?);
        }
        let mut ends = vec![0_u32; targets];
        let mut pick = |hash| {
            let target = target(hash, targets);
            ends[target] += 1;
            target as u32
        };
        self.targets.clear();
        match &columns[..] {
            [only] => self.targets.extend(only.iter().map(|hash| pick(*hash))),
            all => self.targets.extend(
                (0..batch.num_rows())
                    .map(|row| pick(combine(all.iter().map(|hashes| hashes[row])))),
            ),
        }
        if let Some(only) = ends
            .iter()
            .position(|rows| *rows as usize == batch.num_rows())
        {
            return Ok(vec![(only, batch.clone())]);
        }
        let mut start = 0;
        let starts: Vec<u32> = ends
            .iter_mut()
            .map(|end| {
                let begin = start;
                start += *end;
                *end = begin;
                begin
            })
            .collect();
        let mut rows = vec![0_u32; batch.num_rows()];
        for (row, target) in (0..).zip(&self.targets) {
            let next = &mut ends[*target as usize];
            rows[*next as usize] = row;
            *next += 1;
        }
        let rows: UInt32Array = PrimitiveArray::<UInt32Type>::new(ScalarBuffer::from(rows), None);
        let parts = starts.iter().zip(&ends).enumerate();
        parts
            .filter(|(_, (start, end))| start < end)
            .map(|(target, (start, end))| {
                let rows = rows.slice(*start as usize, (end - start) as usize);
                Ok((target, take_record_batch(batch, &rows)?))
            })
            .collect()
    }
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
    /// Its rows cannot be picked.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, StringArray};
    use arrow_array::{cast::AsArray, record_batch, types::Int32Type};
    use oka_protocol::partition::{hash_float, hash_int, hash_none, hash_str};

    use super::*;

    fn by_first() -> Partitioner {
        Partitioner::new(vec![Selector::Index(0)])
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
        let plain = by_first().split(&batch(Arc::new(texts)), 7).unwrap();
        for (index, part) in &plain {
            let column = part.column(0).as_string::<i32>();
            assert!(
                column
                    .iter()
                    .flatten()
                    .all(|word| target(hash_str(word), 7) == *index)
            );
            let expected = words
                .iter()
                .filter(|word| target(hash_str(word), 7) == *index);
            assert!(column.iter().flatten().eq(expected));
        }
        let parts = by_first().split(&batch(Arc::new(coded)), 7).unwrap();
        assert_eq!(parts.len(), plain.len());
        for ((index, part), (_, plain)) in parts.iter().zip(&plain) {
            let column = part.column(0).as_dictionary::<Int32Type>();
            let words = column.downcast_dict::<StringArray>().unwrap();
            assert!(
                words.into_iter().eq(plain.column(0).as_string::<i32>()),
                "{index}"
            );
        }
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
        let mut found = 0;
        for (index, part) in partitioner.split(&rows, 3).unwrap() {
            let numbers = part
                .column(0)
                .as_primitive::<arrow_array::types::Int64Type>();
            let words = part.column(1).as_string::<i32>();
            for (number, word) in numbers.values().iter().zip(words) {
                let key = [word.map_or_else(hash_none, hash_str), hash_int(*number)];
                assert_eq!(target(combine(key), 3), index);
                found += 1;
            }
        }
        assert_eq!(found, 4);
    }

    #[test]
    fn numbers_and_nulls_hash_as_in_python() {
        let mut hashes = KeyHashes::default();
        let integers = Int64Array::from(vec![Some(1), None]);
        assert_eq!(hashes.of(&integers).unwrap(), [hash_int(1), hash_none()]);
        let floats = Float64Array::from(vec![1.0, -0.0, 0.5]);
        let expected = [hash_int(1), hash_int(0), hash_float(0.5)];
        assert_eq!(hashes.of(&floats).unwrap(), expected);
    }

    #[test]
    fn a_new_dictionary_is_hashed_anew() {
        let mut hashes = KeyHashes::default();
        for word in ["a", "b", "c"] {
            let coded: DictionaryArray<Int32Type> = [word].into_iter().collect();
            assert_eq!(hashes.of(&coded).unwrap(), [hash_str(word)]);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let batch = record_batch!(("n", Int64, [1])).unwrap();
        let missing = Partitioner::new(vec![Selector::Name("m".to_owned())]).split(&batch, 2);
        let message = missing.unwrap_err().to_string();
        assert_eq!(message, "there is no column \"m\"; the columns are n");
        let dates = arrow_array::Date32Array::from(vec![1]);
        assert!(KeyHashes::default().of(&dates).is_err());
    }
}

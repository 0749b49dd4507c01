//! Entries of keyed state, as a table that is in the order of their hashes.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, UInt64Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use bytes::Bytes;
use oka_compute::ByteStrings;

use crate::channel::parts::parts;
use crate::{DecodeError, Decoder, EncodeError};

/// Keys with what is kept of them, both encoded as records are, each behind the hash by which the key
/// belongs to a task.
///
/// Invariant: ascending, so that the share of a task is a slice, which is not copied. Clones share
/// their buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    hashes: UInt64Array,
    keys: LargeBinaryArray,
    values: LargeBinaryArray,
}

impl Entries {
    /// Of these, which are in any order.
    pub fn new(hashes: &[u64], keys: &ByteStrings, values: &ByteStrings) -> Self {
        let mut order: Vec<_> = (0..).zip(hashes).map(|(row, hash)| (*hash, row)).collect();
        sort(&mut order, |row: u32| {
            (keys.get(row as usize), values.get(row as usize))
        });
        let rows = || order.iter().map(|(_, row)| *row as usize);
        Self {
            hashes: order
                .iter()
                .map(|(hash, _)| *hash)
                .collect::<Vec<_>>()
                .into(),
            keys: binary(keys.gather(rows())),
            values: binary(values.gather(rows())),
        }
    }

    /// Of keys that are in the order of these hashes, with no values.
    pub(crate) fn sorted(hashes: Vec<u64>, keys: ByteStrings) -> Self {
        let ends = OffsetBuffer::new_zeroed(keys.len()); // memory that is not touched takes no time
        Self {
            hashes: hashes.into(),
            keys: binary(keys),
            values: LargeBinaryArray::new(ends, Buffer::default(), None),
        }
    }

    /// Their keys with no values, in memory of their own.
    pub(crate) fn keys_alone(&self) -> Self {
        let mut keys = ByteStrings::with_room(self.len(), self.key_bytes().len());
        (0..self.len()).for_each(|index| keys.push(self.keys.value(index)));
        Self::sorted(self.hashes.values().to_vec(), keys)
    }

    /// Those of the same keys with other values, in the same order.
    #[must_use]
    pub fn with_values(&self, values: ByteStrings) -> Self {
        assert_eq!(values.len(), self.len(), "a value for each key");
        Self {
            values: binary(values),
            ..self.clone()
        }
    }

    /// All of these together.
    pub fn merge(parts: &[Self]) -> Self {
        let mut parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).collect();
        if let [only] = parts[..] {
            return only.clone();
        }
        // Tasks have hashes apart: what they kept needs no order but that of the parts.
        parts.sort_unstable_by_key(|part| part.hashes.value(0));
        if parts.is_sorted_by(|one, other| one.hashes.value(one.len() - 1) < other.hashes.value(0))
            && let Some(joined) = Self::joined(&parts)
        {
            return joined;
        }
        let all = || parts.iter().flat_map(|part| part.iter());
        let hashes: Vec<_> = all().map(|(hash, ..)| hash).collect();
        let keys = all().map(|(_, key, _)| key).collect();
        let values = all().map(|(.., value)| value).collect();
        Self::new(&hashes, &keys, &values)
    }

    /// Behind one another; `None` where they are too many bytes.
    fn joined(parts: &[&Self]) -> Option<Self> {
        let join = |column: fn(&Self) -> &dyn Array| {
            concat(&parts.iter().map(|part| column(part)).collect::<Vec<_>>()).ok()
        };
        Some(Self {
            hashes: join(|part| &part.hashes)?
                .as_primitive::<UInt64Type>()
                .clone(),
            keys: join(|part| &part.keys)?.as_binary().clone(),
            values: join(|part| &part.values)?.as_binary().clone(),
        })
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> (u64, &[u8], &[u8]) {
        let (hash, key) = (self.hashes.value(index), self.keys.value(index));
        (hash, key, self.values.value(index))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &[u8], &[u8])> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn hashes(&self) -> &UInt64Array {
        &self.hashes
    }

    /// All keys back to back.
    pub fn key_bytes(&self) -> &[u8] {
        back_to_back(&self.keys)
    }

    /// All values back to back.
    pub fn value_bytes(&self) -> &[u8] {
        back_to_back(&self.values)
    }

    /// Those that belong to the task of this index, out of so many.
    #[must_use]
    pub fn share(&self, index: usize, parallelism: usize) -> Self {
        // As `oka_protocol::partition::target`: hash * parallelism >> 64.
        let first = |index: usize| ((index as u128) << 64).div_ceil(parallelism as u128);
        let before =
            |edge| (self.hashes.values()).partition_point(|hash: &u64| u128::from(*hash) < edge);
        let (start, end) = (before(first(index)), before(first(index + 1)));
        Self {
            hashes: self.hashes.slice(start, end - start),
            keys: self.keys.slice(start, end - start),
            values: self.values.slice(start, end - start),
        }
    }

    /// As messages of an Arrow IPC stream, of the columns `hash`, `key` and `value`, in parts one behind the
    /// other.
    pub fn write(&self) -> Result<Vec<Bytes>, EncodeError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.hashes.clone()),
            Arc::new(self.keys.clone()),
            Arc::new(self.values.clone()),
        ];
        parts(&RecordBatch::try_new(Arc::clone(&SCHEMA), columns)?)
    }

    /// So many, as [`Self::write`] has written them; they keep what was written, which is not copied.
    pub fn read(written: Bytes, len: usize) -> Result<Self, DecodeError> {
        let mut runs = Vec::new();
        Decoder::default().accept(written, len, &mut runs)?;
        let [columns] = &runs[..] else {
            return Err(DecodeError::Malformed);
        };
        if **columns.schema() != **SCHEMA {
            return Err(DecodeError::Malformed);
        }
        let mut batches = columns.in_place(&[0, 1, 2])?;
        let (Some(batch), None) = (batches.next(), batches.next()) else {
            return Err(DecodeError::Malformed);
        };
        let batch = batch?;
        let are_there = batch
            .columns()
            .iter()
            .all(|column| column.null_count() == 0);
        if !are_there || batch.num_rows() != len {
            return Err(DecodeError::Malformed);
        }
        let entries = Self {
            hashes: batch.column(0).as_primitive::<UInt64Type>().clone(),
            keys: batch.column(1).as_binary().clone(),
            values: batch.column(2).as_binary().clone(),
        };
        if !entries.hashes.values().is_sorted() {
            return Err(DecodeError::Malformed);
        }
        Ok(entries)
    }
}

impl Default for Entries {
    fn default() -> Self {
        Self::new(&[], &ByteStrings::default(), &ByteStrings::default())
    }
}

/// Sorts by hash. What has the same hash, which is rare, goes by what `of` gives for its row.
pub(crate) fn sort<'a, K: Ord + 'a>(order: &mut [(u64, u32)], of: impl Fn(u32) -> K) {
    order.sort_unstable_by_key(|(hash, _)| *hash);
    for same in order.chunk_by_mut(|(one, _), (other, _)| one == other) {
        if same.len() > 1 {
            same.sort_unstable_by_key(|(_, row)| of(*row));
        }
    }
}

fn binary(strings: ByteStrings) -> LargeBinaryArray {
    let (bytes, ends) = strings.into_parts();
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    LargeBinaryArray::new(ends, Buffer::from_vec(bytes), None)
}

fn back_to_back(array: &LargeBinaryArray) -> &[u8] {
    let ends = array.value_offsets();
    &array.value_data()[ends[0] as usize..ends[array.len()] as usize]
}

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("hash", DataType::UInt64, false),
        Field::new("key", DataType::LargeBinary, false),
        Field::new("value", DataType::LargeBinary, false),
    ]))
});

#[cfg(test)]
mod tests {
    use super::*;
    use oka_protocol::partition::target;
    use proptest::prelude::*;

    type Row = (u64, Vec<u8>, Vec<u8>);

    fn of(rows: &[Row]) -> Entries {
        let hashes: Vec<_> = rows.iter().map(|(hash, ..)| *hash).collect();
        let keys = rows.iter().map(|(_, key, _)| key).collect();
        let values = rows.iter().map(|(.., value)| value).collect();
        Entries::new(&hashes, &keys, &values)
    }

    fn rows(entries: &Entries) -> Vec<Row> {
        let owned = |(hash, key, value): (u64, &[u8], &[u8])| (hash, key.to_vec(), value.to_vec());
        entries.iter().map(owned).collect()
    }

    fn some() -> impl Strategy<Value = Vec<Row>> {
        let edges = (0..8_u64).prop_map(|eighth| eighth << 61);
        let hash = prop_oneof![any::<u64>(), edges, Just(u64::MAX), 0..3_u64];
        let bytes = || prop::collection::vec(any::<u8>(), 0..4);
        prop::collection::vec((hash, bytes(), bytes()), 0..40)
    }

    proptest! {
        #[test]
        fn shares_are_what_a_gate_sends_and_together_all(all in some(), parallelism in 1..9_usize) {
            let (first, second) = all.split_at(all.len() / 2);
            let parts = [of(first), of(second)];
            let mut expected = all.clone();
            expected.sort_unstable();
            let mut found = Vec::new();
            for index in 0..parallelism {
                let share = Entries::merge(&parts.clone().map(|part| part.share(index, parallelism)));
                prop_assert!(share.iter().all(|(hash, ..)| target(hash, parallelism) == index));
                let bytes: Vec<u8> = share.iter().flat_map(|(_, key, _)| key.to_vec()).collect();
                prop_assert_eq!(share.key_bytes(), bytes);
                let again = Entries::read(share.write().unwrap().concat().into(), share.len()).unwrap();
                prop_assert_eq!(&again, &share);
                found.extend(rows(&share));
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn torn_bytes_are_refused_or_entries(all in some(), cut in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let whole = of(&all).write().unwrap().concat();
            let at = cut.index(whole.len());
            let mut flipped = whole.clone();
            flipped[at] ^= 1_u8 << bit;
            for bytes in [&whole[..at], &flipped] {
                if let Ok(entries) = Entries::read(bytes.to_vec().into(), all.len()) {
                    prop_assert_eq!(entries.iter().count(), entries.len());
                }
            }
        }
    }

    #[test]
    fn other_columns_are_refused() {
        let batch = arrow_array::record_batch!(("hash", UInt64, [1, 2])).unwrap();
        let mut written = Vec::new();
        crate::Encoder::default()
            .append(&batch, &mut written)
            .unwrap();
        assert!(Entries::read(written.into(), 2).is_err());
    }
}

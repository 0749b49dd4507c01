//! What is known of a column's dictionary, and a dictionary of keys that many results share.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_data::ArrayData;
use arrow_schema::ArrowError;

use crate::keys::kind::{KeyNumbers, NULL, Wanted};

/// What was found for the values of a dictionary: good for as long as columns share it.
#[derive(Debug, Default)]
pub(crate) struct Dictionary<T> {
    /// Kept, so that its memory stays and tells it from any other.
    values: Option<ArrayData>,
    found: Vec<T>,
}

impl<T> Dictionary<T> {
    pub(crate) fn of(&mut self, values: &ArrayRef, find: impl FnOnce(&ArrayRef) -> Vec<T>) -> &[T] {
        let data = values.to_data();
        if !matches!(&self.values, Some(known) if known.ptr_eq(&data)) {
            self.found = find(values);
            self.values = Some(data);
        }
        &self.found
    }
}

/// A dictionary of all keys so far, for many results.
///
/// While new keys come it would have to be made anew each time, so that results have dictionaries of
/// their own then, until these have cost as much as it does: what is copied, here and on channels, is
/// at most twice what it would be without dictionaries.
#[derive(Debug, Default)]
pub(crate) struct SharedDictionary {
    keys: Option<ArrayRef>,
    /// Keys that results were given since one had a key that is not in the dictionary.
    copied: usize,
}

impl SharedDictionary {
    /// The keys of these numbers as codes.
    pub(crate) fn column(
        &mut self,
        touched: &[u32],
        numbers: &KeyNumbers,
        keys: impl Fn(Wanted<'_>) -> Result<ArrayRef, ArrowError>,
    ) -> Result<ArrayRef, ArrowError> {
        let known = self.keys.as_ref().map_or(0, Array::len);
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

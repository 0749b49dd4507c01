//! Copies of what keys have come to.

use crate::accumulator::Accumulated;
use crate::encoded::ahead::prefetch;
use crate::encoded::encode;
use crate::encoded::strings::{AHEAD, ByteStrings};
use crate::keys::interner::Interner;
use crate::problem::Problem;
use std::mem;
use std::sync::Arc;

/// Keys and values, both encoded, which were copied in no time: who calls it encodes them, in whichever
/// thread.
pub type Copied<E = Problem> = Box<dyn FnOnce() -> Result<(ByteStrings, ByteStrings), E> + Send>;

/// Keys, and values of some numbers.
pub(crate) fn later(keys: CopiedKeys, values: Values) -> Copied {
    Box::new(move || Ok((keys.iter().collect(), values.gather(0..values.len()))))
}

/// What keys have come to, by their numbers, while the table goes on.
///
/// Who takes it keeps records waiting: of numbers it is these as they stand, and encoding them is left
/// to who reads it.
#[derive(Clone, Debug)]
pub struct Values(Vec<Column>);

/// What one aggregation has come to.
#[derive(Clone, Debug)]
pub enum Column {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    /// Large integers, means, and numbers of several kinds.
    Others(Vec<Accumulated>),
    /// What has memory of its own, which costs as much to copy as to encode.
    Encoded(ByteStrings),
}

impl Values {
    /// Of columns that are as long as each other, one for each aggregation.
    pub fn new(columns: Vec<Column>) -> Self {
        Self(columns)
    }

    pub fn len(&self) -> usize {
        self.0.first().map_or(0, Column::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of the keys with these numbers, encoded: one, or an array of several.
    pub fn gather(&self, numbers: impl ExactSizeIterator<Item = usize> + Clone) -> ByteStrings {
        let mut out = ByteStrings::with_room(numbers.len(), 0);
        let mut next = numbers.clone().skip(AHEAD);
        for number in numbers {
            if let Some(next) = next.next() {
                self.0.iter().for_each(|each| each.prefetch(next));
            }
            out.push_with(|bytes| {
                if self.0.len() > 1 {
                    encode::array(bytes, self.0.len());
                }
                self.0.iter().for_each(|each| each.encode(number, bytes));
            });
        }
        out
    }
}

impl Column {
    /// A copy of these.
    pub(crate) fn of<'a>(values: impl ExactSizeIterator<Item = &'a Accumulated> + Clone) -> Self {
        let integer = |value: &Accumulated| match value {
            Accumulated::Integer(number) => i64::try_from(*number).ok(),
            _ => None,
        };
        let float = |value: &Accumulated| match value {
            Accumulated::Float(number) => Some(*number),
            _ => None,
        };
        if let Some(numbers) = all(values.clone(), integer) {
            return Self::Integers(numbers);
        }
        if let Some(numbers) = all(values.clone(), float) {
            return Self::Floats(numbers);
        }
        if let Some(numbers) = all(values.clone(), |value| {
            value.is_in_place().then(|| value.clone())
        }) {
            return Self::Others(numbers);
        }
        let mut encoded = ByteStrings::with_room(values.len(), 0);
        values.for_each(|value| encoded.push_with(|out| value.encode(out)));
        Self::Encoded(encoded)
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(numbers) => numbers.len(),
            Self::Floats(numbers) => numbers.len(),
            Self::Others(values) => values.len(),
            Self::Encoded(values) => values.len(),
        }
    }

    #[inline]
    fn prefetch(&self, number: usize) {
        match self {
            Self::Integers(numbers) => prefetch(&raw const numbers[number]),
            Self::Floats(numbers) => prefetch(&raw const numbers[number]),
            Self::Others(values) => prefetch(&raw const values[number]),
            Self::Encoded(values) => prefetch(values.get(number).as_ptr()),
        }
    }

    #[inline]
    fn encode(&self, number: usize, out: &mut Vec<u8>) {
        match self {
            Self::Integers(numbers) => encode::int(out, numbers[number]),
            Self::Floats(numbers) => encode::float(out, numbers[number]),
            Self::Others(values) => values[number].encode(out),
            Self::Encoded(values) => out.extend_from_slice(values.get(number)),
        }
    }
}

/// What `read` finds in all of them; `None` where it does not.
fn all<'a, T>(
    values: impl ExactSizeIterator<Item = &'a Accumulated>,
    read: impl Fn(&Accumulated) -> Option<T>,
) -> Option<Vec<T>> {
    let mut found = Vec::with_capacity(values.len());
    for value in values {
        found.push(read(value)?);
    }
    Some(found)
}

/// Copies of the keys of a table that only grows, of those that nobody has taken so far.
#[derive(Debug, Default)]
pub struct NewKeys {
    copied: usize,
    parts: Vec<ByteStrings>,
}

impl NewKeys {
    /// Behind so many, which are copied already.
    pub fn behind(copied: usize) -> Self {
        Self {
            copied,
            parts: Vec::new(),
        }
    }

    /// How many were copied in all.
    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Copies these, which are new.
    pub fn add<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut keys = keys.peekable();
        if keys.peek().is_none() {
            return;
        }
        if self.parts.last().is_none_or(|last| last.len() >= TOGETHER) {
            let room = TOGETHER.min(keys.size_hint().0);
            self.parts.push(ByteStrings::with_room(room, 0));
        }
        if let Some(last) = self.parts.last_mut() {
            let before = last.len();
            keys.for_each(|key| last.push(key));
            self.copied += last.len() - before;
        }
    }

    /// All that are here, in the order of their numbers.
    pub fn take(&mut self) -> Vec<ByteStrings> {
        mem::take(&mut self.parts)
    }
}

/// So many keys are copied into one place, which moves as it grows. Of parts with fewer, those of like sizes
/// become one.
const TOGETHER: usize = 1 << 16;

/// The keys of a table that only grows, copied part by part: those who take them share the parts.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    parts: Vec<Arc<ByteStrings>>,
    new: NewKeys,
}

impl Keys {
    /// Copies those that are new: [`Self::copy`] then takes less time.
    pub(crate) fn copy_new(&mut self, keys: &Interner) {
        self.new.add(keys.from(self.new.copied()));
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn copy(&mut self, keys: &Interner) -> CopiedKeys {
        self.copy_new(keys);
        for part in self.new.take() {
            self.parts.push(Arc::new(part));
            while let [.., one, other] = &self.parts[..]
                && one.len() <= 2 * other.len()
                && one.len() + other.len() <= TOGETHER
            {
                let both = one.iter().chain(other.iter()).collect();
                self.parts.truncate(self.parts.len() - 2);
                self.parts.push(Arc::new(both));
            }
        }
        CopiedKeys(self.parts.clone())
    }
}

/// Keys in the order of their numbers.
#[derive(Debug)]
pub(crate) struct CopiedKeys(Vec<Arc<ByteStrings>>);

impl CopiedKeys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|part| part.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_one_by_one_are_in_few_parts() {
        let (mut keys, mut interner) = (Keys::default(), Interner::default());
        let all: Vec<_> = (0..1000_u32).map(u32::to_le_bytes).collect();
        for (at, key) in all.iter().enumerate() {
            interner.number_by_call((key, key));
            let taken = keys.copy(&interner);
            assert!(taken.iter().eq(&all[..=at]), "{at}");
            assert!(taken.0.len() <= 10, "{} parts", taken.0.len());
        }
    }
}

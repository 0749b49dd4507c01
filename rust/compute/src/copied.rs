//! A copy of what keys have come to.

use crate::accumulator::Accumulated;
use crate::encode;
use crate::groups::Update;
use crate::strings::ByteStrings;

/// What keys have come to, by their numbers, while the table goes on.
///
/// Who takes it keeps records waiting: of counts and sums it is the numbers as they stand, and
/// encoding them is left to who reads it.
#[derive(Clone, Debug)]
pub enum Values {
    Small(Vec<i64>),
    Encoded(ByteStrings),
}

impl Values {
    /// Those of values that are all integers of 64 bits.
    pub(crate) fn small<'a>(
        values: impl ExactSizeIterator<Item = &'a Accumulated>,
    ) -> Option<Self> {
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Accumulated::Integer(number) => numbers.push(i64::try_from(*number).ok()?),
                _ => return None,
            }
        }
        Some(Self::Small(numbers))
    }

    pub(crate) fn encoded<'a>(updates: impl Iterator<Item = Update<'a>>) -> Self {
        let mut values = ByteStrings::with_room(updates.size_hint().0, 0);
        for update in updates {
            values.push_with(|out| update.encode(out));
        }
        Self::Encoded(values)
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Small(numbers) => numbers.len(),
            Self::Encoded(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the values of the keys with these numbers, encoded.
    pub fn gather(&self, numbers: impl ExactSizeIterator<Item = usize>) -> ByteStrings {
        let mut out = ByteStrings::with_room(numbers.len(), 0);
        match self {
            Self::Small(values) => {
                for number in numbers {
                    out.push_with(|bytes| encode::int(bytes, values[number]));
                }
            }
            Self::Encoded(values) => numbers.for_each(|number| out.push(values.get(number))),
        }
        out
    }
}

//! Byte strings back to back.

use crate::encoded::ahead::prefetch;

/// Many byte strings in one buffer, each between two of its ends: as cheap to copy and to drop as two
/// arrays, and what a binary column consists of.
///
/// ```
/// use oka_compute::ByteStrings;
///
/// let mut strings = ByteStrings::default();
/// strings.push(b"to");
/// strings.push(b"be");
/// assert_eq!((strings.len(), strings.get(1)), (2, &b"be"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct ByteStrings {
    bytes: Vec<u8>,
    /// Where each begins, and where the last ends.
    ends: Vec<i64>,
}

impl ByteStrings {
    /// With room for so many, of about so many bytes together.
    pub fn with_room(strings: usize, bytes: usize) -> Self {
        let mut ends = Vec::with_capacity(strings + 1);
        ends.push(0);
        Self {
            bytes: Vec::with_capacity(bytes),
            ends,
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.ends[index] as usize..self.ends[index + 1] as usize]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.end();
    }

    /// Appends what `write` appends to the buffer.
    pub fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let written = write(&mut self.bytes);
        self.end();
        written
    }

    /// Those with these numbers, in this order, which may be any: they are asked for before they are read.
    #[must_use]
    pub fn gather(&self, numbers: impl ExactSizeIterator<Item = usize> + Clone) -> Self {
        let mut gathered = Self::with_room(numbers.len(), self.bytes.len());
        let mut ends = numbers.clone().skip(2 * AHEAD);
        let mut starts = numbers.clone().skip(AHEAD);
        for number in numbers {
            if let Some(end) = ends.next() {
                prefetch(&raw const self.ends[end]);
            }
            if let Some(start) = starts.next() {
                prefetch(self.get(start).as_ptr());
            }
            gathered.push(self.get(number));
        }
        gathered
    }

    /// The bytes, and where each string begins and the last ends.
    pub fn into_parts(self) -> (Vec<u8>, Vec<i64>) {
        (self.bytes, self.ends)
    }

    fn end(&mut self) {
        self.ends.push(self.bytes.len() as i64);
    }
}

impl Default for ByteStrings {
    fn default() -> Self {
        Self::with_room(0, 0)
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for ByteStrings {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Self {
        let strings = strings.into_iter();
        let mut all = Self::with_room(strings.size_hint().0, 0);
        strings.for_each(|each| all.push(each.as_ref()));
        all
    }
}

/// So many strings take about as long to copy as one takes to come from memory.
pub(crate) const AHEAD: usize = 16;

//! The last value of each key, of encoded pairs.

use crate::encoded::encode;
use crate::encoded::value::{ReadError, Reader, Value};
use crate::keys::interner::Interner;
use crate::keys::key::{KeyError, canonical};
use crate::keys::short::Bytes;
use thiserror::Error;

/// A record is no pair of a key and a value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoPair {
    #[error("no array of two values")]
    Shape,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Keys with their last values, in the order in which the keys came.
///
/// ```
/// use oka_compute::Latest;
///
/// let mut latest = Latest::default();
/// latest.add(b"\x92\xa1a\x01\x92\xa1b\x02\x92\xa1a\x03", 3)?;
/// assert_eq!(latest.take(), (2, b"\x92\xa1a\x03\x92\xa1b\x02".to_vec()));
/// assert_eq!(latest.take(), (0, Vec::new()));
/// # Ok::<(), oka_compute::latest::NoPair>(())
/// ```
#[derive(Debug, Default)]
pub struct Latest {
    keys: Interner,
    /// By the numbers of the keys.
    values: Vec<Bytes>,
    scratch: Vec<u8>,
}

impl Latest {
    /// Takes in so many pairs, which lie one after the other. Where one is no pair, those before it were taken in.
    pub fn add(&mut self, body: &[u8], pairs: usize) -> Result<(), NoPair> {
        let mut reader = Reader::new(body);
        for _ in 0..pairs {
            if reader.read()? != Value::Array(2) {
                return Err(NoPair::Shape);
            }
            let (key, value) = (reader.encoded()?, reader.encoded()?);
            let canonical = canonical(key, &mut self.scratch)?;
            let number = self.keys.number((key, canonical));
            match self.values.get_mut(number) {
                Some(before) => before.set(value),
                None => self.values.push(value.into()),
            }
        }
        Ok(())
    }

    /// The number of pairs, and the pairs as they are encoded: each key as it came first. They are forgotten.
    pub fn take(&mut self) -> (usize, Vec<u8>) {
        let mut pairs = Vec::new();
        for (number, value) in self.values.iter().enumerate() {
            encode::array(&mut pairs, 2);
            pairs.extend_from_slice(self.keys.get(number));
            pairs.extend_from_slice(value);
        }
        let taken = (self.values.len(), pairs);
        *self = Self::default();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &[u8], value: &[u8]) -> Vec<u8> {
        [&[0x92][..], key, value].concat()
    }

    /// The second key replaces the value of the first one, whose form stays, or is another key.
    #[test]
    fn equal_keys_are_one_in_its_first_form() {
        let one = &[0x01][..];
        let float_one = &[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0][..];
        let nan = &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0][..];
        let other_nan = &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1][..];
        let text = &[0xa1, b'a'][..];
        let bytes = &[0xc4, 1, b'a'][..];
        for (first, second, are_one) in [
            (one, float_one, true),
            (float_one, one, true),
            (&[0xc3], one, true),
            (nan, other_nan, true),
            (&[0x92, 0x01, 0xc2], &[0x92, 0xc3, 0x00], true),
            (text, bytes, false),
            (one, &[0xa1, b'1'], false),
            (&[0xc0], &[0x00], false),
            (&[0x90], &[0xc0], false),
        ] {
            let mut latest = Latest::default();
            let pairs = [pair(first, &[0xa1, b'x']), pair(second, &[0xa1, b'y'])].concat();
            assert_eq!(latest.add(&pairs, 2), Ok(()));
            let expected = if are_one {
                (1, pair(first, &[0xa1, b'y']))
            } else {
                (2, pairs)
            };
            assert_eq!(latest.take(), expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn values_of_any_length_replace_each_other() {
        let value = |length: usize| [&[0xda, 0, length as u8][..], &vec![b'v'; length]].concat();
        for before in [0, 19, 20, 21, 40, 200] {
            for after in [0, 19, 20, 21, 40, 200] {
                let mut latest = Latest::default();
                for length in [before, after] {
                    assert_eq!(latest.add(&pair(b"\xa1k", &value(length)), 1), Ok(()));
                }
                assert_eq!(latest.take(), (1, pair(b"\xa1k", &value(after))));
            }
        }
    }

    #[test]
    fn what_is_no_pair_is_refused_behind_those_before() {
        for (bad, expected) in [
            (&[0x07][..], NoPair::Shape),
            (&[0x91, 0x01], NoPair::Shape),
            (&[0x93, 0x01, 0x02, 0x03], NoPair::Shape),
            (&[0x82, 0x01, 0x02, 0x03, 0x04], NoPair::Shape),
            (&[0x92, 0x80, 0x01], KeyError::Unhashable("dict").into()),
            (&[0x92, 0x01], ReadError::Truncated(5).into()),
            (&[], ReadError::Truncated(3).into()),
        ] {
            let mut latest = Latest::default();
            let body = [&pair(&[0x01], &[0x02]), bad].concat();
            assert_eq!(latest.add(&body, 2), Err(expected));
            assert_eq!(latest.take(), (1, pair(&[0x01], &[0x02])), "{bad:?}");
        }
    }
}

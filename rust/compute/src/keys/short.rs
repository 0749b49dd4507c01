//! Hash and equality of short byte strings, such as words, without the calls that general ones make.
//!
//! For tables inside one process only: the hash is no part of any format and may change. Where it
//! decides which task a record goes to, `oka_protocol::partition` has the hash.

use std::ops::Deref;
use xxhash_rust::xxh3::xxh3_64;

/// A hash. Up to [`LONGEST`] bytes it is folded multiplication, inline; above that XXH3.
///
/// It reads the bytes in pairs of words from both ends, which meet or overlap in the middle: one
/// multiplication for up to 16 bytes, two for 32, four for 64.
#[expect(
    clippy::inline_always,
    reason = "a loop over records has no call for a key"
)]
#[inline(always)]
pub fn hash(bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).wrapping_mul(MULTIPLIERS[0]);
    if let (Some(start), Some(end)) = (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        if bytes.len() > LONGEST {
            return xxh3_64(bytes);
        }
        let mut sum = length
            .wrapping_add(fold_pair(start, MULTIPLIERS[1], MULTIPLIERS[2]))
            .wrapping_add(fold_pair(end, MULTIPLIERS[3], MULTIPLIERS[4]));
        if let (Some(start), Some(end)) = (bytes.first_chunk::<32>(), bytes.last_chunk::<32>())
            && bytes.len() > 32
        {
            let (_, start) = start.split_at(16);
            let (end, _) = end.split_at(16);
            sum = sum
                .wrapping_add(fold_pair(start, MULTIPLIERS[2], MULTIPLIERS[5]))
                .wrapping_add(fold_pair(end, MULTIPLIERS[4], MULTIPLIERS[1]));
        }
        return sum ^ sum >> 32;
    }
    let (low, high) = if let (Some(start), Some(end)) =
        (bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
    {
        (u64::from_le_bytes(*start), u64::from_le_bytes(*end))
    } else if let (Some(start), Some(end)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        (u64::from(start), u64::from(end))
    } else {
        let word = |word, byte: &u8| word << 8 | u64::from(*byte);
        (bytes.iter().fold(0, word), 0)
    };
    fold(low ^ MULTIPLIERS[1], high ^ length ^ MULTIPLIERS[2])
}

/// A byte string that is in place where it is short: it needs no memory of its own then, and who has it
/// does not wait for that.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    InPlace { length: u8, bytes: [u8; IN_PLACE] },
    Apart(Box<[u8]>),
}

impl Bytes {
    /// Takes the place of what it was; in the same memory if the length is the same.
    #[inline]
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        match self {
            Self::Apart(before) if before.len() == bytes.len() => before.copy_from_slice(bytes),
            _ => *self = bytes.into(),
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        let mut copied = [0; IN_PLACE];
        let Some(place) = copied.get_mut(..bytes.len()) else {
            return Self::Apart(bytes.into());
        };
        place.copy_from_slice(bytes);
        Self::InPlace {
            length: bytes.len() as u8,
            bytes: copied,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::InPlace { length, bytes } => &bytes[..usize::from(*length)],
            Self::Apart(bytes) => bytes,
        }
    }
}

/// Equality.
#[inline]
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && match left.len() {
            0..4 => left.iter().eq(right),
            4..8 => equal_ends::<4>(left, right),
            8..16 => equal_ends::<8>(left, right),
            16..=32 => equal_ends::<16>(left, right),
            33..=LONGEST => equal_ends::<32>(left, right),
            _ => left == right,
        }
}

/// Equality of the first `N` bytes and of the last ones, which meet or overlap in the middle.
#[expect(
    clippy::inline_always,
    reason = "a call costs a count in windows a fiftieth of its instructions"
)]
#[inline(always)]
fn equal_ends<const N: usize>(left: &[u8], right: &[u8]) -> bool {
    (left.first_chunk::<N>() == right.first_chunk())
        & (left.last_chunk::<N>() == right.last_chunk())
}

/// What counts as short, in bytes.
pub const LONGEST: usize = 64;

#[inline]
fn fold_pair(pair: &[u8], left: u64, right: u64) -> u64 {
    let (low, high) = pair.split_at(8);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default());
    fold(word(low) ^ left, word(high) ^ right)
}

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Odd numbers without a pattern: the fraction of the golden ratio, and of pi.
const MULTIPLIERS: [u64; 6] = [
    0x9e37_79b9_7f4a_7c15,
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
];

/// An integer and most words; with length and kind they are three words of memory.
const IN_PLACE: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn bytes_are_what_they_were_made_of() {
        assert_eq!(size_of::<Bytes>(), 24);
        for length in 0..80_usize {
            let bytes: Vec<u8> = (0..length as u8).collect();
            assert_eq!(*Bytes::from(&bytes[..]), bytes);
        }
    }

    #[test]
    fn only_the_same_bytes_are_equal() {
        for length in 0..80_usize {
            let bytes: Vec<u8> = (0..length as u8).collect();
            assert!(equal(&bytes, &bytes.clone()), "{length}");
            assert!(!equal(&bytes, &[&bytes[..], b"."].concat()), "{length}");
            for changed in 0..length {
                let mut other = bytes.clone();
                other[changed] ^= 0x10;
                assert!(!equal(&bytes, &other), "{length} {changed}");
            }
        }
    }

    #[test]
    fn every_byte_counts() {
        for length in 0..80_usize {
            let bytes: Vec<u8> = (0..length as u8).collect();
            let mut hashes = HashSet::from([hash(&bytes)]);
            for changed in 0..length {
                let mut other = bytes.clone();
                other[changed] ^= 0x10;
                assert!(hashes.insert(hash(&other)), "{length} {changed}");
            }
        }
    }

    #[test]
    fn numbered_words_spread_evenly() {
        for width in [6, 12, 32, 60] {
            let mut counts = [0; 64];
            for number in 0..6400 {
                counts[hash(format!("{number:0width$}").as_bytes()) as usize % 64] += 1;
            }
            assert!(
                counts.iter().all(|count| (50..=150).contains(count)),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn equality_of_any_length() {
        let bytes: Vec<u8> = (0..100).collect();
        for length in 0..bytes.len() {
            assert!(equal(&bytes[..length], &bytes[..length]));
            assert!(!equal(&bytes[..length], &bytes[..=length]));
            for other in 0..length {
                let mut changed = bytes[..length].to_vec();
                changed[other] ^= 1;
                assert!(!equal(&bytes[..length], &changed), "{length} {other}");
            }
        }
    }
}

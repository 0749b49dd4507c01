//! Key hashes and the choice of a channel.
//!
//! Keys hash as Python compares them: `True`, `1` and `1.0` are one key, `0.0` and `-0.0` too, and
//! all NaN are one key; `"a"` and `b"a"` are two. A hash is the same in every process and version:
//! XXH3 of a canonical form, seeded with its type.
//!
//! ```
//! use oka_protocol::partition::{hash_float, hash_int, hash_str, target};
//!
//! assert_eq!(hash_int(1), hash_float(1.0));
//! assert!(target(hash_str("word"), 4) < 4);
//! ```

use crate::number::{Float, significant};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The channel, out of `channels`, that a key with this hash belongs to.
///
/// Multiply-shift: `hash * channels / 2^64`, uniform for any number of channels.
#[inline]
pub fn target(hash: u64, channels: usize) -> usize {
    ((u128::from(hash) * channels as u128) >> 64) as usize
}

/// The hash of `None`.
#[inline]
pub fn hash_none() -> u64 {
    xxh3_64_with_seed(&[], NONE)
}

/// The hash of an integer, and of `False` (0) and `True` (1).
#[inline]
pub fn hash_int(value: i64) -> u64 {
    xxh3_64_with_seed(&value.to_le_bytes(), INT)
}

/// The hash of an integer that is not negative.
#[inline]
pub fn hash_unsigned(value: u64) -> u64 {
    match i64::try_from(value) {
        Ok(value) => hash_int(value),
        Err(_) => hash_wide(false, &value.to_le_bytes()),
    }
}

/// The hash of an integer of any size, as sign and magnitude (little endian).
pub fn hash_big_int(negative: bool, magnitude: &[u8]) -> u64 {
    let magnitude = significant(magnitude);
    let length = magnitude.len();
    if length <= size_of::<u64>() {
        let mut low = [0; size_of::<u64>()];
        low[..length].copy_from_slice(magnitude);
        let low = i128::from(u64::from_le_bytes(low));
        if let Ok(value) = i64::try_from(if negative { -low } else { low }) {
            return hash_int(value);
        }
    }
    hash_wide(negative, magnitude)
}

/// The hash of a float: that of the equal integer if there is one.
#[inline]
pub fn hash_float(value: f64) -> u64 {
    match Float::of(value) {
        Float::Nan => xxh3_64_with_seed(&f64::NAN.to_bits().to_le_bytes(), FLOAT),
        Float::Fraction => xxh3_64_with_seed(&value.to_bits().to_le_bytes(), FLOAT),
        Float::Integer(value) => hash_int(value),
        Float::BigInteger {
            negative,
            magnitude,
        } => hash_big_int(negative, &magnitude),
    }
}

/// The hash of a string, as UTF-8.
#[inline]
pub fn hash_str(value: &str) -> u64 {
    hash_utf8(value.as_bytes())
}

/// The hash of a string whose bytes nobody has looked at yet.
#[inline]
pub fn hash_utf8(value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, STR)
}

/// The hash of bytes.
#[inline]
pub fn hash_bytes(value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, BYTES)
}

/// The hash of a tuple, from the hashes of its items in order.
pub fn combine(items: impl IntoIterator<Item = u64>) -> u64 {
    items.into_iter().fold(TUPLE, |hash, item| {
        xxh3_64_with_seed(&item.to_le_bytes(), hash)
    })
}

fn hash_wide(negative: bool, magnitude: &[u8]) -> u64 {
    xxh3_64_with_seed(magnitude, if negative { NEGATIVE_BIG_INT } else { BIG_INT })
}

// One seed per type; stable, since hashes decide where keyed state lives.
const NONE: u64 = 1;
const INT: u64 = 2;
const BIG_INT: u64 = 3;
const NEGATIVE_BIG_INT: u64 = 4;
const FLOAT: u64 = 5;
const STR: u64 = 6;
const BYTES: u64 = 7;
const TUPLE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

    #[test]
    fn equal_numbers_are_one_key() {
        assert_eq!(hash_float(1.0), hash_int(1));
        assert_eq!(hash_float(-0.0), hash_int(0));
        assert_eq!(hash_float(-3.0), hash_int(-3));
        assert_eq!(hash_unsigned(7), hash_int(7));
        assert_eq!(hash_float(-TWO_TO_63), hash_int(i64::MIN));
        assert_eq!(hash_float(TWO_TO_63), hash_unsigned(1 << 63));
        assert_eq!(
            hash_big_int(true, &[0, 0, 0, 0, 0, 0, 0, 128]),
            hash_int(i64::MIN)
        );
        assert_eq!(hash_big_int(false, &[5, 0, 0]), hash_int(5));
        assert_eq!(hash_big_int(true, &[]), hash_int(0));
        assert_eq!(
            hash_big_int(false, &u64::MAX.to_le_bytes()),
            hash_unsigned(u64::MAX)
        );
    }

    #[test]
    fn large_floats_hash_as_the_integer_they_are() {
        for exponent in 63..1_024 {
            let mut magnitude = [0; 128];
            magnitude[exponent / 8] = 1 << (exponent % 8);
            let value = 2f64.powi(exponent as i32);
            assert_eq!(hash_float(value), hash_big_int(false, &magnitude));
            assert_eq!(hash_float(-value), hash_big_int(true, &magnitude));
        }
        let value = 18_446_744_073_709_549_568_u64;
        assert_eq!(hash_float(value as f64), hash_unsigned(value));
        assert_ne!(hash_float(f64::MAX), hash_float(f64::INFINITY));
    }

    #[test]
    fn all_nan_are_one_key() {
        assert_eq!(hash_float(f64::NAN), hash_float(-f64::NAN));
        assert_eq!(
            hash_float(f64::from_bits(0x7ff8_0000_0000_0001)),
            hash_float(f64::NAN)
        );
    }

    #[test]
    fn types_are_kept_apart() {
        let hashes = [
            hash_none(),
            hash_int(0),
            hash_float(0.5),
            hash_str(""),
            hash_bytes(b""),
            combine([]),
            combine([hash_int(0)]),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash), "{index}");
        }
        assert_ne!(combine([1, 2]), combine([2, 1]));
    }

    #[test]
    fn hashes_do_not_change_between_versions() {
        for (hash, golden) in [
            (hash_none(), 5_604_079_703_740_606_211),
            (hash_int(0), 1_424_196_680_925_763_178),
            (hash_int(1), 4_678_170_435_044_338_961),
            (hash_int(-1), 7_614_535_501_727_829_113),
            (hash_int(i64::MIN), 3_918_729_842_428_792_734),
            (hash_unsigned(u64::MAX), 12_002_821_702_205_421_283),
            (
                hash_big_int(true, &[0, 0, 0, 0, 0, 0, 0, 0, 1]),
                6_363_866_914_630_235_062,
            ),
            (hash_float(0.5), 11_179_817_849_157_878_684),
            (hash_float(1e300), 18_364_156_832_094_102_178),
            (hash_float(f64::INFINITY), 13_736_770_031_948_513_857),
            (hash_float(f64::NAN), 3_772_864_879_742_593_565),
            (hash_str(""), 7_476_342_439_517_437_825),
            (hash_str("word"), 11_561_650_350_205_376_424),
            (
                hash_str("\u{fc}ber das Wort hinaus, mehr als sechzehn Bytes"),
                5_313_846_009_913_257_401,
            ),
            (hash_bytes(b"word"), 8_198_007_710_647_793_850),
            (combine([]), 8),
            (
                combine([hash_str("word"), hash_int(1)]),
                4_307_114_040_561_758_992,
            ),
        ] {
            assert_eq!(hash, golden);
        }
    }

    #[test]
    fn keys_spread_evenly() {
        for channels in [1, 2, 3, 7, 16] {
            let mut counts = vec![0_u32; channels];
            for key in 0..20_000 {
                counts[target(hash_int(key), channels)] += 1;
            }
            let expected = 20_000 / channels as u32;
            for count in counts {
                assert!(
                    count.abs_diff(expected) < expected / 8,
                    "{count} of {expected}"
                );
            }
        }
        assert_eq!(target(u64::MAX, 3), 2);
        assert_eq!(target(0, 3), 0);
    }
}

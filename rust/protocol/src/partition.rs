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

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The channel, out of `channels`, that a key with this hash belongs to.
///
/// Multiply-shift: `hash * channels / 2^64`, uniform for any number of channels.
pub fn target(hash: u64, channels: usize) -> usize {
    ((u128::from(hash) * channels as u128) >> 64) as usize
}

/// The hash of `None`.
pub fn hash_none() -> u64 {
    xxh3_64_with_seed(&[], NONE)
}

/// The hash of an integer, and of `False` (0) and `True` (1).
pub fn hash_int(value: i64) -> u64 {
    xxh3_64_with_seed(&value.to_le_bytes(), INT)
}

/// The hash of an integer that is not negative.
pub fn hash_unsigned(value: u64) -> u64 {
    match i64::try_from(value) {
        Ok(value) => hash_int(value),
        Err(_) => hash_wide(false, &value.to_le_bytes()),
    }
}

/// The hash of an integer of any size, as sign and magnitude (little endian).
pub fn hash_big_int(negative: bool, magnitude: &[u8]) -> u64 {
    let length = magnitude.len()
        - magnitude
            .iter()
            .rev()
            .take_while(|byte| **byte == 0)
            .count();
    let magnitude = &magnitude[..length];
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
pub fn hash_float(value: f64) -> u64 {
    if value.is_nan() {
        return xxh3_64_with_seed(&f64::NAN.to_bits().to_le_bytes(), FLOAT);
    }
    if value.is_infinite() || value.fract() != 0.0 {
        return xxh3_64_with_seed(&value.to_bits().to_le_bytes(), FLOAT);
    }
    if value.abs() < TWO_TO_63 {
        return hash_int(value as i64);
    }
    // Integral and at least 2^63: mantissa * 2^shift, exactly.
    let bits = value.to_bits();
    let mantissa = (bits & MANTISSA) | (MANTISSA + 1);
    let shift = ((bits >> MANTISSA_BITS) & EXPONENT) as usize - EXPONENT_OF_MANTISSA;
    let shifted = u128::from(mantissa) << (shift % 8);
    let mut magnitude = [0; LARGEST_FLOAT_BYTES];
    magnitude[shift / 8..][..size_of::<u128>()].copy_from_slice(&shifted.to_le_bytes());
    hash_big_int(value < 0.0, &magnitude)
}

/// The hash of a string, as UTF-8.
pub fn hash_str(value: &str) -> u64 {
    hash_utf8(value.as_bytes())
}

/// The hash of a string whose bytes nobody has looked at yet.
pub fn hash_utf8(value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, STR)
}

/// The hash of bytes.
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

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const MANTISSA_BITS: usize = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const EXPONENT: u64 = 0x7ff;
const EXPONENT_OF_MANTISSA: usize = 1_023 + MANTISSA_BITS;
const LARGEST_FLOAT_BYTES: usize = 144;

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(hash_int(1), 4_678_170_435_044_338_961);
        assert_eq!(hash_str("word"), 11_561_650_350_205_376_424);
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

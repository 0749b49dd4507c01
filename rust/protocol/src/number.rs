//! Which floats are integers: Python has `1.0 == 1` and `1e20 == 10**20`, so keys have, too.

/// What a float equals.
///
/// ```
/// use oka_protocol::number::Float;
///
/// assert!(matches!(Float::of(-3.0), Float::Integer(-3)));
/// assert!(matches!(Float::of(0.5), Float::Fraction));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    /// Nothing, not even itself.
    Nan,
    /// No integer: it has a fraction, or is infinite.
    Fraction,
    /// An integer of 64 bits.
    Integer(i64),
    /// Any other integer.
    BigInteger {
        /// Whether it is below zero.
        negative: bool,
        /// Its absolute value, least significant byte first, with zeros at the end.
        magnitude: [u8; LARGEST_FLOAT_BYTES],
    },
}

impl Float {
    /// What `value` equals.
    #[inline]
    pub fn of(value: f64) -> Self {
        if value.is_nan() {
            Self::Nan
        } else if value.is_infinite() || value.fract() != 0.0 {
            Self::Fraction
        } else if value.abs() < TWO_TO_63 {
            Self::Integer(value as i64)
        } else {
            Self::big(value)
        }
    }

    /// An integer of at least 2^63: mantissa * 2^shift, exactly.
    #[cold]
    fn big(value: f64) -> Self {
        let bits = value.to_bits();
        let mantissa = (bits & MANTISSA) | (MANTISSA + 1);
        let shift = ((bits >> MANTISSA_BITS) & EXPONENT) as usize - EXPONENT_OF_MANTISSA;
        let shifted = u128::from(mantissa) << (shift % 8);
        let mut magnitude = [0; LARGEST_FLOAT_BYTES];
        magnitude[shift / 8..][..size_of::<u128>()].copy_from_slice(&shifted.to_le_bytes());
        Self::BigInteger {
            negative: value < 0.0,
            magnitude,
        }
    }
}

/// A magnitude (least significant byte first) without the zeros at its end.
pub fn significant(magnitude: &[u8]) -> &[u8] {
    let zeros = magnitude.iter().rev().take_while(|byte| **byte == 0);
    &magnitude[..magnitude.len() - zeros.count()]
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const MANTISSA_BITS: usize = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const EXPONENT: u64 = 0x7ff;
const EXPONENT_OF_MANTISSA: usize = 1_023 + MANTISSA_BITS;
const LARGEST_FLOAT_BYTES: usize = 144;

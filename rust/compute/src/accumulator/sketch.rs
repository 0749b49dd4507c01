//! Sketches: what many values come to in little room, about.

use crate::accumulator::parts;
use crate::encoded::encode;
use crate::encoded::value::{Reader, Value};
use crate::groups::kept::integer;
use crate::problem::Problem;
use datasketches::hll::{HllSketch, HllType, HllUnion};
use datasketches::tdigest::TDigestMut;

/// How many different values there are, about: `HyperLogLog`.
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct(HllSketch);

impl Distinct {
    /// Takes in a value by bytes that are the same for equal values.
    #[inline]
    pub fn add(&mut self, canonical: &[u8]) {
        self.0.update(canonical);
    }

    pub fn count(&self) -> u64 {
        self.0.estimate().round() as u64
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let mut both = HllUnion::new(REGISTERS_LOG).expect("it is from 4 to 21");
        both.update(&self.0);
        both.update(&other.0);
        self.0 = both.to_sketch(HllType::Hll8);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::bytes(out, &self.0.serialize());
    }

    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Problem> {
        let sketch = HllSketch::deserialize(bytes(encoded)?);
        Ok(Self(sketch.map_err(|_| Problem::NoSketch)?))
    }
}

impl Default for Distinct {
    fn default() -> Self {
        let sketch = HllSketch::new(REGISTERS_LOG, HllType::Hll8);
        Self(sketch.expect("it is from 4 to 21"))
    }
}

/// How numbers are distributed, about: a t-digest, and what it has no room for.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    finite: TDigestMut,
    /// How many are -∞, ∞ and NaN.
    others: [u64; 3],
}

impl Digest {
    #[inline]
    pub fn add(&mut self, number: f64) {
        if number.is_finite() {
            self.finite.update(number);
        } else {
            let place = if number.is_nan() {
                2
            } else {
                usize::from(number > 0.0)
            };
            self.others[place] += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.finite.is_empty() && self.others == [0; 3]
    }

    /// The quantiles at these shares, from 0 to 1. NaN if there is one among the numbers, or none at all.
    pub fn quantiles(&self, shares: &[f64]) -> Vec<f64> {
        let [low, high, nan] = self.others;
        let mut finite = self.finite.clone();
        let among = finite.total_weight();
        let last = (low + among + high) as f64 - 1.0;
        let mut quantile = |share: &f64| {
            let place = last * share;
            if nan > 0 || last < 0.0 {
                f64::NAN
            } else if place < low as f64 {
                f64::NEG_INFINITY
            } else if place > (low + among) as f64 - 1.0 {
                f64::INFINITY
            } else {
                let rank = (place - low as f64) / (among as f64 - 1.0).max(1.0);
                let found = finite.quantile(rank.clamp(0.0, 1.0));
                found.ok().flatten().unwrap_or(f64::NAN)
            }
        };
        shares.iter().map(&mut quantile).collect()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.finite.merge(&other.finite);
        for (count, more) in self.others.iter_mut().zip(other.others) {
            *count += more;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::array(out, 4);
        encode::bytes(out, &self.finite.clone().serialize());
        for count in self.others {
            encode::unsigned(out, count);
        }
    }

    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Problem> {
        let parts = parts(encoded, 4)?;
        let finite = TDigestMut::deserialize(bytes(parts[0])?);
        let mut others = [0; 3];
        for (count, part) in others.iter_mut().zip(&parts[1..]) {
            *count = u64::try_from(integer(part)?).map_err(|_| Problem::NoSketch)?;
        }
        let finite = finite.map_err(|_| Problem::NoSketch)?;
        Ok(Self { finite, others })
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.finite.clone().serialize() == other.finite.clone().serialize()
            && self.others == other.others
    }
}

fn bytes(encoded: &[u8]) -> Result<&[u8], Problem> {
    match Reader::new(encoded).read()? {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(Problem::NoSketch),
    }
}

/// 4096 registers of a byte each: the standard error is 1.04 / √4096, which is 1.6 %.
const REGISTERS_LOG: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_are_counted_about() {
        let (mut left, mut right) = (Distinct::default(), Distinct::default());
        for number in 0..20_000_u32 {
            left.add(&number.to_le_bytes());
            right.add(&(number + 10_000).to_le_bytes());
        }
        left.merge(&right);
        assert!((28_500..31_500).contains(&left.count()), "{}", left.count());
        let mut encoded = Vec::new();
        left.encode(&mut encoded);
        assert_eq!(
            Distinct::decode(&encoded).expect("one").count(),
            left.count()
        );
        assert_eq!(Distinct::decode(&[0xc4, 1, 0]), Err(Problem::NoSketch));
        assert_eq!(Distinct::default().count(), 0);
    }

    #[test]
    fn quantiles_are_near() {
        let (mut left, mut right) = (Digest::default(), Digest::default());
        for number in 0..10_000_u32 {
            left.add(f64::from(2 * number));
            right.add(f64::from(2 * number + 1));
        }
        left.merge(&right);
        let found = left.quantiles(&[0.0, 0.5, 0.99, 1.0]);
        for (found, exact) in found.iter().zip([0.0, 9_999.5, 19_799.0, 19_999.0]) {
            assert!((found - exact).abs() < 100.0, "{found} is not near {exact}");
        }
        let mut encoded = Vec::new();
        left.encode(&mut encoded);
        assert_eq!(Digest::decode(&encoded), Ok(left));
    }

    #[test]
    fn what_is_not_finite_has_its_place() {
        let mut digest = Digest::default();
        assert!(digest.quantiles(&[0.5])[0].is_nan());
        digest.add(f64::NEG_INFINITY);
        digest.add(7.0);
        digest.add(f64::INFINITY);
        let expected = [f64::NEG_INFINITY, 7.0, f64::INFINITY];
        assert_eq!(digest.quantiles(&[0.0, 0.5, 1.0]), expected);
        digest.add(f64::NAN);
        assert!(digest.quantiles(&[0.0])[0].is_nan());
    }
}

//! The value of a key so far, and how an encoded value is taken into it: of numbers ([`numeric`],
//! [`quantile`], [`moments`]), of any values ([`tally`], [`gathered`]), or of many in little room ([`sketch`]).

pub(crate) mod aggregation;
pub(crate) mod found;
pub(crate) mod gathered;
pub(crate) mod moments;
pub(crate) mod numeric;
pub(crate) mod quantile;
pub(crate) mod sketch;
pub(crate) mod tally;

pub use crate::accumulator::aggregation::Aggregation;
use crate::accumulator::gathered::Gathered;
use crate::accumulator::moments::{Moments, PairMoments};
use crate::accumulator::numeric::{
    float, integral, kept_number, kept_ordered, number, ordered, pair, plus, precedes, truth,
};
use crate::accumulator::sketch::{Digest, Distinct};
use crate::accumulator::tally::Tally;
use crate::encoded::encode;
use crate::encoded::fields::first;
use crate::encoded::value::{Reader, Value, extension};
use crate::groups::kept::items;
use crate::keys::key;
use crate::problem::Problem;
use std::cmp::Ordering;

/// The value of a key so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    /// No value so far, as the records were left out.
    Nothing,
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// UTF-8, maybe with lone surrogates.
    Text(Box<[u8]>),
    Bytes(Box<[u8]>),
    /// A value of any kind, encoded: also a sum, or the least, of Python's objects.
    Encoded(Box<[u8]>),
    /// A mean is its sum and its count until it is asked for.
    IntegerMean {
        count: u64,
        sum: i128,
    },
    FloatMean {
        count: u64,
        sum: f64,
    },
    EncodedMean {
        count: u64,
        sum: Box<[u8]>,
    },
    /// All that came, of which quantiles are asked for.
    Numbers(Vec<f64>),
    /// The different values, with how often they came.
    Tally(Box<Tally>),
    Moments(Moments),
    PairMoments(Box<PairMoments>),
    /// All values.
    Gathered(Box<Gathered>),
    Distinct(Box<Distinct>),
    Digest(Box<Digest>),
}

impl Accumulated {
    /// That of a key's first value.
    pub fn first(aggregation: Aggregation, encoded: &[u8]) -> Result<Self, Problem> {
        match aggregation {
            Aggregation::Count => Ok(Self::Integer(1)),
            Aggregation::Sum => number(encoded),
            Aggregation::Min | Aggregation::Max => ordered(encoded),
            Aggregation::Mean => mean(&number(encoded)?, 1),
            Aggregation::First | Aggregation::Last => {
                let mut reader = Reader::new(encoded);
                reader.skip()?;
                Ok(Self::Encoded(reader.since(0).into()))
            }
            Aggregation::BoolAnd | Aggregation::BoolOr => truth(encoded).map(Self::Bool),
            Aggregation::BitAnd | Aggregation::BitOr | Aggregation::BitXor => {
                let number = integral(&number(encoded)?).ok_or(Problem::NotAnInteger)?;
                Ok(Self::Integer(number))
            }
            _ => {
                let mut value = Self::empty(aggregation);
                value.keep(aggregation, encoded)?;
                Ok(value)
            }
        }
    }

    /// That of a key whose records were all left out.
    pub fn empty(aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Count => Self::Integer(0),
            Aggregation::Quantile | Aggregation::Quantiles => Self::Numbers(Vec::new()),
            Aggregation::CountDistinct | Aggregation::Top => Self::Tally(Box::default()),
            Aggregation::Variance | Aggregation::Stddev => Self::Moments(Moments::default()),
            Aggregation::Covariance | Aggregation::Correlation | Aggregation::Regression => {
                Self::PairMoments(Box::default())
            }
            Aggregation::Array => Self::Gathered(Box::default()),
            Aggregation::ApproxCountDistinct => Self::Distinct(Box::default()),
            Aggregation::ApproxQuantile | Aggregation::ApproxQuantiles => {
                Self::Digest(Box::default())
            }
            _ => Self::Nothing,
        }
    }

    /// Appends it as an encoded value: a mean as the pair of its sum and its count.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut mean = |sum: Self, count: u64| {
            encode::array(out, 2);
            sum.encode(out);
            encode::unsigned(out, count);
        };
        match self {
            // No text that is encoded otherwise is empty, so no value is encoded so.
            Self::Nothing => encode::extension(out, extension::TEXT, &[]),
            Self::Bool(truth) => encode::boolean(out, *truth),
            Self::Integer(number) => {
                encode::integer(out, *number < 0, &number.unsigned_abs().to_le_bytes());
            }
            Self::Float(number) => encode::float(out, *number),
            Self::Text(utf8) => encode_text(out, utf8),
            Self::Bytes(data) => encode::bytes(out, data),
            Self::Encoded(encoded) => out.extend_from_slice(encoded),
            Self::IntegerMean { count, sum } => mean(Self::Integer(*sum), *count),
            Self::FloatMean { count, sum } => mean(Self::Float(*sum), *count),
            Self::EncodedMean { count, sum } => mean(Self::Encoded(sum.clone()), *count),
            Self::Numbers(numbers) => {
                encode::array(out, numbers.len());
                for number in numbers {
                    encode::float(out, *number);
                }
            }
            Self::Tally(tally) => tally.encode(out),
            Self::Moments(moments) => moments.encode(out),
            Self::PairMoments(moments) => moments.encode(out),
            Self::Gathered(values) => values.encode(out),
            Self::Distinct(sketch) => sketch.encode(out),
            Self::Digest(sketch) => sketch.encode(out),
        }
    }

    /// It as an encoded value.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// What [`Self::encode`] has appended.
    pub fn decode(aggregation: Aggregation, encoded: &[u8]) -> Result<Self, Problem> {
        if Reader::new(encoded).read()? == Value::Extension(extension::TEXT, &[]) {
            return Ok(Self::Nothing);
        }
        match aggregation {
            Aggregation::Count => number(encoded),
            Aggregation::Mean => {
                let parts = parts(encoded, 2)?;
                let count = integral(&number(parts[1])?).ok_or(Problem::NotANumber)?;
                let count = u64::try_from(count).map_err(|_| Problem::Overflow)?;
                mean(&kept_number(parts[0])?, count)
            }
            Aggregation::Sum => kept_number(encoded),
            Aggregation::Min | Aggregation::Max => kept_ordered(encoded),
            Aggregation::Quantile | Aggregation::Quantiles => {
                let numbers = items(encoded)?.into_iter().map(float);
                Ok(Self::Numbers(numbers.collect::<Result<_, _>>()?))
            }
            Aggregation::CountDistinct | Aggregation::Top => {
                Ok(Self::Tally(Box::new(Tally::decode(&items(encoded)?)?)))
            }
            Aggregation::Variance | Aggregation::Stddev => {
                Moments::decode(encoded).map(Self::Moments)
            }
            Aggregation::Covariance | Aggregation::Correlation | Aggregation::Regression => {
                Ok(Self::PairMoments(Box::new(PairMoments::decode(encoded)?)))
            }
            Aggregation::Array => Ok(Self::Gathered(Box::new(Gathered::decode(encoded)?))),
            Aggregation::ApproxCountDistinct => {
                Ok(Self::Distinct(Box::new(Distinct::decode(encoded)?)))
            }
            Aggregation::ApproxQuantile | Aggregation::ApproxQuantiles => {
                Ok(Self::Digest(Box::new(Digest::decode(encoded)?)))
            }
            _ => Self::first(aggregation, encoded),
        }
    }

    /// Takes in what values behind those here have come to.
    pub fn merge(&mut self, aggregation: Aggregation, other: &Self) -> Result<(), Problem> {
        if matches!(other, Self::Nothing) {
            return Ok(());
        }
        if matches!(self, Self::Nothing) {
            *self = other.clone();
            return Ok(());
        }
        let wanted = match aggregation {
            Aggregation::Count | Aggregation::Sum => {
                *self = plus(self, other)?;
                return Ok(());
            }
            Aggregation::Mean => {
                let ((left, sum), (right, other)) = (self.mean_parts()?, other.mean_parts()?);
                *self = mean(&plus(&sum, &other)?, left + right)?;
                return Ok(());
            }
            Aggregation::First => return Ok(()),
            Aggregation::Last => {
                *self = other.clone();
                return Ok(());
            }
            Aggregation::Min => Ordering::Less,
            Aggregation::Max => Ordering::Greater,
            _ => return self.gather(aggregation, other),
        };
        if precedes(other, self, wanted)? {
            *self = other.clone();
        }
        Ok(())
    }

    /// Fails where [`Self::merge`] would; what that does not is not looked at.
    pub(crate) fn check(&self, aggregation: Aggregation, other: &Self) -> Result<(), Problem> {
        match aggregation {
            Aggregation::Sum | Aggregation::Mean | Aggregation::Min | Aggregation::Max => {
                self.clone().merge(aggregation, other)
            }
            _ => Ok(()),
        }
    }

    /// Takes out what [`Self::merge`] took in; false, and nothing changes, where that is not exact.
    pub(crate) fn subtract(&mut self, aggregation: Aggregation, other: &Self) -> bool {
        use Accumulated::{Integer, IntegerMean};
        let difference = match (aggregation, &*self, other) {
            (Aggregation::Count | Aggregation::Sum, Integer(sum), Integer(other)) => {
                sum.checked_sub(*other).map(Integer)
            }
            (
                Aggregation::Mean,
                IntegerMean { count, sum },
                IntegerMean {
                    count: fewer,
                    sum: other,
                },
            ) => sum.checked_sub(*other).map(|sum| IntegerMean {
                count: count - fewer,
                sum,
            }),
            _ => None,
        };
        difference.map(|value| *self = value).is_some()
    }

    /// Takes in what others have gathered.
    fn gather(&mut self, aggregation: Aggregation, other: &Self) -> Result<(), Problem> {
        match (self, other) {
            (Self::Numbers(numbers), Self::Numbers(others)) => numbers.extend_from_slice(others),
            (Self::Tally(tally), Self::Tally(other)) => tally.merge(other),
            (Self::Moments(moments), Self::Moments(other)) => moments.merge(other),
            (Self::PairMoments(moments), Self::PairMoments(other)) => moments.merge(other),
            (Self::Gathered(values), Self::Gathered(other)) => values.merge(other),
            (Self::Distinct(sketch), Self::Distinct(other)) => sketch.merge(other),
            (Self::Digest(sketch), Self::Digest(other)) => sketch.merge(other),
            (Self::Bool(truth), Self::Bool(other)) => match aggregation {
                Aggregation::BoolAnd => *truth &= other,
                _ => *truth |= other,
            },
            (Self::Integer(bits), Self::Integer(other)) => match aggregation {
                Aggregation::BitAnd => *bits &= other,
                Aggregation::BitOr => *bits |= other,
                _ => *bits ^= other,
            },
            _ => return Err(Problem::Mixed),
        }
        Ok(())
    }

    /// Takes in one more value, where that is no plain sum and no comparison.
    #[inline(never)]
    fn keep(&mut self, aggregation: Aggregation, encoded: &[u8]) -> Result<(), Problem> {
        match self {
            Self::Numbers(numbers) => numbers.push(float(encoded)?),
            Self::Tally(tally) => tally.add(encoded)?,
            Self::Encoded(last) => {
                let new = first(encoded)?;
                if last.len() == new.len() {
                    last.copy_from_slice(new);
                } else {
                    *last = new.into();
                }
            }
            Self::Moments(moments) => moments.add(float(encoded)?),
            Self::PairMoments(moments) => {
                let (y, x) = pair(encoded)?;
                moments.add(y, x);
            }
            Self::Gathered(values) => values.add(encoded)?,
            Self::Distinct(sketch) => {
                let mut scratch = Vec::new();
                let canonical = key::canonical(first(encoded)?, &mut scratch);
                sketch.add(canonical.map_err(Problem::Untold)?);
            }
            Self::Digest(sketch) => sketch.add(float(encoded)?),
            _ => self.gather(aggregation, &Self::first(aggregation, encoded)?)?,
        }
        Ok(())
    }

    /// Count and sum of a mean.
    fn mean_parts(&self) -> Result<(u64, Self), Problem> {
        match *self {
            Self::IntegerMean { count, sum } => Ok((count, Self::Integer(sum))),
            Self::FloatMean { count, sum } => Ok((count, Self::Float(sum))),
            Self::EncodedMean { count, ref sum } => Ok((count, Self::Encoded(sum.clone()))),
            _ => Err(Problem::NotANumber),
        }
    }

    /// Whether it has no memory of its own.
    pub(crate) fn is_in_place(&self) -> bool {
        match self {
            Self::Nothing
            | Self::Bool(_)
            | Self::Moments(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::IntegerMean { .. }
            | Self::FloatMean { .. } => true,
            Self::Text(_)
            | Self::Bytes(_)
            | Self::Encoded(_)
            | Self::EncodedMean { .. }
            | Self::Numbers(_)
            | Self::Tally(_)
            | Self::PairMoments(_)
            | Self::Gathered(_)
            | Self::Distinct(_)
            | Self::Digest(_) => false,
        }
    }

    /// Takes in a further value; false if the aggregation looks at first ones alone.
    #[expect(
        clippy::inline_always,
        reason = "a call costs a count a tenth of its time"
    )]
    #[inline(always)]
    pub fn add(&mut self, aggregation: Aggregation, encoded: &[u8]) -> Result<bool, Problem> {
        match aggregation {
            Aggregation::Count => count(self),
            Aggregation::Sum => add_number(self, encoded)?,
            Aggregation::Min => replace_if(self, encoded, Ordering::Less)?,
            Aggregation::Max => replace_if(self, encoded, Ordering::Greater)?,
            Aggregation::Mean => add_to_mean(self, encoded)?,
            Aggregation::First => return Ok(false),
            _ => self.keep(aggregation, encoded)?,
        }
        Ok(true)
    }
}

/// Appends a text, which may have lone surrogates.
pub fn encode_text(out: &mut Vec<u8>, utf8: &[u8]) {
    if str::from_utf8(utf8).is_ok() {
        encode::text(out, utf8);
    } else {
        encode::extension(out, extension::TEXT, utf8);
    }
}

/// The items of an encoded array of so many; the value itself is the only one of one.
pub fn parts(encoded: &[u8], count: usize) -> Result<Vec<&[u8]>, Problem> {
    let mut reader = Reader::new(encoded);
    if count != 1 && reader.read()? != Value::Array(count) {
        return Err(Problem::Parts(count));
    }
    Ok((0..count)
        .map(|_| reader.encoded())
        .collect::<Result<_, _>>()?)
}

#[inline]
fn count(entry: &mut Accumulated) {
    if let Accumulated::Integer(count) = entry {
        *count += 1;
    }
}

fn add_number(entry: &mut Accumulated, encoded: &[u8]) -> Result<(), Problem> {
    // Numbers of one kind add up where they are; all others by what they are in common.
    match (&mut *entry, Reader::new(encoded).read()?) {
        (Accumulated::Integer(sum), Value::Int(number)) => {
            match sum.checked_add(i128::from(number)) {
                Some(total) => *sum = total,
                None => *entry = plus(entry, &Accumulated::Integer(i128::from(number)))?,
            }
        }
        (Accumulated::Float(sum), Value::Float(number)) => *sum += number,
        _ => *entry = plus(entry, &number(encoded)?)?,
    }
    Ok(())
}

/// The mean of so many values with this sum.
pub(crate) fn mean(sum: &Accumulated, count: u64) -> Result<Accumulated, Problem> {
    Ok(match *sum {
        Accumulated::Float(sum) => Accumulated::FloatMean { count, sum },
        Accumulated::Integer(sum) => Accumulated::IntegerMean { count, sum },
        Accumulated::Encoded(ref sum) => Accumulated::EncodedMean {
            count,
            sum: sum.clone(),
        },
        _ => return Err(Problem::NotANumber),
    })
}

fn add_to_mean(entry: &mut Accumulated, encoded: &[u8]) -> Result<(), Problem> {
    let (count, sum) = entry.mean_parts()?;
    *entry = mean(&plus(&sum, &number(encoded)?)?, count + 1)?;
    Ok(())
}

fn replace_if(entry: &mut Accumulated, encoded: &[u8], when: Ordering) -> Result<(), Problem> {
    let new = kept_ordered(encoded)?;
    if precedes(&new, entry, when)? {
        *entry = new;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_no_more_room_than_its_integer() {
        assert_eq!(size_of::<Accumulated>(), 32);
    }
}

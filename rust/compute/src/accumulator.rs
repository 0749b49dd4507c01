//! The value of a key so far, and how an encoded value is taken into it: of numbers ([`numeric`],
//! [`quantile`]) or of any values ([`tally`]).

pub(crate) mod numeric;
pub(crate) mod quantile;
pub(crate) mod tally;

use crate::accumulator::numeric::{
    float, integral, kept_number, kept_ordered, number, ordered, plus, precedes,
};
use crate::accumulator::tally::Tally;
use crate::encoded::encode;
use crate::encoded::fields::first;
use crate::encoded::value::{Reader, Value, extension};
use crate::groups::kept::items;
use crate::problem::Problem;
use std::cmp::Ordering;

/// What is computed per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    Count,
    /// Integers and floats; bools count as 0 and 1.
    Sum,
    /// Numbers, or texts, or byte strings.
    Min,
    Max,
    /// The sum divided by the count, a float.
    Mean,
    /// The first value of any kind.
    First,
    Last,
    /// How many different values; those that are equal in Python are one.
    CountDistinct,
    /// One quantile of numbers, or several.
    Quantile,
    Quantiles,
    /// The most frequent values, with how often they came.
    Top,
}

impl Aggregation {
    /// As a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
            Self::Last => "last",
            Self::CountDistinct => "count_distinct",
            Self::Quantile => "quantile",
            Self::Quantiles => "quantiles",
            Self::Top => "top",
        }
    }

    /// The aggregation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }

    pub const ALL: [Self; 11] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::First,
        Self::Last,
        Self::CountDistinct,
        Self::Quantile,
        Self::Quantiles,
        Self::Top,
    ];
}

/// The value of a key so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
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
            Aggregation::Quantile | Aggregation::Quantiles => {
                Ok(Self::Numbers(vec![float(encoded)?]))
            }
            Aggregation::CountDistinct | Aggregation::Top => {
                let mut tally = Tally::default();
                tally.add(encoded)?;
                Ok(Self::Tally(Box::new(tally)))
            }
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
            _ => Self::first(aggregation, encoded),
        }
    }

    /// Takes in what values behind those here have come to.
    pub fn merge(&mut self, aggregation: Aggregation, other: &Self) -> Result<(), Problem> {
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
            Aggregation::Quantile
            | Aggregation::Quantiles
            | Aggregation::CountDistinct
            | Aggregation::Top => return self.gather(other),
            Aggregation::Min => Ordering::Less,
            Aggregation::Max => Ordering::Greater,
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
    fn gather(&mut self, other: &Self) -> Result<(), Problem> {
        match (self, other) {
            (Self::Numbers(numbers), Self::Numbers(others)) => numbers.extend_from_slice(others),
            (Self::Tally(tally), Self::Tally(other)) => tally.merge(other),
            _ => return Err(Problem::Mixed),
        }
        Ok(())
    }

    /// Takes in one more value of which all, or how often it came, is kept.
    #[inline(never)]
    fn keep(&mut self, encoded: &[u8]) -> Result<(), Problem> {
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
            _ => return Err(Problem::Mixed),
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
            Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::IntegerMean { .. }
            | Self::FloatMean { .. } => true,
            Self::Text(_)
            | Self::Bytes(_)
            | Self::Encoded(_)
            | Self::EncodedMean { .. }
            | Self::Numbers(_)
            | Self::Tally(_) => false,
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
            _ => self.keep(encoded)?,
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
    let mut part = || {
        let start = reader.position();
        reader.skip().map(|()| reader.since(start))
    };
    Ok((0..count).map(|_| part()).collect::<Result<_, _>>()?)
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
    fn names_are_unique() {
        for each in Aggregation::ALL {
            assert_eq!(Aggregation::named(each.name()), Some(each));
        }
        assert_eq!(Aggregation::named("median"), None);
    }

    #[test]
    fn a_value_takes_no_more_room_than_its_integer() {
        assert_eq!(size_of::<Accumulated>(), 32);
    }
}

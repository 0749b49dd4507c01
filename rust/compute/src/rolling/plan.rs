//! What is computed within which spans, and where the values of a record are kept for it.

use super::Span;
use crate::accumulator::numeric::{float, pair, truth};
use crate::accumulator::{Accumulated, Aggregation};
use crate::encoded::encode;
use crate::encoded::value::{Reader, Value};
use crate::keys::key;
use crate::problem::Problem;
use std::sync::Arc;

/// An aggregation, with the shares of quantiles or how many values are wanted.
#[derive(Clone, Debug)]
pub struct Rolled {
    pub aggregation: Aggregation,
    pub parameters: Arc<[f64]>,
    /// Whether some records do not count, whose values are null.
    pub is_filtered: bool,
}

impl From<Aggregation> for Rolled {
    fn from(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            parameters: Arc::default(),
            is_filtered: false,
        }
    }
}

impl Rolled {
    /// What is kept of a record that counts: a number where it is one. `None` for a count of all.
    #[inline]
    pub(crate) fn alone(&self, value: &[u8]) -> Result<Option<Accumulated>, Problem> {
        use Aggregation::{
            Array, BoolAnd, BoolOr, Count, CountDistinct, Quantile, Quantiles, Stddev, Top,
            Variance,
        };
        Ok(Some(match self.aggregation.exact() {
            Count => return Ok(self.has_values().then_some(Accumulated::Integer(1))),
            Quantile | Quantiles | Variance | Stddev => Accumulated::Float(float(value)?),
            CountDistinct | Top => told_apart(as_it_is(value)?)?,
            Array => as_it_is(value)?,
            BoolAnd | BoolOr => Accumulated::Integer(truth(value)?.into()),
            of_pairs if of_pairs.is_of_pairs() => {
                let (y, x) = pair(value)?;
                Self::pair(y, x)
            }
            other => Accumulated::first(self.terms().unwrap_or(other), value)?,
        }))
    }

    /// What is kept of a pair of numbers.
    pub fn pair(y: f64, x: f64) -> Accumulated {
        let mut encoded = Vec::with_capacity(PAIR_BYTES);
        encode::array(&mut encoded, 2);
        encode::float(&mut encoded, y);
        encode::float(&mut encoded, x);
        Accumulated::Encoded(encoded.into())
    }

    /// Whether values of records are kept: of a count of all none are.
    pub fn has_values(&self) -> bool {
        self.aggregation != Aggregation::Count || self.is_filtered
    }

    /// The aggregation whose values are added up as they are kept, where that is one: a mean is a sum until it
    /// is asked for. Others take in each value anew.
    pub(super) fn terms(&self) -> Option<Aggregation> {
        use Aggregation::{BitAnd, BitOr, BitXor, First, Last, Max, Mean, Min, Sum};
        match self.aggregation {
            Mean => Some(Sum),
            other @ (Sum | Min | Max | First | Last | BitAnd | BitOr | BitXor) => Some(other),
            _ => None,
        }
    }
}

/// A value of any kind: a number as such.
fn as_it_is(value: &[u8]) -> Result<Accumulated, Problem> {
    let mut reader = Reader::new(value);
    Ok(match reader.read()? {
        Value::Int(number) => Accumulated::Integer(number.into()),
        Value::Float(number) => Accumulated::Float(number),
        _ => Accumulated::first(Aggregation::First, value)?,
    })
}

/// The value, if it can be told apart from others as keys are.
fn told_apart(value: Accumulated) -> Result<Accumulated, Problem> {
    if let Accumulated::Encoded(encoded) = &value {
        key::canonical(encoded, &mut Vec::new()).map_err(Problem::Untold)?;
    }
    Ok(value)
}

/// So much two floats take, with the head of their array.
const PAIR_BYTES: usize = 19;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rolled: Box<[Rolled]>,
    pub(super) spans: Box<[Span]>,
    /// Which value of a row is that of each aggregation; a count of all has none.
    pub(super) slots: Box<[Option<usize>]>,
    /// How many values a row has.
    pub(super) width: usize,
}

impl Plan {
    pub(super) fn new(rolled: Box<[Rolled]>, spans: Box<[Span]>) -> Self {
        let mut width = 0;
        let slots = rolled.iter().map(|each| {
            let slot = each.has_values().then_some(width);
            width += usize::from(slot.is_some());
            slot
        });
        Self {
            slots: slots.collect(),
            width,
            rolled,
            spans,
        }
    }
}

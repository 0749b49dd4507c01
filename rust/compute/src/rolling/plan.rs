//! What is computed within which spans, and where the values of a record are kept for it.

use super::Span;
use crate::accumulator::numeric::float;
use crate::accumulator::{Accumulated, Aggregation};
use crate::encoded::value::{Reader, Value};
use crate::problem::Problem;
use std::sync::Arc;

/// An aggregation, with the shares of quantiles or how many values are wanted.
#[derive(Clone, Debug)]
pub struct Rolled {
    pub aggregation: Aggregation,
    pub parameters: Arc<[f64]>,
}

impl From<Aggregation> for Rolled {
    fn from(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            parameters: Arc::default(),
        }
    }
}

impl Rolled {
    /// What is kept of a record, for what it comes to by itself: a number where it is one. `None` for a count.
    #[inline]
    pub(crate) fn alone(&self, value: &[u8]) -> Result<Option<Accumulated>, Problem> {
        Ok(Some(match (self.aggregation, self.terms()) {
            (Aggregation::Count, _) => return Ok(None),
            (Aggregation::Quantile | Aggregation::Quantiles, _) => {
                Accumulated::Float(float(value)?)
            }
            (Aggregation::CountDistinct | Aggregation::Top, _) => as_it_is(value)?,
            (_, Some(terms)) => Accumulated::first(terms, value)?,
            (other, None) => {
                Accumulated::first(other, value)?; // which fails where the value is of no use
                as_it_is(value)?
            }
        }))
    }

    /// The aggregation whose values are added up as they are kept, where that is one: a mean is a sum until it
    /// is asked for. Others take in each value anew.
    pub(super) fn terms(&self) -> Option<Aggregation> {
        use Aggregation::{First, Last, Max, Mean, Min, Sum};
        match self.aggregation {
            Mean => Some(Sum),
            other @ (Sum | Min | Max | First | Last) => Some(other),
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

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rolled: Box<[Rolled]>,
    pub(super) spans: Box<[Span]>,
    /// Which value of a row is that of each aggregation; a count has none.
    pub(super) slots: Box<[Option<usize>]>,
    /// How many values a row has.
    pub(super) width: usize,
}

impl Plan {
    pub(super) fn new(rolled: Box<[Rolled]>, spans: Box<[Span]>) -> Self {
        let mut width = 0;
        let slots = rolled.iter().map(|each| {
            let slot = (each.aggregation != Aggregation::Count).then_some(width);
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

//! What is shown of a value that is more than that.

use crate::accumulator::moments::Regression;
use crate::accumulator::quantile::quantiles;
use crate::accumulator::{Accumulated, Aggregation};

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// `None` where there is none, as of a variance of one number.
    Float(Option<f64>),
    Floats(Vec<f64>),
    Count(u64),
    Regression(Regression),
}

impl Accumulated {
    /// The result, with these parameters; `None` of what is one, or consists of values of any kind.
    pub fn found(&self, aggregation: Aggregation, parameters: &[f64]) -> Option<Found> {
        let less = parameters.first().copied().unwrap_or_default();
        let of_shares = |found: Vec<f64>, is_empty: bool| match aggregation {
            Aggregation::Quantile | Aggregation::ApproxQuantile => {
                Found::Float(found.first().copied().filter(|_| !is_empty))
            }
            _ => Found::Floats(if is_empty { Vec::new() } else { found }),
        };
        Some(match self {
            Self::Numbers(numbers) => of_shares(quantiles(numbers, parameters), numbers.is_empty()),
            Self::Digest(sketch) => of_shares(sketch.quantiles(parameters), sketch.is_empty()),
            Self::Distinct(sketch) => Found::Count(sketch.count()),
            Self::Moments(moments) => Found::Float(match aggregation {
                Aggregation::Stddev => moments.variance(less).map(f64::sqrt),
                _ => moments.variance(less),
            }),
            Self::PairMoments(moments) => match aggregation {
                Aggregation::Covariance => Found::Float(moments.covariance(less)),
                Aggregation::Correlation => Found::Float(moments.correlation()),
                _ => Found::Regression(moments.regression()),
            },
            _ => return None,
        })
    }
}

//! Why columns cannot be aggregated.

use arrow_schema::{ArrowError, DataType};
use oka_compute::{Aggregation, Problem};
use thiserror::Error;

use crate::{ColumnError, DecodeError, EncodeError, KeyError};

/// A frame cannot be aggregated.
#[derive(Debug, Error)]
pub enum AggregateError {
    /// There is no such column.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The key column holds no keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value column does not suit the aggregation.
    #[error(
        "{} of column {column:?} of type {data_type}, expected {}",
        .aggregation.name(), suitable(*.aggregation)
    )]
    Value {
        /// What was to be computed.
        aggregation: Aggregation,
        /// The name of the column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The column does not say which rows count.
    #[error("rows count where column {column:?} of type {data_type} is true, expected bools")]
    Filter {
        /// Its name.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The column holds no times.
    #[error("times in a column of type {0}, expected timestamps, integers or floats")]
    Time(DataType),
    /// The types of key and value are not those of the frames before.
    #[error("columns of type {got} after columns of type {expected}")]
    Changed {
        /// Key and value of the frames before.
        expected: String,
        /// Key and value now.
        got: String,
    },
    /// A row has no time.
    #[error("row {row} of the batch: {problem}")]
    Row {
        /// Its number.
        row: u32,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The bytes are no columns.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is not what an aggregate of this kind has exported.
    #[error("a state that cannot go on here: {0}")]
    State(#[from] Problem),
    /// The first frame had a schema that cannot be kept.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A result that cannot be expressed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What can be aggregated so.
fn suitable(aggregation: Aggregation) -> &'static str {
    match aggregation {
        Aggregation::Sum
        | Aggregation::Mean
        | Aggregation::Quantile
        | Aggregation::Quantiles
        | Aggregation::Variance
        | Aggregation::Stddev
        | Aggregation::Covariance
        | Aggregation::Correlation
        | Aggregation::Regression
        | Aggregation::ApproxQuantile
        | Aggregation::ApproxQuantiles => "integers, floats, bools or dictionaries of them",
        Aggregation::BoolAnd | Aggregation::BoolOr => "bools",
        Aggregation::BitAnd | Aggregation::BitOr | Aggregation::BitXor => "integers or bools",
        _ => "numbers, texts, binary values, times or dictionaries of them",
    }
}

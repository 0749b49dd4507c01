//! Why columns cannot be aggregated.

use arrow_schema::{ArrowError, DataType};
use oka_compute::Problem;
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
    #[error("{aggregation} of a column of type {data_type}")]
    Value {
        /// What was to be computed.
        aggregation: &'static str,
        /// The type of the column.
        data_type: DataType,
    },
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

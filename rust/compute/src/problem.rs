//! What can be wrong with a record that is to be aggregated.

use crate::encoded::path::PathError;
use crate::encoded::value::ReadError;
use crate::keys::key::KeyError;
use thiserror::Error;

/// A record could not be aggregated; the ones before it were.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("record {record}: {problem}")]
pub struct AggregateError {
    /// Index in the batch.
    pub record: usize,
    /// Where the record starts in the body.
    pub offset: usize,
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    #[error("its key is {0}")]
    NoKey(PathError),
    #[error("its value is {0}")]
    NoValue(PathError),
    #[error("its time is {0}")]
    NoTime(PathError),
    #[error("its time is no number and no datetime")]
    NotATime,
    #[error("its time is more than 146,000 years from 1970")]
    FarTime,
    #[error("a state of windows that is none")]
    NoWindows,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("its value cannot be told from others: {0}")]
    Untold(KeyError),
    #[error("its value is no number")]
    NotANumber,
    #[error("its value is no bool")]
    NotABool,
    #[error("its value is no integer")]
    NotAnInteger,
    #[error("the value that says whether it counts is {0}")]
    NoFilter(PathError),
    #[error("the value that says whether it counts is no bool")]
    NotAFilter,
    #[error("a state of a sketch that is none")]
    NoSketch,
    #[error("its value is no number, text or byte string")]
    NotOrdered,
    #[error("the value to rank by is no float, no integer of 64 bits and no text")]
    NotRanked,
    #[error("the first records of a key have 4 GiB or more\n\nhint: ask for fewer")]
    TooLarge,
    #[error("its value is not of the same kind as the values before it")]
    Mixed,
    #[error("its state has other than {0} parts")]
    Parts(usize),
    #[error("its key has a state already")]
    Twice,
    #[error("an integer outside the range of 128 bits")]
    Overflow,
    /// As Python says it.
    #[error("{0}")]
    Told(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

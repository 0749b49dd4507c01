//! Why a program gives up.

use thiserror::Error;

/// What a program leaves to the function itself: it raises there, or is computed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unusual {
    #[error("an integer beyond 64 bits")]
    BigInteger,
    #[error("a key that is missing")]
    NoKey,
    #[error("an index out of range")]
    NoItem,
    #[error("a field that is missing")]
    NoField,
    #[error("a division by zero")]
    ZeroDivision,
    #[error("types that the operation does not take")]
    Types,
    #[error("a value of a type that is only passed on")]
    Opaque,
    #[error("a NaN where Python compares identities")]
    Nan,
    #[error("an integer that a float does not hold")]
    Inexact,
    #[error("a float that is not finite")]
    NotFinite,
    #[error("a float that is rounded to tens")]
    Tens,
    #[error("text beyond ASCII where the tables of Unicode are needed")]
    Unicode,
    #[error("text that is no number")]
    NoNumber,
    #[error("a key that cannot be hashed")]
    NotHashable,
    #[error("an argument that is out of range")]
    Argument,
    #[error("a value that is too large")]
    TooLarge,
    #[error("a value nested too deeply")]
    TooDeep,
    #[error("a result of flat_map that is no list and no tuple")]
    NotIterable,
    #[error("a result that does not travel")]
    NotSent,
    #[error("a list of records that are not plain values")]
    NotPlain,
    #[error("columns")]
    Columns,
    #[error("bytes that are no records")]
    Malformed,
}

impl From<oka_compute::ReadError> for Unusual {
    fn from(_: oka_compute::ReadError) -> Self {
        Self::Malformed
    }
}

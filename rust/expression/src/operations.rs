//! The operations of values, each with the facts of Python that it meets.

pub(crate) mod arithmetic;
pub(crate) mod compare;
pub(crate) mod containers;
mod float;
pub(crate) mod format;
pub(crate) mod numbers;
pub(crate) mod repr;
pub(crate) mod sequences;
pub(crate) mod text;

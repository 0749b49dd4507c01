//! Keys: one byte string for each, and a number.
//!
//! - [`key`]: one byte string per key, equal exactly when the keys are equal in Python.
//! - [`short`]: hash and equality of short byte strings; [`place`]: the hash by which records are divided
//!   among tasks.
//! - [`table`]: numbers byte strings densely, in the order in which they appeared; [`interner`]: numbers keys,
//!   and gives them back as they were encoded.

pub(crate) mod interner;
pub mod key;
pub mod place;
pub mod short;
pub mod table;

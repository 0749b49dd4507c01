//! Columns: which one is meant, what is in it, and new ones.
//!
//! - [`selector`] names a column; [`plain`] makes it one without dictionaries and runs; [`times`] reads its times.
//! - [`cells`] are its values, encoded one by one; [`build`] makes columns of values.
//! - [`compact`] gives a column memory of its own.

pub(crate) mod build;
pub(crate) mod cells;
pub(crate) mod compact;
pub(crate) mod plain;
pub(crate) mod selector;
pub(crate) mod times;

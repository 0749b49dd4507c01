//! What is kept: entries of keyed state and how they differ from earlier ones, rows, and last values.

pub(crate) mod changes;
pub(crate) mod entries;
pub(crate) mod latest;
pub(crate) mod order;
pub(crate) mod rows;

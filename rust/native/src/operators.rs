//! Operators that run in Rust: aggregates, windows, joins and lifted functions, what they are called with and what they give.

pub(crate) mod aggregate;
pub(crate) mod calls;
pub(crate) mod encoded_keys;
pub(crate) mod fold;
pub(crate) mod interned;
pub(crate) mod joins;
pub(crate) mod kept_records;
pub(crate) mod latest;
pub(crate) mod objects;
pub(crate) mod program;
pub(crate) mod refused;
pub(crate) mod results;
pub(crate) mod rolling;
pub(crate) mod time_function;
pub(crate) mod times;
pub(crate) mod top;
pub(crate) mod window_fold;
pub(crate) mod window_spans;
pub(crate) mod windows;

//! Operators that run on encoded records: they read the msgpack bytes of a frame in place and never
//! make Python objects.
//!
//! No Python, no I/O, no threads. Layers, each using the ones before it:
//!
//! - [`value`]: a total reader of encoded values; [`encode`]: the writer of the same format.
//! - [`classes`]: the names of the fields of objects.
//! - [`path`]: finds the value that a key selector names inside a record.
//! - [`key`]: one byte string per key, equal exactly when the keys are equal in Python.
//! - [`objects`]: what others know of values that are not read here.
//! - [`place`]: the hash by which records are divided among tasks.
//! - [`short`]: hash and equality of short byte strings.
//! - [`table`]: numbers keys densely, in the order in which they appeared.
//! - [`accumulator`]: what a key has come to, of numbers (`numeric`, `quantile`) or of any values
//!   (`tally`); [`fields`]: where key and value of a record lie.
//! - `groups`: what the keys have come to; [`aggregate`]: count, sum, min, max, mean and first per key.
//! - [`time`]: the time of a record; [`window_aggregate`]: the same per key and window; [`kept`]: what
//!   others need of them to go on; [`copied`]: a copy of what keys have come to, taken in no time.
//! - [`windows`]: when results of windows come and what is kept of them, of records as of columns.
//! - [`trust`]: what of encoded values runs or imports code where they are decoded.
//! - [`ahead`]: asks for memory before it is read.

pub mod accumulator;
pub mod aggregate;
pub mod ahead;
pub mod classes;
pub mod copied;
pub mod encode;
pub mod fields;
mod groups;
mod interner;
pub mod kept;
pub mod key;
mod numeric;
pub mod objects;
pub mod path;
pub mod place;
pub mod problem;
mod quantile;
mod results;
pub mod short;
mod strings;
pub mod table;
mod tally;
pub mod time;
mod touched;
pub mod trust;
pub mod value;
mod wanted;
pub mod window_aggregate;
pub mod windows;

pub use accumulator::{Accumulated, Aggregation, encode_text, parts};
pub use aggregate::Aggregate;
pub use copied::{Column, Copied, NewKeys, Values};
pub use fields::KeyPath;
pub use numeric::{integer_mean, integral};
pub use path::{Path, PathError, Step};
pub use problem::{AggregateError, Problem};
pub use quantile::quantiles;
pub use results::Update;
pub use strings::ByteStrings;
pub use tally::Tally;
pub use time::{TimePath, Unit};
pub use touched::Touched;
pub use value::{ReadError, Reader, Value};
pub use window_aggregate::WindowAggregate;
pub use windows::Emit;

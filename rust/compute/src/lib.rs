//! Operators that run on encoded records: they read the msgpack bytes of a frame in place and never
//! make Python objects.
//!
//! No Python, no I/O, no threads. Layers, each using the ones before it:
//!
//! - [`encoded`]: reading and writing records.
//! - [`keys`]: the numbers of keys.
//! - [`accumulator`]: what a key has come to.
//! - [`groups`]: what the keys have come to, which of them were touched, and copies of it.
//! - [`aggregate`]: count, sum, min, max, mean and first per key.
//! - [`latest`]: the last value of each key.
//! - [`top`]: the first few records of each key, in an order.
//! - [`windows`]: when results of windows come and what is kept of them, of records as of columns.
//! - [`window_aggregate`]: aggregates per key and window.
//! - [`rolling`]: aggregates within spans that end at each record, of records ([`rolling_aggregate`]) as of columns.

pub mod accumulator;
pub mod aggregate;
pub mod encoded;
pub mod groups;
pub mod keys;
pub mod latest;
pub mod problem;
pub mod rolling;
pub mod rolling_aggregate;
pub mod top;
pub mod window_aggregate;
pub mod windows;

pub use accumulator::found::Found;
pub use accumulator::gathered::Gathered;
pub use accumulator::moments::{Moments, PairMoments, Regression};
pub use accumulator::numeric::{integer_mean, integral};
pub use accumulator::quantile::quantiles;
pub use accumulator::sketch::{Digest, Distinct};
pub use accumulator::tally::Tally;
pub use accumulator::{Accumulated, Aggregation, encode_text, parts};
pub use aggregate::Aggregate;
pub use encoded::fields::KeyPath;
pub use encoded::path::{Path, PathError, Step};
pub use encoded::record_keys::RecordKeys;
pub use encoded::strings::ByteStrings;
pub use encoded::time::{TimePath, Unit};
pub use encoded::value::{ReadError, Reader, Value};
pub use encoded::{ahead, classes, encode, objects, trust, value};
pub use groups::copied::{Column, Copied, NewKeys, Values};
pub use groups::kept;
pub use groups::results::Update;
pub use groups::touched::Touched;
pub use groups::wanted::{Filter, Predicate, Term};
pub use keys::interner::Interner;
pub use keys::{key, place, short, table};
pub use latest::Latest;
pub use problem::{AggregateError, Problem};
pub use rolling::{CopiedRolling, Rolled, Rolling, Span};
pub use rolling_aggregate::RollingAggregate;
pub use top::{RankedBy, Top};
pub use window_aggregate::WindowAggregate;
pub use windows::Emit;

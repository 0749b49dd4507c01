//! Record batches in Arrow's columnar format, on their way between tasks and under aggregation.
//!
//! No Python, no I/O, no threads. A frame of columns holds messages of an Arrow IPC stream: the
//! frames of a channel, back to back, are such a stream. Texts that nobody shows are never checked
//! or copied; dictionaries travel once, and a column that has one keeps it.
//!
//! - [`Partitioner`] tells which rows go to which task, by the hash that records have; [`pieces`] cuts
//!   what is too large for a frame.
//! - [`Encoder`] and [`Decoder`] are the two ends of a channel; [`Columns`] is one frame.
//! - [`Aggregate`] computes count, sum and others per key, a column at a time;
//!   [`Latest`] keeps the last of its results; [`WindowAggregate`] computes it for windows of time.
//!   What they keep is [`oka_compute::Copied`]: copied at once, encoded by who reads it.
//! - [`KeptRows`] are rows of batches, found again by their numbers.
//! - [`Entries`] is keyed state as others go on with it; [`Placed`] the keys of a table for it; [`Changes`]
//!   are how it differs from an earlier one, as [`Digests`] tell.

mod aggregate;
mod ahead;
mod build;
mod cells;
mod changes;
mod column;
mod compact;
mod copied;
mod decode;
mod dictionary;
mod distinct;
mod encode;
mod entries;
mod error;
mod form;
mod gather;
mod kept_rows;
mod key;
mod keys;
mod latest;
mod numbers;
mod pairs;
mod partition;
mod parts;
mod picked;
mod pieces;
mod placed;
mod plain;
mod shape;
mod template;
mod times;
mod values;
mod windows;

pub use aggregate::Aggregate;
pub use changes::{Changes, Digests};
pub use column::{ColumnError, Selector};
pub use compact::take_rows;
pub use decode::{Columns, DecodeError, Decoder};
pub use encode::{EncodeError, Encoder, streams};
pub use entries::Entries;
pub use error::AggregateError;
pub use kept_rows::KeptRows;
pub use key::{KeyError, plain_keys};
pub use latest::Latest;
pub use partition::{PartitionError, Partitioner};
pub use pieces::{piece_rows, pieces};
pub use placed::Placed;
pub use windows::WindowAggregate;

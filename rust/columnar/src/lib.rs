//! Record batches in Arrow's columnar format, on their way between tasks and under aggregation.
//!
//! No Python, no I/O, no threads. A frame of columns holds messages of an Arrow IPC stream: the
//! frames of a channel, back to back, are such a stream. Texts that nobody shows are never checked
//! or copied; dictionaries travel once, and a column that has one keeps it.
//!
//! Rooms: `channel` between tasks, `columns` and their values, numbers of `keys`, `aggregate`, `windows` and `rolling` over them,
//! and `state` that is kept.
//!
//! - [`Partitioner`] tells which rows go to which task, by the hash that records have; [`pieces`] cuts
//!   what is too large for a frame.
//! - [`Encoder`] and [`Decoder`] are the two ends of a channel; [`Columns`] is one frame.
//! - [`Aggregate`] computes count, sum and others per key, a column at a time;
//!   [`Latest`] keeps the last of its results; [`WindowAggregate`] computes it for windows of time, [`RollingAggregate`] for spans
//!   that end at each row.
//!   What they keep is [`oka_compute::Copied`]: copied at once, encoded by who reads it.
//! - [`RowStore`] are rows of batches, found again by their numbers.
//! - [`Entries`] is keyed state as others go on with it; [`KeyOrder`] the keys of a table for it; [`Changes`]
//!   are how it differs from an earlier one, as [`Digests`] tell.

mod aggregate;
mod channel;
mod columns;
mod error;
mod keys;
mod rolling;
mod state;
mod windows;

pub use aggregate::{Aggregate, EncodedPart};
pub use channel::decode::{Columns, DecodeError, Decoder};
pub use channel::encode::{EncodeError, Encoder, streams};
pub use channel::partition::{PartitionError, Partitioner, goes_as_records};
pub use channel::pieces::{piece_rows, pieces};
pub use columns::compact::take_rows;
pub use columns::selector::{ColumnError, Selector};
pub use error::AggregateError;
pub use keys::kind::{KeyError, plain_keys};
pub use rolling::RollingAggregate;
pub use state::changes::{Changes, Digests};
pub use state::entries::Entries;
pub use state::latest::Latest;
pub use state::order::KeyOrder;
pub use state::rows::RowStore;
pub use windows::WindowAggregate;

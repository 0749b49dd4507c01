//! Python bindings of the Rust core, importable as `engine._native` through `engine.network`
//! and, for S3, `engine.s3`.
//!
//! Batches cross this boundary, never single records: the gate of [`network`] encodes a list in one pass and
//! decodes a frame into a list when Python needs one, [`operators`] work on a frame without Python objects,
//! [`columns`] hands record batches over as they are, [`formats`] makes them of messages. Everything that waits does so without the GIL.
//! Decisions live in the crates below.

#![allow(
    clippy::doc_markdown,
    reason = "most docs here are read as Python docstrings"
)]

mod blob;
mod columns;
mod error;
mod extension;
mod formats;
mod http;
mod memory;
mod network;
mod operators;
mod s3;
mod state;

use pyo3::prelude::*;

// Caches such as the codec's names of classes are touched with the GIL held and have no locks: builds of Python without
// a GIL switch it on when they import this. PyO3 would say otherwise by default.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::blob::{Blob, BlobNode, Landing};
    #[pymodule_export]
    use super::columns::of_dicts::columns_of_dicts;
    #[pymodule_export]
    use super::columns::rows::dicts_of_rows;
    #[pymodule_export]
    use super::columns::{ipc_streams, plain_keys, take_rows};
    #[pymodule_export]
    use super::error::{
        AggregateError, Cancelled, ChannelLost, NetworkError, ResourceError, StorageFailed,
    };
    #[pymodule_export]
    use super::extension::register_extensions;
    #[pymodule_export]
    use super::formats::{AvroDecoder, JsonDecoder};
    #[pymodule_export]
    use super::http::{HttpGateway, HttpReplies, HttpStream};
    #[pymodule_export]
    use super::memory::checksum::xxh3;
    #[pymodule_export]
    use super::memory::mapped::mapped;
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::network::batch::Batch;
    #[pymodule_export]
    use super::network::control::Control;
    #[pymodule_export]
    use super::network::gate::OutputGate;
    #[pymodule_export]
    use super::network::key::{Finder, partition};
    #[pymodule_export]
    use super::network::latency::LatencyHistogram;
    #[pymodule_export]
    use super::network::paired::Paired;
    #[pymodule_export]
    use super::network::statistics::{
        BlobStatistics, InputStatistics, NetworkStatistics, OutputStatistics,
    };
    #[pymodule_export]
    use super::network::system::{is_portable, use_precise_timers};
    #[pymodule_export]
    use super::operators::aggregate::Aggregate;
    #[pymodule_export]
    use super::operators::fold::Fold;
    #[pymodule_export]
    use super::operators::joins::{Join, KeptRows};
    #[pymodule_export]
    use super::operators::kept_records::KeptRecords;
    #[pymodule_export]
    use super::operators::latest::{Latest, LatestPairs};
    #[pymodule_export]
    use super::operators::program::Program;
    #[pymodule_export]
    use super::operators::rolling::RollingAggregate;
    #[pymodule_export]
    use super::operators::time_function::TimeFunction;
    #[pymodule_export]
    use super::operators::top::Top;
    #[pymodule_export]
    use super::operators::window_fold::WindowFold;
    #[pymodule_export]
    use super::operators::window_spans::WindowSpans;
    #[pymodule_export]
    use super::operators::windows::WindowAggregate;
    #[pymodule_export]
    use super::s3::S3Client;
    #[pymodule_export]
    use super::state::values::{decode_value, encode_parts, needs};
    #[pymodule_export]
    use super::state::{Digests, KeyedEntries, keyed_entries};
    #[pymodule_export]
    use oka_codec::{DecodeError, EncodeError, FrozenDict, KeyExtractError};
}

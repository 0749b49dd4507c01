//! Python bindings of the Rust core, importable as `engine._native` through `engine.network`
//! and, for S3, `engine.s3`.
//!
//! Batches cross this boundary, never single records: [`gate`] encodes a list in one pass, [`batch`]
//! decodes a frame into a list when Python needs one, [`aggregate`] works on a frame without Python
//! objects, [`columns`] hands record batches over as they are. Everything that waits does so without
//! the GIL. Decisions live in the crates below.

#![allow(
    clippy::doc_markdown,
    reason = "most docs here are read as Python docstrings"
)]

mod aggregate;
mod batch;
mod blob;
mod buffer;
mod calls;
mod checksum;
mod columns;
mod control;
mod error;
mod extension;
mod gate;
mod http;
mod interned;
mod key;
mod latency;
mod latest;
mod mapped;
mod network;
mod paired;
mod refused;
mod results;
mod s3;
mod snapshots;
mod state;
mod statistics;
mod timers;
mod window_fold;
mod windows;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::aggregate::Aggregate;
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::blob::{Blob, BlobNode, Landing};
    #[pymodule_export]
    use super::checksum::xxh3;
    #[pymodule_export]
    use super::columns::{ipc_streams, plain_keys, take_rows};
    #[pymodule_export]
    use super::control::Control;
    #[pymodule_export]
    use super::error::{
        AggregateError, Cancelled, ChannelLost, NetworkError, ResourceError, StorageFailed,
    };
    #[pymodule_export]
    use super::extension::register_extensions;
    #[pymodule_export]
    use super::gate::OutputGate;
    #[pymodule_export]
    use super::http::{HttpGateway, HttpReplies, HttpStream};
    #[pymodule_export]
    use super::key::{Finder, partition};
    #[pymodule_export]
    use super::latency::LatencyHistogram;
    #[pymodule_export]
    use super::latest::Latest;
    #[pymodule_export]
    use super::mapped::mapped;
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::paired::Paired;
    #[pymodule_export]
    use super::s3::S3Client;
    #[pymodule_export]
    use super::state::{Digests, KeyedEntries, keyed_entries, needs};
    #[pymodule_export]
    use super::statistics::{BlobStatistics, InputStatistics, NetworkStatistics, OutputStatistics};
    #[pymodule_export]
    use super::timers::use_precise_timers;
    #[pymodule_export]
    use super::window_fold::WindowFold;
    #[pymodule_export]
    use super::windows::WindowAggregate;
    #[pymodule_export]
    use oka_codec::{DecodeError, EncodeError, FrozenDict, KeyExtractError};
}

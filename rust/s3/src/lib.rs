//! A client of S3, for any endpoint that speaks its protocol.
//!
//! [`Client`] reads an object in parallel ranges, each straight into its place of the caller's buffer, and
//! finds its credentials where the AWS tools do. It owns its threads; no call needs the caller to have a
//! runtime. Secrets are in no error and in no log.

mod client;
mod stop;

pub use client::{Client, ClientConfig, Failure, ListedObject};
pub use stop::Interrupted;

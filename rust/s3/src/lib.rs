//! S3 both ways: a server over a folder, for development and tests, and a client for any endpoint.
//!
//! [`Server`] speaks the protocol by crate `s3s` and keeps objects as plain files; it checks every
//! signature and hands out temporary credentials. [`Client`] reads an object in parallel ranges, each
//! straight into its place of the caller's buffer, and finds its credentials where the AWS tools do.
//!
//! Both own their threads; no call needs the caller to have a runtime. Secrets are in no error and in
//! no log.

mod client;
mod server;
mod stop;

pub use client::{Client, ClientConfig, Failure, Listed};
pub use server::{Server, ServerConfig, StartError, Statistics};
pub use stop::Interrupted;

//! The codec of Python objects: values of CPython to the bytes of a record and back, and the hash of
//! a record's key.
//!
//! [`encode`] walks objects and appends msgpack; [`Decoder`] makes objects of it; [`Key`] finds the key in
//! a record. Values of classes travel by their shape, which `engine.record` describes once per class;
//! for what Rust does not know, it asks the functions in [`Extensions`].

#![allow(
    clippy::doc_markdown,
    reason = "some docs here are read as Python docstrings"
)]

mod ahead;
mod attributes;
mod decode;
pub mod encode;
mod error;
mod extension;
mod frozen;
mod inline_values;
mod item;
mod key;
mod names;
mod objects;
mod parts;
mod record_cache;
mod shape;
mod text;

pub use decode::{Decoder, unreadable};
pub use error::{DecodeError, EncodeError, KeyExtractError, Raised, shortened, type_name};
pub use extension::{Extensions, Pickling, register};
pub use frozen::{Frozen, FrozenDict};
pub use key::Key;
pub use parts::{Part, Parts};
pub use text::utf8;

//! Formats of messages: the bytes of JSON and Avro to record batches.
//!
//! Each message is one row. What cannot be decoded is told by its place and a reason, and costs none of the
//! other messages: no bytes are an error of the whole, and none a panic.

mod avro;
mod json;
mod numbers;
mod sift;

pub use avro::{AvroDecoder, Unknown};
pub use json::JsonDecoder;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// Messages as rows.
#[derive(Debug, Clone)]
pub struct Decoded<R = RecordBatch> {
    /// A row for each message that was not rejected, in order.
    pub rows: R,
    /// The places of the others, which ascend, each with the reason.
    pub rejected: Vec<(usize, String)>,
}

/// Why no message can be decoded.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A schema that is none, or has types for which the format has no values.
    #[error("{0}")]
    Schema(String),
    /// The messages are right, and too large for one batch.
    #[error("messages that do not fit into one batch: {0}")]
    TooLarge(String),
}

/// The message of an error of Arrow, without the name of its variant.
fn words(error: &ArrowError) -> String {
    match error {
        ArrowError::JsonError(words)
        | ArrowError::ParseError(words)
        | ArrowError::AvroError(words)
        | ArrowError::NotYetImplemented(words)
        | ArrowError::InvalidArgumentError(words)
        | ArrowError::SchemaError(words) => words.clone(),
        _ => error.to_string(),
    }
}

/// The beginning of a text.
fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(MOST_CHARACTERS);
    end.map_or(text, |(end, _)| &text[..end])
}

const MOST_CHARACTERS: usize = 200;

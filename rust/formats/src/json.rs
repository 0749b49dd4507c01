//! JSON objects to rows.

use crate::numbers::Exact;
use crate::sift::{Decode, Message, sifted};
use crate::{Decoded, FormatError, shortened, words};
use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::{ArrowError, SchemaRef};
use serde::de::IgnoredAny;
use std::sync::Arc;

/// Makes rows of messages that are a JSON object each.
///
/// A field that is missing or null is null, fields without a column are left out, and of a field that comes
/// twice the last counts. All messages are first decoded together. If that fails, each is decoded by itself to
/// find those at fault: some microseconds a message of that batch.
pub struct JsonDecoder {
    schema: SchemaRef,
    together: Decoder,
    capacity: usize,
    alone: Decoder,
}

impl JsonDecoder {
    /// Fails for columns of types that JSON has no values of.
    pub fn new(schema: SchemaRef) -> Result<Self, FormatError> {
        let of_one = || made(&schema, 1).map_err(FormatError::Schema);
        let (together, alone) = (of_one()?, of_one()?);
        Ok(Self {
            schema,
            together,
            capacity: 1,
            alone,
        })
    }

    /// The messages as rows. One without a value is a row of nulls.
    pub fn decode(&mut self, messages: &[Option<&[u8]>]) -> Result<Decoded, FormatError> {
        let mut rejected = Vec::new();
        let mut objects = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            match message.map_or(Ok(&b"{}"[..]), object) {
                Ok(object) => objects.push((place, object)),
                Err(reason) => rejected.push((place, reason)),
            }
        }
        let rows = sifted(self, &objects, &mut rejected).map_err(FormatError::TooLarge)?;
        Ok(Decoded { rows, rejected })
    }
}

impl Decode for JsonDecoder {
    type Rows = RecordBatch;

    fn together(&mut self, objects: &[Message<'_>]) -> Result<RecordBatch, String> {
        if objects.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        }
        if objects.len() > self.capacity {
            self.capacity = objects.len().next_power_of_two();
            self.together = made(&self.schema, self.capacity)?;
        }
        let decoded = objects
            .iter()
            .try_for_each(|(_, object)| feed(&mut self.together, object))
            .and_then(|()| flush(&mut self.together));
        if decoded.is_err() {
            self.together = made(&self.schema, self.capacity)?; // it keeps what it has read
        }
        decoded.map_err(|error| reason(&error))
    }

    fn alone(&mut self, object: &[u8]) -> Result<(), String> {
        let decoded = feed(&mut self.alone, object).and_then(|()| flush(&mut self.alone));
        if decoded.is_err() {
            self.alone = made(&self.schema, 1)?;
        }
        decoded.map(drop).map_err(|error| reason(&error))
    }
}

fn made(schema: &SchemaRef, rows: usize) -> Result<Decoder, String> {
    ReaderBuilder::new(schema.clone())
        .with_batch_size(rows)
        .with_decoder_factory(Arc::new(Exact))
        .build_decoder()
        .map_err(|error| words(&error))
}

fn feed(decoder: &mut Decoder, object: &[u8]) -> Result<(), ArrowError> {
    let taken = decoder.decode(object)?;
    if taken == object.len() && !decoder.has_partial_record() {
        return Ok(());
    }
    Err(ArrowError::JsonError("it is not one object".to_owned()))
}

fn flush(decoder: &mut Decoder) -> Result<RecordBatch, ArrowError> {
    let batch = decoder.flush()?;
    batch.ok_or_else(|| ArrowError::JsonError("it has no rows".to_owned()))
}

/// The message, if it is one JSON object in UTF-8.
///
/// Arrow's decoder takes `[1 2,,]` for a list and a line feed in a text, and its messages recurse into values.
fn object(message: &[u8]) -> Result<&[u8], String> {
    let message = message.trim_ascii();
    if message.is_empty() {
        return Err("empty".to_owned());
    }
    let text = std::str::from_utf8(message).map_err(|error| {
        let at = error.valid_up_to();
        format!("not UTF-8: byte {:#04x} at place {at}", message[at])
    })?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| format!("not JSON: {error}"))?;
    if message[0] != b'{' {
        return Err(format!("not a JSON object: {}", shortened(text)));
    }
    if is_deep(message) {
        return Err(format!("nested more than {MOST_DEPTH} deep"));
    }
    Ok(message)
}

/// Whether lists and objects are nested too deep, in JSON.
fn is_deep(json: &[u8]) -> bool {
    let opening = |byte: &&u8| matches!(byte, b'{' | b'[');
    if json.iter().filter(opening).count() <= MOST_DEPTH {
        return false;
    }
    let (mut depth, mut deepest, mut in_text, mut bytes) = (0_usize, 0, false, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' => drop(bytes.next()), // only texts have it
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth -= 1,
            _ => {}
        }
    }
    deepest > MOST_DEPTH
}

fn reason(error: &ArrowError) -> String {
    const MISSING: &str = "Encountered unmasked nulls in non-nullable StructArray child: ";
    let words = words(error).replace("whilst decoding field ", "field ");
    shortened(&words.replace(MISSING, "no value of a column that must have one: ")).to_owned()
}

/// As deep as Python's and Rust's usual parsers go.
const MOST_DEPTH: usize = 128;

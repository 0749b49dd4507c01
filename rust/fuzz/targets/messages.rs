//! Any bytes are messages of JSON and Avro, or are rejected, one by one.
#![no_main]

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use libfuzzer_sys::fuzz_target;
use oka_formats::{AvroDecoder, JsonDecoder};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static DECODERS: RefCell<(JsonDecoder, AvroDecoder)> = RefCell::new(decoders());
}

fuzz_target!(
    init: oka_fuzz::write_seeds(&[JSON.to_vec(), AVRO.to_vec()]),
    |bytes: &[u8]| {
        DECODERS.with_borrow_mut(|(json, avro)| {
            // Several messages, and a right one behind what was rejected.
            let mut messages: Vec<_> = bytes.split(|byte| *byte == b'\n').map(Some).collect();
            messages.push(Some(JSON));
            let rows = json.decode(&messages).expect("small messages fit into a batch");
            assert_eq!(rows.rows.num_rows() + rows.rejected.len(), messages.len());
            assert!(rows.rejected.iter().all(|(place, _)| place + 1 < messages.len()));
            let messages = [Some(bytes), Some(AVRO)];
            let rows = avro.decode(&messages).expect("small messages fit into a batch");
            assert_eq!(rows.rows[0].num_rows() + rows.rejected.len(), 2);
            assert!(rows.rejected.iter().all(|(place, _)| *place == 0));
        });
    }
);

fn decoders() -> (JsonDecoder, AvroDecoder) {
    let numbers = Field::new_list("x", Field::new_list_field(DataType::Float64, true), true);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("place", DataType::Struct(Fields::from(vec![numbers])), true),
        Field::new("raw", DataType::Binary, true),
    ]);
    let json = JsonDecoder::new(Arc::new(schema)).expect("JSON has these types");
    let mut avro = AvroDecoder::of_ids(Some(SCHEMA.to_owned())).expect("it is a schema");
    avro.add(7, Ok(SCHEMA.to_owned()));
    (json, avro)
}

const JSON: &[u8] = br#"{"id": 1, "text": "a\u00e4", "at": "2026-01-02T03:04:05Z", "price": 1.25, "place": {"x": [1, 2.5]}, "raw": "00ff"}"#;
const SCHEMA: &str = r#"{"type": "record", "name": "A", "fields": [
    {"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "l", "type": {"type": "array", "items": "int"}},
    {"name": "m", "type": {"type": "map", "values": "double"}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "b", "type": "boolean"}]}"#;
/// n 1, s "hi", f 2 bytes, e B, l [1], m {"k": 0.0}, d 1.25, b true.
const AVRO: &[u8] =
    b"\x00\x00\x00\x00\x07\x02\x02\x04hi\xaa\xbb\x02\x02\x02\x00\x02\x02k\0\0\0\0\0\0\0\0\x00\x02\x7d\x01";

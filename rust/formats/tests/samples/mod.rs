//! A message of each format with values of many types.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use std::sync::Arc;

pub const JSON: &[u8] =
    br#"{"id": 12, "f": 1.5, "text": "gr\u00fcn", "flag": true, "at": "2026-01-02T03:04:05Z",
    "price": "1.25", "place": {"x": [1, 2.5]}, "map": {"a": 1}, "raw": "00ff"}"#;

pub fn schema() -> Arc<Schema> {
    let numbers = Field::new_list("x", Field::new_list_field(DataType::Float64, true), true);
    let entry = Field::new("value", DataType::Int8, true);
    let key = Field::new("key", DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("f", DataType::Float32, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("place", DataType::Struct(Fields::from(vec![numbers])), true),
        Field::new_map("map", "entries", key, entry, false, true),
        Field::new("raw", DataType::Binary, true),
    ]))
}

pub const ID: u32 = 7;

pub const AVRO_SCHEMA: &str = r#"{"type": "record", "name": "A", "fields": [
    {"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "l", "type": {"type": "array", "items": "int"}},
    {"name": "m", "type": {"type": "map", "values": "double"}},
    {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "b", "type": "boolean"}]}"#;

/// n 1, s "hi", f 2 bytes, e B, l [1], m {"k": 0.0}, t 64, d 1.25, b true.
pub const AVRO: &[u8] =
    b"\x00\x00\x00\x00\x07\x02\x02\x04hi\xaa\xbb\x02\x02\x02\x00\x02\x02k\0\0\0\0\0\0\0\0\x00\x80\x01\x02\x7d\x01";

//! Messages of Avro: by one schema, by ids of several, and to columns of a reader's schema.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use oka_formats::{AvroDecoder, Decoded};

const ONE: &str = r#"{"type": "record", "name": "A", "fields": [{"name": "n", "type": "long"}]}"#;
const TWO: &str = r#"{"type": "record", "name": "A", "fields": [
    {"name": "s", "type": "string"}, {"name": "n", "type": "int"}]}"#;
const OTHER: &str =
    r#"{"type": "record", "name": "A", "fields": [{"name": "n", "type": "string"}]}"#;
const READER: &str = r#"{"type": "record", "name": "A", "fields": [
    {"name": "n", "type": "long"}, {"name": "s", "type": "string", "default": "-"}]}"#;

/// `{"n": n}` by ONE and, where `-64 <= n < 64`, one byte.
fn one(n: i8) -> Vec<u8> {
    vec![((n << 1) ^ (n >> 7)) as u8]
}

fn two(text: &str, n: i8) -> Vec<u8> {
    [vec![text.len() as u8 * 2], text.as_bytes().to_vec(), one(n)].concat()
}

fn framed(id: u32, body: &[u8]) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], body].concat()
}

fn numbers(batch: &RecordBatch) -> Vec<i64> {
    let column = batch.column_by_name("n").unwrap();
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn decoded(decoder: &mut AvroDecoder, messages: &[Vec<u8>]) -> Decoded<Vec<RecordBatch>> {
    let messages: Vec<_> = messages.iter().map(|each| Some(each.as_slice())).collect();
    decoder.decode(&messages).unwrap()
}

#[test]
fn records_of_one_schema() {
    let mut decoder = AvroDecoder::of_schema(ONE.to_owned()).unwrap();
    let messages = [one(1), vec![], one(-2), vec![2, 2], vec![0x80], one(3)];
    for _ in 0..2 {
        let Decoded { rows, rejected } = decoded(&mut decoder, &messages);
        assert_eq!(numbers(&rows[0]), [1, -2, 3]);
        let places: Vec<_> = rejected.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [1, 3, 4]);
        assert_eq!(
            rejected[1].1,
            "not Avro of its schema: 1 bytes follow the record"
        );
        assert!(rejected[2].1.starts_with("not Avro of its schema: "));
    }
    let Decoded { rows, rejected } = decoder.decode(&[None]).unwrap();
    assert_eq!((rows.len(), rows[0].num_rows()), (1, 0));
    assert_eq!(rejected, [(0, "no value".to_owned())]);
}

#[test]
fn half_of_a_record_at_the_beginning_is_rejected_alone() {
    let mut decoder = AvroDecoder::of_schema(TWO.to_owned()).unwrap();
    let messages = [b"\x02a".to_vec(), two("b", 1), two("c", 2)];
    let Decoded { rows, rejected } = decoded(&mut decoder, &messages);
    assert_eq!((rows[0].num_rows(), rejected.len()), (2, 1));
    assert_eq!(rejected[0].0, 0);
}

#[test]
fn messages_with_ids_become_columns_of_the_reader_in_their_order() {
    let mut decoder = AvroDecoder::of_ids(Some(READER.to_owned())).unwrap();
    let messages = [
        framed(7, &one(1)),
        framed(8, &two("a", 2)),
        framed(7, &one(3)),
        framed(9, &one(4)),
        framed(10, b"\x02x"),
        vec![1, 0, 0, 0, 7, 2],
        vec![0, 0, 0],
        framed(8, b"\x06ab"),
        framed(8, &two("b", 5)),
    ];
    let borrowed: Vec<_> = messages.iter().map(|each| Some(each.as_slice())).collect();
    assert_eq!(decoder.unknown(&borrowed), [7, 8, 9, 10]);
    decoder.add(7, Ok(ONE.to_owned()));
    decoder.add(8, Ok(TWO.to_owned()));
    decoder.add(9, Err("gone".to_owned()));
    decoder.add(10, Ok(OTHER.to_owned()));
    assert!(decoder.unknown(&borrowed).is_empty());
    for _ in 0..2 {
        let Decoded { rows, rejected } = decoded(&mut decoder, &messages);
        assert_eq!(rows.len(), 1);
        assert_eq!(numbers(&rows[0]), [1, 2, 3, 5]);
        let texts = rows[0].column_by_name("s").unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["-", "a", "-", "b"]);
        let reasons: Vec<_> = rejected.iter().map(|(_, reason)| reason.as_str()).collect();
        assert_eq!(rejected[0].0, 3);
        assert_eq!(reasons[0], "gone");
        assert!(reasons[1].starts_with("schema 10: "), "{}", reasons[1]);
        assert!(reasons[2].starts_with("its first byte is 0x01, expected 0x00"));
        assert_eq!(reasons[3], "it ends within the id of its schema");
        assert!(reasons[4].starts_with("not Avro of its schema: "));
    }
    decoder.forget(9);
    assert_eq!(decoder.unknown(&borrowed), [9]);
}

#[test]
fn without_a_readers_schema_each_stretch_has_its_own_columns() {
    let mut decoder = AvroDecoder::of_ids(None).unwrap();
    decoder.add(7, Ok(ONE.to_owned()));
    decoder.add(8, Ok(TWO.to_owned()));
    let messages = [
        framed(7, &one(1)),
        framed(7, &one(2)),
        framed(8, &two("a", 3)),
        framed(7, &one(4)),
    ];
    let rows = decoded(&mut decoder, &messages).rows;
    let shapes: Vec<_> = rows
        .iter()
        .map(|each| (each.num_columns(), each.num_rows()))
        .collect();
    assert_eq!(shapes, [(1, 2), (2, 1), (1, 1)]);
    assert_eq!(numbers(&rows[2]), [4]);
    assert!(decoded(&mut decoder, &[]).rows.is_empty());
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let recursive =
        r#"{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}"#;
    for schema in ["", "{}", "\"string\"", "{\"type\": \"record\"}", recursive] {
        assert!(
            AvroDecoder::of_schema(schema.to_owned()).is_err(),
            "{schema}"
        );
        assert!(
            AvroDecoder::of_ids(Some(schema.to_owned())).is_err(),
            "{schema}"
        );
    }
}

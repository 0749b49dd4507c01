//! Messages of JSON by a schema: what each becomes, and what is rejected and why.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use oka_formats::{Decoded, JsonDecoder};
use std::sync::Arc;

fn schema() -> Arc<Schema> {
    let place = Fields::from(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float64, true),
    ]);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int32, true),
        Field::new("u", DataType::UInt64, true),
        Field::new("f", DataType::Float32, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("day", DataType::Date32, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("place", DataType::Struct(place), true),
        Field::new_list("tags", Field::new_list_field(DataType::Utf8, true), true),
        Field::new("raw", DataType::Binary, true),
    ]))
}

fn decoded(messages: &[&[u8]]) -> Decoded {
    let messages: Vec<_> = messages.iter().map(|each| Some(*each)).collect();
    let mut decoder = JsonDecoder::new(schema()).unwrap();
    decoder.decode(&messages).unwrap()
}

/// The value of a field in the only row, as Arrow shows it.
fn shown(batch: &RecordBatch, name: &str) -> String {
    let column = batch.column_by_name(name).unwrap().slice(0, 1);
    format!("{column:?}")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn each_value_becomes_that_of_its_column() {
    let cases: &[(&str, &str, &str)] = &[
        ("9007199254740993", "id", "[ 9007199254740993, ]"),
        ("-9223372036854775808", "id", "[ -9223372036854775808, ]"),
        ("18446744073709551615", "u", "[ 18446744073709551615, ]"),
        ("1.0", "n", "[ 1, ]"),
        ("-2e3", "n", "[ -2000, ]"),
        ("null", "n", "[ null, ]"),
        ("0.1", "f", "[ 0.1, ]"),
        ("7", "f", "[ 7.0, ]"),
        (r#""gr\u00fc\n\ud83d\ude00""#, "text", "[ \"grü\\n😀\", ]"),
        ("true", "flag", "[ true, ]"),
        (
            r#""2026-01-02T03:04:05.678Z""#,
            "at",
            "[ 2026-01-02T03:04:05.678, ]",
        ),
        (
            r#""2026-01-02T03:04:05+02:00""#,
            "at",
            "[ 2026-01-02T01:04:05, ]",
        ),
        (r#""2026-01-02 03:04:05""#, "at", "[ 2026-01-02T03:04:05, ]"),
        ("1500", "at", "[ 1970-01-01T00:00:01.500, ]"),
        ("-1", "at", "[ 1969-12-31T23:59:59.999, ]"),
        (r#""2026-01-02""#, "day", "[ 2026-01-02, ]"),
        ("1", "day", "[ 1970-01-02, ]"),
        ("1.25", "price", "[ 125, ]"),
        (r#""1.25""#, "price", "[ 125, ]"),
        ("1.256", "price", "[ 126, ]"),
        (r#""00ff""#, "raw", "[ [0, 255], ]"),
    ];
    for (value, name, expected) in cases {
        let id = if *name == "id" { "" } else { r#""id": 1, "# };
        let message = format!(r#"{{{id}"{name}": {value}, "other": [{{}}]}}"#);
        let Decoded { rows, rejected } = decoded(&[message.as_bytes()]);
        assert!(rejected.is_empty(), "{message}: {rejected:?}");
        let shown = shown(&rows, name);
        assert!(shown.ends_with(expected), "{message}: {shown}");
    }
}

#[test]
fn nested_values_and_the_last_of_two_fields_count() {
    let message = br#"{"id": 1, "place": {"x": 1, "z": 2}, "tags": ["a", null], "id": 2}"#;
    let rows = decoded(&[message]).rows;
    assert!(shown(&rows, "id").ends_with("[ 2, ]"));
    let place = shown(&rows, "place");
    assert!(
        place.contains("[ 1.0, ]") && place.contains("[ null, ]"),
        "{place}"
    );
    assert!(shown(&rows, "tags").contains(r#"[ "a", null, ]"#));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_is_no_such_object_is_rejected_with_a_reason() {
    let long = format!("{}1", "1".repeat(400));
    let deep = format!(
        r#"{{"id": 1, "other": {}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let field = |value: &str| format!(r#"{{"id": 1, {value}}}"#);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".into(), "empty"),
        (b" \n".into(), "empty"),
        (b"\xff".into(), "not UTF-8: byte 0xff at place 0"),
        (
            b"{\"id\": 1, \"text\": \"\xc3\"}".into(),
            "not UTF-8: byte 0xc3 at place 19",
        ),
        (b"\xef\xbb\xbf{}".into(), "not JSON: expected value"),
        (
            b"{\"id\": 1".into(),
            "not JSON: EOF while parsing an object",
        ),
        (b"{\"id\": 1}}".into(), "not JSON: trailing characters"),
        (
            b"{\"id\": 1}\n{\"id\": 2}".into(),
            "not JSON: trailing characters",
        ),
        (b"{\"id\": 1,}".into(), "not JSON: key must be a string"),
        (b"{\"id\" 1}".into(), "not JSON: expected `:`"),
        (b"{\"id\": 01}".into(), "not JSON: invalid number"),
        (
            b"{\"id\": 1, \"tags\": [\"a\" \"b\"]}".into(),
            "not JSON: expected `,` or `]`",
        ),
        (
            b"{\"id\": 1, \"text\": \"a\nb\"}".into(),
            "not JSON: control character",
        ),
        (
            b"{\"id\": 1, \"text\": \"\\ud800\"}".into(),
            "Encountered unexpected '\"' whilst",
        ),
        (b"{\"id\": NaN}".into(), "not JSON: expected value"),
        (b"[1]".into(), "not a JSON object: [1]"),
        (b"1".into(), "not a JSON object: 1"),
        (b"null".into(), "not a JSON object: null"),
        (deep.into(), "nested more than 128 deep"),
        (b"{}".into(), "no value of a column that must have one: "),
        (
            b"{\"id\": null}".into(),
            "no value of a column that must have one: ",
        ),
        (
            b"{\"id\": 1.5}".into(),
            "field 'id': 1.5 is not of the type Int64",
        ),
        (
            b"{\"id\": 9223372036854775808}".into(),
            "field 'id': 9223372036854775808 is not",
        ),
        (
            b"{\"id\": -9223372036854775809}".into(),
            "field 'id': -9223372036854775809 is",
        ),
        (
            b"{\"id\": 9007199254740993.0}".into(),
            "field 'id': 9007199254740993.0 is not",
        ),
        (
            b"{\"id\": \"1\"}".into(),
            "field 'id': expected a number got \"1\"",
        ),
        (
            b"{\"id\": true}".into(),
            "field 'id': expected a number got true",
        ),
        (
            b"{\"id\": [1]}".into(),
            "field 'id': expected a number got [1]",
        ),
        (format!("{{\"id\": {long}}}").into(), "field 'id': 1111"),
        (
            field("\"n\": 2147483648").into(),
            "field 'n': 2147483648 is not of the type Int32",
        ),
        (
            field("\"u\": -1").into(),
            "field 'u': -1 is not of the type UInt64",
        ),
        (
            field("\"f\": 1e400").into(),
            "field 'f': 1e400 is not of the type Float32",
        ),
        (
            field("\"f\": 1e39").into(),
            "field 'f': 1e39 is not of the type Float32",
        ),
        (
            field("\"f\": \"NaN\"").into(),
            "field 'f': expected a number got \"NaN\"",
        ),
        (
            field("\"text\": 1").into(),
            "field 'text': expected string got 1",
        ),
        (
            field("\"text\": {\"a\": 1}").into(),
            "field 'text': expected string got {",
        ),
        (
            field("\"flag\": 1").into(),
            "field 'flag': expected boolean got 1",
        ),
        (
            field("\"flag\": \"true\"").into(),
            "field 'flag': expected boolean got \"true\"",
        ),
        (
            field("\"at\": 1.5").into(),
            "field 'at': 1.5 is not of the type Timestamp",
        ),
        (
            field("\"at\": 1e300").into(),
            "field 'at': 1e300 is not of the type Timestamp",
        ),
        (
            field("\"at\": \"soon\"").into(),
            "field 'at': failed to parse \"soon\"",
        ),
        (
            field("\"day\": \"2026-02-30\"").into(),
            "field 'day': failed to parse",
        ),
        (
            field("\"day\": 99999999999").into(),
            "field 'day': failed to parse",
        ),
        (
            field("\"price\": 123456789.00").into(),
            "field 'price': \"123456789.00\" does not fit",
        ),
        (
            field("\"price\": \"x\"").into(),
            "field 'price': Invalid decimal format",
        ),
        (field("\"at\": \"300000-01-01\"").into(), "field 'at': "),
        (
            field("\"place\": []").into(),
            "field 'place': expected { got []",
        ),
        (
            field("\"place\": {\"x\": \"1\"}").into(),
            "field 'place': field 'x': expected a number",
        ),
        (
            field("\"tags\": \"a\"").into(),
            "field 'tags': expected [ got \"a\"",
        ),
        (
            field("\"tags\": [1]").into(),
            "field 'tags': expected string got 1",
        ),
        (
            field("\"raw\": \"abc\"").into(),
            "field 'raw': abc is not of the type Binary",
        ),
        (field("\"raw\": \"zz\"").into(), "field 'raw': invalid hex"),
    ];
    for (message, reason) in &cases {
        let told = String::from_utf8_lossy(&message[..message.len().min(80)]);
        for place in 0..3 {
            let mut messages: Vec<&[u8]> = vec![b"{\"id\": 7}", b" {\"id\": 8}\n"];
            messages.insert(place, message);
            let Decoded { rows, rejected } = decoded(&messages);
            assert_eq!(rows.num_rows(), 2, "{told}");
            assert_eq!(rejected.len(), 1, "{told}");
            assert_eq!(rejected[0].0, place, "{told}");
            assert!(
                rejected[0].1.starts_with(reason),
                "{told}: {}",
                rejected[0].1
            );
            assert!(rejected[0].1.chars().count() <= 300, "{told}");
        }
    }
    let all: Vec<&[u8]> = cases
        .iter()
        .map(|(message, _)| message.as_slice())
        .collect();
    let Decoded { rows, rejected } = decoded(&all);
    assert_eq!(rows.num_rows(), 0);
    assert_eq!(rows.schema(), schema());
    assert!(rejected.iter().map(|(place, _)| *place).eq(0..all.len()));
}

#[test]
fn a_message_without_a_value_is_a_row_of_nulls() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let mut decoder = JsonDecoder::new(schema).unwrap();
    let messages = [Some(&b"{\"n\": 1}"[..]), None];
    let Decoded { rows, rejected } = decoder.decode(&messages).unwrap();
    assert!(rejected.is_empty());
    assert!(shown(&rows.slice(1, 1), "n").ends_with("[ null, ]"));
    let mut strict = JsonDecoder::new(self::schema()).unwrap();
    assert_eq!(strict.decode(&[None]).unwrap().rejected.len(), 1);
}

#[test]
fn batches_of_any_length_follow_each_other() {
    let mut decoder = JsonDecoder::new(schema()).unwrap();
    for length in [0, 1, 3, 1000, 2, 5000, 0, 4] {
        let messages: Vec<String> = (0..length).map(|n| format!("{{\"id\": {n}}}")).collect();
        let messages: Vec<_> = messages.iter().map(|each| Some(each.as_bytes())).collect();
        let Decoded { rows, rejected } = decoder.decode(&messages).unwrap();
        assert_eq!((rows.num_rows(), rejected.len()), (length, 0));
    }
}

#[test]
fn types_without_a_value_in_json_are_refused() {
    let kind = DataType::Interval(arrow_schema::IntervalUnit::DayTime);
    let schema = Arc::new(Schema::new(vec![Field::new("n", kind, true)]));
    let error = JsonDecoder::new(schema).err().unwrap();
    assert!(error.to_string().contains("Interval"), "{error}");
}

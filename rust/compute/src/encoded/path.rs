//! The way from a record to a value inside it: which item of a tuple or list, which field of a dict.
//!
//! ```
//! use oka_compute::{Path, Step};
//!
//! let record = [0x92, 0xa1, b'a', 0x07]; // ("a", 7)
//! assert_eq!(Path::from([Step::Item(1)]).find(&record), Ok(&record[3..]));
//! assert_eq!(Path::default().find(&record), Ok(&record[..]));
//! ```

use crate::encoded::classes::names_of;
use crate::encoded::value::{ReadError, Reader, Value, extension};
use thiserror::Error;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An item of a tuple or list; negative counts from the end, as in Python.
    Item(i64),
    /// The value of a dict under this key, or the field of an object that has this name.
    Field(String),
}

/// The steps from a record to a value; none at all means the record itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
}

/// The record has no value at the end of the path.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PathError {
    #[error("item {item} of a sequence of {count}")]
    NoItem { item: i64, count: usize },
    #[error("a dict without the field {field:?}")]
    NoField { field: String },
    #[error("an object without the field {field:?}: it has {names}")]
    NoAttribute { field: String, names: String },
    #[error("item {item} of something that is no tuple and no list")]
    NotASequence { item: i64 },
    #[error("field {field:?} of something that is no dict")]
    NotADict { field: String },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Path {
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The bytes of `record` from the value on. Where the value ends, a [`Reader`] tells.
    pub fn find<'a>(&self, record: &'a [u8]) -> Result<&'a [u8], PathError> {
        self.steps
            .iter()
            .try_fold(record, |value, step| match step {
                Step::Item(item) => find_item(value, *item),
                Step::Field(field) => find_field(value, field),
            })
    }
}

impl<const N: usize> From<[Step; N]> for Path {
    fn from(steps: [Step; N]) -> Self {
        Self::from(Vec::from(steps))
    }
}

impl From<Vec<Step>> for Path {
    fn from(steps: Vec<Step>) -> Self {
        Self { steps }
    }
}

fn find_item(value: &[u8], item: i64) -> Result<&[u8], PathError> {
    let mut reader = Reader::new(value);
    let mut head = reader.read()?;
    let mut class = 0;
    if let Value::Extension(code @ (extension::LIST | extension::NAMED_TUPLE), payload) = head {
        reader = Reader::new(payload);
        head = reader.read()?;
        class = usize::from(code == extension::NAMED_TUPLE);
    }
    let Value::Array(count) = head else {
        return Err(PathError::NotASequence { item });
    };
    reader.skip_many(class)?;
    let count = count.saturating_sub(class);
    let index = if item < 0 { item + count as i64 } else { item };
    let index = usize::try_from(index)
        .ok()
        .filter(|index| *index < count)
        .ok_or(PathError::NoItem { item, count })?;
    reader.skip_many(index)?;
    Ok(reader.rest())
}

fn find_field<'a>(value: &'a [u8], field: &str) -> Result<&'a [u8], PathError> {
    let mut reader = Reader::new(value);
    match reader.read()? {
        Value::Map(count) => find_in_dict(reader, count, field),
        Value::Extension(code, payload) => find_attribute(code, payload, field),
        _ => Err(no_dict(field)),
    }
}

fn find_in_dict<'a>(
    mut reader: Reader<'a>,
    count: usize,
    field: &str,
) -> Result<&'a [u8], PathError> {
    for _ in 0..count {
        match reader.read()? {
            Value::Str(name) if name == field.as_bytes() => return Ok(reader.rest()),
            Value::Array(count) => reader.skip_many(count)?,
            Value::Map(count) => reader.skip_many(count.saturating_mul(2))?,
            _ => {}
        }
        reader.skip()?;
    }
    Err(PathError::NoField {
        field: field.to_owned(),
    })
}

/// A field of an object: of a dataclass, a named tuple, or what else has names.
#[inline(never)]
fn find_attribute<'a>(code: i8, payload: &'a [u8], field: &str) -> Result<&'a [u8], PathError> {
    let mut reader = Reader::new(payload);
    let (extension::NAMED_TUPLE | extension::EQUAL_BY_PARTS | extension::OBJECT | extension::STATE) =
        code
    else {
        return Err(no_dict(field));
    };
    let Value::Array(parts) = reader.read()? else {
        return Err(no_dict(field));
    };
    let start = reader.position();
    reader.skip()?;
    if code == extension::STATE {
        return find_in_state(&reader, field);
    }
    let names = names_of(reader.since(start)).unwrap_or_default();
    let found = names.iter().position(|name| **name == *field.as_bytes());
    match found.filter(|index| index + 1 < parts) {
        Some(index) => {
            reader.skip_many(index)?;
            Ok(reader.rest())
        }
        None if names.is_empty() => Err(no_dict(field)),
        None => Err(PathError::NoAttribute {
            field: field.to_owned(),
            names: names
                .iter()
                .map(|name| String::from_utf8_lossy(name))
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

/// Of an object by all its attributes: a dict of them, in which pydantic has another.
fn find_in_state<'a>(state: &Reader<'a>, field: &str) -> Result<&'a [u8], PathError> {
    let find = |state: &'a [u8], field| {
        let mut reader = Reader::new(state);
        match reader.read()? {
            Value::Map(count) => find_in_dict(reader, count, field),
            _ => Err(no_dict(field)),
        }
    };
    let state = state.rest();
    find(state, field).or_else(|error| match find(state, "__dict__") {
        Ok(inner) => find(inner, field),
        Err(_) => Err(error),
    })
}

#[cold]
fn no_dict(field: &str) -> PathError {
    PathError::NotADict {
        field: field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::encode;

    /// `{"a": ("x", [1, 2]), (0, 1): 3, "b": 4}`
    fn record() -> Vec<u8> {
        let mut out = Vec::new();
        encode::map(&mut out, 3);
        encode::text(&mut out, b"a");
        encode::array(&mut out, 2);
        encode::text(&mut out, b"x");
        let start = encode::open_extension(&mut out, extension::LIST);
        encode::array(&mut out, 2);
        encode::int(&mut out, 1);
        encode::int(&mut out, 2);
        assert!(encode::close_extension(&mut out, start));
        encode::array(&mut out, 2);
        encode::int(&mut out, 0);
        encode::int(&mut out, 1);
        encode::int(&mut out, 3);
        encode::text(&mut out, b"b");
        encode::int(&mut out, 4);
        out
    }

    fn found(steps: Vec<Step>) -> Result<i64, PathError> {
        let record = record();
        let mut reader = Reader::new(Path::from(steps).find(&record)?);
        match reader.read()? {
            Value::Int(number) => Ok(number),
            other => panic!("{other:?}"),
        }
    }

    fn field(name: &str) -> Step {
        Step::Field(name.to_owned())
    }

    #[test]
    fn steps_lead_through_dicts_tuples_and_lists() {
        assert_eq!(found(vec![field("a"), Step::Item(1), Step::Item(0)]), Ok(1));
        assert_eq!(
            found(vec![field("a"), Step::Item(-1), Step::Item(-1)]),
            Ok(2)
        );
        assert_eq!(found(vec![field("b")]), Ok(4));
    }

    #[test]
    fn items_of_a_named_tuple_are_counted_without_its_class() {
        let mut out = Vec::new();
        let start = encode::open_extension(&mut out, extension::NAMED_TUPLE);
        encode::array(&mut out, 3);
        encode::text(&mut out, b"points:Point");
        encode::int(&mut out, 7);
        encode::int(&mut out, 8);
        assert!(encode::close_extension(&mut out, start));
        let find = |item| {
            let path = Path::from([Step::Item(item)]);
            let found = path.find(&out)?;
            Reader::new(found).read().map_err(PathError::from)
        };
        assert_eq!(find(0), Ok(Value::Int(7)));
        assert_eq!(find(-1), Ok(Value::Int(8)));
        assert_eq!(find(2), Err(PathError::NoItem { item: 2, count: 2 }));
        let empty = [0xc7, 1, 5, 0x90];
        let found = Path::from([Step::Item(0)]).find(&empty);
        assert!(found.is_err());
    }

    /// `Point(x=7, y=8)`, whose class goes by this name.
    fn object(code: i8, class: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let start = encode::open_extension(&mut out, code);
        encode::array(&mut out, 3);
        encode::text(&mut out, class);
        encode::int(&mut out, 7);
        encode::int(&mut out, 8);
        assert!(encode::close_extension(&mut out, start));
        out
    }

    fn resolved() {
        crate::encoded::classes::resolve_by(|reference| {
            let named = reference.ends_with(b":Point");
            named.then(|| {
                &*Box::leak(Box::new([b"x".as_slice().into(), b"y".as_slice().into()])) as _
            })
        });
    }

    #[test]
    fn fields_of_an_object_are_found_by_their_names() {
        resolved();
        for code in [
            extension::NAMED_TUPLE,
            extension::EQUAL_BY_PARTS,
            extension::OBJECT,
        ] {
            let point = object(code, b"points:Point");
            let find = |name| Path::from([field(name)]).find(&point).map(|rest| rest[0]);
            assert_eq!(find("x"), Ok(7));
            assert_eq!(find("y"), Ok(8));
            let missing = find("z").expect_err("there is none").to_string();
            assert_eq!(missing, r#"an object without the field "z": it has x, y"#);
            let other = object(code, b"points:Other");
            assert_eq!(Path::from([field("x")]).find(&other), Err(no_dict("x")));
        }
    }

    #[test]
    fn fields_of_an_object_by_all_its_attributes() {
        let mut out = Vec::new();
        let start = encode::open_extension(&mut out, extension::STATE);
        encode::array(&mut out, 2);
        encode::int(&mut out, 3);
        encode::map(&mut out, 2);
        encode::text(&mut out, b"x");
        encode::int(&mut out, 7);
        encode::text(&mut out, b"__dict__");
        encode::map(&mut out, 1);
        encode::text(&mut out, b"y");
        encode::int(&mut out, 8);
        assert!(encode::close_extension(&mut out, start));
        let find = |name| Path::from([field(name)]).find(&out).map(|rest| rest[0]);
        assert_eq!(find("x"), Ok(7));
        assert_eq!(find("y"), Ok(8));
        assert!(find("z").is_err());
    }

    #[test]
    fn a_missing_value_is_named() {
        let missing = |steps| found(steps).expect_err("nothing is there").to_string();
        assert_eq!(missing(vec![field("c")]), r#"a dict without the field "c""#);
        assert_eq!(
            missing(vec![field("a"), Step::Item(2)]),
            "item 2 of a sequence of 2"
        );
        assert_eq!(
            missing(vec![field("a"), Step::Item(-3)]),
            "item -3 of a sequence of 2"
        );
        assert_eq!(
            missing(vec![Step::Item(0)]),
            "item 0 of something that is no tuple and no list"
        );
        assert_eq!(
            missing(vec![field("a"), field("b")]),
            r#"field "b" of something that is no dict"#
        );
    }
}

//! Why records or columns cannot be aggregated, with what helps.

use crate::error::AggregateError;
use crate::network::batch::not_columns;
use crate::operators::calls::{AggregateCall, path};
use oka_codec::{Decoder, shortened};
use oka_compute::key::KeyError;
use oka_compute::value::extension;
use oka_compute::{Accumulated, Aggregation, Problem, Reader, Value};
use pyo3::prelude::*;

/// The exception for a record of a body whose first record has this index.
#[cold]
pub(crate) fn raise(
    py: Python<'_>,
    (first, body): (usize, &[u8]),
    error: &oka_compute::AggregateError,
    wanted: &[AggregateCall],
) -> PyErr {
    let encoded = &body[error.offset..];
    let record = match Decoder::new(py).first(encoded) {
        Ok(record) => shortened(&record),
        Err(error) => return error,
    };
    let problem = &error.problem;
    let of_numbers = wanted.iter().any(|each| {
        use Aggregation as A;
        let is_of_quantiles = matches!(each.aggregation, A::Quantile | A::Quantiles);
        is_of_quantiles || matches!(each.aggregation, A::ApproxQuantile | A::ApproxQuantiles)
    });
    let hint = match problem {
        Problem::NotAFilter => {
            "where= names a bool, or is a function of the record: where=lambda record: ...".into()
        }
        Problem::NotABool => "bool_and and bool_or are of bools: make them by map first".into(),
        Problem::NotAnInteger => "filter other values out first, or make integers by map".into(),
        Problem::NoKey(_) | Problem::NoValue(_) | Problem::NoTime(_) | Problem::NoFilter(_) => {
            "bring records into shape with map first".into()
        }
        Problem::Key(KeyError::Unhashable(_)) => {
            "make it a tuple, or another that is, by a function: key_by(lambda record: ...)".into()
        }
        Problem::NotATime | Problem::FarTime => {
            "say what numbers count by unit=..., or compute the time by a function of the record"
                .into()
        }
        Problem::Untold(_) => {
            "values are told apart as keys are: make each one by map first".into()
        }
        Problem::Key(_) => "key_by takes a function of the record, too".into(),
        Problem::NotANumber | Problem::NotOrdered => {
            let inside = wanted
                .iter()
                .find_map(|each| inside(each.aggregation, path(&each.path).find(encoded).ok()?));
            inside.unwrap_or_else(|| if of_numbers { OF_NUMBERS } else { OF_NO_USE }.into())
        }
        _ if of_numbers => OF_NUMBERS.into(),
        _ => REDUCE.into(),
    };
    let mut words = problem.to_string();
    if let Problem::NotANumber | Problem::NotOrdered | Problem::NotABool | Problem::NotAnInteger =
        problem
        && let Some(value) = failing(encoded, wanted)
        && let Ok(value) = Decoder::new(py).first(value)
    {
        words = words.replacen("its value", &format!("its value {}", shortened(&value)), 1);
    }
    if !words.contains("\n\nhint: ") {
        words = format!("{words}\n\nhint: {hint}");
    }
    let number = first + error.record;
    AggregateError::new_err(format!("record {number} of the batch, {record}: {words}"))
}

/// The value inside a record that an aggregation does not take.
fn failing<'r>(record: &'r [u8], wanted: &[AggregateCall]) -> Option<&'r [u8]> {
    wanted.iter().find_map(|each| {
        let of_one = match each.aggregation {
            pairs if pairs.is_of_pairs() => Aggregation::Variance,
            other => other,
        };
        each.paths().find_map(|to| {
            let value = path(to).find(record).ok()?;
            let fails = Accumulated::first(of_one, value).is_err();
            (fails && !to.is_empty()).then_some(value)
        })
    })
}

/// What helps with this value: how to name one inside, where it has others inside.
fn inside(aggregation: Aggregation, value: &[u8]) -> Option<String> {
    let item = match Reader::new(value).read().ok()? {
        _ if matches!(
            aggregation,
            Aggregation::Count | Aggregation::First | Aggregation::Last
        ) =>
        {
            return None;
        }
        Value::Array(_) | Value::Extension(extension::LIST, _) => "an item of it by its index",
        Value::Map(_) => "a field of it by its name",
        Value::Str(_) => return Some("make numbers of texts by map first: float(x)".into()),
        Value::Nil => return Some("filter records without a value out first".into()),
        _ => return None,
    };
    let example = if item.contains("field") { "\"n\"" } else { "1" };
    let name = aggregation.name();
    Some(format!(
        "say which value: {item}, such as {name}({example})"
    ))
}

const OF_NO_USE: &str = "filter leaves such records out, and so does on_error=\"skip\", which counts \
                         them; reduce takes any function of two values";

const OF_NUMBERS: &str = "quantiles are of numbers: make one of each value by map first, such as \
                          value.total_seconds() of a timedelta";

const REDUCE: &str = "reduce takes any function of two values";

#[cold]
pub(crate) fn raise_columns(error: &oka_columnar::AggregateError) -> PyErr {
    use oka_columnar::AggregateError as Error;
    let hint = match error {
        Error::Decode(error) => return not_columns(error),
        Error::Column(_) => "name one of these columns, or say its index",
        Error::Row {
            problem: Problem::FarTime,
            ..
        } => "say what numbers count by unit=...",
        Error::Row { .. } => "a column of times has integers, floats or timestamps, and no nulls",
        Error::Filter { .. } => "where= names a column of bools; map_batches can add one",
        Error::State(_) => "is it the state of an operator with the same aggregations?",
        _ => "cast the column in map_batches first",
    };
    AggregateError::new_err(format!("{error}\n\nhint: {hint}"))
}

/// The exception where what some records come to does not go with what others come to.
#[cold]
pub(crate) fn raise_parts(error: &oka_columnar::AggregateError) -> PyErr {
    let oka_columnar::AggregateError::State(problem) = error else {
        return raise_columns(error);
    };
    AggregateError::new_err(format!(
        "what some of all records come to does not go with the others: {problem}\n\n\
         hint: on_error='skip' leaves out records whose values do not go with those before them"
    ))
}

#[cold]
pub(crate) fn no_column(what: &str) -> PyErr {
    AggregateError::new_err(format!(
        "{what} names no column, expected one for a stream of columns\n\nhint: name it, as in \
         key_by(\"word\").sum(\"n\"); map_batches can add a column"
    ))
}

#[cold]
pub(crate) fn mixed() -> PyErr {
    AggregateError::new_err(
        "columns and records in one aggregation\n\nhint: to_columns() or to_records() before union",
    )
}

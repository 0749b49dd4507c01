//! The calls of aggregate functions, and the paths to keys and values in records.

use crate::operators::refused::no_column;
use oka_columnar::Selector;
use oka_compute::{Aggregation, KeyPath, Path, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// One step of a path: an int or a str.
#[derive(FromPyObject)]
pub(crate) enum PathStep {
    Item(i64),
    Field(String),
}

/// A call of an aggregate function.
pub(crate) struct AggregateCall {
    pub(crate) aggregation: Aggregation,
    /// The way from the record to the value.
    pub(crate) path: Vec<PathStep>,
    /// The shares of quantiles, or how many values are wanted.
    pub(crate) parameters: Vec<f64>,
}

/// A call as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum CallTuple {
    Plain(String, Vec<PathStep>),
    With(String, Vec<PathStep>, Vec<f64>),
}

/// The calls that Python gives: one, or one for each name.
pub(crate) fn aggregate_calls(
    tuples: Vec<CallTuple>,
    names: Option<&[Py<PyString>]>,
) -> PyResult<Vec<AggregateCall>> {
    let expected = names.map_or(1, <[_]>::len);
    if tuples.is_empty() || tuples.len() != expected {
        return Err(PyValueError::new_err(format!(
            "{} aggregations, expected one for each name, or one without a name",
            tuples.len()
        )));
    }
    let calls = tuples.into_iter().map(|tuple| {
        let (kind, path, parameters) = match tuple {
            CallTuple::Plain(kind, path) => (kind, path, Vec::new()),
            CallTuple::With(kind, path, parameters) => (kind, path, parameters),
        };
        let aggregation = Aggregation::named(&kind).ok_or_else(|| {
            let all = Aggregation::ALL.map(Aggregation::name).join(", ");
            PyValueError::new_err(format!("aggregation {kind:?}, expected one of {all}"))
        })?;
        Ok(AggregateCall {
            aggregation,
            path,
            parameters,
        })
    });
    calls.collect()
}

/// The way to the key.
pub(crate) fn key_path(key: &[Vec<PathStep>]) -> PyResult<KeyPath> {
    match key {
        [] => Err(PyValueError::new_err(
            "no path to the key, expected at least one",
        )),
        [only] => Ok(KeyPath::One(path(only))),
        several => Ok(KeyPath::Tuple(
            several.iter().map(|each| path(each)).collect(),
        )),
    }
}

pub(crate) fn path(steps: &[PathStep]) -> Path {
    let step = |step: &PathStep| match step {
        PathStep::Item(item) => Step::Item(*item),
        PathStep::Field(field) => Step::Field(field.clone()),
    };
    Path::from(steps.iter().map(step).collect::<Vec<_>>())
}

/// The column that a path leads to; `None` if the path is empty.
pub(crate) fn selector(path: &[PathStep]) -> PyResult<Option<Selector>> {
    match path {
        [] => Ok(None),
        [PathStep::Item(index)] => Ok(Some(Selector::Index(*index as isize))),
        [PathStep::Field(name)] => Ok(Some(Selector::Name(name.clone()))),
        _ => Err(no_column("key_by() with a function")),
    }
}

/// The aggregate over columns.
pub(crate) fn over_columns(
    key: &[Vec<PathStep>],
    calls: &[AggregateCall],
    names: Option<&[Py<PyString>]>,
) -> PyResult<oka_columnar::Aggregate> {
    let by = key
        .iter()
        .map(|path| selector(path).and_then(|key| key.ok_or_else(|| no_column("key_by()"))));
    let mut aggregate = oka_columnar::Aggregate::by(by.collect::<PyResult<_>>()?);
    for (at, each) in calls.iter().enumerate() {
        let aggregation = each.aggregation;
        let value = match (aggregation, selector(&each.path)?) {
            (Aggregation::Count, _) => None,
            (_, None) => return Err(no_column("the aggregation")),
            (_, value) => value,
        };
        let name = match names {
            Some(names) => names[at].to_string(),
            None => aggregation.name().to_owned(),
        };
        aggregate = aggregate.compute_by(name, (aggregation, &each.parameters), value);
    }
    Ok(aggregate)
}

//! Aggregates per key over encoded batches.

use crate::batch::{Batch, Content, not_columns};
use crate::columns;
use crate::decode::Decoder;
use crate::error::{AggregateError, alone, shortened};
use oka_columnar::{Columns, Selector};
use oka_compute::{Accumulated, Aggregation, Path, Problem, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::sync::Mutex;

/// Count, sum, minimum, maximum or first value per key, computed on encoded records.
///
/// `kind` is count, sum, min, max or first; `key` and `value` lead from a record to its key and
/// its value, item by item (int) and field by field (str), and are empty for the record itself.
/// Over columns they are one step each, the column's name or index.
/// Results are those of the same loop in Python. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Aggregate {
    state: Mutex<State>,
}

struct State {
    aggregate: oka_compute::Aggregate,
    /// The key objects, by the number of the key.
    keys: Vec<Py<PyAny>>,
    /// The aggregate over columns, once there are some.
    columns: Option<oka_columnar::Aggregate>,
    aggregation: Aggregation,
    key: Vec<PathStep>,
    value: Vec<PathStep>,
}

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        kind: "str",
        key: "list[int | str]",
        value: "list[int | str]" = Vec::new(),
    ))]
    fn new(kind: &str, key: Vec<PathStep>, value: Vec<PathStep>) -> PyResult<Self> {
        let aggregation = match kind {
            "count" => Aggregation::Count,
            "sum" => Aggregation::Sum,
            "min" => Aggregation::Min,
            "max" => Aggregation::Max,
            "first" => Aggregation::First,
            other => {
                return Err(PyValueError::new_err(format!(
                    "aggregation {other:?}, expected count, sum, min, max or first"
                )));
            }
        };
        let state = State {
            aggregate: oka_compute::Aggregate::new(aggregation, path(&key), path(&value)),
            keys: Vec::new(),
            columns: None,
            aggregation,
            key,
            value,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes a batch in. The keys it touched, in the order in which it touched them, each once with
    /// its value after the whole batch: a list of pairs, or, of columns, a pyarrow.RecordBatch of
    /// two columns (an empty list if it touched none). Raises AggregateError naming the record.
    #[pyo3(signature = (batch: "Batch") -> "Any")]
    fn update<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        let received = match batch.content()? {
            Content::Records(received) => received,
            Content::Columns(columns) => return state.update_columns(py, columns),
        };
        if state.columns.is_some() && received.records > 0 {
            return Err(mixed());
        }
        let State {
            aggregate, keys, ..
        } = &mut *state;
        let mut first = 0;
        for (records, body) in received.bodies() {
            let mut update = || aggregate.update(body, records);
            let updated = if body.len() >= DETACH_BYTES {
                py.detach(update)
            } else {
                update()
            };
            updated.map_err(|error| raise(py, first, body, &error))?;
            first += records;
        }
        let mut pairs = Vec::with_capacity(aggregate.touched());
        for update in aggregate.take_updates() {
            if update.number == keys.len() {
                keys.push(Decoder::new(py).first(update.key)?.unbind());
            }
            let value = object(py, update.value)?;
            pairs.push((keys[update.number].bind(py), value).into_pyobject(py)?);
        }
        Ok(PyList::new(py, pairs)?.into_any())
    }

    /// The value of every key so far.
    #[pyo3(signature = () -> "dict[Any, Any]")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state()?;
        let values = PyDict::new(py);
        for (key, value) in state.keys.iter().zip(state.aggregate.values()) {
            values.set_item(key, object(py, value)?)?;
        }
        Ok(values)
    }

    /// Number of different keys so far.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.state()?.aggregate.len())
    }
}

impl Aggregate {
    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the aggregate is in use\n\nhint: an aggregate belongs to one thread",
        )
    }
}

impl State {
    fn update_columns<'py>(
        &mut self,
        py: Python<'py>,
        columns: &Columns,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.keys.is_empty() {
            return Err(mixed());
        }
        let aggregate = if let Some(aggregate) = &mut self.columns {
            aggregate
        } else {
            let key = selector(&self.key)?.ok_or_else(|| no_column("key_by()"))?;
            let value = selector(&self.value)?;
            if value.is_none() && self.aggregation != Aggregation::Count {
                return Err(no_column("the aggregation"));
            }
            let aggregate = oka_columnar::Aggregate::new(self.aggregation, key, value);
            self.columns.insert(aggregate)
        };
        let mut update = || aggregate.update(columns);
        let updated = if columns.size() >= DETACH_BYTES {
            py.detach(update)
        } else {
            update()
        };
        match updated.map_err(|error| raise_columns(&error))? {
            Some(touched) => columns::export(py, touched),
            None => Ok(PyList::empty(py).into_any()),
        }
    }
}

/// One step of a path: an int or a str.
#[derive(FromPyObject)]
enum PathStep {
    Item(i64),
    Field(String),
}

fn path(steps: &[PathStep]) -> Path {
    let step = |step: &PathStep| match step {
        PathStep::Item(item) => Step::Item(*item),
        PathStep::Field(field) => Step::Field(field.clone()),
    };
    Path::from(steps.iter().map(step).collect::<Vec<_>>())
}

/// The column that a path leads to; `None` if the path is empty.
fn selector(path: &[PathStep]) -> PyResult<Option<Selector>> {
    match path {
        [] => Ok(None),
        [PathStep::Item(index)] => Ok(Some(Selector::Index(*index as isize))),
        [PathStep::Field(name)] => Ok(Some(Selector::Name(name.clone()))),
        _ => Err(no_column("key_by() with a function")),
    }
}

fn object<'py>(py: Python<'py>, value: &Accumulated) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Accumulated::Integer(number) => match i64::try_from(*number) {
            Ok(number) => number.into_pyobject(py).map(Bound::into_any),
            Err(_) => number.into_pyobject(py).map(Bound::into_any),
        }
        .map_err(PyErr::from),
        Accumulated::Bool(truth) => Ok(truth.into_pyobject(py)?.to_owned().into_any()),
        Accumulated::Float(number) => Ok(number.into_pyobject(py)?.into_any()),
        Accumulated::Text(utf8) => {
            let text = PyString::from_bytes(py, utf8).or_else(|_| {
                let utf8 = PyBytes::new(py, utf8);
                PyString::from_encoded_object(&utf8, Some(c"utf-8"), Some(c"surrogatepass"))
            });
            Ok(text?.into_any())
        }
        Accumulated::Bytes(data) => Ok(PyBytes::new(py, data).into_any()),
        Accumulated::Encoded(encoded) => Decoder::new(py).first(encoded),
    }
}

#[cold]
fn raise(py: Python<'_>, first: usize, body: &[u8], error: &oka_compute::AggregateError) -> PyErr {
    let record = match Decoder::new(py).first(&body[error.offset..]) {
        Ok(record) => shortened(&record),
        Err(error) => return error,
    };
    let hint = match error.problem {
        Problem::NoKey(_) | Problem::NoValue(_) => "bring records into shape with map first",
        Problem::Key(_) => "key_by takes a function of the record, too",
        _ => "reduce takes any function of two values",
    };
    AggregateError::new_err(format!(
        "record {} of the batch, {record}: {}\n\nhint: {hint}",
        first + error.record,
        error.problem
    ))
}

#[cold]
fn raise_columns(error: &oka_columnar::AggregateError) -> PyErr {
    use oka_columnar::AggregateError as Error;
    let hint = match error {
        Error::Decode(error) => return not_columns(error),
        Error::Column(_) => "name one of these columns, or say its index",
        _ => "cast the column in map_batches first",
    };
    AggregateError::new_err(format!("{error}\n\nhint: {hint}"))
}

#[cold]
fn no_column(what: &str) -> PyErr {
    AggregateError::new_err(format!(
        "{what} names no column, expected one for a stream of columns\n\nhint: name it, as in \
         key_by(\"word\").sum(\"n\"); map_batches can add a column"
    ))
}

#[cold]
fn mixed() -> PyErr {
    AggregateError::new_err(
        "columns and records in one aggregation\n\nhint: to_columns() or to_records() before union",
    )
}

/// Bodies from this size on are worth giving the GIL up for: doing so takes 40 ns and lets other
/// threads delay the return.
const DETACH_BYTES: usize = 32 * 1024;

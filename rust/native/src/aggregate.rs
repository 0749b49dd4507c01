//! Aggregates per key over encoded batches.

use crate::batch::Batch;
use crate::decode::Decoder;
use crate::error::{AggregateError, shortened};
use oka_compute::{Accumulated, Aggregation, Path, Problem, Step};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::sync::{Mutex, TryLockError};

/// Count, sum, minimum, maximum or first value per key, computed on encoded records.
///
/// `kind` is count, sum, min, max or first; `key` and `value` lead from a record to its key and
/// its value, item by item (int) and field by field (str), and are empty for the record itself.
/// Results are those of the same loop in Python. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Aggregate {
    state: Mutex<State>,
}

struct State {
    aggregate: oka_compute::Aggregate,
    /// The key objects, by the number of the key.
    keys: Vec<Py<PyAny>>,
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
            aggregate: oka_compute::Aggregate::new(aggregation, path(key), path(value)),
            keys: Vec::new(),
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes a batch in. The keys it touched, in the order in which it touched them, each once with
    /// its value after the whole batch. Raises AggregateError naming the record.
    #[pyo3(signature = (batch: "Batch") -> "list[tuple[Any, Any]]")]
    fn update<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state()?;
        let State { aggregate, keys } = &mut *state;
        let received = batch.received()?;
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
        PyList::new(py, pairs)
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
        self.state.try_lock().or_else(|error| match error {
            TryLockError::Poisoned(poisoned) => Ok(poisoned.into_inner()),
            TryLockError::WouldBlock => Err(PyRuntimeError::new_err(
                "the aggregate is in use\n\nhint: an aggregate belongs to one thread",
            )),
        })
    }
}

/// One step of a path: an int or a str.
#[derive(FromPyObject)]
enum PathStep {
    Item(i64),
    Field(String),
}

fn path(steps: Vec<PathStep>) -> Path {
    let step = |step| match step {
        PathStep::Item(item) => Step::Item(item),
        PathStep::Field(field) => Step::Field(field),
    };
    Path::from(steps.into_iter().map(step).collect::<Vec<_>>())
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
        Accumulated::Text(utf8) => Ok(PyString::from_bytes(py, utf8)?.into_any()),
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

/// Bodies from this size on are worth giving the GIL up for: doing so takes 40 ns and lets other
/// threads delay the return.
const DETACH_BYTES: usize = 32 * 1024;

//! The state and the loop of `reduce`.

mod keyed;
mod lifted;

use self::keyed::Keyed;
pub(super) use self::keyed::Value;
use self::lifted::Lifted;
pub(super) use self::lifted::folding;
use crate::error::alone;
use crate::network::batch::{Batch, Content};
use crate::operators::interned::Interned;
use crate::state::KeyedEntries;
use oka_codec::{Decoder, Key};
use oka_expression::Unusual;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, MutexGuard};

/// What a function of two records makes of those of each key: the first one is the value of its key, and each later
/// one changes it to what the function gives for both.
///
/// `key` says where in a record the key is: None (the record itself), an item, a field, or a tuple of these. `paired`: a
/// record comes behind its key, as a pair. `key_forms` are functions that make a new key comparable; the next one is
/// called where comparing raises TypeError. With `rescue`, a record on which the function fails changes nothing:
/// `rescue(record, error)` is called.
///
/// `lifted` is the data of the function's `Expression`, if it has one: `run` computes encoded batches by that. Raises
/// ValueError for an operation that is not known here. `only_last` allows `run` to leave results out behind which the
/// batch has another of the same key, where the first item of all of them is the key. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Fold {
    state: Mutex<State>,
}

struct State {
    function: Py<PyAny>,
    keyed: Keyed,
    rescue: Option<Py<PyAny>>,
    lifted: Option<Lifted>,
    /// What raised last failed on this.
    failed: Option<Py<PyAny>>,
}

#[pymethods]
impl Fold {
    #[new]
    #[pyo3(signature = (
        function: "Any",
        key: "int | str | tuple[int | str, ...] | None",
        *,
        paired: "bool",
        key_forms: "list[Any]",
        rescue: "Any" = None,
        lifted: "Any" = None,
        only_last: "bool" = false,
    ))]
    fn new(
        function: Py<PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        paired: bool,
        key_forms: Vec<Py<PyAny>>,
        rescue: Option<Py<PyAny>>,
        lifted: Option<&Bound<'_, PyAny>>,
        only_last: bool,
    ) -> PyResult<Self> {
        let key = Key::new(key)?;
        let lifted = lifted.map(|data| Lifted::new(data, &key, paired, only_last));
        let state = State {
            function,
            lifted: lifted.transpose()?,
            keyed: Keyed::new(key, paired, Interned::new(key_forms)),
            rescue,
            failed: None,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes in records by the function; the value of the key of each, behind that record.
    #[pyo3(signature = (records: "list[Any]") -> "list[Any]")]
    fn update<'py>(&self, records: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        self.settled()?.interpret(records)
    }

    /// The same, encoded, of an encoded batch, without Python objects; or why that is given up, and `update` is to be
    /// called with the whole batch.
    #[pyo3(signature = (batch: "Batch") -> "Batch | str")]
    fn run<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyAny>> {
        let done = match batch.content()? {
            Content::Records(received) => self.state()?.run(py, received),
            Content::Columns(_) => Err(Unusual::Columns.to_string()),
        };
        Ok(match done {
            Ok(results) => results.into_pyobject(py)?.into_any(),
            Err(reason) => reason.into_pyobject(py)?.into_any(),
        })
    }

    /// The record, or the pair, on which `update` raised last, in a tuple.
    #[getter]
    fn failed<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let failed = self.state()?.failed.take();
        Ok(failed.map(|failed| (failed.into_bound(py),)))
    }

    /// At most so many values, from that of the key on that came as this one; an empty list if there are no more.
    #[pyo3(signature = (first: "int", most: "int") -> "list[Any]")]
    fn values<'py>(
        &self,
        py: Python<'py>,
        first: usize,
        most: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        self.settled()?.keyed.some(py, first, most)
    }

    /// The values that are Python objects, by their keys.
    #[pyo3(signature = () -> "dict[Any, Any]")]
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.settled()?.keyed.objects(py)
    }

    /// Those that are encoded, if there are any. `pickle` is that of `keyed_entries`, for the keys.
    #[pyo3(signature = (pickle: "bool") -> "KeyedEntries | None")]
    fn entries(&self, py: Python<'_>, pickle: bool) -> PyResult<Option<KeyedEntries>> {
        self.settled()?.keyed.entries(py, pickle)
    }

    /// Goes on with what others kept, before the first batch. Raises DecodeError.
    #[pyo3(signature = (entries: "KeyedEntries") -> "None")]
    fn restore(&self, py: Python<'_>, entries: &KeyedEntries) -> PyResult<()> {
        let entries = entries.entries(py)?;
        let mut state = self.settled()?;
        let are_encoded = state.lifted.is_some();
        let mut decoder = Decoder::new(py);
        for (_, key, value) in entries.iter() {
            let (key, object) = (decoder.first(key)?, decoder.first(value)?);
            let value = if are_encoded {
                Value::Encoded(value.to_vec())
            } else {
                Value::Object(object.unbind())
            };
            state.keyed.put(&key, value)?;
        }
        Ok(())
    }

    /// The number of keys.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.state()?.keyed.len())
    }
}

impl Fold {
    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the fold is in use\n\nhint: a fold belongs to one thread",
        )
    }

    /// The state with all values in one place.
    fn settled(&self) -> PyResult<MutexGuard<'_, State>> {
        let mut state = self.state()?;
        let State { lifted, keyed, .. } = &mut *state;
        if let Some(lifted) = lifted {
            lifted.give_back(keyed);
        }
        Ok(state)
    }
}

impl State {
    /// Has the function called with the records.
    fn interpret<'py>(&mut self, batch: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let py = batch.py();
        let mut out = Vec::with_capacity(batch.len());
        let mut index = 0;
        // The list may change meanwhile.
        while let Ok(element) = batch.get_item(index) {
            index += 1;
            match self.take(&element) {
                Ok(Some(value)) => out.push(value),
                Ok(None) => {}
                Err(error) => {
                    self.failed.get_or_insert(element.unbind());
                    return Err(error);
                }
            }
        }
        PyList::new(py, out)
    }

    /// The value with one more record; None where that was rescued.
    #[inline]
    fn take<'py>(&mut self, element: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = element.py();
        let (number, record) = self.keyed.find(element)?;
        let Some(value) = self.keyed.object(py, number)? else {
            self.keyed
                .set(number, Value::Object(record.clone().unbind()));
            return Ok(Some(record));
        };
        match self.function.bind(py).call1((value, &record)) {
            Ok(value) => {
                self.keyed
                    .set(number, Value::Object(value.clone().unbind()));
                Ok(Some(value))
            }
            Err(error) => self.rescue(record, error),
        }
    }

    #[cold]
    fn rescue<'py>(
        &mut self,
        record: Bound<'py, PyAny>,
        error: PyErr,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(rescue) = &self.rescue else {
            self.failed = Some(record.unbind());
            return Err(error);
        };
        let py = record.py();
        rescue.bind(py).call1((record, error.into_value(py)))?;
        Ok(None)
    }
}

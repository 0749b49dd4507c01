//! Windows of what functions of Python make of records.

mod fold;
mod parts;
mod state;

use self::fold::{Fold, Functions};
use self::parts::KeptParts;
use self::state::{State, Time, far};
use crate::error::alone;
use crate::interned::Interned;
use crate::windows::{assigner, unit};
use oka_codec::Key;
use oka_window::{Numbered, Taken};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, MutexGuard};

/// The windows of a task, and what functions of Python make of the records of a key in each.
///
/// `fold` is the functions: of a first record, or None where that is the value itself; of a value and one more record,
/// or None where a value is the list of its records; of a list of values that become one; and of a result, from the
/// key, the value, the start and the end, or None where that is the value.
///
/// `key` and `time` say where in a record they are: None, an item or a field, of keys a tuple of those, of
/// times a function. Pairs have the key first, and behind it the record with the time. `times` is an object with
/// methods: of what is there for a time but is no number, `read` gives microseconds and the number of its form, and
/// `like` of such a number a function that gives microseconds in this form; those of integers and floats
/// are 0 and 1. Without `unit`, what numbers count ("s", "ms", "us" or "ns"), all times are read so; a time is
/// `before_us` before what is found. `key_forms` are functions that make of a new key what can be found again: the next is
/// asked where comparing that one raises TypeError. `windows` and `lateness` are those of `WindowAggregate`. With
/// `tells_changes`, windows come by `changed`, and when they are complete only if they changed since. With `alone`, a
/// record that fails leaves all as it was.
///
/// A result is a tuple: the key, what its records have come to, the start and the end of the window.
///
/// One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct WindowFold {
    state: Mutex<State>,
}

#[pymethods]
impl WindowFold {
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "all are names of one configuration"
    )]
    #[pyo3(signature = (
        fold: "tuple[Any, Any, Any, Any]",
        key: "int | str | tuple[int | str, ...] | None",
        time: "Any",
        *,
        paired: "bool",
        times: "Any",
        unit: "str | None",
        before_us: "int",
        key_forms: "list[Any]",
        windows: "tuple[str, list[int]]",
        lateness: "int",
        tells_changes: "bool",
        alone: "bool",
    ))]
    fn new(
        py: Python<'_>,
        fold: Functions,
        key: Option<&Bound<'_, PyAny>>,
        time: Option<&Bound<'_, PyAny>>,
        paired: bool,
        times: Option<Py<PyAny>>,
        unit: Option<&str>,
        before_us: i64,
        key_forms: Vec<Py<PyAny>>,
        windows: (String, Vec<i64>),
        lateness: u64,
        tells_changes: bool,
        alone: bool,
    ) -> PyResult<Self> {
        let time = match time.filter(|time| time.is_callable()) {
            Some(find) => Some(Time::Called(find.clone().unbind())),
            None if times.is_some() => Some(Time::There(Key::new(time)?)),
            None => None,
        };
        let state = State {
            fold: Fold::new(fold),
            values: Vec::new(),
            windows: Numbered::new(assigner(windows)?, lateness, tells_changes),
            keys: Interned::new(key_forms),
            key: Key::new(key)?,
            paired,
            time,
            times: times.unwrap_or_else(|| py.None()),
            unit: unit.map(self::unit).transpose()?,
            before: before_us,
            alone,
            taken: Taken::default(),
            likes: Vec::new(),
            bounds: None,
            at: 0,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes in the records of a batch from this one on. Results that come with them are added to `out`, and records
    /// that come too late to `late`.
    #[pyo3(signature = (
        batch: "list[Any]",
        first: "int",
        out: "list[tuple[Any, Any, Any, Any]]",
        late: "list[Any]",
    ) -> "None")]
    fn add(
        &self,
        batch: &Bound<'_, PyList>,
        first: usize,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        self.state()?.add(batch, first, out, late)
    }

    /// Which record of the batch it was that `add` raised for.
    #[getter]
    fn at(&self) -> PyResult<usize> {
        Ok(self.state()?.at)
    }

    /// Says that event time has come here, in microseconds. `complete` then gives what is complete.
    #[pyo3(signature = (watermark_us: "int") -> "None")]
    fn advance(&self, watermark_us: i128) -> PyResult<()> {
        self.state()?.windows.advance(watermark_us);
        Ok(())
    }

    /// At most so many results of windows that are complete; an empty list if there are no more.
    #[pyo3(signature = (most: "int") -> "list[tuple[Any, Any, Any, Any]]")]
    fn complete<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state()?;
        let out = PyList::empty(py);
        let given = state.windows.complete(most);
        state.give(&given, &out)?;
        if given.is_empty() {
            state.forget(py);
        }
        Ok(out)
    }

    /// Those of windows that changed since it was called, and were not given.
    #[pyo3(signature = () -> "list[tuple[Any, Any, Any, Any]]")]
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state()?;
        let out = PyList::empty(py);
        let given = state.windows.changed();
        state.give(&given, &out)?;
        Ok(out)
    }

    /// Whether there are any.
    #[pyo3(signature = () -> "bool")]
    fn has_changed(&self) -> PyResult<bool> {
        Ok(self.state()?.windows.has_changed())
    }

    /// The numbers of the keys.
    #[pyo3(signature = () -> "dict[Any, int]")]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.state()?.keys.dict(py)
    }

    /// What records have come to, by the numbers of the values.
    #[pyo3(signature = () -> "dict[int, Any]")]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (number, value) in self.state()?.values.iter().enumerate() {
            if let Some(value) = value {
                values.set_item(number, value)?;
            }
        }
        Ok(values)
    }

    /// What is kept: of each key its number, the watermark or how many records it had, and a tuple for each value:
    /// the start, the end of a session, the number of the form of times, and the number of the value.
    #[pyo3(signature = () -> "Any")]
    fn parts(&self) -> PyResult<KeptParts> {
        Ok(KeptParts::of(&self.state()?.windows))
    }

    /// Goes on with what was kept of a key, before the first batch, as `parts` gave it but for the values themselves.
    /// `restored` is to be called behind the last.
    #[pyo3(signature = (
        key: "Any",
        head: "int | None",
        parts: "list[tuple[int, int, int, Any]]",
    ) -> "None")]
    #[allow(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn restore(
        &self,
        key: &Bound<'_, PyAny>,
        head: Option<i128>,
        parts: Vec<(i128, i128, u32, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let mut state = self.state()?;
        let key_number = state.keys.number(key)?;
        for (start, end, form, value) in parts {
            let restored = state.windows.restore(key_number, (start, end), form, head);
            let number = restored.map_err(|_| far())?;
            state.set(number, value);
        }
        if let (None, Some(count)) = (&state.time, head) {
            state.windows.restore_count(key_number, count as i64);
        }
        Ok(())
    }

    /// All is restored, and event time had come here.
    #[pyo3(signature = (watermark_us: "int | None") -> "None")]
    fn restored(&self, watermark_us: Option<i128>) -> PyResult<()> {
        self.state()?.windows.restored(watermark_us);
        Ok(())
    }
}

impl WindowFold {
    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the windows are in use\n\nhint: they belong to one thread",
        )
    }
}

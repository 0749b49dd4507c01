//! Windows whose values are computed by functions of Python.

mod encoded;
mod fold;
mod folded;
mod parts;

use self::encoded::Lifted;
use self::fold::{Fold, Functions};
pub(super) use self::folded::far;
use self::folded::{FoldedWindows, Time};
use self::parts::KeptParts;
use crate::error::alone;
use crate::network::batch::{Batch, Content};
use crate::operators::fold::Value;
use crate::operators::interned::Interned;
use crate::operators::time_function::TimeFunction;
use crate::operators::times::unit;
use crate::operators::windows::assigner;
use oka_codec::{Frozen, Key};
use oka_window::{Intake, Numbered};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, MutexGuard};

/// The windows of a task, and what functions of Python make of the records of a key in each.
///
/// `fold` has four functions. The first makes a value of a key's first record; None: the record is the value. The second
/// adds one more record to a value; None: a value is the list of its records. The third makes one value of a list of
/// them. The fourth makes a result of key, value, start and end; None: the value is the result.
///
/// `key` and `time` say where in a record these are: None (the record itself), an item or a field. A key may also be a
/// tuple of these, and of an empty one results have no key; a time may be a function. `paired`: a record is a pair of its key and the record with the time.
///
/// `times` has two methods. `read` takes a time that is no number and returns microseconds and the number of its form;
/// `like` takes the number of a form and returns a function that writes microseconds in it. Integers have form 0, floats
/// form 1. `unit` is what numbers count: "s", "ms", "us" or "ns"; without it, `read` reads them, too. `before_us` is
/// subtracted from each time.
///
/// `key_forms` are functions that make a new key comparable; the next one is called where comparing raises TypeError.
/// `windows` and `lateness` are those of `WindowAggregate`. `tells_changes`: `changed` returns windows before they are
/// complete, and `complete` those alone that changed since. `alone`: a record that fails leaves everything as it was.
///
/// `lifted` is the data of the second function's `Expression`, with the function of times if there is one: `run` takes
/// encoded batches in by these. It suits where the value of a first record is the record.
///
/// A result is a tuple: key, value, start and end of the window.
///
/// One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct WindowFold {
    state: Mutex<FoldedWindows>,
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
        lifted: "tuple[Any, TimeFunction | None] | None" = None,
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
        lifted: Option<(Bound<'_, PyAny>, Option<Py<TimeFunction>>)>,
    ) -> PyResult<Self> {
        let time = match time.filter(|time| time.is_callable()) {
            Some(find) => Some(Time::Called(find.clone().unbind())),
            None if times.is_some() => Some(Time::There(Key::new(time)?)),
            None => None,
        };
        let key = Key::new(key)?;
        let lifted = lifted.map(|(reduce, function)| {
            Lifted::new((&reduce, function), &key, paired, time.as_ref())
        });
        let state = FoldedWindows {
            fold: Fold::new(fold),
            values: Vec::new(),
            lifted: lifted.transpose()?,
            windows: Numbered::new(assigner(windows)?, lateness, tells_changes),
            keys: Interned::new(key_forms),
            key,
            paired,
            time,
            times: times.unwrap_or_else(|| py.None()),
            unit: unit.map(self::unit).transpose()?,
            before: before_us,
            alone,
            taken: Intake::default(),
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

    /// The same of an encoded batch, without a Python object for a record. Or why that is given up: nothing has happened
    /// then, and `add` is to be called.
    #[pyo3(signature = (
        batch: "Batch",
        out: "list[tuple[Any, Any, Any, Any]]",
        late: "list[Any]",
    ) -> "str | None")]
    fn run(
        &self,
        batch: &Batch,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<Option<String>> {
        match batch.content()? {
            Content::Records(received) => Ok(self.state()?.run(received, out, late)?.err()),
            Content::Columns(_) => Ok(Some("columns".to_owned())),
        }
    }

    /// Whether the lifted function may be called, until it gives up on something.
    #[pyo3(signature = (runs: "bool") -> "None")]
    fn run_lifted(&self, runs: bool) -> PyResult<()> {
        if let Some(lifted) = &mut self.state()?.lifted {
            lifted.runs = runs;
        }
        Ok(())
    }

    /// Why it gave up on something since this was called, which the function itself got then.
    #[pyo3(signature = () -> "str | None")]
    fn gave_up(&self) -> PyResult<Option<String>> {
        let lifted = &mut self.state()?.lifted;
        Ok(lifted.as_mut().and_then(|lifted| lifted.gave_up.take()))
    }

    /// The index of the record for which `add` or `run` raised.
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

    /// Results of the windows that changed since the last call and were not returned.
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

    /// What records have come to, by the numbers of the values; or what stands for its encoding.
    #[pyo3(signature = () -> "dict[int, Any]")]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (number, value) in self.state()?.values.iter().enumerate() {
            match value {
                Value::None => {}
                Value::Object(object) => values.set_item(number, object)?,
                Value::Encoded(bytes) => {
                    values.set_item(number, Bound::new(py, Frozen::new(bytes))?)?;
                }
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

    /// All is restored, and event time had come here. `touched` tells that `changed` shall give these windows.
    #[pyo3(signature = (watermark_us: "int | None", touched: "bool") -> "None")]
    fn restored(&self, watermark_us: Option<i128>, touched: bool) -> PyResult<()> {
        let windows = &mut self.state()?.windows;
        windows.restored(watermark_us);
        if !touched {
            windows.changed();
        }
        Ok(())
    }
}

impl WindowFold {
    fn state(&self) -> PyResult<MutexGuard<'_, FoldedWindows>> {
        alone(
            &self.state,
            "the windows are in use\n\nhint: they belong to one thread",
        )
    }
}

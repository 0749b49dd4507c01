//! Aggregates per key and window over encoded batches.

use crate::error::alone;
use crate::network::batch::{Batch, Content, Form};
use crate::operators::calls::{CallTuple, Computation, PathStep, detached};
use crate::operators::refused::{mixed, raise_columns};
use crate::operators::results::{Like, Rows, exported};
use crate::operators::times::{TimeTuple, Times, late, snapshot};
use crate::state::{KeyedEntries, merged, restored};
use oka_codec::{Decoder, encode};
use oka_columnar::WindowAggregate as OverColumns;
use oka_compute::Emit;
use oka_window::{Assigner, Calendar, Period, Windows, WindowsError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use std::sync::Mutex;

/// What `Aggregate` computes, of the records of each window of event time. Results are tuples of a
/// key, its value, and the start and end of the window.
///
/// `key`, `wanted` and `names` are those of `Aggregate`. `time` is a `TimeTuple`. `times` is an object with methods: of what is at the
/// path but is no number, or where numbers count nothing, `microseconds` gives the time; `form` of
/// the first time gives 1970 in its form, and `like` of that a function, which gives microseconds in
/// this form. `windows` are "slices" with size, slide and offset, or "sessions" or "inclusive sessions"
/// with the gap, in microseconds as `lateness` is; or a "calendar" of so many days, one of which begins a
/// window, or so many months, with the offset of its zone, and moments with the offset from then on; or
/// "counts" with size and slide, for which there is no time: those that are full come by `complete`. With `updates`, windows come as they change. Over columns, times are a column, and results `pyarrow.RecordBatch`es
/// with columns `window_start` and `window_end`. With `keeps_late`, `take_late` gives what came too late.
///
/// `rescue` is that of `Aggregate`, and so is `copies_keys`: where each key has windows of its own, and of slices over columns.
///
/// One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct WindowAggregate {
    state: Mutex<KeyedWindows>,
}

struct KeyedWindows {
    aggregate: oka_compute::WindowAggregate,
    times: Times,
    /// What gives microseconds in the form of the records' times, once there was one.
    like: Option<Like>,
    /// The aggregate over columns, once there are some.
    columns: Option<OverColumns>,
    computation: Computation,
    windows: (Assigner, u64),
    emit: Emit,
    keeps_late: bool,
    copies_keys: bool,
}

#[pymethods]
impl WindowAggregate {
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "all are names of one configuration"
    )]
    #[pyo3(signature = (
        key: "list[list[int | str]]",
        wanted: "list[tuple[Any, ...]]",
        names: "list[str] | None",
        *,
        time: "tuple[list[int | str], str | None, int | str | None, int]",
        times: "Any",
        windows: "tuple[str, list[int]]",
        lateness: "int" = 0,
        updates: "bool" = false,
        keeps_late: "bool" = false,
        copies_keys: "bool" = false,
        rescue: "Any" = None,
    ))]
    fn new(
        key: Vec<Vec<PathStep>>,
        wanted: Vec<CallTuple>,
        names: Option<Vec<Py<PyString>>>,
        time: TimeTuple,
        times: Py<PyAny>,
        windows: (String, Vec<i64>),
        lateness: u64,
        updates: bool,
        keeps_late: bool,
        copies_keys: bool,
        rescue: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let computation = Computation::new(key, wanted, names, rescue)?;
        let assigner = assigner(windows)?;
        let (times, time) = Times::new(time, times)?;
        let emit = if updates { Emit::Updates } else { Emit::Final };
        let (first, further) = computation.terms();
        let mut aggregate = oka_compute::WindowAggregate::new(
            first,
            computation.key(),
            time,
            (assigner, lateness),
            emit,
            keeps_late,
        );
        for term in further {
            aggregate = aggregate.and(term);
        }
        let state = KeyedWindows {
            aggregate: aggregate.careful(computation.is_careful()),
            times,
            like: None,
            columns: None,
            computation,
            windows: (assigner, lateness),
            emit,
            keeps_late,
            copies_keys,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes a batch in. Raises AggregateError naming the record.
    #[pyo3(signature = (batch: "Batch") -> "None")]
    fn add(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let mut state = self.state()?;
        let made = state.in_form(py, batch)?;
        state.add(py, made.as_ref().unwrap_or(batch))
    }

    /// What it was given to read times.
    #[getter]
    fn times(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.state()?.times.calls.clone_ref(py))
    }

    /// What the windows that changed since it was called have come to, of each key that did; without
    /// `updates`, of those that were given already and count late records.
    #[pyo3(signature = () -> "Any")]
    fn changes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        if let Some(columns) = &mut state.columns {
            return exported(py, columns.changes());
        }
        let (aggregate, mut rows) = state.rows(py);
        aggregate.changes(|window, update| rows.push(window, &update))?;
        rows.list()
    }

    /// Whether windows have changed since `changes` was called.
    #[pyo3(signature = () -> "bool")]
    fn has_changes(&self) -> PyResult<bool> {
        let state = self.state()?;
        let columns = state.columns.as_ref();
        Ok(columns.map_or_else(|| state.aggregate.has_changes(), OverColumns::has_changes))
    }

    /// Says that event time has come here, in microseconds. `complete` then gives what is complete.
    #[pyo3(signature = (watermark_us: "int") -> "None")]
    fn advance(&self, watermark_us: i64) -> PyResult<()> {
        let mut state = self.state()?;
        state.aggregate.advance(watermark_us);
        if let Some(columns) = &mut state.columns {
            columns.advance(watermark_us);
        }
        Ok(())
    }

    /// Forgets the records of all slices of time, which have a few keys; event time stays where it is.
    #[pyo3(signature = () -> "None")]
    fn clear(&self) -> PyResult<()> {
        let mut state = self.state()?;
        state.aggregate.clear();
        if let Some(columns) = &mut state.columns {
            columns.clear();
        }
        Ok(())
    }

    /// At most so many results of windows that are complete; an empty list if there are no more.
    #[pyo3(signature = (most: "int") -> "Any")]
    fn complete<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        if let Some(columns) = &mut state.columns {
            return exported(py, columns.give(most));
        }
        let (aggregate, mut rows) = state.rows(py);
        aggregate.give(most, |window, update| rows.push(window, &update))?;
        rows.list()
    }

    /// How many records came when their windows were gone.
    #[getter]
    fn late(&self) -> PyResult<u64> {
        let state = self.state()?;
        let columns = state.columns.as_ref();
        Ok(columns.map_or_else(|| state.aggregate.late(), OverColumns::late))
    }

    /// Those that came so since it was called, in batches.
    #[pyo3(signature = () -> "list[Any]")]
    fn take_late<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let state = &mut *self.state()?;
        let of_columns = state.columns.as_mut().map(OverColumns::take_late);
        late(py, of_columns, || state.aggregate.take_late())
    }

    /// What it keeps, for `restore`: as `Aggregate.snapshot`. What is kept of a key is a tuple of the
    /// watermark and of tuples: the start of a slice of time, 1970 in the form of its times, and what
    /// `Aggregate` keeps.
    #[pyo3(signature = () -> "tuple[bytes, KeyedEntries]")]
    fn snapshot(&self) -> PyResult<(Vec<u8>, KeyedEntries)> {
        let state = &mut *self.state()?;
        let of_columns = state.columns.as_mut().map(OverColumns::export);
        snapshot(of_columns, || state.aggregate.export())
    }

    /// Goes on with what others kept, before the first batch. `touched` tells that `changes` shall
    /// give these windows. Raises AggregateError where it does not suit.
    #[pyo3(signature = (
        layout: "bytes",
        entries: "KeyedEntries",
        touched: "bool",
    ) -> "None")]
    fn restore(
        &self,
        py: Python<'_>,
        layout: &[u8],
        entries: &KeyedEntries,
        touched: bool,
    ) -> PyResult<()> {
        let entries = entries.entries(py)?;
        let mut state = self.state()?;
        if !layout.is_empty() {
            let columns = state.columns()?;
            return restored(py, entries, |kept| columns.import(layout, kept, touched));
        }
        let aggregate = &mut state.aggregate;
        restored(py, entries, |kept| Ok(aggregate.import(kept, touched)?))?;
        state.go_on_in_form(py)
    }

    /// Takes in slices of time that another keeps, behind what is here. Raises AggregateError where they do
    /// not suit, or are late.
    #[pyo3(signature = (layout: "bytes", entries: "KeyedEntries") -> "None")]
    fn merge(&self, py: Python<'_>, layout: &[u8], entries: &KeyedEntries) -> PyResult<()> {
        let entries = entries.entries(py)?;
        let mut state = self.state()?;
        if !layout.is_empty() {
            let columns = state.columns()?;
            return merged(py, entries, |kept| columns.merge(layout, kept));
        }
        if state.columns.is_some() && !entries.is_empty() {
            return Err(mixed());
        }
        let aggregate = &mut state.aggregate;
        merged(py, entries, |kept| Ok(aggregate.merge(kept)?))?;
        state.go_on_in_form(py)
    }

    /// Number of slices of time that are kept, or of windows where each key has its own.
    fn __len__(&self) -> PyResult<usize> {
        let state = self.state()?;
        let columns = state.columns.as_ref();
        Ok(columns.map_or_else(|| state.aggregate.len(), OverColumns::len))
    }
}

impl WindowAggregate {
    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, KeyedWindows>> {
        alone(
            &self.state,
            "the windows are in use\n\nhint: they belong to one thread",
        )
    }
}

impl KeyedWindows {
    /// The batch in the form of those before, if it has another.
    fn in_form(&self, py: Python<'_>, batch: &Batch) -> PyResult<Option<Batch>> {
        let is_timed = !matches!(self.windows.0, Assigner::Counted { .. });
        let records = self.aggregate.has_begun()
            || !self.aggregate.is_empty()
            || self.computation.looks_at_records()
            || (is_timed && self.times.looks_at_records());
        let form = Form::before(self.columns.is_some(), records);
        batch.in_form(py, form, || self.computation.key_columns())
    }

    fn add(&mut self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let received = match batch.content()? {
            Content::Records(received) => received,
            Content::Columns(columns) => {
                let copies_keys = self.copies_keys;
                let aggregate = self.columns()?;
                let added = detached(py, columns.size(), || {
                    aggregate.add(columns)?;
                    if copies_keys {
                        aggregate.copy_keys()?;
                    }
                    Ok(())
                });
                return added.map_err(|error| raise_columns(&error));
            }
        };
        let (aggregate, times) = (&mut self.aggregate, &self.times);
        let mut foreign = |found: &[u8]| times.microseconds(found);
        let update = |body: &[u8], records| aggregate.update(body, records, &mut foreign);
        self.computation.take_in(py, received, update)?;
        if self.copies_keys {
            let copied = self.aggregate.copy_keys();
            copied.map_err(|problem| raise_columns(&problem.into()))?;
        }
        self.find_form(py)
    }

    /// The aggregate over columns, from the first of them on.
    fn columns(&mut self) -> PyResult<&mut OverColumns> {
        if self.aggregate.has_begun() {
            return Err(mixed());
        }
        if self.columns.is_none() {
            let aggregate = self.computation.over_columns()?;
            let time = match self.windows.0 {
                Assigner::Counted { .. } => None,
                _ => Some(self.times.column("the time of windows")?),
            };
            let mut columns =
                OverColumns::new(aggregate, time, self.windows, self.emit, self.keeps_late)
                    .before(self.times.before);
            if let Some(watermark) = self.aggregate.watermark() {
                columns.go_on_from(watermark);
            }
            self.columns = Some(columns);
        }
        self.columns.as_mut().ok_or_else(mixed)
    }

    /// The aggregate, and what makes results of its values.
    fn rows<'a, 'py>(
        &'a mut self,
        py: Python<'py>,
    ) -> (&'a mut oka_compute::WindowAggregate, Rows<'a, 'py>) {
        let rows = Rows::new(py, self.computation.shown(), self.like.as_ref());
        (&mut self.aggregate, rows)
    }

    /// Looks at the first time that came.
    fn find_form(&mut self, py: Python<'_>) -> PyResult<()> {
        let (None, Some(form)) = (&self.like, self.aggregate.form()) else {
            return Ok(());
        };
        let times = self.times.calls.bind(py);
        let form = Decoder::new(py).first(form)?;
        let form = times.call_method1("form", (form,))?;
        let mut encoded = Vec::new();
        // SAFETY: there is a `Bound`, so the GIL is held and the form is valid.
        unsafe { encode::append(py, &mut encoded, form.as_ptr(), 0) }
            .map_err(|refused| encode::refusal(0, &form, *refused))?;
        self.aggregate.set_form(encoded);
        self.like = Some(self.like(&form)?);
        Ok(())
    }

    /// Takes over the form in which others have exported 1970.
    fn go_on_in_form(&mut self, py: Python<'_>) -> PyResult<()> {
        if let (None, Some(form)) = (&self.like, self.aggregate.form()) {
            let form = Decoder::new(py).first(form)?;
            self.like = Some(self.like(&form)?);
        }
        Ok(())
    }

    /// What gives microseconds in the form that 1970 has here.
    fn like(&self, form: &Bound<'_, PyAny>) -> PyResult<Like> {
        let calls = self.times.calls.bind(form.py());
        Ok(Like {
            call: calls.call_method1("like", (form,))?.unbind(),
            unit: self
                .times
                .unit
                .filter(|_| form.is_exact_instance_of::<PyInt>()),
        })
    }
}

/// The windows of this name, of these numbers.
pub(crate) fn assigner((name, numbers): (String, Vec<i64>)) -> PyResult<Assigner> {
    let refused = |error: WindowsError| PyValueError::new_err(error.to_string());
    match (name.as_str(), &numbers[..]) {
        ("slices", [size, slide, offset]) => {
            let windows = Windows::new(*size, *slide, *offset);
            Ok(windows.map_err(refused)?.into())
        }
        ("calendar", [days, first, months, offset, changes @ ..]) if changes.len() % 2 == 0 => {
            let period = match months {
                0 => Period::Days {
                    count: *days,
                    first: *first,
                },
                _ => Period::Months(*months),
            };
            let changes = changes.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            let offsets = std::iter::once((i64::MIN, *offset)).chain(changes);
            let calendar = Calendar::of(period, offsets.collect()).map_err(refused)?;
            Ok(Windows::from(calendar).into())
        }
        ("sessions", [gap]) => Assigner::sessions(*gap).map_err(refused),
        ("inclusive sessions", [gap]) => {
            let sessions = Assigner::sessions(*gap).map_err(refused)?;
            Ok(sessions.inclusive())
        }
        ("counts", [size, slide]) => Assigner::counted(*size, *slide).map_err(refused),
        _ => Err(PyValueError::new_err(format!(
            "windows {name:?} of the numbers {numbers:?}, expected slices of 3, sessions of 1, \
             counts of 2 or a calendar of 4 and more"
        ))),
    }
}

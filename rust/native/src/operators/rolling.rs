//! Aggregates within spans that end at each record.

use crate::error::alone;
use crate::network::batch::{Batch, Content, Form};
use crate::operators::calls::{CallTuple, Computation, PathStep, detached};
use crate::operators::refused::{mixed, raise_columns};
use crate::operators::results::{ResultError, exported, object};
use crate::operators::times::{TimeTuple, Times, late, snapshot};
use crate::state::{KeyedEntries, restored};
use oka_codec::Decoder;
use oka_columnar::RollingAggregate as OverColumns;
use oka_compute::{Accumulated, Path, Problem, Span, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::sync::Mutex;

/// What `Aggregate` computes, for each record of those of its key within spans that end at it. Results are
/// tuples of a record and the value, or where `fields` are a list, a dict of values by them: of each span
/// those of all aggregations.
///
/// `key`, `wanted` and `names` are those of `Aggregate`; `time` and `times` those of `WindowAggregate`, whose
/// `times` needs `microseconds` alone. `spans` are ("time", microseconds) or ("rows", number). With `paired`, what comes
/// are pairs of a key and a record. Over columns, results are `pyarrow.RecordBatch`es with a column for each of `fields`.
/// With `updates`, results come at once, of what has come. With `keeps_late`, `take_late` gives what came too late.
///
/// `rescue` is that of `Aggregate`. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct RollingAggregate {
    state: Mutex<State>,
}

/// The names of values.
#[derive(FromPyObject)]
enum Fields {
    /// That of the only one, which comes alone.
    Alone(Py<PyString>),
    Named(Vec<Py<PyString>>),
}

impl Fields {
    fn all(&self) -> &[Py<PyString>] {
        match self {
            Self::Alone(name) => std::slice::from_ref(name),
            Self::Named(names) => names,
        }
    }
}

struct State {
    aggregate: oka_compute::RollingAggregate,
    /// The aggregate over columns, once there are some.
    columns: Option<OverColumns>,
    computation: Computation,
    fields: Fields,
    times: Times,
    spans: Vec<Span>,
    updates: bool,
    keeps_late: bool,
    /// The way to the record in what comes.
    record: Path,
}

#[pymethods]
impl RollingAggregate {
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
        spans: "list[tuple[str, int]]",
        fields: "str | list[str]",
        time: "tuple[list[int | str], str | None, int | str | None, int]",
        times: "Any",
        paired: "bool" = false,
        updates: "bool" = false,
        keeps_late: "bool" = false,
        rescue: "Any" = None,
    ))]
    fn new(
        key: Vec<Vec<PathStep>>,
        wanted: Vec<CallTuple>,
        names: Option<Vec<Py<PyString>>>,
        spans: Vec<(String, i64)>,
        fields: Fields,
        time: TimeTuple,
        times: Py<PyAny>,
        paired: bool,
        updates: bool,
        keeps_late: bool,
        rescue: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let computation = Computation::new(key, wanted, names, rescue)?;
        let spans = spans.into_iter().map(span).collect::<PyResult<Vec<_>>>()?;
        if spans.is_empty() || fields.all().len() != spans.len() * computation.shown().wanted.len()
        {
            return Err(PyValueError::new_err(format!(
                "{} fields, expected one for each span and aggregation",
                fields.all().len()
            )));
        }
        let (times, time) = Times::new(time, times)?;
        let (first, further) = computation.terms();
        let key = computation.key();
        let new = oka_compute::RollingAggregate::new;
        let mut aggregate = new(first, key, time, &spans[..], keeps_late);
        for term in further {
            aggregate = aggregate.and(term);
        }
        aggregate = aggregate.with(computation.parameters().collect());
        if updates {
            aggregate = aggregate.at_once();
        }
        let record = if paired {
            vec![Step::Item(1)]
        } else {
            Vec::new()
        };
        let state = State {
            aggregate: aggregate.careful(computation.is_careful()),
            columns: None,
            computation,
            fields,
            times,
            spans,
            updates,
            keeps_late,
            record: record.into(),
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

    /// Says that event time has come here, in microseconds. `complete` then gives what is due.
    #[pyo3(signature = (watermark_us: "int") -> "None")]
    fn advance(&self, watermark_us: i64) -> PyResult<()> {
        let mut state = self.state()?;
        state.aggregate.advance(watermark_us);
        if let Some(columns) = &mut state.columns {
            columns.advance(watermark_us);
        }
        Ok(())
    }

    /// About so many results that are due, in the order of time; an empty list if there are no more.
    #[pyo3(signature = (most: "int") -> "Any")]
    fn complete<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        if let Some(columns) = &mut state.columns {
            return exported(py, columns.give(most));
        }
        Ok(state.complete(py, most)?.into_any())
    }

    /// How many records came when the watermark was at their time or behind it.
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

    /// What it keeps, for `restore`: as `Aggregate.snapshot`. What is kept of a key is a tuple of the times and
    /// values that spans may have, and of the records that wait.
    #[pyo3(signature = () -> "tuple[bytes, KeyedEntries]")]
    fn snapshot(&self) -> PyResult<(Vec<u8>, KeyedEntries)> {
        let state = &mut *self.state()?;
        let of_columns = state.columns.as_mut().map(OverColumns::export);
        snapshot(of_columns, || state.aggregate.export())
    }

    /// Goes on with what others kept, before the first batch. Raises AggregateError where it does not
    /// suit.
    #[pyo3(signature = (layout: "bytes", entries: "KeyedEntries") -> "None")]
    fn restore(&self, py: Python<'_>, layout: &[u8], entries: &KeyedEntries) -> PyResult<()> {
        let entries = entries.entries(py)?;
        let mut state = self.state()?;
        if !layout.is_empty() {
            let columns = state.columns()?;
            return restored(py, entries, |kept| columns.import(layout, kept));
        }
        let State {
            aggregate, times, ..
        } = &mut *state;
        let times: &Times = times;
        restored(py, entries, |kept| {
            Ok(aggregate.import(kept, &mut |found| times.microseconds(found))?)
        })
    }

    /// Number of keys of which something is kept.
    fn __len__(&self) -> PyResult<usize> {
        let state = self.state()?;
        let columns = state.columns.as_ref();
        Ok(columns.map_or_else(|| state.aggregate.len(), OverColumns::len))
    }
}

impl RollingAggregate {
    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the spans are in use\n\nhint: they belong to one thread",
        )
    }
}

impl State {
    /// The batch in the form of those before, if it has another.
    fn in_form(&self, py: Python<'_>, batch: &Batch) -> PyResult<Option<Batch>> {
        let records = self.aggregate.has_begun()
            || !self.aggregate.is_empty()
            || self.computation.looks_at_records()
            || self.times.looks_at_records();
        let form = Form::before(self.columns.is_some(), records);
        batch.in_form(py, form, || self.computation.key_columns())
    }

    fn add(&mut self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let received = match batch.content()? {
            Content::Records(received) => received,
            Content::Columns(columns) => {
                let aggregate = self.columns()?;
                let added = detached(py, columns.size(), || aggregate.add(columns));
                return added.map_err(|error| raise_columns(&error));
            }
        };
        let (aggregate, times) = (&mut self.aggregate, &self.times);
        let mut foreign = |found: &[u8]| times.microseconds(found);
        let update = |body: &[u8], records| aggregate.update(body, records, &mut foreign);
        self.computation.take_in(py, received, update)
    }

    fn complete<'py>(&mut self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let mut decoder = Decoder::new(py);
        let mut made: Vec<Bound<'py, PyTuple>> = Vec::new();
        let (wanted, record) = (self.computation.shown().wanted, &self.record);
        let fields = &self.fields;
        let value = |decoder: &mut Decoder<'py>, at: usize, value: &Option<Accumulated>| {
            let wanted = &wanted[at % wanted.len()];
            if let Some(value) = value {
                object(py, decoder, value, wanted)
            } else {
                let nothing = Accumulated::empty(wanted.aggregation);
                object(py, decoder, &nothing, wanted)
            }
        };
        self.aggregate.give(most, |encoded, values| {
            let own = record.find(encoded).map_err(Problem::NoValue)?;
            let own = decoder.first(own)?;
            let value = if let Fields::Named(fields) = fields {
                let named = PyDict::new(py);
                for (at, (field, each)) in fields.iter().zip(values).enumerate() {
                    named.set_item(field, value(&mut decoder, at, each)?)?;
                }
                named.into_any()
            } else {
                value(&mut decoder, 0, &values[0])?
            };
            made.push((own, value).into_pyobject(py)?);
            Ok::<_, ResultError>(())
        })?;
        PyList::new(py, made)
    }

    /// The aggregate over columns, from the first of them on.
    fn columns(&mut self) -> PyResult<&mut OverColumns> {
        if self.aggregate.has_begun() {
            return Err(mixed());
        }
        if self.columns.is_none() {
            let time = self.times.column("the time of records")?;
            let names = self
                .fields
                .all()
                .iter()
                .map(Py::to_string)
                .collect::<Vec<_>>();
            let (computation, spans) = (&self.computation, &self.spans[..]);
            let columns = computation.over_spans(time, (spans, &names), self.keeps_late)?;
            let mut columns = columns.before(self.times.before);
            if self.updates {
                columns = columns.at_once();
            }
            if let Some(watermark) = self.aggregate.watermark() {
                columns.advance(watermark);
            }
            self.columns = Some(columns);
        }
        self.columns.as_mut().ok_or_else(mixed)
    }
}

fn span((kind, length): (String, i64)) -> PyResult<Span> {
    match (kind.as_str(), length) {
        ("time", 0..) => Ok(Span::Time(length)),
        ("rows", 1..) => Ok(Span::Rows(length as u64)),
        _ => Err(PyValueError::new_err(format!(
            "a span {kind:?} of {length}, expected \"time\" of 0 or more, or \"rows\" of 1 or more"
        ))),
    }
}

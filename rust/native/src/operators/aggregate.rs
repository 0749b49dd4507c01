//! Aggregates per key over encoded batches.

use crate::error::alone;
use crate::network::batch::{Batch, Content, Form};
use crate::operators::calls::{CallTuple, Computation, PathStep, detached};
use crate::operators::refused::{mixed, raise_columns, raise_parts};
use crate::operators::results::{Shown, exported, value};
use crate::state::snapshots::Snapshots;
use crate::state::{KeyedEntries, restored};
use oka_codec::Decoder;
use oka_columnar::{AggregateError, Columns, EncodedPart};
use oka_compute::Update;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::sync::Mutex;

/// Count, sum and others per key, or several of them, computed on encoded records.
///
/// `key` has a path from a record to its key, or several to the items of a tuple that is the key. Without one, all
/// records have one key, and a result is a value alone.
/// `wanted` has tuples of the name of an aggregation and the path to the value; then the parameters, such as
/// the shares of quantiles, or how many values are wanted; then the path to the second value of pairs, or
/// None; and None, or the path to the bool that says whether a record counts, in a pair with None, or the path to
/// what a function says it of, in a pair with that. A path goes
/// item by item (int) and field by field (str), and is empty for the record itself; over columns it
/// is one step, the column's name or index. With `names`, one for each of `wanted`, the value of a
/// key is a dict, or a column of that name for each; without, there is one value.
///
/// Where snapshots will be taken, `copies_keys` has new keys copied behind each batch, and not when one is.
/// With `rescue`, a record that fails changes nothing: `rescue(record, error)` is called with it, and the
/// next ones follow. Of columns, rows do not fail one by one.
///
/// Results are those of the same loop in Python. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Aggregate {
    state: Mutex<KeyedAggregate>,
}

struct KeyedAggregate {
    aggregate: oka_compute::Aggregate,
    /// Whether there were records that are forgotten.
    had_records: bool,
    /// The key objects that were shown, by the number of the key.
    keys: Vec<Option<Py<PyAny>>>,
    /// The aggregate over columns, once there are some.
    columns: Option<oka_columnar::Aggregate>,
    computation: Computation,
    snapshots: Snapshots,
    copies_keys: bool,
}

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        key: "list[list[int | str]]",
        wanted: "list[tuple[Any, ...]]",
        names: "list[str] | None" = None,
        *,
        copies_keys: "bool" = false,
        rescue: "Any" = None,
    ))]
    fn new(
        key: Vec<Vec<PathStep>>,
        wanted: Vec<CallTuple>,
        names: Option<Vec<Py<PyString>>>,
        copies_keys: bool,
        rescue: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let computation = Computation::new(key, wanted, names, rescue)?;
        let (first, further) = computation.terms();
        let aggregate = oka_compute::Aggregate::new(first, computation.key());
        let aggregate = further.fold(aggregate, oka_compute::Aggregate::and);
        let state = KeyedAggregate {
            aggregate: aggregate.careful(computation.is_careful()),
            had_records: false,
            keys: Vec::new(),
            columns: None,
            computation,
            snapshots: Snapshots::default(),
            copies_keys,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Takes a batch in. The keys it touched, in the order in which it touched them, each once with
    /// its value after the whole batch: a list of pairs, or, of columns, a pyarrow.RecordBatch of
    /// those of the key and of the values (an empty list if it touched none). Raises AggregateError
    /// naming the record.
    #[pyo3(signature = (batch: "Batch") -> "Any")]
    fn update<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        let made = state.in_form(py, batch)?;
        let batch = made.as_ref().unwrap_or(batch);
        match batch.content()? {
            Content::Columns(columns) => state.update_columns(py, columns),
            Content::Records(_) => {
                state.add(py, batch)?;
                state.take_pairs(py)
            }
        }
    }

    /// Takes a batch in without a result. Raises AggregateError naming the record.
    #[pyo3(signature = (batch: "Batch") -> "None")]
    fn add(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let mut state = self.state()?;
        let made = state.in_form(py, batch)?;
        state.add(py, made.as_ref().unwrap_or(batch))
    }

    /// Takes in so many records, or rows of the last columns, of which nothing is read. False, and nothing is taken
    /// in, if anything but the number of all is wanted.
    #[pyo3(signature = (records: "int") -> "bool")]
    fn count(&self, records: usize) -> PyResult<bool> {
        let mut state = self.state()?;
        if !state.computation.only_counts() {
            return Ok(false);
        }
        let counted = match &mut state.columns {
            Some(columns) => columns.count(records),
            None => state.aggregate.count(records).map_err(Into::into),
        };
        counted.map_err(|error| raise_parts(&error))?;
        Ok(true)
    }

    /// What `update` gives, of the keys that it did not give since they were touched: at most `most`
    /// of them from the one numbered `first` on. An empty list if there are no more.
    #[pyo3(signature = (first: "int", most: "int") -> "Any")]
    fn updates<'py>(
        &self,
        py: Python<'py>,
        first: usize,
        most: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        let range = |touched: usize| first.min(touched)..first.saturating_add(most).min(touched);
        if let Some(columns) = &mut state.columns {
            let some = range(columns.touched());
            return exported(py, columns.updates(some));
        }
        let KeyedAggregate {
            aggregate,
            keys,
            computation,
            ..
        } = &mut *state;
        let updates = aggregate.updates(range(aggregate.touched()));
        Ok(pairs(py, updates, keys, computation.shown())?.into_any())
    }

    /// What it keeps, for `restore`: of columns an empty frame of them (else no bytes), and an entry
    /// of keyed state for each key. A value is that of the only aggregation, or a tuple; a mean is a
    /// tuple of sum and count.
    #[pyo3(signature = () -> "tuple[bytes, KeyedEntries]")]
    fn snapshot(&self) -> PyResult<(Vec<u8>, KeyedEntries)> {
        let mut state = self.state()?;
        if let Some(columns) = &mut state.columns {
            let exported = columns.export().map_err(|error| raise_columns(&error))?;
            return Ok((exported.0, KeyedEntries::of_copied(exported.1)));
        }
        let KeyedAggregate {
            aggregate,
            snapshots,
            ..
        } = &mut *state;
        // With the GIL, which others could have when it is over.
        Ok((Vec::new(), snapshots.take(aggregate)))
    }

    /// Goes on with what others kept, before the first batch. `touched` tells that `updates` shall
    /// give these keys. Raises AggregateError where it does not suit.
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
        state.snapshots = Snapshots::behind(entries.clone());
        Ok(())
    }

    /// Without a key, what all records so far have come to, for `merge` of another: of columns an empty frame
    /// of them (else no bytes), and the value as in `snapshot`. None if there were no records.
    #[pyo3(signature = () -> "tuple[bytes, bytes] | None")]
    fn part(&self) -> PyResult<Option<EncodedPart>> {
        let state = self.state()?;
        if let Some(columns) = &state.columns {
            return columns.part().map_err(|error| raise_columns(&error));
        }
        Ok(state.aggregate.part().map(|value| (Vec::new(), value)))
    }

    /// Forgets all records so far, where no snapshots are taken.
    #[pyo3(signature = () -> "None")]
    fn clear(&self) -> PyResult<()> {
        let mut state = self.state()?;
        if let Some(columns) = &mut state.columns {
            columns.clear();
        } else if !state.aggregate.is_empty() {
            state.had_records = true;
            state.aggregate.clear();
        }
        Ok(())
    }

    /// Takes in the `part` of another, behind what is here. Raises AggregateError where it does not suit.
    #[pyo3(signature = (layout: "bytes", value: "bytes") -> "None")]
    fn merge(&self, layout: &[u8], value: &[u8]) -> PyResult<()> {
        let mut state = self.state()?;
        let merged = if layout.is_empty() {
            if state.columns.is_some() {
                return Err(mixed());
            }
            state.aggregate.merge_part(value).map_err(Into::into)
        } else {
            state.columns()?.merge_part(layout, value)
        };
        merged.map_err(|error| raise_parts(&error))
    }

    /// What `update` gives, of the keys that were touched since it was called.
    #[pyo3(signature = () -> "Any")]
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        let Some(columns) = &mut state.columns else {
            return state.take_pairs(py);
        };
        let updates = columns.updates(0..columns.touched());
        columns.settle();
        exported(py, updates)
    }

    /// Number of different keys so far.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.state()?.aggregate.len())
    }
}

impl Aggregate {
    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, KeyedAggregate>> {
        alone(
            &self.state,
            "the aggregate is in use\n\nhint: an aggregate belongs to one thread",
        )
    }
}

impl KeyedAggregate {
    /// The batch in the form of those before, if it has another.
    fn in_form(&self, py: Python<'_>, batch: &Batch) -> PyResult<Option<Batch>> {
        let records =
            self.had_records || !self.aggregate.is_empty() || self.computation.looks_at_records();
        let form = Form::before(self.columns.is_some(), records);
        batch.in_form(py, form, || self.computation.key_columns())
    }

    fn add(&mut self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let received = match batch.content()? {
            Content::Records(received) => received,
            Content::Columns(columns) => {
                return self.take_columns(py, columns, |aggregate| aggregate.add(columns));
            }
        };
        let aggregate = &mut self.aggregate;
        let update = |body: &[u8], records| aggregate.update(body, records);
        self.computation.take_in(py, received, update)?;
        if self.copies_keys {
            self.snapshots.copy(&self.aggregate);
        }
        Ok(())
    }

    fn take_pairs<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let updates = self.aggregate.take_updates();
        let pairs = pairs(py, updates, &mut self.keys, self.computation.shown())?;
        Ok(pairs.into_any())
    }

    fn update_columns<'py>(
        &mut self,
        py: Python<'py>,
        columns: &Columns,
    ) -> PyResult<Bound<'py, PyAny>> {
        let updated = self.take_columns(py, columns, |aggregate| aggregate.update(columns))?;
        exported(py, Ok(updated))
    }

    /// Takes columns in; the keys that are new are copied, where that is wanted.
    fn take_columns<T: Send>(
        &mut self,
        py: Python<'_>,
        columns: &Columns,
        take: impl FnOnce(&mut oka_columnar::Aggregate) -> Result<T, AggregateError> + Send,
    ) -> PyResult<T> {
        let copies_keys = self.copies_keys;
        let aggregate = self.columns()?;
        let taken = detached(py, columns.size(), || {
            let taken = take(aggregate)?;
            if copies_keys {
                aggregate.copy_keys()?;
            }
            Ok(taken)
        });
        taken.map_err(|error| raise_columns(&error))
    }

    /// The aggregate over columns, from the first of them on.
    fn columns(&mut self) -> PyResult<&mut oka_columnar::Aggregate> {
        if !self.aggregate.is_empty() {
            return Err(mixed());
        }
        if self.columns.is_none() {
            self.columns = Some(self.computation.over_columns()?);
        }
        self.columns.as_mut().ok_or_else(mixed)
    }
}

/// The pairs of keys and values, or values without keys; `keys` has the key objects so far.
fn pairs<'py, 'a>(
    py: Python<'py>,
    updates: impl Iterator<Item = Update<'a>>,
    keys: &mut Vec<Option<Py<PyAny>>>,
    shown: Shown,
) -> PyResult<Bound<'py, PyList>> {
    let mut pairs = Vec::with_capacity(updates.size_hint().0);
    let mut decoder = Decoder::new(py);
    for update in updates {
        if update.number >= keys.len() {
            keys.resize_with(update.number + 1, || None);
        }
        let value = value(py, &mut decoder, &update, shown)?;
        if !shown.is_keyed {
            pairs.push(value);
            continue;
        }
        let key = match &mut keys[update.number] {
            Some(key) => key,
            unknown => unknown.insert(decoder.first(update.key)?.unbind()),
        };
        pairs.push((key.bind(py), value).into_pyobject(py)?.into_any());
    }
    PyList::new(py, pairs)
}

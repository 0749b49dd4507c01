//! Entries of keyed state.

mod encoded;
pub(crate) mod snapshots;
pub(crate) mod values;

use self::encoded::Encoded;
use crate::memory::buffer::{readable, view};
use crate::network::batch::not_columns;
use crate::operators::refused::{raise_columns, raise_parts};
use oka_codec::{DecodeError, Decoder, Key};
use oka_columnar::{AggregateError, Changes, Digests as EntryDigests, Entries};
use oka_compute::kept;
use oka_compute::trust::Needs;
use oka_compute::{ByteStrings, Copied, place};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The hash that places a key, the key, and what is kept of it, both encoded.
type KeyedEntry = (u64, Vec<u8>, Vec<u8>);
/// The same, as Python gets it.
type LentEntry<'py> = (u64, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Keys of keyed state with what is kept of them, in the order of hashes: the hash by which a
/// hash-partitioned gate chooses, the key and the value, encoded as records are. Nothing in it changes.
///
/// Those that an operator gives are encoded and put in order when somebody first reads them, or asks how
/// many they are, in whose thread, without the GIL.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct KeyedEntries {
    entries: OnceLock<Entries>,
    /// How to make them, until somebody does.
    make: Mutex<Option<Make>>,
}

type Make = Box<dyn FnOnce() -> PyResult<Entries> + Send>;

#[pymethods]
impl KeyedEntries {
    /// Of these, which are in any order.
    #[new]
    #[pyo3(signature = (entries: "list[tuple[int, bytes, bytes]]" = Vec::new()))]
    fn new(entries: Vec<KeyedEntry>) -> Self {
        let (mut hashes, mut keys) = (Vec::new(), ByteStrings::default());
        let mut values = ByteStrings::default();
        for (hash, key, value) in entries {
            hashes.push(hash);
            keys.push(&key);
            values.push(&value);
        }
        Entries::new(&hashes, &keys, &values).into()
    }

    /// What the task of this index goes on with, out of those of all tasks so far.
    #[staticmethod]
    #[pyo3(signature = (
        states: "list[KeyedEntries]",
        index: "int",
        parallelism: "int",
    ) -> "KeyedEntries")]
    fn share(
        py: Python<'_>,
        states: Vec<Py<Self>>,
        index: usize,
        parallelism: usize,
    ) -> PyResult<Self> {
        if index >= parallelism {
            return Err(PyValueError::new_err(format!(
                "index {index}, expected one below the parallelism, which is {parallelism}"
            )));
        }
        let entries = |each: Py<Self>| each.get().entries(py).cloned();
        let states = states.into_iter().map(entries);
        let states = states.collect::<PyResult<Vec<_>>>()?;
        let shares = || states.iter().map(|each| each.share(index, parallelism));
        Ok(py
            .detach(|| Entries::merge(&shares().collect::<Vec<_>>()))
            .into())
    }

    /// Of the pairs of a key and a value that `pairs` gives when it is called, as they are now: by who reads
    /// them first, while others have the GIL now and then. What cannot be encoded is refused then; `pickle`
    /// is that of `keyed_entries`.
    #[staticmethod]
    #[pyo3(name = "later", signature = (
        pairs: "Any",
        pickle: "bool" = false,
    ) -> "KeyedEntries")]
    fn of_pairs_later(pairs: Py<PyAny>, pickle: bool) -> Self {
        Self::later(move || {
            let pairs = Python::attach(|py| {
                let pairs = pairs; // is let go of where the GIL is held
                Encoded::of(pairs.bind(py).call0()?.try_iter()?, pickle, true)
            })?;
            Ok(pairs.entries())
        })
    }

    /// As messages of an Arrow IPC stream, of the columns `hash`, `key` and `value`, in parts one behind the
    /// other, of which large ones are not copied.
    #[pyo3(signature = () -> "list[memoryview]")]
    fn to_parts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyMemoryView>>> {
        let entries = self.entries(py)?;
        let written = py.detach(|| entries.write());
        let written = written.map_err(|error| PyValueError::new_err(error.to_string()))?;
        written.into_iter().map(|part| view(py, part)).collect()
    }

    /// So many, of which `to_parts` gave this, which is not copied. Raises DecodeError.
    #[staticmethod]
    #[pyo3(signature = (data: "bytes | memoryview", length: "int") -> "KeyedEntries")]
    fn from_bytes(py: Python<'_>, data: &Bound<'_, PyAny>, length: usize) -> PyResult<Self> {
        if !PyUntypedBuffer::get(data)?.readonly() {
            return Err(PyValueError::new_err(
                "a buffer that may change, expected bytes",
            ));
        }
        let data = readable(data)?;
        let read = py.detach(|| Entries::read(data, length));
        Ok(read.map_err(|error| not_columns(&error))?.into())
    }

    /// What they are at the time `now`, in seconds of any clock, for `changes` of a later time. `before` is
    /// what they were the last time.
    #[pyo3(signature = (before: "Digests | None" = None, now: "int" = 0) -> "Digests")]
    fn digests(&self, py: Python<'_>, before: Option<&Digests>, now: u32) -> PyResult<Digests> {
        let entries = self.entries(py)?;
        let before = before.map(|each| &each.0);
        Ok(Digests(
            py.detach(|| EntryDigests::of(entries, before, now)),
        ))
    }

    /// The changes from the entries of `before` to these, whose digests are `now`: all entries of each
    /// hash with a new or changed entry, and the hashes without entries left, as little-endian numbers.
    /// None if the changes take more than `most` bytes.
    #[pyo3(signature = (
        before: "Digests",
        now: "Digests",
        most: "int",
    ) -> "tuple[KeyedEntries, bytes] | None")]
    fn changes<'py>(
        &self,
        py: Python<'py>,
        before: &Digests,
        now: &Digests,
        most: usize,
    ) -> PyResult<Option<(Self, Bound<'py, PyBytes>)>> {
        let entries = self.entries(py)?;
        let changes = py.detach(|| before.0.changes(&now.0, entries, most));
        Ok(changes.map(|Changes { changed, removed }| {
            let removed: Vec<_> = removed.into_iter().flat_map(u64::to_le_bytes).collect();
            (changed.into(), PyBytes::new(py, &removed))
        }))
    }

    /// What they are after these `changes`, the oldest first. Raises DecodeError.
    #[pyo3(signature = (changes: "list[tuple[KeyedEntries, bytes]]") -> "KeyedEntries")]
    fn with_changes(
        &self,
        py: Python<'_>,
        changes: Vec<(Py<Self>, Bound<'_, PyBytes>)>,
    ) -> PyResult<Self> {
        let told = changes.into_iter().map(|(entries, hashes)| {
            let (hashes, []) = hashes.as_bytes().as_chunks() else {
                return Err(not_columns(&oka_columnar::DecodeError::Malformed));
            };
            Ok(Changes {
                changed: entries.get().entries(py)?.clone(),
                removed: hashes.iter().copied().map(u64::from_le_bytes).collect(),
            })
        });
        let told = told.collect::<PyResult<Vec<_>>>()?;
        let entries = self.entries(py)?;
        Ok(py.detach(|| entries.with_changes(&told)).into())
    }

    /// What a decoder needs for them: see `needs`. Raises DecodeError.
    #[pyo3(signature = () -> "tuple[list[int], list[bytes]]")]
    fn needs(&self, py: Python<'_>) -> PyResult<(Vec<i8>, Vec<Vec<u8>>)> {
        let entries = self.entries(py)?;
        // Each by itself, as it may be decoded: one that is cut off must not hide the next.
        py.detach(|| found(entries.iter().flat_map(|(_, key, value)| [key, value])))
    }

    /// With the values of each key in other places: that at `order[0]` first. `in_windows` tells that they are
    /// of windows. Raises AggregateError where there are not so many.
    #[pyo3(signature = (order: "list[int]", in_windows: "bool") -> "KeyedEntries")]
    #[allow(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn reordered(&self, py: Python<'_>, order: Vec<usize>, in_windows: bool) -> PyResult<Self> {
        let entries = self.entries(py)?;
        let values = py.detach(|| {
            let values = entries.iter().map(|(_, _, value)| value);
            let values = values.map(|value| kept::reordered(value, &order, in_windows));
            values.collect::<Result<ByteStrings, _>>()
        });
        let values = values.map_err(|problem| raise_columns(&problem.into()))?;
        Ok(entries.with_values(values).into())
    }

    /// The keys, decoded.
    #[pyo3(signature = () -> "list[Any]")]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let entries = self.entries(py)?;
        Decoder::new(py).list([(entries.len(), entries.key_bytes())].into_iter())
    }

    /// What is kept of each of them, decoded.
    #[pyo3(signature = () -> "list[Any]")]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let entries = self.entries(py)?;
        Decoder::new(py).list([(entries.len(), entries.value_bytes())].into_iter())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.entries(py)?.len())
    }

    /// Raises IndexError, which ends an iteration.
    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<LentEntry<'py>> {
        let entries = self.entries(py)?;
        let at = if index < 0 {
            index + entries.len() as isize
        } else {
            index
        };
        if at < 0 || at as usize >= entries.len() {
            let of = entries.len();
            return Err(PyIndexError::new_err(format!("entry {index} of {of}")));
        }
        let (hash, key, value) = entries.get(at as usize);
        Ok((hash, PyBytes::new(py, key), PyBytes::new(py, value)))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        Ok(self.entries(py)? == other.get().entries(py)?)
    }
}

impl KeyedEntries {
    /// Those that are made when somebody reads them.
    pub(crate) fn later(make: impl FnOnce() -> PyResult<Entries> + Send + 'static) -> Self {
        Self {
            entries: OnceLock::new(),
            make: Mutex::new(Some(Box::new(make))),
        }
    }

    /// Those of what an operator over records or columns keeps.
    pub(crate) fn of_copied<E>(copied: Copied<E>) -> Self
    where
        E: Into<AggregateError> + 'static,
    {
        Self::later(move || {
            let told = |error: E| Python::attach(|_| raise_columns(&error.into()));
            let (keys, values) = copied().map_err(told)?;
            Ok(Entries::new(&hashes(&keys)?, &keys, &values))
        })
    }

    /// Made if they are not yet; waits without the GIL.
    pub(crate) fn entries(&self, py: Python<'_>) -> PyResult<&Entries> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        py.detach(|| {
            let mut make = self.make.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entries) = self.entries.get() {
                return Ok(entries);
            }
            let failed = || PyRuntimeError::new_err("these entries could not be made before");
            let entries = make.take().ok_or_else(failed)?()?;
            Ok(self.entries.get_or_init(|| entries))
        })
    }
}

impl From<Entries> for KeyedEntries {
    fn from(entries: Entries) -> Self {
        Self {
            entries: entries.into(),
            make: Mutex::new(None),
        }
    }
}

/// What entries of keyed state were at one time: 20 bytes for each.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Digests(EntryDigests);

#[pymethods]
impl Digests {
    /// Since when there has been the key that has been there longest; None if there is none.
    #[getter]
    fn oldest(&self) -> Option<u32> {
        self.0.oldest()
    }
}

/// Pairs of a key and a value as entries of keyed state. With `pickle`, what cannot be encoded otherwise
/// is pickled. Raises EncodeError or KeyExtractError naming the pair.
#[pyfunction]
#[pyo3(signature = (
    pairs: "list[tuple[Any, Any]]",
    pickle: "bool" = false,
) -> "KeyedEntries")]
pub(crate) fn keyed_entries(pairs: &Bound<'_, PyList>, pickle: bool) -> PyResult<KeyedEntries> {
    let pairs = Encoded::of(pairs.try_iter()?, pickle, false)?;
    Ok(KeyedEntries::later(move || Ok(pairs.entries())))
}

fn found<'a>(all: impl Iterator<Item = &'a [u8]>) -> PyResult<(Vec<i8>, Vec<Vec<u8>>)> {
    let mut needs = Needs::default();
    for values in all {
        needs
            .look(values)
            .map_err(|error| DecodeError::new_err(error.to_string()))?;
    }
    let names = needs.names.into_iter().map(<[u8]>::to_vec).collect();
    Ok((needs.codes.into_iter().collect(), names))
}

/// Entries of keys whose values are encoded. Raises EncodeError or KeyExtractError.
pub(crate) fn encoded_entries(
    keys: &[Bound<'_, PyAny>],
    values: ByteStrings,
) -> PyResult<KeyedEntries> {
    let mut encoded = Encoded {
        values,
        ..Encoded::default()
    };
    for (index, key) in keys.iter().enumerate() {
        encoded.push_key(index, key, key)?;
    }
    Ok(KeyedEntries::later(move || Ok(encoded.entries())))
}

/// Has `import` go on with each key and what is kept of it, without the GIL.
pub(crate) fn restored(
    py: Python<'_>,
    entries: &Entries,
    import: impl FnOnce(&[(&[u8], &[u8])]) -> Result<(), AggregateError> + Send,
) -> PyResult<()> {
    taken(py, entries, import).map_err(|error| raise_columns(&error))
}

/// The same of what other tasks have of records that are aggregated now.
pub(crate) fn merged(
    py: Python<'_>,
    entries: &Entries,
    merge: impl FnOnce(&[(&[u8], &[u8])]) -> Result<(), AggregateError> + Send,
) -> PyResult<()> {
    taken(py, entries, merge).map_err(|error| raise_parts(&error))
}

fn taken(
    py: Python<'_>,
    entries: &Entries,
    take: impl FnOnce(&[(&[u8], &[u8])]) -> Result<(), AggregateError> + Send,
) -> Result<(), AggregateError> {
    py.detach(|| {
        let kept = entries.iter().map(|(_, key, kept)| (key, kept));
        take(&kept.collect::<Vec<_>>())
    })
}

/// The hash of each key. Python is asked of those alone that are objects of its classes.
pub(crate) fn hashes(keys: &ByteStrings) -> PyResult<Vec<u64>> {
    let mut hashes = Vec::with_capacity(keys.len());
    hashes.extend(keys.iter().map_while(place::hash));
    if hashes.len() == keys.len() {
        return Ok(hashes);
    }
    Python::attach(|py| {
        let mut decoder = Decoder::new(py);
        for index in hashes.len()..keys.len() {
            let key = keys.get(index);
            let hash = match place::hash(key) {
                Some(hash) => hash,
                None => Key::Record.hash(index, &decoder.first(key)?)?,
            };
            hashes.push(hash);
        }
        Ok(hashes)
    })
}

//! Joins: which rows are partners, and rows of columns by their numbers.

use crate::columns;
use crate::error::{alone, value_error};
use oka_join::{Changes, Gives, Kept, Kind, Pair, Rule, Step};
use oka_window::{Windows, is_near};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::sync::{Mutex, MutexGuard};

/// Which rows of two streams are partners, which come without one, and which are late or gone.
///
/// A row is a side, the number of its key and a time in microseconds. It gets a number, under which
/// the caller keeps the rest; 0 is no row. Numbers of keys and times go in as a list or an array of
/// 64 bits each; numbers of rows come out as bytes, 32 bits each. It is an interval join with `between`,
/// its bounds; a window join with `windows`, their size, slide and offset, or with the `gap` of
/// sessions; with `unbounded` one without a bound in time, of how long rows are kept (None is for ever)
/// and "pairs", "semi" or "anti"; else a temporal one. All of these are in microseconds. `aside` tells of
/// which sides an unbounded one gives, in `close`, rows that had no partner. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Join {
    join: Mutex<oka_join::Join>,
}

type Bytes<'py> = Bound<'py, PyBytes>;
/// What a step comes to.
type Given<'py> = [Bytes<'py>; 7];

#[pymethods]
impl Join {
    #[new]
    #[pyo3(signature = (
        outer: "tuple[bool, bool]",
        between: "tuple[int, int] | None" = None,
        windows: "tuple[int, int, int] | None" = None,
        gap: "int | None" = None,
        unbounded: "tuple[int | None, str] | None" = None,
        aside: "tuple[bool, bool] | None" = None,
    ))]
    fn new(
        outer: (bool, bool),
        between: Option<(i64, i64)>,
        windows: Option<(i64, i64, i64)>,
        gap: Option<i64>,
        unbounded: Option<(Option<i64>, &str)>,
        aside: Option<(bool, bool)>,
    ) -> PyResult<Self> {
        let rule = match (unbounded, between, windows, gap) {
            (Some((keep, gives)), ..) => Rule::Unbounded {
                keep: keep.unwrap_or(i64::MAX),
                gives: gives_of(gives)?,
            },
            (_, Some((low, high)), ..) => Rule::Interval { low, high },
            (.., Some((size, slide, offset)), _) => {
                Rule::Windows(Windows::new(size, slide, offset).map_err(value_error)?)
            }
            (.., Some(gap)) => Rule::Sessions { gap },
            _ => Rule::Temporal,
        };
        let join = Mutex::new(
            oka_join::Join::new(rule, outer.into()).aside(aside.unwrap_or_default().into()),
        );
        Ok(Self { join })
    }

    /// Takes the rows of a batch in. Gives the places in it of the late ones; the numbers of all, 0
    /// of the late ones; the left and the right row of each pair, 0 for a missing one; of an unbounded
    /// join the kind of each, a byte: 0 to 3 as in `change`; and the rows of the left and of the right
    /// that are gone then.
    #[pyo3(signature = (side: "int", keys: "Any", times: "Any") -> "list[bytes]")]
    fn add<'py>(
        &self,
        py: Python<'py>,
        side: usize,
        keys: &Bound<'py, PyAny>,
        times: &Bound<'py, PyAny>,
    ) -> PyResult<Given<'py>> {
        let (keys, times) = (integers(keys)?, times_of(times)?);
        Ok(of_step(py, self.alone()?.add(side, &keys, &times)))
    }

    /// As `add`, of rows that come and go: `kinds` has a byte for each, 0 of an insert, 1 and 2 of the
    /// row before and after an update, 3 of a delete. Only equal rows of a side have the same of
    /// `identities`. Late are also those that are to go and are not there.
    #[pyo3(signature = (
        side: "int",
        keys: "Any",
        times: "Any",
        kinds: "bytes",
        identities: "Any",
    ) -> "list[bytes]")]
    fn change<'py>(
        &self,
        py: Python<'py>,
        side: usize,
        keys: &Bound<'py, PyAny>,
        times: &Bound<'py, PyAny>,
        kinds: &[u8],
        identities: &Bound<'py, PyAny>,
    ) -> PyResult<Given<'py>> {
        let (keys, times) = (integers(keys)?, times_of(times)?);
        let identities = integers(identities)?;
        let kinds: Option<Vec<_>> = kinds.iter().map(|kind| Kind::numbered(*kind)).collect();
        let kinds = kinds.ok_or_else(|| value_error("a kind is none of 0 to 3"))?;
        if [times.len(), kinds.len(), identities.len()] != [keys.len(); 3] {
            return Err(value_error(
                "expected as many times, kinds and identities as keys",
            ));
        }
        let changes = Changes {
            kinds: &kinds,
            identities: &identities,
        };
        Ok(of_step(
            py,
            self.alone()?.change(side, &keys, &times, changes),
        ))
    }

    /// The identities of the rows that are kept of a side, where rows go.
    #[pyo3(signature = (side: "int") -> "list[int]")]
    fn identities(&self, side: usize) -> PyResult<Vec<i64>> {
        Ok(self.alone()?.identities(side).collect())
    }

    /// Says that all rows that follow are later than this, but for late ones. Gives the same as
    /// `add`. If these are `most` pairs or more, it has to be called again before anything else.
    #[pyo3(signature = (watermark: "int", most: "int") -> "list[bytes]")]
    fn close<'py>(&self, py: Python<'py>, watermark: i64, most: usize) -> PyResult<Given<'py>> {
        Ok(of_step(py, self.alone()?.close(watermark, most)))
    }

    /// Goes on with rows that were kept, those of a key behind each other; `watermark` was that of
    /// all, and rows that may go have their `identities`. Gives their numbers.
    #[allow(clippy::too_many_arguments, reason = "columns with names in Python")]
    #[pyo3(signature = (
        side: "int",
        keys: "Any",
        times: "Any",
        are_joined: "list[bool]",
        watermark: "int | None",
        identities: "Any" = None,
    ) -> "bytes")]
    fn restore<'py>(
        &self,
        py: Python<'py>,
        side: usize,
        keys: &Bound<'py, PyAny>,
        times: &Bound<'py, PyAny>,
        are_joined: Vec<bool>,
        watermark: Option<i64>,
        identities: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bytes<'py>> {
        let kept = Kept {
            keys: integers(keys)?,
            times: times_of(times)?,
            rows: Vec::new(),
            are_joined,
            identities: identities.map(integers).transpose()?.unwrap_or_default(),
        };
        let mut join = self.alone()?;
        let step = join.restore(side, &kept, watermark);
        Ok(bytes(py, &step.rows, |row| row.to_ne_bytes()))
    }

    /// What is kept of a side, those of a key behind each other, in the order of time: the numbers of
    /// their keys, their times, their numbers, and whether they have had partners, a byte each.
    #[pyo3(signature = (side: "int") -> "list[bytes]")]
    fn kept<'py>(&self, py: Python<'py>, side: usize) -> PyResult<[Bytes<'py>; 4]> {
        let kept = self.alone()?.kept(side);
        Ok([
            bytes(py, &kept.keys, |key| key.to_ne_bytes()),
            bytes(py, &kept.times, |time| time.to_ne_bytes()),
            bytes(py, &kept.rows, |row| row.to_ne_bytes()),
            bytes(py, &kept.are_joined, |is_joined| [u8::from(*is_joined)]),
        ])
    }

    /// The numbers of all keys of which rows are kept.
    fn keys(&self) -> PyResult<Vec<i64>> {
        Ok(self.alone()?.keys().collect())
    }

    /// How many rows are kept.
    fn __len__(&self) -> PyResult<usize> {
        let join = self.alone()?;
        Ok(join.size(0) + join.size(1))
    }
}

impl Join {
    fn alone(&self) -> PyResult<MutexGuard<'_, oka_join::Join>> {
        alone(
            &self.join,
            "the join is in use\n\nhint: it belongs to one thread",
        )
    }
}

/// Rows of columns, by the numbers that a `Join` has given them. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
#[derive(Default)]
pub(crate) struct KeptRows {
    rows: Mutex<oka_columnar::RowStore>,
}

#[pymethods]
impl KeptRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Takes in the rows of a pyarrow.RecordBatch; those of number 0 are not kept.
    #[pyo3(signature = (batch: "Any", numbers: "bytes"))]
    fn add(&self, batch: &Bound<'_, PyAny>, numbers: &[u8]) -> PyResult<()> {
        let batch = columns::import(batch)?;
        let added = self.alone()?.add(batch, &rows(numbers));
        added.map_err(value_error)
    }

    /// A pyarrow.RecordBatch of the rows with these numbers, of which there is one at least.
    #[pyo3(signature = (numbers: "bytes") -> "Any")]
    fn take<'py>(&self, py: Python<'py>, numbers: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let mut kept = self.alone()?;
        let kept: &mut oka_columnar::RowStore = &mut kept;
        let taken = py.detach(|| kept.take(&rows(numbers)));
        columns::export(py, taken.map_err(value_error)?)
    }

    /// Lets go of the rows with these numbers.
    #[pyo3(signature = (numbers: "bytes"))]
    fn remove(&self, numbers: &[u8]) -> PyResult<()> {
        self.alone()?.remove(&rows(numbers));
        Ok(())
    }

    /// The rows as they are now.
    fn copy(&self) -> PyResult<Self> {
        let rows = Mutex::new(self.alone()?.clone());
        Ok(Self { rows })
    }

    /// Puts what this function makes of each batch in its place: the same rows in another schema.
    #[pyo3(signature = (function: "Any"))]
    fn convert(&self, py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<()> {
        for batch in self.alone()?.batches() {
            let converted = function.call1((columns::export(py, batch.clone())?,))?;
            *batch = columns::import(&converted)?;
        }
        Ok(())
    }
}

impl KeptRows {
    fn alone(&self) -> PyResult<MutexGuard<'_, oka_columnar::RowStore>> {
        alone(
            &self.rows,
            "the rows are in use\n\nhint: they belong to one thread",
        )
    }
}

/// The integers of a list, or of an array of 64 bits each.
fn integers(of: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if of.is_instance_of::<PyList>() {
        return of.extract();
    }
    PyBuffer::<i64>::get(of)?.to_vec(of.py())
}

fn gives_of(name: &str) -> PyResult<Gives> {
    match name {
        "pairs" => Ok(Gives::Pairs),
        "semi" => Ok(Gives::Semi),
        "anti" => Ok(Gives::Anti),
        _ => Err(value_error(format!(
            "{name:?}, expected pairs, semi or anti"
        ))),
    }
}

/// Event times. ValueError for one whose distance to another may not fit into 64 bits.
fn times_of(of: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let error = match integers(of) {
        Ok(times) if times.iter().all(|time| is_near(*time)) => return Ok(times),
        Ok(_) => None,
        Err(error) if error.is_instance_of::<PyOverflowError>(of.py()) => None,
        Err(error) => Some(error),
    };
    Err(error.unwrap_or_else(|| {
        PyValueError::new_err(
            "a time is more than 146,000 years from 1970\n\nhint: say what numbers count by unit=...",
        )
    }))
}

pub(super) fn rows(numbers: &[u8]) -> Vec<u32> {
    let (numbers, _) = numbers.as_chunks();
    numbers
        .iter()
        .map(|each| u32::from_ne_bytes(*each))
        .collect()
}

fn of_step<'py>(py: Python<'py>, step: &Step) -> Given<'py> {
    let numbers = |of: &[u32]| bytes(py, of, |number| number.to_ne_bytes());
    let of_pairs = |of: fn(&Pair) -> u32| bytes(py, &step.pairs, |pair| of(pair).to_ne_bytes());
    [
        numbers(&step.late),
        numbers(&step.rows),
        of_pairs(|pair| pair.0),
        of_pairs(|pair| pair.1),
        bytes(py, &step.kinds, |kind| [*kind as u8]),
        numbers(&step.gone[0]),
        numbers(&step.gone[1]),
    ]
}

pub(super) fn bytes<'py, T, const N: usize>(
    py: Python<'py>,
    of: &[T],
    to_bytes: impl Fn(&T) -> [u8; N],
) -> Bytes<'py> {
    let written = PyBytes::new_with(py, of.len() * N, |out| {
        for (slot, each) in out.chunks_exact_mut(N).zip(of) {
            slot.copy_from_slice(&to_bytes(each));
        }
        Ok(())
    });
    written.expect("bytes of a known length")
}

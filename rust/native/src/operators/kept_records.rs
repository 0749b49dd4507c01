//! Encoded records of the two sides of a join, by their numbers.

use crate::error::{alone, value_error};
use crate::network::batch::{Batch, Content};
use crate::network::gate::key_and_record;
use crate::operators::joins::{bytes, rows};
use crate::operators::times::{TimeTuple, Times};
use oka_codec::Decoder;
use oka_compute::{Interner, Path, Problem, Reader, RecordKeys, TimePath, encode, key};
use oka_protocol::HEADER_BYTES;
use oka_transport::{Encoding, ReceivedFrames};
use oka_window::is_near;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

/// Records of the left and of the right of a `Join`, encoded, under the numbers that it has given them.
///
/// Of each side: where the key of a record is, as for `Fold`; whether records come behind their keys, as pairs; the
/// path to the time, as for `WindowAggregate`, and what reads times that are no numbers there. Without a path records
/// have no times. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct KeptRecords {
    state: Mutex<State>,
}

struct State {
    keys: KeyNumbers,
    sides: [Side; 2],
}

/// Numbers that keys have as long as they are not forgotten.
#[derive(Default)]
struct KeyNumbers {
    keys: Interner,
    /// In the order of the keys there.
    numbers: Vec<i64>,
    next: i64,
}

struct Side {
    keys: RecordKeys,
    /// Where a record lies in what comes.
    record: Path,
    paired: bool,
    time: Option<(Times, TimePath)>,
    /// By the numbers of the records.
    kept: Vec<Box<[u8]>>,
}

type SideTuple<'py> = (
    Option<Bound<'py, PyAny>>,
    bool,
    Option<TimeTuple>,
    Py<PyAny>,
);

#[pymethods]
impl KeptRecords {
    #[new]
    #[pyo3(signature = (left: "tuple[Any, ...]", right: "tuple[Any, ...]"))]
    fn new(left: SideTuple<'_>, right: SideTuple<'_>) -> PyResult<Self> {
        let state = State {
            keys: KeyNumbers::default(),
            sides: [Side::new(left)?, Side::new(right)?],
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// The numbers of the keys of a batch, and the times in microseconds, 64 bits each; none where records have no
    /// times. Or why they cannot be read here: nothing has happened then.
    #[pyo3(signature = (side: "int", batch: "Batch") -> "tuple[bytes, bytes] | str")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        side: usize,
        batch: &Batch,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Content::Records(received) = batch.content()? else {
            return Ok("columns".into_pyobject(py)?.into_any());
        };
        let mut state = self.alone()?;
        let State { keys, sides } = &mut *state;
        Ok(match sides[side].read(received, keys) {
            Ok((keys, times)) => {
                let whole = |of: &[i64]| bytes(py, of, |each| each.to_ne_bytes());
                (whole(&keys), whole(&times)).into_pyobject(py)?.into_any()
            }
            Err(reason) => reason.into_pyobject(py)?.into_any(),
        })
    }

    /// Keeps the records of a batch under these numbers, 32 bits each; not those of number 0. Pairs of a key and a
    /// record come where that is said of the side, unless they are `alone`.
    #[pyo3(signature = (side: "int", batch: "Batch", numbers: "bytes", alone: "bool" = false))]
    fn keep(&self, side: usize, batch: &Batch, numbers: &[u8], alone: bool) -> PyResult<()> {
        let Content::Records(received) = batch.content()? else {
            return Err(PyValueError::new_err(
                "a batch of columns, expected records",
            ));
        };
        self.alone()?.sides[side].keep(received, &rows(numbers), alone)
    }

    /// The pairs of these records of the left and of the right, encoded; None for number 0.
    #[pyo3(signature = (lefts: "bytes", rights: "bytes") -> "Batch")]
    fn pairs(&self, lefts: &[u8], rights: &[u8]) -> PyResult<Batch> {
        let sides = &self.alone()?.sides;
        let (lefts, rights) = (rows(lefts), rows(rights));
        let mut frame = vec![0; HEADER_BYTES];
        for (left, right) in lefts.iter().zip(&rights) {
            encode::array(&mut frame, 2);
            for (side, number) in sides.iter().zip([left, right]) {
                match number {
                    0 => encode::nil(&mut frame),
                    _ => frame.extend_from_slice(side.get(*number)?),
                }
            }
        }
        Ok(ReceivedFrames::of_frame(Encoding::Msgpack, lefts.len(), frame).into())
    }

    /// The records of a side with these numbers.
    #[pyo3(signature = (side: "int", numbers: "bytes") -> "list[Any]")]
    fn take<'py>(
        &self,
        py: Python<'py>,
        side: usize,
        numbers: &[u8],
    ) -> PyResult<Bound<'py, PyList>> {
        let sides = &self.alone()?.sides;
        let mut decoder = Decoder::new(py);
        let records = PyList::empty(py);
        for number in rows(numbers) {
            records.append(decoder.first(sides[side].get(number)?)?)?;
        }
        Ok(records)
    }

    /// Lets go of the records of a side with these numbers.
    #[pyo3(signature = (side: "int", numbers: "bytes"))]
    fn remove(&self, side: usize, numbers: &[u8]) -> PyResult<()> {
        let sides = &mut self.alone()?.sides;
        for number in rows(numbers) {
            if let Some(record) = sides[side].kept.get_mut(number as usize) {
                *record = Box::default();
            }
        }
        Ok(())
    }

    /// The number of the key that a batch consists of. Raises ValueError if it cannot be told from others here.
    #[pyo3(signature = (key: "Batch") -> "int")]
    fn number(&self, key: &Batch) -> PyResult<i64> {
        let mut scratch = Vec::new();
        let Content::Records(received) = key.content()? else {
            return Err(PyValueError::new_err("columns, expected a key"));
        };
        let body = received.bodies().next().map_or(&[][..], |(_, body)| body);
        let canonical = key::canonical(body, &mut scratch).map_err(value_error)?;
        Ok(self.alone()?.keys.number(body, canonical))
    }

    /// All keys by their numbers.
    #[pyo3(signature = () -> "dict[int, Any]")]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let keys = &self.alone()?.keys;
        let (found, mut decoder) = (PyDict::new(py), Decoder::new(py));
        for (at, number) in keys.numbers.iter().enumerate() {
            found.set_item(number, decoder.first(keys.keys.get(at))?)?;
        }
        Ok(found)
    }

    /// How many keys have a number.
    #[getter]
    fn key_count(&self) -> PyResult<usize> {
        Ok(self.alone()?.keys.numbers.len())
    }

    /// Forgets all keys but those with these numbers, which they keep.
    #[pyo3(signature = (numbers: "set[int]"))]
    #[expect(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn forget_other_keys(&self, numbers: HashSet<i64>) -> PyResult<()> {
        let keys = &mut self.alone()?.keys;
        let mut kept = KeyNumbers {
            keys: Interner::with_room(numbers.len()),
            numbers: Vec::with_capacity(numbers.len()),
            next: keys.next,
        };
        for (at, number) in keys.numbers.iter().enumerate() {
            if numbers.contains(number) {
                kept.keys.number_of(&keys.keys, at);
                kept.numbers.push(*number);
            }
        }
        *keys = kept;
        Ok(())
    }
}

impl KeptRecords {
    fn alone(&self) -> PyResult<MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the records are in use\n\nhint: they belong to one thread",
        )
    }
}

impl KeyNumbers {
    #[inline]
    fn number(&mut self, key: &[u8], canonical: &[u8]) -> i64 {
        let at = self.keys.number((key, canonical));
        if at == self.numbers.len() {
            self.numbers.push(self.next);
            self.next += 1;
        }
        self.numbers[at]
    }
}

impl Side {
    fn new((key, paired, time, calls): SideTuple<'_>) -> PyResult<Self> {
        let (key, record) = key_and_record(key.as_ref(), paired)?;
        let time = time.map(|time| Times::new(time, calls));
        Ok(Self {
            keys: RecordKeys::by(key),
            record,
            paired,
            time: time.transpose()?,
            kept: Vec::new(),
        })
    }

    fn read(
        &mut self,
        received: &ReceivedFrames,
        keys: &mut KeyNumbers,
    ) -> Result<(Vec<i64>, Vec<i64>), String> {
        let (mut numbers, mut times) = (Vec::with_capacity(received.records), Vec::new());
        for (records, body) in received.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..records {
                let rest = reader.rest();
                let found = self.keys.next(&mut reader);
                let (key, canonical) = found.map_err(|problem: Problem| problem.to_string())?;
                numbers.push(keys.number(key, canonical));
                if let Some((calls, path)) = &self.time {
                    let record = self.record.find(rest).map_err(|error| error.to_string())?;
                    times.push(time_of(calls, path, record)?);
                }
            }
        }
        Ok((numbers, times))
    }

    fn keep(&mut self, received: &ReceivedFrames, numbers: &[u32], alone: bool) -> PyResult<()> {
        let most = numbers.iter().max().map_or(0, |most| *most as usize + 1);
        if self.kept.len() < most {
            self.kept.resize_with(most, Box::default);
        }
        let mut numbers = numbers.iter();
        for (records, body) in received.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..records {
                let record = next(&mut reader, self.paired && !alone).map_err(value_error)?;
                if let Some(number @ 1..) = numbers.next() {
                    self.kept[*number as usize] = record.into();
                }
            }
        }
        Ok(())
    }

    fn get(&self, number: u32) -> PyResult<&[u8]> {
        let record = self.kept.get(number as usize);
        let unknown = || PyValueError::new_err(format!("there is no record {number}"));
        Ok(record
            .filter(|record| !record.is_empty())
            .ok_or_else(unknown)?)
    }
}

/// The next record, which stands behind its key if it is `paired`.
fn next<'b>(reader: &mut Reader<'b>, paired: bool) -> Result<&'b [u8], oka_compute::ReadError> {
    if paired {
        reader.read()?;
        reader.skip()?;
    }
    reader.encoded()
}

/// The time of a record; or why it has none.
fn time_of(calls: &Times, path: &TimePath, record: &[u8]) -> Result<i64, String> {
    let time = match path.of(record).map_err(|error| error.to_string())? {
        Ok(time) => time,
        Err(foreign) => calls
            .microseconds(foreign)
            .map_err(|error| error.to_string())?,
    };
    if is_near(time) {
        Ok(time)
    } else {
        Err("a time more than 146,000 years from 1970".to_owned())
    }
}

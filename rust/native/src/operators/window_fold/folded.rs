//! What is done with each record of a batch, and how results of windows become Python's.

use super::encoded::{EncodedRecord, Lifted, Records};
use super::fold::Fold;
use crate::operators::fold::Value;
use crate::operators::interned::Interned;
use crate::operators::results::Like;
use oka_codec::{Decoder, Key};
use oka_compute::Unit;
use oka_window::{Given, Intake, Miss, Numbered, Numbers, Window};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};
use std::hint::black_box;
use std::mem;

/// The windows of one task, and what is known of its records.
pub(super) struct FoldedWindows {
    pub(super) fold: Fold,
    /// What records have come to, by the numbers of `windows`.
    pub(super) values: Vec<Value>,
    /// The function that makes them, if it is lifted.
    pub(super) lifted: Option<Lifted>,
    pub(super) windows: Numbered,
    pub(super) keys: Interned,
    pub(super) key: Key,
    pub(super) paired: bool,
    /// None of windows of so many records.
    pub(super) time: Option<Time>,
    pub(super) times: Py<PyAny>,
    pub(super) unit: Option<Unit>,
    pub(super) before: i64,
    /// Whether a record that fails is to leave all as it was.
    pub(super) alone: bool,
    pub(super) taken: Intake,
    /// By the number of a form.
    pub(super) likes: Vec<Option<Like>>,
    /// A window, its form, and its start and end in that.
    pub(super) bounds: Option<(Window, u32, Py<PyAny>, Py<PyAny>)>,
    /// Which record of the last batch was taken in last.
    pub(super) at: usize,
}

/// Where the time of a record is.
pub(super) enum Time {
    There(Key),
    /// As a function of the user's says.
    Called(Py<PyAny>),
}

impl FoldedWindows {
    /// Takes in the records of a batch from one on. Results and late records are added to lists.
    pub(super) fn add(
        &mut self,
        batch: &Bound<'_, PyList>,
        from: usize,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        if self.alone {
            return (from..batch.len()).try_for_each(|at| self.add_alone(batch, at, out, late));
        }
        let chunks = (from..batch.len()).step_by(CHUNK);
        chunks
            .into_iter()
            .try_for_each(|at| self.add_chunk(batch, at, out, late))
    }

    /// Takes in so many records that what is known of them stays in a processor's cache.
    fn add_chunk(
        &mut self,
        batch: &Bound<'_, PyList>,
        from: usize,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        // Each of these passes reads other memory, for many records at once.
        let mut records = Vec::with_capacity(CHUNK);
        let mut keys = Vec::with_capacity(CHUNK);
        let mut times = Vec::with_capacity(CHUNK);
        for (at, given) in batch.iter().enumerate().skip(from).take(CHUNK) {
            self.at = at;
            let (key, record) = self.split(given)?;
            times.push(self.time(&record)?);
            keys.push(key);
            records.push(record);
        }
        self.at = from;
        let numbers = self.keys.numbers(&keys, &mut self.at)?;
        let known = numbers.into_iter().zip(times);
        if self.take(from, &Records::Objects(&records), known, out, late)? {
            self.forget(batch.py());
        }
        Ok(())
    }

    /// Takes in the records of a batch that was read.
    pub(super) fn add_encoded(
        &mut self,
        found: &[EncodedRecord<'_>],
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let mut changed = false;
        for (at, chunk) in found.chunks(CHUNK).enumerate() {
            let known = chunk.iter().map(|record| (record.key, record.time));
            changed |= self.take(at * CHUNK, &Records::Encoded(chunk), known, out, late)?;
        }
        if changed {
            // Not before: the records have numbers of keys.
            self.forget(out.py());
        }
        Ok(())
    }

    /// Takes in records, whose keys and times are known. Whether some values may be of no use any more.
    fn take<'py>(
        &mut self,
        from: usize,
        records: &Records<'_, 'py>,
        known: impl Iterator<Item = (u32, (i128, u32))>,
        out: &Bound<'py, PyList>,
        late: &Bound<'py, PyList>,
    ) -> PyResult<bool> {
        let py = out.py();
        let mut taken = mem::take(&mut self.taken);
        taken.clear();
        // Beside each of the numbers that are taken, which record it is of.
        let mut rows = Vec::with_capacity(CHUNK);
        for (row, (key, (time, form))) in known.enumerate() {
            if !self.windows.has(time) {
                continue; // it lies between two windows
            }
            match self.windows.add(key, time, form, &mut taken) {
                Ok(()) => rows.resize(taken.numbers.len(), row),
                Err(Miss::Late) => late.append(records.object(py, row)?)?,
                Err(Miss::Far) => {
                    self.at = from + row;
                    return Err(far());
                }
            }
        }
        self.read_values(&taken.numbers);
        let mut done = 0;
        for stop in &taken.stops {
            let next = done..stop.behind;
            self.fold(from, records, &taken.numbers[next.clone()], &rows[next], py)?;
            done = stop.behind;
            if let Some((into, from)) = stop.joined {
                let merged = self.merged(py, &[into, from])?;
                self.put(py, into, merged);
                self.put(py, from, Value::None);
            }
            self.give(&stop.given, out)?;
        }
        self.fold(from, records, &taken.numbers[done..], &rows[done..], py)?;
        self.give(&taken.full, out)?;
        let changed = !(taken.stops.is_empty() && taken.full.is_empty());
        self.taken = taken;
        Ok(changed)
    }

    /// Takes in a record that leaves all as it was if it fails.
    fn add_alone(
        &mut self,
        batch: &Bound<'_, PyList>,
        at: usize,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let py = batch.py();
        self.at = at;
        let (key, record) = self.split(batch.get_item(at)?)?;
        let (time, form) = self.time(&record)?;
        if !self.windows.has(time) {
            return Ok(());
        }
        let key = self.keys.number(&key)?;
        let trial = match self.windows.trial(key, time) {
            Ok(trial) => trial,
            Err(Miss::Late) => return late.append(record),
            Err(Miss::Far) => return Err(far()),
        };
        let numbers = trial.numbers.iter();
        let made = numbers.map(|number| self.with(*number, record.clone()));
        let mut made = made.collect::<PyResult<Vec<_>>>()?;
        if let Some(from) = trial.joined {
            let parts = PyList::new(py, [made[0].clone(), self.value(py, from)?])?;
            made[0] = self.fold.merge(parts)?;
        }
        let mut taken = Intake::default();
        let added = self.windows.add(key, time, form, &mut taken);
        added.map_err(|_| far())?;
        for (number, value) in trial.numbers.iter().zip(made) {
            self.set(*number, value);
        }
        if let Some(from) = trial.joined {
            self.put(py, from, Value::None);
        }
        let given: Vec<_> = taken
            .stops
            .into_iter()
            .flat_map(|stop| stop.given)
            .collect();
        let result = self
            .give(&given, out)
            .and_then(|()| self.give(&taken.full, out));
        self.forget(py);
        result
    }

    /// Adds records, the first of which is this one of its batch, to the values of these numbers.
    fn fold<'py>(
        &mut self,
        first: usize,
        records: &Records<'_, 'py>,
        numbers: &[u32],
        rows: &[usize],
        py: Python<'py>,
    ) -> PyResult<()> {
        if let Records::Encoded(encoded) = records
            && self.fold_encoded(py, encoded, numbers, rows)
        {
            return Ok(());
        }
        for (number, row) in numbers.iter().zip(rows) {
            self.at = first + row;
            let value = self.with(*number, records.object(py, *row)?)?;
            self.set(*number, value);
        }
        Ok(())
    }

    /// What the value of a number is with one more record.
    #[inline]
    fn with<'py>(&self, number: u32, record: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.values.get(number as usize) {
            Some(Value::Object(before)) => self.fold.add(before.bind(record.py()), record),
            Some(Value::Encoded(before)) => {
                let before = Decoder::new(record.py()).first(before)?;
                self.fold.add(&before, record)
            }
            _ => self.fold.create(record),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, number: u32, value: Bound<'_, PyAny>) {
        self.put(value.py(), number, Value::Object(value.unbind()));
    }

    #[inline]
    fn put(&mut self, py: Python<'_>, number: u32, value: Value) {
        let number = number as usize;
        if self.values.len() <= number {
            self.values.resize_with(number + 1, Value::default);
        }
        // With the GIL in hand, an object goes at once.
        match mem::replace(&mut self.values[number], value) {
            Value::Object(before) => drop(before.into_bound(py)),
            Value::None | Value::Encoded(_) => {}
        }
    }

    fn value<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyAny>> {
        let value = self.values.get(number as usize).unwrap_or(&Value::None);
        Ok(value
            .object(py)?
            .unwrap_or_else(|| py.None().into_bound(py)))
    }

    fn merged(&mut self, py: Python<'_>, numbers: &[u32]) -> PyResult<Value> {
        if let Some(merged) = self.merged_encoded(py, numbers) {
            return Ok(merged);
        }
        let parts = numbers.iter().map(|number| self.value(py, *number));
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        let merged = self.fold.merge(PyList::new(py, parts)?)?;
        Ok(Value::Object(merged.unbind()))
    }

    /// Whether a result has its key in front: an empty tuple is none.
    fn is_keyed(&self) -> bool {
        self.paired || !matches!(&self.key, Key::Tuple(items) if items.is_empty())
    }

    /// The key and the record.
    #[inline]
    fn split<'py>(
        &self,
        given: Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if self.paired {
            let pair = given.cast::<PyTuple>()?;
            return Ok((pair.get_item(0)?, pair.get_item(1)?));
        }
        Ok((self.key.item(&given)?, given))
    }

    /// The microseconds of a record's time, and the number of its form.
    #[inline]
    fn time(&self, record: &Bound<'_, PyAny>) -> PyResult<(i128, u32)> {
        let found = match &self.time {
            None => return Ok((0, INTEGER)),
            Some(Time::There(place)) => place.item(record)?,
            Some(Time::Called(find)) => find.bind(record.py()).call1((record,))?,
        };
        if let Some(unit) = self.unit {
            let read = if found.is_exact_instance_of::<PyInt>() {
                let mut overflow = 0;
                // SAFETY: there is a `Bound`, so the GIL is held, and it is an int.
                let number =
                    unsafe { ffi::PyLong_AsLongLongAndOverflow(found.as_ptr(), &raw mut overflow) };
                let number = (overflow == 0).then_some(number);
                (number.and_then(|number| unit.of_integer(number))).map(|us| (us, INTEGER))
            } else if let Ok(number) = found.cast_exact::<PyFloat>() {
                unit.of_float(number.value()).map(|us| (us, FLOAT))
            } else {
                None
            };
            if let Some((us, form)) = read {
                return Ok((i128::from(us) - i128::from(self.before), form));
            }
        }
        let times = self.times.bind(record.py());
        times.call_method1("read", (found,))?.extract()
    }

    /// Adds the results of windows to a list.
    pub(super) fn give(&mut self, given: &[Given], out: &Bound<'_, PyList>) -> PyResult<()> {
        let py = out.py();
        for Given {
            key,
            window,
            form,
            numbers,
        } in given
        {
            if !matches!(&self.bounds, Some((known, of, ..)) if known == window && of == form) {
                let start = self.like(py, window.start, *form)?;
                let end = self.like(py, window.end, *form)?;
                self.bounds = Some((*window, *form, start, end));
            }
            let value = match numbers {
                Numbers::One(number) => self.value(py, *number)?,
                Numbers::Several(numbers) => {
                    let merged = self.merged(py, numbers)?.object(py)?;
                    merged.unwrap_or_else(|| py.None().into_bound(py))
                }
            };
            let Some((.., start, end)) = &self.bounds else {
                continue;
            };
            let (start, end) = (start.bind(py), end.bind(py));
            let key = self.keys.get(py, *key);
            let result = self.fold.finish(&key, value, start, end)?;
            if self.is_keyed() {
                out.append((key, result, start, end))?;
            } else {
                out.append((result, start, end))?;
            }
        }
        Ok(())
    }

    /// Lets go of values that are of no use any more, and gives others new numbers if those left are few.
    pub(super) fn forget(&mut self, py: Python<'_>) {
        for number in self.windows.take_gone() {
            self.put(py, number, Value::None);
        }
        let keys = self.keys.len();
        let Some(live) = self.windows.compact(keys) else {
            return;
        };
        if live.keys.len() < keys {
            self.keys.keep(py, &live.keys);
            if let Some(lifted) = &mut self.lifted {
                lifted.forget();
            }
        }
        let values = live.windows.iter();
        let values = values.map(|number| mem::take(&mut self.values[*number]));
        self.values = values.collect();
    }

    /// A start or an end in the form of times.
    fn like(&mut self, py: Python<'_>, near: i64, form: u32) -> PyResult<Py<PyAny>> {
        let us = self.windows.base() + i128::from(near);
        if self.time.is_none() {
            return Ok(near.into_pyobject(py)?.into_any().unbind());
        }
        let form = form as usize;
        if self.likes.len() <= form {
            self.likes.resize_with(form + 1, || None);
        }
        let found = &mut self.likes[form];
        let like = match found {
            Some(like) => like,
            None => found.insert(Like {
                call: self.times.bind(py).call_method1("like", (form,))?.unbind(),
                unit: self.unit.filter(|_| form == INTEGER as usize),
            }),
        };
        match i64::try_from(us) {
            Ok(us) => Ok(like.time(py, us)?.unbind()),
            Err(_) => Ok(like.call.bind(py).call1((us,))?.unbind()),
        }
    }

    /// Reads values of these numbers all at once: the loop that adds to them would wait for each.
    fn read_values(&self, numbers: &[u32]) {
        if self.values.len() <= FEW {
            return;
        }
        let values = numbers
            .iter()
            .map(|number| self.values.get(*number as usize));
        let values: Vec<_> = values.flatten().collect();
        // SAFETY: whoever has the values has the GIL, and they are alive.
        let read = values.iter().map(|value| match value {
            Value::Object(value) => unsafe { ffi::Py_REFCNT(value.as_ptr()) },
            Value::Encoded(bytes) => bytes.first().copied().map_or(0, ffi::Py_ssize_t::from),
            Value::None => 0,
        });
        black_box(read.fold(0, |all, count| all ^ count));
    }
}

#[cold]
pub(in crate::operators) fn far() -> PyErr {
    PyValueError::new_err(
        "its time is more than 146,000 years from that of others, or from 1970\n\n\
         hint: say what numbers count by unit=..., or compute the time by a function",
    )
}

/// The forms of times that are integers and floats.
pub(super) const INTEGER: u32 = 0;
pub(super) const FLOAT: u32 = 1;
/// So many records are taken in at a time.
const CHUNK: usize = 128;
/// So many values are in a processor's cache.
const FEW: usize = 4096;

//! Encoded records, of which a lifted function makes encoded values.

use super::folded::{FLOAT, FoldedWindows, INTEGER, Time};
use crate::network::gate::key_path;
use crate::operators::encoded_keys::EncodedKeys;
use crate::operators::fold::{Value, folding};
use crate::operators::time_function::{FoundTime, LiftedTime, TimeFunction};
use oka_codec::{Decoder, Key};
use oka_compute::{KeyPath, Path, Reader};
use oka_expression::Folding;
use oka_transport::ReceivedFrames;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// What reads and folds encoded records.
pub(super) struct Lifted {
    folding: Folding,
    keys: EncodedKeys,
    /// None of windows of so many records.
    time: Option<EncodedTime>,
    /// Whether the function is called so now.
    pub(super) runs: bool,
    /// Why it gave up on some records, which the function itself got then.
    pub(super) gave_up: Option<String>,
}

/// Where the time of an encoded record is.
enum EncodedTime {
    There(Path),
    Called(Py<TimeFunction>),
}

/// A record of a batch: the number of its key, its time with the number of the form, and its bytes.
pub(super) struct EncodedRecord<'b> {
    pub(super) key: u32,
    pub(super) time: (i128, u32),
    bytes: &'b [u8],
}

/// Records of a batch.
pub(super) enum Records<'r, 'py> {
    Objects(&'r [Bound<'py, PyAny>]),
    Encoded(&'r [EncodedRecord<'r>]),
}

impl<'py> Records<'_, 'py> {
    pub(super) fn object(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Objects(records) => Ok(records[row].clone()),
            Self::Encoded(records) => records[row].object(py),
        }
    }
}

impl EncodedRecord<'_> {
    pub(super) fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Decoder::new(py).first(self.bytes)
    }
}

impl Lifted {
    /// By the data of the function's `Expression`, and the function of times if there is one.
    pub(super) fn new(
        (lifted, function): (&Bound<'_, PyAny>, Option<Py<TimeFunction>>),
        key: &Key,
        paired: bool,
        time: Option<&Time>,
    ) -> PyResult<Self> {
        let there = |place| match key_path(place) {
            KeyPath::One(path) => EncodedTime::There(path),
            KeyPath::Tuple(_) => EncodedTime::There(Path::default()),
        };
        Ok(Self {
            folding: folding(lifted)?,
            keys: EncodedKeys::new(key, paired),
            time: match time {
                None => None,
                Some(Time::There(place)) => Some(there(place)),
                Some(Time::Called(_)) => function.map(EncodedTime::Called),
            },
            runs: false,
            gave_up: None,
        })
    }

    /// Forgets the numbers of keys: they have others from now on.
    pub(super) fn forget(&mut self) {
        self.keys.forget();
    }

    /// The records of a batch, or why not all of them can be read.
    fn find<'b>(
        &mut self,
        py: Python<'_>,
        windows: &mut FoldedWindows,
        received: &'b ReceivedFrames,
    ) -> Result<Vec<EncodedRecord<'b>>, String> {
        let mut called = match &self.time {
            Some(EncodedTime::Called(function)) => {
                Some(function.get().state().map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        let mut found = Vec::with_capacity(received.records);
        for (records, body) in received.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..records {
                let keys = &mut windows.keys;
                let number = |key: &Bound<'_, PyAny>| keys.number(key);
                let (key, bytes) = self.keys.next(py, &mut reader, number)?;
                let time = match &self.time {
                    None => None,
                    Some(EncodedTime::There(path)) => Some(there(path, bytes)?),
                    Some(EncodedTime::Called(_)) => {
                        Some(result(called.as_deref_mut(), bytes).ok_or(NO_TIME)?)
                    }
                };
                let time = match time {
                    None => (0, INTEGER),
                    Some(time) => windows.form(py, &time).map_err(|error| error.to_string())?,
                };
                found.push(EncodedRecord { key, time, bytes });
            }
        }
        Ok(found)
    }
}

/// What is found at a path in a record.
#[inline]
fn there<'b>(path: &Path, record: &'b [u8]) -> Result<FoundTime<'b>, String> {
    let found = path.find(record).map_err(|error| error.to_string())?;
    FoundTime::of(found).map_err(|reason| reason.to_string())
}

#[inline]
fn result<'f>(called: Option<&'f mut LiftedTime>, record: &[u8]) -> Option<FoundTime<'f>> {
    called?.find(record)
}

impl FoldedWindows {
    /// Takes in an encoded batch, without a Python object for a record. Or why it cannot be: nothing has happened
    /// then.
    pub(super) fn run(
        &mut self,
        received: &ReceivedFrames,
        out: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
    ) -> PyResult<Result<(), String>> {
        let py = out.py();
        let Some(mut lifted) = self.lifted.take() else {
            return Ok(Err("a function that is not lifted".to_owned()));
        };
        let found = lifted.find(py, self, received);
        self.lifted = Some(lifted);
        let found = match found {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        self.add_encoded(&found, out, late).map(Ok)
    }

    /// Adds to the values of these numbers what is in these rows; false where the function itself has to, of all.
    pub(super) fn fold_encoded(
        &mut self,
        py: Python<'_>,
        records: &[EncodedRecord<'_>],
        numbers: &[u32],
        rows: &[usize],
    ) -> bool {
        let Some(lifted) = self.lifted.as_mut().filter(|lifted| lifted.runs) else {
            return false;
        };
        let mut found = Vec::with_capacity(numbers.len());
        for (number, row) in numbers.iter().zip(rows) {
            let at = *number as usize;
            if self.values.len() <= at {
                self.values.resize_with(at + 1, Value::default);
            }
            if !self.values[at].encode(py) {
                return false;
            }
            found.push((*number, records[*row].bytes));
        }
        let values = &self.values;
        let before = |number: u32| values[number as usize].bytes();
        let folding = &mut lifted.folding;
        if let Err(reason) = folding.run_to_values(&found, values.len(), before) {
            lifted.give_up(reason);
            return false;
        }
        folding.take_values(|number, value| self.values[number as usize].set_bytes(value));
        true
    }

    /// What the values of these numbers come to; `None` where the function itself has to say that.
    pub(super) fn merged_encoded(&mut self, py: Python<'_>, numbers: &[u32]) -> Option<Value> {
        let lifted = self.lifted.as_mut().filter(|lifted| lifted.runs)?;
        for number in numbers {
            if !self.values.get_mut(*number as usize)?.encode(py) {
                return None;
            }
        }
        let parts = numbers
            .iter()
            .map(|number| self.values[*number as usize].bytes());
        let parts = parts
            .map(|part| Some((0, part?)))
            .collect::<Option<Vec<_>>>()?;
        if let Err(reason) = lifted.folding.run_to_values(&parts, 1, |_| None) {
            lifted.give_up(reason);
            return None;
        }
        let mut merged = None;
        let take = |_, value: &[u8]| merged = Some(Value::Encoded(value.to_vec()));
        lifted.folding.take_values(take);
        merged
    }

    /// The microseconds of a time, and the number of its form. Raises what Python does of one that is no time.
    #[inline]
    fn form(&self, py: Python<'_>, time: &FoundTime<'_>) -> PyResult<(i128, u32)> {
        let read = match (time, self.unit) {
            (FoundTime::Integer(number), Some(unit)) => unit.of_integer(*number).zip(Some(INTEGER)),
            (FoundTime::Float(number), Some(unit)) => unit.of_float(*number).zip(Some(FLOAT)),
            _ => None,
        };
        if let Some((us, form)) = read {
            return Ok((i128::from(us) - i128::from(self.before), form));
        }
        let found = match time {
            FoundTime::Integer(number) => number.into_pyobject(py)?.into_any(),
            FoundTime::Float(number) => number.into_pyobject(py)?.into_any(),
            FoundTime::Other(encoded) => Decoder::new(py).first(encoded)?,
        };
        self.times
            .bind(py)
            .call_method1("read", (found,))?
            .extract()
    }
}

impl Lifted {
    /// Has the function itself get the rest of the batch.
    fn give_up(&mut self, reason: oka_expression::Unusual) {
        self.gave_up = Some(reason.to_string());
        self.runs = false;
    }
}

const NO_TIME: &str = "a time that is left to Python";

//! The output gate: all channels from one task to the tasks of one downstream operator.

mod columns;
mod encoded;
mod frames;

use crate::columns as arrow;
use crate::error::{Raise, alone};
use crate::network::batch::{Batch, Content};
use crate::network::control::Control;
use crate::network::paired::Paired;
use columns::{no_batch, selectors};
pub(crate) use encoded::{key_and_record, key_path};
use frames::{OpenFrames, add_record, refusal};
use oka_codec::{Key, Pickling, encode};
use oka_compute::place::Place;
use oka_protocol::partition::target;
use oka_transport::OutputChannel;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Mutex;

/// The channels from this task to the tasks of one downstream operator.
///
/// A record goes to all of them (broadcast), to the next (rebalance), or to the one that its key
/// chooses (hash); records of one channel stay in order. Rows of columns go where records with
/// their key go, but those of times and decimals; to rebalance, they are dealt out by the batch. Of a
/// new schema, channels hear that get no row of its first batch. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct OutputGate {
    channels: Vec<OutputChannel>,
    partitioner: Partitioner,
    /// Where encoded records go.
    place: Place,
    /// Whether what cannot travel otherwise is pickled.
    pickle: bool,
    /// Whether rows are made of columns behind it.
    rows: bool,
    frames: Mutex<OpenFrames>,
}

#[pymethods]
impl OutputGate {
    /// Encodes `records`, a list, `Paired`, `Batch` or a pyarrow.RecordBatch, into the channels' open
    /// frames, in one pass, and returns once every channel takes more again: blocks without the GIL
    /// while a receiver is too slow. The encoded records of a `Batch` are copied as they are.
    ///
    /// `stamps` (nanoseconds) become markers behind the last record. Raises EncodeError or
    /// KeyExtractError naming the record, whose index in the list is the exception's `record_index`
    /// (those before it are emitted), Cancelled, ChannelLost.
    #[pyo3(signature = (
        records: "Any",
        stamps: "list[int] | None" = None,
    ))]
    fn emit(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        stamps: Option<Vec<u64>>,
    ) -> PyResult<()> {
        let mut frames = self.frames()?;
        let emitted = if let Ok(records) = records.cast::<PyList>() {
            let _pickling = Pickling::allow(self.pickle);
            frames.begin_records();
            self.encode(&mut frames, records, &self.partitioner, append)
        } else if let Ok(paired) = records.cast_exact::<Paired>() {
            let _pickling = Pickling::allow(self.pickle);
            frames.begin_records();
            self.encode_paired(&mut frames, paired.py(), paired.get())
        } else if let Ok(batch) = records.cast_exact::<Batch>() {
            self.emit_batch(&mut frames, batch)
        } else {
            self.emit_columns(&mut frames, records)
        };
        let last = frames.last;
        if let Some(stamps) = stamps.filter(|stamps| !stamps.is_empty() && emitted.is_ok()) {
            let broadcast = matches!(self.partitioner, Partitioner::Broadcast);
            let channels = if broadcast {
                0..self.channels.len()
            } else {
                last..last + 1
            };
            for channel in channels {
                frames.open(channel).markers.extend(&stamps);
            }
        }
        let blocked = frames.push(&self.channels);
        drop(frames);
        emitted?;
        if blocked {
            self.wait_writable(py)?;
        }
        Ok(())
    }

    /// Sends a control behind everything that was emitted, on every channel; blocks as `emit` does.
    /// Raises Cancelled, ChannelLost.
    fn send_control(&self, py: Python<'_>, control: &Control) -> PyResult<()> {
        drop(self.frames()?);
        for channel in &self.channels {
            channel.send_control(control.0);
        }
        if self.channels.iter().all(OutputChannel::is_writable) {
            return Ok(());
        }
        self.wait_writable(py)
    }
}

impl OutputGate {
    /// `partitioner` is forward (one channel), hash (by `key`, that of columns by `columns` if it is
    /// somewhere else there), rebalance or broadcast.
    pub(crate) fn new(
        channels: Vec<OutputChannel>,
        partitioner: &str,
        (key, columns): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
        pickle: bool,
        rows: bool,
    ) -> PyResult<Self> {
        let count = channels.len();
        if count == 0 {
            return Err(refused("no channels", "at least one"));
        }
        let partitioner = match partitioner {
            "forward" if count > 1 => {
                return Err(refused(&format!("{count} channels"), "one for forward"));
            }
            "forward" => Partitioner::Single,
            "hash" => Partitioner::Hash(Key::new(key)?),
            "rebalance" => Partitioner::Rebalance,
            "broadcast" => Partitioner::Broadcast,
            other => {
                let expected = "forward, hash, rebalance or broadcast";
                return Err(refused(&format!("partitioner {other:?}"), expected));
            }
        };
        let partitioner = if count == 1 {
            Partitioner::Single
        } else {
            partitioner
        };
        let cut = match &partitioner {
            Partitioner::Hash(key) => Some(columns.map(|key| Key::new(Some(key))).transpose()?)
                .map(|columns| selectors(columns.as_ref().unwrap_or(key)))
                .filter(|columns| !columns.is_empty())
                .map(oka_columnar::Partitioner::new),
            _ => None,
        };
        Ok(Self {
            channels,
            pickle,
            rows,
            place: Place::of(key_path(match &partitioner {
                Partitioner::Hash(key) => key,
                _ => &Key::Record,
            })),
            partitioner,
            frames: Mutex::new(OpenFrames::new(count, cut)),
        })
    }

    fn frames(&self) -> PyResult<std::sync::MutexGuard<'_, OpenFrames>> {
        alone(
            &self.frames,
            "the gate is in use\n\nhint: a gate belongs to one thread",
        )
    }

    fn emit_batch(&self, frames: &mut OpenFrames, batch: &Bound<'_, Batch>) -> PyResult<()> {
        let borrowed = batch.borrow();
        match borrowed.content()? {
            Content::Records(received) => {
                frames.begin_records();
                self.copy(batch.py(), frames, received)
            }
            Content::Columns(_) => self.emit_columns(frames, &borrowed.decode(batch.py())?),
        }
    }

    fn emit_columns(&self, frames: &mut OpenFrames, columns: &Bound<'_, PyAny>) -> PyResult<()> {
        let batch = arrow::import(columns).map_err(|error| no_batch(columns.py(), error))?;
        if frames.divides_by_form(&batch) && self.rows {
            frames.begin_records();
            let rows = arrow::to_rows(columns)?;
            return self.encode(frames, &rows, &self.partitioner, append);
        }
        self.encode_columns(frames, &batch)
    }

    /// Encodes records by `append`, each into the frame that the partitioner chooses.
    #[inline]
    fn encode(
        &self,
        frames: &mut OpenFrames,
        records: &Bound<'_, PyList>,
        partitioner: &Partitioner,
        append: impl Fn(&mut Vec<u8>, usize, &Bound<'_, PyAny>) -> PyResult<usize>,
    ) -> PyResult<()> {
        let channels = &self.channels;
        let count = channels.len();
        match partitioner {
            Partitioner::Single => {
                let frame = frames.open(0);
                for_each(records, |index, record| {
                    let start = append(&mut frame.body, index, record)?;
                    add_record(&channels[0], frame, start, |refused| {
                        refusal(index, record, refused.into())
                    })
                })
            }
            Partitioner::Hash(key) => for_each(records, |index, record| {
                let channel = target(key.hash(index, record)?, count);
                frames.append(channels, channel, index, record, &append)
            }),
            Partitioner::Rebalance => for_each(records, |index, record| {
                let channel = frames.take_turn();
                frames.append(channels, channel, index, record, &append)
            }),
            Partitioner::Broadcast => for_each(records, |index, record| {
                let mut encoded = std::mem::take(&mut frames.scratch);
                encoded.clear();
                append(&mut encoded, index, record)?;
                for (channel, output) in channels.iter().enumerate() {
                    let frame = frames.open(channel);
                    let start = frame.body.len();
                    frame.body.extend_from_slice(&encoded);
                    add_record(output, frame, start, |refused| {
                        refusal(index, record, refused.into())
                    })?;
                }
                frames.scratch = encoded;
                Ok(())
            }),
        }
    }

    /// Encodes pairs, of which none is made where the key is the first of them.
    fn encode_paired(
        &self,
        frames: &mut OpenFrames,
        py: Python<'_>,
        paired: &Paired,
    ) -> PyResult<()> {
        let by_first = Partitioner::Hash(Key::Record);
        let partitioner = match &self.partitioner {
            Partitioner::Hash(Key::Item(0)) => &by_first,
            Partitioner::Hash(_) => {
                return self.encode(frames, &paired.to_list(py)?, &self.partitioner, append);
            }
            other => other,
        };
        let beside = paired.encoded(py)?;
        self.encode(
            frames,
            paired.records.bind(py),
            partitioner,
            |out, index, record| {
                let start = out.len();
                oka_compute::encode::array(out, 2);
                append_from(start, out, index, record, 1)?;
                out.extend_from_slice(&beside);
                Ok(start)
            },
        )
    }

    #[cold]
    fn wait_writable(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| OutputChannel::wait_all_writable(&self.channels))
            .map_err(Raise::raise)
    }
}

enum Partitioner {
    /// There is one channel: no choice, no hash.
    Single,
    Hash(Key),
    Rebalance,
    Broadcast,
}

/// Appends a record, or leaves the bytes as they were; where it starts.
#[inline]
fn append(out: &mut Vec<u8>, index: usize, record: &Bound<'_, PyAny>) -> PyResult<usize> {
    let start = out.len();
    append_from(start, out, index, record, 0)
}

/// Appends a record so deep inside what begins at `start`, or leaves the bytes as they were there.
#[inline]
fn append_from(
    start: usize,
    out: &mut Vec<u8>,
    index: usize,
    record: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<usize> {
    // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
    match unsafe { encode::append(record.py(), out, record.as_ptr(), depth) } {
        Ok(()) => Ok(start),
        Err(refused) => {
            out.truncate(start);
            Err(refusal(index, record, refused))
        }
    }
}

/// Calls `f` with each record and its index; the list may change meanwhile.
#[inline]
pub(crate) fn for_each<'py>(
    records: &Bound<'py, PyList>,
    mut f: impl FnMut(usize, &Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let mut index = 0;
    // SAFETY: the GIL is held, and the index is below the length, which is read anew each time.
    while index < unsafe { ffi::PyList_GET_SIZE(records.as_ptr()) } {
        let record = unsafe {
            let record = ffi::PyList_GET_ITEM(records.as_ptr(), index);
            Bound::from_borrowed_ptr(records.py(), record)
        };
        f(index as usize, &record).map_err(|error| at(index as usize, records.py(), error))?;
        index += 1;
    }
    Ok(())
}

/// The error of a record, with its index.
#[cold]
fn at(index: usize, py: Python<'_>, error: PyErr) -> PyErr {
    let _ = error.value(py).setattr("record_index", index); // or it takes no attributes
    error
}

fn refused(got: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{got}, expected {expected}"))
}

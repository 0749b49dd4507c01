//! The output gate: all channels from one task to the tasks of one downstream operator.

use crate::columns;
use crate::control::Control;
use crate::encode::{self, Refused};
use crate::error::{EncodeError, KeyExtractError, Raise, alone};
use crate::extension::Pickling;
use crate::key::Key;
use crate::paired::Paired;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use oka_columnar::{Encoder, PartitionError, piece_rows, pieces};
use oka_protocol::partition::target;
use oka_transport::{Encoding, OpenFrame, OutputChannel};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::{Arc, Mutex};

/// The channels from this task to the tasks of one downstream operator.
///
/// A record goes to all of them (broadcast), to the next (rebalance), or to the one that its key
/// chooses (hash); records of one channel stay in order. Rows of columns go where records with
/// their key go; to rebalance, they are dealt out by the batch. Of a new schema, channels hear that
/// get no row of its first batch. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct OutputGate {
    channels: Vec<OutputChannel>,
    partitioner: Partitioner,
    /// Whether what cannot travel otherwise is pickled.
    pickle: bool,
    state: Mutex<State>,
}

#[pymethods]
impl OutputGate {
    /// Encodes `records`, a list, `Paired` or a pyarrow.RecordBatch, into the channels' open frames,
    /// in one pass, and returns once every channel takes more again: blocks without the GIL while a
    /// receiver is too slow.
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
        let mut state = self.state()?;
        let emitted = if let Ok(records) = records.cast::<PyList>() {
            let _pickling = Pickling::allow(self.pickle);
            state.begin_records();
            self.encode(&mut state, records, &self.partitioner, append)
        } else if let Ok(paired) = records.cast_exact::<Paired>() {
            let _pickling = Pickling::allow(self.pickle);
            state.begin_records();
            self.encode_paired(&mut state, paired.py(), paired.get())
        } else {
            columns::import(records)
                .map_err(|error| no_batch(py, error))
                .and_then(|batch| self.encode_columns(&mut state, &batch))
        };
        let last = state.last;
        if let Some(stamps) = stamps.filter(|stamps| !stamps.is_empty() && emitted.is_ok()) {
            let broadcast = matches!(self.partitioner, Partitioner::Broadcast);
            let channels = if broadcast {
                0..self.channels.len()
            } else {
                last..last + 1
            };
            for channel in channels {
                state.open(channel).markers.extend(&stamps);
            }
        }
        let blocked = state.push(&self.channels);
        drop(state);
        emitted?;
        if blocked {
            self.wait_writable(py)?;
        }
        Ok(())
    }

    /// Sends a control behind everything that was emitted, on every channel; blocks as `emit` does.
    /// Raises Cancelled, ChannelLost.
    fn send_control(&self, py: Python<'_>, control: &Control) -> PyResult<()> {
        drop(self.state()?);
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
    /// `partitioner` is forward (one channel), hash (by `key`), rebalance or broadcast.
    pub(crate) fn new(
        channels: Vec<OutputChannel>,
        partitioner: &str,
        key: Option<&Bound<'_, PyAny>>,
        pickle: bool,
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
        let rows = match &partitioner {
            Partitioner::Hash(key) => Some(key.selectors())
                .filter(|columns| !columns.is_empty())
                .map(oka_columnar::Partitioner::new),
            _ => None,
        };
        let state = State {
            encoders: channels.iter().map(|_| Encoder::default()).collect(),
            rows,
            schema: None,
            has_columns: false,
            frames: channels.iter().map(|_| OpenFrame::new()).collect(),
            held: Vec::with_capacity(count),
            last: 0,
            next: 0,
            scratch: Vec::new(),
        };
        Ok(Self {
            channels,
            partitioner,
            pickle,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the gate is in use\n\nhint: a gate belongs to one thread",
        )
    }

    /// Encodes records by `append`, each into the frame that the partitioner chooses.
    #[inline]
    fn encode(
        &self,
        state: &mut State,
        records: &Bound<'_, PyList>,
        partitioner: &Partitioner,
        append: impl Fn(&mut Vec<u8>, usize, &Bound<'_, PyAny>) -> PyResult<usize>,
    ) -> PyResult<()> {
        let channels = &self.channels;
        let count = channels.len();
        match partitioner {
            Partitioner::Single => {
                let frame = state.open(0);
                for_each(records, |index, record| {
                    let start = append(&mut frame.body, index, record)?;
                    add_record(&channels[0], frame, start, index, record)
                })
            }
            Partitioner::Hash(key) => for_each(records, |index, record| {
                let channel = target(key.hash(index, record)?, count);
                state.append(channels, channel, index, record, &append)
            }),
            Partitioner::Rebalance => for_each(records, |index, record| {
                let channel = state.next;
                state.next = if channel + 1 == count { 0 } else { channel + 1 };
                state.append(channels, channel, index, record, &append)
            }),
            Partitioner::Broadcast => for_each(records, |index, record| {
                let mut encoded = std::mem::take(&mut state.scratch);
                encoded.clear();
                append(&mut encoded, index, record)?;
                for (channel, output) in channels.iter().enumerate() {
                    let frame = state.open(channel);
                    let start = frame.body.len();
                    frame.body.extend_from_slice(&encoded);
                    add_record(output, frame, start, index, record)?;
                }
                state.scratch = encoded;
                Ok(())
            }),
        }
    }

    /// Encodes pairs, of which none is made where the key is the first of them.
    fn encode_paired(&self, state: &mut State, py: Python<'_>, paired: &Paired) -> PyResult<()> {
        let by_first = Partitioner::Hash(Key::Record);
        let partitioner = match &self.partitioner {
            Partitioner::Hash(Key::Item(0)) => &by_first,
            Partitioner::Hash(_) => {
                return self.encode(state, &paired.to_list(py)?, &self.partitioner, append);
            }
            other => other,
        };
        let beside = paired.encoded(py)?;
        self.encode(
            state,
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

    fn encode_columns(&self, state: &mut State, batch: &RecordBatch) -> PyResult<()> {
        let channels = &self.channels;
        let count = channels.len();
        let is_new = state.is_new(batch);
        match &self.partitioner {
            Partitioner::Single | Partitioner::Rebalance if is_new && batch.num_rows() == 0 => {
                (0..count).try_for_each(|channel| state.tell_schema(channels, channel, batch))
            }
            Partitioner::Single => state.append_columns(channels, 0, batch),
            Partitioner::Hash(_) => {
                let mut cut = state.rows.take().ok_or_else(|| {
                    KeyExtractError::new_err(
                        "rows of columns are no keys, expected the name of a column\n\nhint: name \
                         it, as in key_by(\"word\")",
                    )
                })?;
                let most = piece_rows(batch, PIECE_BYTES);
                let parts = cut.split(batch, count).map_err(|error| no_key(&error));
                let appended = parts.and_then(|parts| {
                    let mut parts = parts.iter().enumerate();
                    parts.try_for_each(|(channel, rows)| match rows.is_empty() {
                        true if is_new => state.tell_schema(channels, channel, batch),
                        true => Ok(()),
                        false => state.append_rows(channels, channel, batch, rows, most),
                    })
                });
                state.rows = Some(cut);
                appended
            }
            Partitioner::Rebalance => {
                for piece in pieces(batch, PIECE_BYTES) {
                    let channel = state.next;
                    state.next = if channel + 1 == count { 0 } else { channel + 1 };
                    state.append_columns(channels, channel, &piece)?;
                }
                Ok(())
            }
            Partitioner::Broadcast => {
                for piece in pieces(batch, PIECE_BYTES) {
                    // All channels have had the same, so that one encoder speaks for all.
                    let mut message = std::mem::take(&mut state.scratch);
                    message.clear();
                    state.encoders[0]
                        .append(&piece, &mut message)
                        .map_err(|error| no_columns(&error))?;
                    for (channel, output) in channels.iter().enumerate() {
                        let frame = state.open_columns(channel);
                        frame.body.extend_from_slice(&message);
                        add_rows(output, frame, piece.num_rows());
                    }
                    state.scratch = message;
                }
                Ok(())
            }
        }
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

struct State {
    /// Per channel the records that were encoded and not pushed.
    frames: Vec<OpenFrame>,
    /// The channels with something in `frames`.
    held: Vec<usize>,
    /// The channel of the last record.
    last: usize,
    /// The channel of the next record, for rebalance.
    next: usize,
    /// One encoded record, or batch of columns, for broadcast.
    scratch: Vec<u8>,
    /// Per channel the stream of columns.
    encoders: Vec<Encoder>,
    /// Cuts columns by their key, for hash.
    rows: Option<oka_columnar::Partitioner>,
    /// Of the last columns.
    schema: Option<SchemaRef>,
    /// Whether frames may be marked as such with columns.
    has_columns: bool,
}

impl State {
    #[inline]
    fn open(&mut self, channel: usize) -> &mut OpenFrame {
        let frame = &mut self.frames[channel];
        if frame.is_empty() {
            self.held.push(channel);
        }
        frame
    }

    #[inline]
    fn append(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        index: usize,
        record: &Bound<'_, PyAny>,
        append: impl Fn(&mut Vec<u8>, usize, &Bound<'_, PyAny>) -> PyResult<usize>,
    ) -> PyResult<()> {
        self.last = channel;
        let frame = self.open(channel);
        let start = append(&mut frame.body, index, record)?;
        add_record(&channels[channel], frame, start, index, record)
    }

    /// Between two emissions all frames are empty, and may change their encoding.
    #[inline]
    fn begin_records(&mut self) {
        if std::mem::take(&mut self.has_columns) {
            for frame in &mut self.frames {
                frame.encoding = Encoding::Msgpack;
            }
        }
    }

    fn open_columns(&mut self, channel: usize) -> &mut OpenFrame {
        self.has_columns = true;
        let frame = self.open(channel);
        frame.encoding = Encoding::Arrow;
        frame
    }

    fn append_columns(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
    ) -> PyResult<()> {
        for piece in pieces(batch, PIECE_BYTES) {
            self.append_piece(channels, channel, &piece, None)?;
        }
        Ok(())
    }

    /// These rows of the batch, at most so many in a message.
    fn append_rows(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: &[u32],
        most: usize,
    ) -> PyResult<()> {
        if rows.len() == batch.num_rows() {
            return self.append_columns(channels, channel, batch);
        }
        for piece in rows.chunks(most) {
            self.append_piece(channels, channel, batch, Some(piece))?;
        }
        Ok(())
    }

    fn append_piece(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
    ) -> PyResult<()> {
        self.last = channel;
        self.write(channels, channel, batch, rows)
    }

    /// Whether the columns before had another schema.
    fn is_new(&mut self, batch: &RecordBatch) -> bool {
        let schema = batch.schema_ref();
        let is_new = self.schema.as_ref() != Some(schema);
        if is_new {
            self.schema = Some(Arc::clone(schema));
        }
        is_new
    }

    /// Tells what columns there are where no row goes: an operator of two streams makes nulls of
    /// them.
    fn tell_schema(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
    ) -> PyResult<()> {
        self.write(channels, channel, batch, Some(&[]))
    }

    fn write(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
    ) -> PyResult<()> {
        self.open_columns(channel);
        let frame = &mut self.frames[channel];
        self.encoders[channel]
            .append_rows(batch, rows, &mut frame.body)
            .map_err(|error| no_columns(&error))?;
        let count = rows.map_or(batch.num_rows(), <[u32]>::len);
        add_rows(&channels[channel], frame, count);
        Ok(())
    }

    /// Pushes all frames; whether a channel is over its limit now.
    #[inline]
    fn push(&mut self, channels: &[OutputChannel]) -> bool {
        let mut blocked = false;
        for channel in self.held.drain(..) {
            let frame = &mut self.frames[channel];
            if !frame.is_empty() {
                channels[channel].push(frame);
            }
            blocked |= !channels[channel].is_writable();
        }
        blocked
    }
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

/// Counts the record that was appended from `start` on, and sends the frame off when that made it
/// full.
#[inline]
fn add_record(
    channel: &OutputChannel,
    frame: &mut OpenFrame,
    start: usize,
    index: usize,
    record: &Bound<'_, PyAny>,
) -> PyResult<()> {
    frame.records += 1;
    if frame.is_full() {
        if frame.body_bytes() > channel.max_frame_bytes() {
            make_room(channel, frame, start, index, record)?;
        }
        channel.push(frame);
    }
    Ok(())
}

/// Sends off what is in the frame before its last record, which is too large together with it; or
/// takes that out and refuses it where it is too large by itself.
#[cold]
fn make_room(
    channel: &OutputChannel,
    frame: &mut OpenFrame,
    start: usize,
    index: usize,
    record: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let last = frame.body.split_off(start);
    frame.records -= 1;
    let (bytes, limit) = (last.len(), channel.max_frame_bytes());
    if bytes > limit {
        return Err(refusal(
            index,
            record,
            Refused::Oversized { bytes, limit }.into(),
        ));
    }
    channel.push(frame);
    frame.body.extend(last);
    frame.records = 1;
    Ok(())
}

/// Counts the rows that were just appended, and sends the frame off when they made it full.
fn add_rows(channel: &OutputChannel, frame: &mut OpenFrame, rows: usize) {
    frame.records += rows as u32;
    if frame.is_full() {
        channel.push(frame);
    }
}

#[cold]
fn no_batch(py: Python<'_>, error: PyErr) -> PyErr {
    let raised = EncodeError::new_err(error.value(py).to_string());
    raised.set_cause(py, Some(error));
    raised
}

#[cold]
fn no_columns(error: &oka_columnar::EncodeError) -> PyErr {
    EncodeError::new_err(format!(
        "{error}\n\nhint: cast the column or take it apart in map_batches first"
    ))
}

#[cold]
fn no_key(error: &PartitionError) -> PyErr {
    let hint = match error {
        PartitionError::Column(_) => "key_by takes the name or the index of a column",
        _ => "add a column to key by, or cast this one, in map_batches first",
    };
    KeyExtractError::new_err(format!("{error}\n\nhint: {hint}"))
}

#[cold]
#[allow(clippy::boxed_local, reason = "boxed where it comes from")]
fn refusal(index: usize, record: &Bound<'_, PyAny>, refused: Box<Refused>) -> PyErr {
    encode::refusal(index, record, *refused)
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

/// Larger batches of columns are cut, so that frames stay in the processor's cache and the receiver
/// works while the rest is on its way.
const PIECE_BYTES: usize = 128 * 1024;

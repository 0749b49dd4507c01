//! What a gate has encoded and not pushed: an open frame for each channel.

use arrow_schema::SchemaRef;
use oka_codec::encode::{self, Refusal};
use oka_columnar::Encoder;
use oka_transport::{Encoding, OpenFrame, OutputChannel};
use pyo3::prelude::*;

/// The open frames of all channels, and whose turn it is.
pub(super) struct OpenFrames {
    /// Per channel the records that were encoded and not pushed.
    pub(super) frames: Vec<OpenFrame>,
    /// The channels with something in `frames`.
    pub(super) held: Vec<usize>,
    /// The channel of the last record.
    pub(super) last: usize,
    /// The channel of the next record, for rebalance.
    next: usize,
    /// One encoded record, or batch of columns, for broadcast.
    pub(super) scratch: Vec<u8>,
    /// Per channel the stream of columns.
    pub(super) encoders: Vec<Encoder>,
    /// Cuts columns by their key, for hash.
    pub(super) rows: Option<oka_columnar::Partitioner>,
    /// Of the last columns.
    pub(super) schema: Option<SchemaRef>,
    /// Whether frames may be marked as such with columns.
    pub(super) has_columns: bool,
}

impl OpenFrames {
    pub(super) fn new(channels: usize, rows: Option<oka_columnar::Partitioner>) -> Self {
        Self {
            frames: (0..channels).map(|_| OpenFrame::new()).collect(),
            held: Vec::with_capacity(channels),
            last: 0,
            next: 0,
            scratch: Vec::new(),
            encoders: (0..channels).map(|_| Encoder::default()).collect(),
            rows,
            schema: None,
            has_columns: false,
        }
    }

    /// The channel whose turn it is, for rebalance.
    #[inline]
    pub(super) fn take_turn(&mut self) -> usize {
        let channel = self.next;
        let after = channel + 1;
        self.next = if after == self.frames.len() { 0 } else { after };
        channel
    }

    #[inline]
    pub(super) fn open(&mut self, channel: usize) -> &mut OpenFrame {
        let frame = &mut self.frames[channel];
        if frame.is_empty() {
            self.held.push(channel);
        }
        frame
    }

    #[inline]
    pub(super) fn append(
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
        add_record(&channels[channel], frame, start, |refused| {
            refusal(index, record, refused.into())
        })
    }

    /// Between two emissions all frames are empty, and may change their encoding.
    #[inline]
    pub(super) fn begin_records(&mut self) {
        if std::mem::take(&mut self.has_columns) {
            for frame in &mut self.frames {
                frame.encoding = Encoding::Msgpack;
            }
        }
    }

    /// Pushes all frames; whether a channel is over its limit now.
    #[inline]
    pub(super) fn push(&mut self, channels: &[OutputChannel]) -> bool {
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

/// Counts the record that was appended from `start` on, and sends the frame off when that made it
/// full; `refuse` makes the error for one that is too large.
#[inline]
pub(super) fn add_record(
    channel: &OutputChannel,
    frame: &mut OpenFrame,
    start: usize,
    refuse: impl FnOnce(Refusal) -> PyErr,
) -> PyResult<()> {
    frame.records += 1;
    if frame.is_full() {
        if frame.body_bytes() > channel.max_frame_bytes() {
            make_room(channel, frame, start).map_err(refuse)?;
        }
        channel.push(frame);
    }
    Ok(())
}

/// Sends off what is in the frame before its last record, which is too large together with it; or
/// takes that out and refuses it where it is too large by itself.
#[cold]
fn make_room(channel: &OutputChannel, frame: &mut OpenFrame, start: usize) -> Result<(), Refusal> {
    let last = frame.body.split_off(start);
    frame.records -= 1;
    let (bytes, limit) = (last.len(), channel.max_frame_bytes());
    if bytes > limit {
        return Err(Refusal::Oversized { bytes, limit });
    }
    channel.push(frame);
    frame.body.extend(last);
    frame.records = 1;
    Ok(())
}

/// Counts the rows that were just appended, and sends the frame off when they made it full.
pub(super) fn add_rows(channel: &OutputChannel, frame: &mut OpenFrame, rows: usize) {
    frame.records += rows as u32;
    if frame.is_full() {
        channel.push(frame);
    }
}

#[cold]
#[allow(clippy::boxed_local, reason = "boxed where it comes from")]
pub(super) fn refusal(index: usize, record: &Bound<'_, PyAny>, refused: Box<Refusal>) -> PyErr {
    encode::refusal(index, record, *refused)
}

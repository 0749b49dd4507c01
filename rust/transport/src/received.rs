//! A received batch of records, still encoded.

use bytes::Bytes;
use oka_protocol::{Control, Encoding, FrameHeader, FrameKind, Frames, HEADER_BYTES};

/// One batch of records that arrived, still encoded: one or more whole frames.
///
/// Small frames of several channels come together in one batch, those of each channel in order.
///
/// Holds its share of the channel's window until it is dropped and
/// [`Network::receive`](crate::Network::receive) is called again. Over shared memory it is a view of
/// what the sender wrote: while it lives, the channel goes no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedFrames {
    /// Id of the channel; of the first, if several have come together.
    pub channel: u32,
    /// The input of the task that the channel belongs to, as all that have come together do.
    pub input: usize,
    /// Number of records.
    pub records: usize,
    /// How the records are encoded.
    pub encoding: Encoding,
    /// Emission stamps (nanoseconds) of the latency markers that travelled behind these records.
    pub markers: Vec<u64>,
    /// Whole frames, of which those of kind `Data` hold the records.
    frames: Bytes,
    /// Frames of other channels.
    more: Vec<Bytes>,
    /// Bytes of the encoded records.
    size: usize,
}

impl ReceivedFrames {
    pub(crate) fn new(
        channel: u32,
        encoding: Encoding,
        records: usize,
        markers: Vec<u64>,
        frames: Bytes,
        size: usize,
    ) -> Self {
        Self {
            channel,
            input: 0,
            records,
            encoding,
            markers,
            frames,
            more: Vec::new(),
            size,
        }
    }

    /// Takes over what comes behind it, in the same encoding; from another channel mostly.
    pub fn absorb(&mut self, other: Self) {
        self.records += other.records;
        self.size += other.size;
        self.markers.extend(other.markers);
        self.more.push(other.frames);
        self.more.extend(other.more);
    }

    /// What would be received if `records` encoded records came in one frame.
    pub fn of_body(encoding: Encoding, records: usize, body: &[u8]) -> Self {
        let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
        frame.resize(HEADER_BYTES, 0);
        frame.extend_from_slice(body);
        Self::of_frame(encoding, records, frame)
    }

    /// The same, of records behind [`HEADER_BYTES`] bytes, which become the header: nothing is copied.
    pub fn of_frame(encoding: Encoding, records: usize, mut frame: Vec<u8>) -> Self {
        let size = frame.len() - HEADER_BYTES;
        let header = FrameHeader {
            encoding,
            count: records as u32,
            length: size as u32,
            ..FrameHeader::new(FrameKind::Data, 0, 0, 1)
        };
        frame[..HEADER_BYTES].copy_from_slice(&header.encode());
        Self::new(0, encoding, records, Vec::new(), frame.into(), size)
    }

    /// The frames in order: how many records each holds, and their encodings back to back.
    pub fn bodies(&self) -> impl Iterator<Item = (usize, &[u8])> + Clone {
        self.frames()
            .map(|(header, body)| (header.count as usize, body))
    }

    /// As [`ReceivedFrames::bodies`], for who keeps them: they hold the channel's window, too.
    pub fn shared_bodies(&self) -> impl Iterator<Item = (usize, Bytes)> {
        self.regions().flat_map(|region| {
            data_frames(region)
                .map(|(header, body)| (header.count as usize, region.slice_ref(body)))
        })
    }

    /// The frames in order: what their headers say, and their records.
    pub fn frames(&self) -> impl Iterator<Item = (FrameHeader, &[u8])> + Clone {
        self.regions().flat_map(|region| data_frames(region))
    }

    fn regions(&self) -> impl Iterator<Item = &Bytes> + Clone {
        std::iter::once(&self.frames).chain(&self.more)
    }

    /// Bytes of the encoded records.
    pub fn size(&self) -> usize {
        self.size
    }
}

fn data_frames(frames: &[u8]) -> impl Iterator<Item = (FrameHeader, &[u8])> + Clone {
    Frames::new(frames)
        .map_while(Result::ok)
        .filter(|(header, _)| header.kind == FrameKind::Data)
}

/// What a task takes from its inputs, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// The next batch of records.
    Batch(ReceivedFrames),
    /// What all inputs have come to, between two batches: a watermark that has risen, idleness of all,
    /// a barrier.
    Control(Control),
    /// Nothing has arrived in time; more may come.
    Empty,
    /// Nothing has arrived, and the task was woken to look at something else; more may come.
    Woken,
    /// Every input ended that is no side input, and everything of them was consumed; or every input
    /// that is not paused.
    Ended,
}

//! The receiving end of a channel in shared memory.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use oka_protocol::{
    Control, Encoding, FRAME_BYTES, FrameHeader, FrameKind, HEADER_BYTES, NextFrame,
    StreamReceiver, Trailer, decode_markers,
};
use oka_ring::{Doorbell, Reader, Ring, SharedBell, SharedRing, Storage};

use crate::{ChannelLost, InputStatistics, LostReason, ReceivedFrames};

/// The receiving end of a channel in shared memory. It belongs to the task that reads.
///
/// Gives out one batch at a time: the next comes when the one before was dropped, and with it its
/// place in the ring given back.
pub(crate) struct RingInput {
    channel: u32,
    peer: String,
    reader: Reader<SharedRing>,
    writer_bell: Arc<Doorbell<SharedBell>>,
    writer_gone: Arc<AtomicBool>,
    stream: StreamReceiver,
    /// Markers that arrived before their records.
    markers: Vec<u64>,
    /// The controls behind what was taken.
    trailer: Trailer,
    /// A frame larger than the ring, as far as it has come.
    large: Option<LargeFrame>,
    /// How many bytes are to be there to take at most.
    window: u64,
    /// Bytes of the largest frame so far.
    largest: usize,
    records: u64,
    bytes: u64,
    frames: u64,
}

struct LargeFrame {
    header: FrameHeader,
    /// Bytes of header, body and padding.
    total: usize,
    /// What has come of them.
    bytes: Vec<u8>,
}

/// What the data frames of a batch have come to.
#[derive(Default)]
struct BatchShape {
    encoding: Option<Encoding>,
    /// Bytes of the frames of other channels that these will join.
    taken_bytes: usize,
    records: usize,
    bytes: usize,
    frames: u64,
    /// Bytes of the largest frame.
    largest: usize,
}

impl BatchShape {
    fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Whether the frame may join: one encoding, and no more in all than suits it.
    ///
    /// Of columns nothing is made row by row, so that a turn of the task's loop costs as much as many
    /// rows: up to half a ring of them are taken, while the writer fills the other half.
    fn takes(&self, header: &FrameHeader, capacity: usize) -> bool {
        self.encoding.is_none_or(|encoding| {
            let together = self.taken_bytes + self.bytes + header.length as usize;
            let most = match encoding {
                Encoding::Msgpack => FRAME_BYTES,
                Encoding::Arrow => FRAME_BYTES.max(capacity / 2),
            };
            encoding == header.encoding && together <= most
        })
    }

    fn add(&mut self, header: &FrameHeader) {
        self.encoding = Some(header.encoding);
        self.records += header.count as usize;
        self.bytes += header.length as usize;
        self.frames += 1;
        self.largest = self.largest.max(header.length as usize);
    }
}

/// The place of a batch in the ring, given back on drop.
struct Region {
    ring: Arc<Ring<SharedRing>>,
    start: *const u8,
    length: usize,
    /// The reader's position behind it.
    end: u64,
    writer_bell: Arc<Doorbell<SharedBell>>,
}

// SAFETY: the memory is mapped while the ring lives, and nobody writes the place until it is given
// back.
unsafe impl Send for Region {}
unsafe impl Sync for Region {}

impl AsRef<[u8]> for Region {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: nobody has a view any more, and no batch follows before this one is given back.
        if unsafe { Reader::consume(&self.ring, self.end) } {
            self.writer_bell.ring();
        }
    }
}

impl RingInput {
    /// The only reader of this ring.
    pub(crate) fn new(
        channel: u32,
        peer: String,
        ring: SharedRing,
        writer_bell: Arc<Doorbell<SharedBell>>,
        writer_gone: Arc<AtomicBool>,
        attempt: u8,
        max_frame_bytes: usize,
    ) -> Self {
        // SAFETY: the peer made it for this channel, which connects once, and only writes.
        let reader = unsafe { Reader::new(Arc::new(Ring::new(ring))) };
        let capacity = reader.ring().storage().capacity();
        Self {
            channel,
            peer,
            reader,
            writer_bell,
            writer_gone,
            stream: StreamReceiver::new(channel, attempt, capacity, max_frame_bytes),
            markers: Vec::new(),
            trailer: Trailer::default(),
            large: None,
            window: u64::MAX,
            largest: 0,
            records: 0,
            bytes: 0,
            frames: 0,
        }
    }

    /// The frames that have arrived, as one batch; an error if the writer broke off.
    pub(crate) fn take(&mut self) -> Result<Option<ReceivedFrames>, ChannelLost> {
        // Looked at first: what a writer wrote before it went is there when it is gone.
        let writer_gone = self.writer_gone.load(Ordering::Acquire);
        if self.is_ended() || !self.reader.is_released() {
            return Ok(None);
        }
        let taken = match self.large.take() {
            Some(large) => self.take_part(large)?,
            None => self.take_frames(BatchShape::default())?,
        };
        if taken.is_none() && writer_gone && !self.is_ended() {
            return Err(self.broken(LostReason::Closed));
        }
        Ok(taken)
    }

    /// As `take`, but only frames that may join a batch of this encoding with so much room left.
    pub(crate) fn take_small(
        &mut self,
        encoding: Encoding,
        room: usize,
    ) -> Result<Option<ReceivedFrames>, ChannelLost> {
        let joins = encoding == Encoding::Msgpack && self.large.is_none();
        if !joins || self.is_ended() || !self.reader.is_released() {
            return Ok(None);
        }
        self.take_frames(BatchShape {
            encoding: Some(encoding),
            taken_bytes: FRAME_BYTES - room,
            ..BatchShape::default()
        })
    }

    /// The controls behind what was taken last.
    pub(crate) fn take_trailer(&mut self) -> Trailer {
        std::mem::take(&mut self.trailer)
    }

    /// Takes the end if nothing is left to consume before it; whether it did.
    pub(crate) fn take_end(&mut self) -> Result<bool, ChannelLost> {
        if self.is_ended() || self.large.is_some() || !self.reader.is_released() {
            return Ok(self.is_ended() && self.reader.is_released());
        }
        let available = self.reader.available();
        let available = available.map_err(|error| self.lost(&error.to_string()))?;
        let next = self.stream.next(available);
        if let NextFrame::Whole { header, .. } =
            next.map_err(|error| self.lost(&error.to_string()))?
            && header.kind == FrameKind::End
        {
            self.take_frames(BatchShape::default())?;
        }
        Ok(self.is_ended())
    }

    /// Bytes of records that were taken.
    pub(crate) fn consumed_bytes(&self) -> u64 {
        self.bytes
    }

    /// Has the writer wait while more than so many bytes are here.
    pub(crate) fn set_window(&mut self, bytes: u64) {
        self.window = bytes;
        self.tell_window();
    }

    /// It may always write one frame while another is at work: else either side would wait for the
    /// other.
    fn tell_window(&self) {
        let one = (self.largest + self.largest / 4 + BESIDE_RECORDS) as u64;
        self.reader.set_window(self.window.max(one));
    }

    /// Whether nothing is there to take until the sender rings again.
    pub(crate) fn is_idle(&self) -> bool {
        self.reader.is_released() && self.reader.available().is_ok_and(<[u8]>::is_empty)
    }

    pub(crate) fn channel(&self) -> u32 {
        self.channel
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.stream.is_ended()
    }

    pub(crate) fn statistics(&self) -> InputStatistics {
        InputStatistics {
            channel: self.channel,
            records: self.records,
            bytes: self.bytes,
            frames: self.frames,
            backlog_bytes: self.reader.ring().backlog(),
        }
    }

    fn take_frames(
        &mut self,
        mut batch: BatchShape,
    ) -> Result<Option<ReceivedFrames>, ChannelLost> {
        let available = self.reader.available();
        let available = available.map_err(|error| self.lost(&error.to_string()))?;
        let start = available.as_ptr();
        let capacity = self.reader.ring().storage().capacity();
        let mut markers = Vec::new();
        let mut next_markers = std::mem::take(&mut self.markers);
        let mut stream = self.stream.clone();
        let (mut rest, mut large) = (available, None);
        while !stream.is_ended() && self.trailer.is_open() {
            let next = stream.next(rest);
            let (header, total) = match next.map_err(|error| self.lost(&error.to_string()))? {
                NextFrame::Unfinished => break,
                NextFrame::Large { header, bytes } => {
                    if batch.is_empty() && batch.takes(&header, capacity) {
                        stream.accept(&header);
                        large = Some((header, bytes));
                    }
                    break;
                }
                NextFrame::Whole { header, bytes } => (header, bytes),
            };
            match header.kind {
                FrameKind::Data if !batch.takes(&header, capacity) => break,
                FrameKind::Data => {
                    self.trailer.on_records();
                    batch.add(&header);
                    markers.append(&mut next_markers);
                }
                FrameKind::Markers => {
                    let body = &rest[HEADER_BYTES..HEADER_BYTES + header.length as usize];
                    let malformed = || self.lost("its markers are malformed");
                    let stamps = decode_markers(header.count, body).ok_or_else(malformed)?;
                    next_markers.extend(stamps);
                }
                FrameKind::Watermark | FrameKind::Barrier => {
                    let body = &rest[HEADER_BYTES..HEADER_BYTES + header.length as usize];
                    let malformed = || self.lost("its controls are malformed");
                    let control = Control::decode(&header, body).ok_or_else(malformed)?;
                    self.trailer.add(control);
                }
                FrameKind::End => {}
                _ => return Err(self.lost("its frames are of a kind that no ring carries")),
            }
            stream.accept(&header);
            rest = &rest[total..];
        }
        let length = available.len() - rest.len();
        self.markers = next_markers;
        self.stream = stream;
        self.reader.take(length);
        if batch.is_empty() {
            if length > 0 {
                self.give_back();
            }
            return large.map_or(Ok(None), |(header, bytes)| {
                self.take_part(LargeFrame {
                    header,
                    total: bytes,
                    bytes: Vec::new(),
                })
            });
        }
        self.count(&batch);
        let region = Bytes::from_owner(Region {
            ring: Arc::clone(self.reader.ring()),
            start,
            length,
            end: self.reader.position(),
            writer_bell: Arc::clone(&self.writer_bell),
        });
        let encoding = batch.encoding.unwrap_or_default();
        let received = ReceivedFrames::new(
            self.channel,
            encoding,
            batch.records,
            markers,
            region,
            batch.bytes,
        );
        Ok(Some(received))
    }

    /// Copies what has arrived of a large frame, so that its writer can go on.
    fn take_part(&mut self, mut large: LargeFrame) -> Result<Option<ReceivedFrames>, ChannelLost> {
        let available = self.reader.available();
        let available = available.map_err(|error| self.lost(&error.to_string()))?;
        let length = available.len().min(large.total - large.bytes.len());
        large.bytes.extend_from_slice(&available[..length]);
        self.reader.take(length);
        self.give_back();
        if large.bytes.len() < large.total {
            self.large = Some(large);
            return Ok(None);
        }
        let LargeFrame { header, bytes, .. } = large;
        let mut batch = BatchShape::default();
        batch.add(&header);
        self.count(&batch);
        let markers = std::mem::take(&mut self.markers);
        let (encoding, records) = (header.encoding, batch.records);
        let received = ReceivedFrames::new(
            self.channel,
            encoding,
            records,
            markers,
            bytes.into(),
            batch.bytes,
        );
        Ok(Some(received))
    }

    /// Gives everything that was taken back to the writer; no batch is out.
    fn give_back(&self) {
        // SAFETY: what was taken was copied or is not needed, and no batch is out.
        let waits = unsafe { Reader::consume(self.reader.ring(), self.reader.position()) };
        if waits {
            self.writer_bell.ring();
        }
    }

    fn count(&mut self, batch: &BatchShape) {
        self.records += batch.records as u64;
        self.bytes += batch.bytes as u64;
        self.frames += batch.frames;
        if batch.largest > self.largest {
            self.largest = batch.largest;
            self.tell_window();
        }
    }

    #[cold]
    fn lost(&self, reason: &str) -> ChannelLost {
        self.broken(LostReason::Malformed(reason.to_owned()))
    }

    fn broken(&self, reason: LostReason) -> ChannelLost {
        ChannelLost {
            channel: self.channel,
            peer: self.peer.clone(),
            reason,
        }
    }
}

/// About what a frame has beside its records: headers, markers, controls.
const BESIDE_RECORDS: usize = 4 * 1024;

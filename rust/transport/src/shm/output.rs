//! The sending end of a channel in shared memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use oka_protocol::{
    Control, FrameHeader, FrameKind, HEADER_BYTES, MARKER_BYTES, StreamSender, encode_markers,
    padded,
};
use oka_ring::{Doorbell, Ring, SharedBell, SharedRing, Storage, Writer};

use super::Sleeper;
use crate::health::{Failure, Health};
use crate::network::NetworkState;
use crate::outbox::UNPOISONED;
use crate::{
    ChannelLost, ChannelSpec, EmitError, FinishError, LostReason, OpenFrame, OutputStatistics,
};

/// The sending end of a channel in shared memory.
///
/// Frames go into the ring as they are pushed. What the ring has no room for spills over into a
/// queue, which the writer empties while it waits: there is nobody else to do it.
pub(crate) struct RingOutput {
    pub(crate) id: u32,
    pub(crate) peer: String,
    state: Mutex<OutputState>,
    /// Whether something waits in the queue, or was refused, or the reader has as much as it would.
    stuck: AtomicBool,
    pub(crate) max_frame_bytes: usize,
    attempt: u8,
    reader_bell: Doorbell<SharedBell>,
    /// What tells the reader which channel has something.
    mark: usize,
    /// What the writer sleeps on; all channels of a task share it.
    sleeper: Arc<Sleeper>,
    health: Arc<Health>,
}

struct OutputState {
    writer: Writer<SharedRing>,
    sender: StreamSender,
    /// The frames that wait: those that found no room.
    waiting: VecDeque<Vec<u8>>,
    refusal: Option<EmitError>,
    records: u64,
    bytes: u64,
    frames: u64,
}

impl RingOutput {
    /// The only writer of this ring.
    pub(crate) fn new(
        spec: ChannelSpec,
        ring: SharedRing,
        reader_bell: SharedBell,
        mark: usize,
        network: &NetworkState,
    ) -> Self {
        // SAFETY: it was made for this channel, which connects once; the peer only reads.
        let writer = unsafe { Writer::new(Arc::new(Ring::new(ring))) };
        let capacity = writer.ring().storage().capacity();
        Self {
            id: spec.id,
            peer: spec.peer,
            state: Mutex::new(OutputState {
                writer,
                sender: StreamSender::new(capacity),
                waiting: VecDeque::new(),
                refusal: None,
                records: 0,
                bytes: 0,
                frames: 0,
            }),
            stuck: AtomicBool::new(false),
            max_frame_bytes: network.config.max_frame_bytes.min(u32::MAX as usize),
            attempt: network.config.attempt,
            reader_bell: Doorbell::new(reader_bell),
            mark,
            sleeper: Arc::clone(&network.emitting),
            health: Arc::clone(&network.health),
        }
    }

    /// Takes what is in the frame, which is empty afterwards.
    ///
    /// Once the network has failed nothing is written any more: the process may be a forked copy of
    /// the one whose ring this is.
    pub(crate) fn push(&self, frame: &mut OpenFrame) {
        if frame.is_empty() || self.health.is_failed() {
            return frame.clear();
        }
        let mut state = self.lock();
        if let Some(refusal) = self.refusal(&state, frame) {
            state.refusal.get_or_insert(refusal);
            self.stuck.store(true, Ordering::Relaxed);
        } else {
            self.write(&mut state, frame);
        }
        frame.clear();
    }

    /// Takes a control behind everything that was pushed.
    pub(crate) fn send_control(&self, control: Control) {
        if self.health.is_failed() {
            return;
        }
        let mut state = self.lock();
        if state.sender.is_ended() {
            state.refusal.get_or_insert(EmitError::Finished(self.id));
            return self.stuck.store(true, Ordering::Relaxed);
        }
        let sequence = state.sender.next(control.kind());
        let frame = control.encode(self.id, self.attempt, sequence);
        let (header, body) = frame.split_at(HEADER_BYTES);
        state.put(header, body);
        self.publish(&mut state);
    }

    pub(crate) fn is_writable(&self) -> bool {
        !self.stuck.load(Ordering::Relaxed) && !self.health.is_failed()
    }

    /// Notices that the peer is gone; what it should have consumed is lost.
    pub(crate) fn on_disconnected(&self) {
        let mut state = self.lock();
        if !state.is_drained() {
            self.health.fail(Failure::Lost(ChannelLost {
                channel: self.id,
                peer: self.peer.clone(),
                reason: LostReason::Closed,
            }));
        }
    }

    pub(crate) fn statistics(&self) -> OutputStatistics {
        let mut state = self.lock();
        OutputStatistics {
            channel: self.id,
            records: state.records,
            bytes: state.bytes,
            frames: state.frames,
            backlog_bytes: state.sender.waiting_bytes() as u64,
            credit_bytes: state.writer.free(usize::MAX) as u64,
            ..OutputStatistics::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock().expect(UNPOISONED)
    }

    fn refusal(&self, state: &OutputState, frame: &OpenFrame) -> Option<EmitError> {
        if frame.body_bytes() > self.max_frame_bytes {
            return Some(EmitError::Oversized {
                channel: self.id,
                bytes: frame.body_bytes(),
                limit: self.max_frame_bytes,
            });
        }
        state
            .sender
            .is_ended()
            .then_some(EmitError::Finished(self.id))
    }

    fn write(&self, state: &mut OutputState, frame: &OpenFrame) {
        let body = frame.records_bytes();
        state.records += u64::from(frame.records);
        state.bytes += body.len() as u64;
        state.frames += 1;
        if !frame.markers.is_empty() {
            let mut stamps = Vec::with_capacity(frame.markers.len() * MARKER_BYTES);
            encode_markers(&frame.markers, &mut stamps);
            let mut header = self.header(state, FrameKind::Markers, stamps.len());
            header.count = frame.markers.len() as u32;
            state.put(&header.encode(), &stamps);
        }
        let mut header = self.header(state, FrameKind::Data, body.len());
        header.encoding = frame.encoding;
        header.count = frame.records;
        state.put(&header.encode(), body);
        self.publish(state);
    }

    fn end(&self, state: &mut OutputState) {
        if !state.sender.is_ended() {
            let header = self.header(state, FrameKind::End, 0);
            state.put(&header.encode(), &[]);
            self.publish(state);
        }
    }

    /// Moves on what waits in the queue, as far as there is room; asks to be woken for the rest.
    fn pump_and_ask(&self, state: &mut OutputState) {
        let mut written = state.pump();
        if !state.sender.is_clear() {
            state.ask_for_room();
            written |= state.pump();
        }
        if written {
            self.publish(state);
        }
    }

    fn publish(&self, state: &mut OutputState) {
        state.writer.publish();
        self.reader_bell.ring_with(self.mark);
        self.set_stuck(state);
    }

    /// Whether more may be written.
    fn set_stuck(&self, state: &mut OutputState) -> bool {
        let stuck = !state.sender.is_clear() || state.refusal.is_some() || state.writer.is_over();
        self.stuck.store(stuck, Ordering::Relaxed);
        stuck
    }

    fn header(&self, state: &mut OutputState, kind: FrameKind, length: usize) -> FrameHeader {
        FrameHeader {
            length: length as u32,
            ..FrameHeader::new(kind, self.id, self.attempt, state.sender.next(kind))
        }
    }
}

impl OutputState {
    /// Writes a frame, or queues it behind those that wait.
    #[inline]
    fn put(&mut self, header: &[u8], body: &[u8]) {
        let total = padded(HEADER_BYTES + body.len());
        if self.sender.is_clear() && self.writer.free(total) >= total {
            self.writer.write(header);
            self.writer.write(body);
            let padding = total - HEADER_BYTES - body.len();
            self.writer.write(&PADDING[..padding]);
            return;
        }
        let mut message = Vec::with_capacity(total);
        message.extend_from_slice(header);
        message.extend_from_slice(body);
        message.resize(total, 0);
        self.waiting.push_back(message);
        self.sender.wait(total);
        self.pump();
    }

    /// Whether anything was written.
    fn pump(&mut self) -> bool {
        let mut written = false;
        while let (Some(needed), Some(message)) = (self.sender.room_needed(), self.waiting.front())
        {
            if self.writer.free(needed) < needed {
                break;
            }
            let length = self.writer.write(&message[self.sender.written()..]);
            written = true;
            if self.sender.on_written(length) {
                self.waiting.pop_front();
            }
        }
        written
    }

    /// Asks to be woken when a good part of what waits will find room.
    fn ask_for_room(&mut self) {
        self.writer.wake_when_free(self.sender.room_awaited());
    }

    fn is_drained(&mut self) -> bool {
        self.sender.is_ended() && self.sender.is_clear() && self.writer.is_drained()
    }
}

/// Blocks until each of these channels takes records again, and none of them holds up another.
pub(crate) fn wait_rings_writable<'a>(
    rings: impl Iterator<Item = &'a Arc<RingOutput>>,
) -> Result<(), EmitError> {
    let mut waiting: Vec<_> = rings.filter(|ring| !ring.is_writable()).collect();
    let Some(first) = waiting.first() else {
        return Ok(());
    };
    // A forked copy shares the doorbell, and would withdraw what the other process has announced.
    first.health.check()?;
    let sleeper = Arc::clone(&first.sleeper);
    loop {
        let turn = sleeper.announce();
        let mut index = 0;
        while let Some(ring) = waiting.get(index) {
            let mut state = ring.lock();
            if let Some(refusal) = &state.refusal {
                return Err(refusal.clone());
            }
            ring.health.check()?;
            ring.pump_and_ask(&mut state);
            if state.sender.is_clear() && state.writer.is_over() {
                state.writer.wake_when_under();
            }
            if ring.set_stuck(&mut state) {
                index += 1;
            } else {
                drop(state);
                waiting.swap_remove(index);
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        turn.sleep(None);
    }
}

/// Ends these channels, and blocks until all was consumed; gives those that are not by then.
pub(crate) fn finish_rings(
    sleeper: &Sleeper,
    rings: &[&Arc<RingOutput>],
    deadline: Option<Instant>,
) -> Result<Vec<u32>, FinishError> {
    for ring in rings {
        ring.end(&mut ring.lock());
    }
    loop {
        let turn = sleeper.announce();
        let mut open = Vec::new();
        for ring in rings {
            let mut state = ring.lock();
            if let Some(refusal) = &state.refusal {
                return Err(FinishError::Emit(refusal.clone()));
            }
            ring.pump_and_ask(&mut state);
            if state.sender.is_clear() {
                state.writer.wake_when_drained();
            }
            if !state.is_drained() {
                ring.health.check()?;
                open.push(ring.id);
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if open.is_empty() || left == Some(Duration::ZERO) {
            return Ok(open);
        }
        turn.sleep(left);
    }
}

const PADDING: [u8; 8] = [0; 8];

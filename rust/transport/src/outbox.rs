//! The sending end of a channel over a socket, shared by its handles and the I/O thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use oka_protocol::{
    CONTROL_BYTES, ChannelError, Control, Credit, FrameHeader, FrameKind, HEADER_BYTES,
    MARKER_BYTES, Sender, State, encode_markers, padded,
};
use omq_tokio::{Message, Socket};
use tokio::sync::Notify;

use crate::buffers::BufferPool;
use crate::clock::now_ns;
use crate::health::{Failure, Health};
use crate::retained::Retained;
use crate::{
    ChannelLost, ChannelSpec, EmitError, EndpointKind, FinishError, NetworkConfig, OpenFrame,
    OutputStatistics,
};

/// What the handles and the I/O thread share of one output channel.
///
/// Frames are handed to the socket under the lock, by whoever made them ready: the writer, or the
/// I/O thread when a credit arrives. The socket only queues them; credits bound how many.
pub(crate) struct Outbox {
    pub(crate) id: u32,
    pub(crate) peer: String,
    attempt: u8,
    state: Mutex<OutboxState>,
    changed: Condvar,
    backlog: AtomicUsize,
    refused: AtomicBool,
    linger: Duration,
    reconnect_timeout: Duration,
    send_buffer_bytes: usize,
    pub(crate) max_frame_bytes: usize,
    socket: Socket,
    pool: Arc<BufferPool>,
    health: Arc<Health>,
    held: Arc<Notify>,
}

struct OutboxState {
    open: OpenFrame,
    /// Until when the open frame waits for company, in ns of the clock.
    held_until: Option<u64>,
    sealed: VecDeque<OpenFrame>,
    sealed_bytes: usize,
    sender: Sender,
    retained: Retained,
    finishing: bool,
    waiters: usize,
    refusal: Option<EmitError>,
    records: u64,
    bytes: u64,
    frames: u64,
}

impl Outbox {
    pub(crate) fn new(
        spec: &ChannelSpec,
        config: &NetworkConfig,
        clock: u64,
        socket: Socket,
        pool: Arc<BufferPool>,
        health: Arc<Health>,
        held: Arc<Notify>,
    ) -> Self {
        Self {
            id: spec.id,
            peer: spec.peer.clone(),
            attempt: config.attempt,
            state: Mutex::new(OutboxState {
                open: OpenFrame::default(),
                held_until: None,
                sealed: VecDeque::new(),
                sealed_bytes: 0,
                sender: Sender::new(clock),
                retained: Retained::default(),
                finishing: false,
                waiters: 0,
                refusal: None,
                records: 0,
                bytes: 0,
                frames: 0,
            }),
            changed: Condvar::new(),
            backlog: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            linger: config.linger,
            reconnect_timeout: config.reconnect_timeout,
            send_buffer_bytes: config.send_buffer_bytes,
            max_frame_bytes: config.max_frame_bytes.min(u32::MAX as usize),
            socket,
            pool,
            health,
            held,
        }
    }

    /// Takes what is in the frame, which is empty afterwards.
    pub(crate) fn push(&self, frame: &mut OpenFrame) {
        let mut state = self.lock();
        if !self.accept(&mut state, frame) {
            return frame.clear();
        }
        if state.open.is_empty() {
            std::mem::swap(&mut state.open, frame);
        } else if !state.open.append(frame) {
            self.seal(&mut state);
            std::mem::swap(&mut state.open, frame);
        }
        if state.open.is_full() {
            self.seal(&mut state);
        }
        self.flush(&mut state);
    }

    /// Takes a control behind everything that was pushed; a barrier waits for no company.
    pub(crate) fn send_control(&self, control: Control) {
        let mut state = self.lock();
        if !state.open.trailer.is_open() {
            self.seal(&mut state);
        }
        let finished = state.finishing;
        if finished {
            return self.refuse(&mut state, EmitError::Finished(self.id));
        }
        state.open.trailer.add(control);
        if !state.open.trailer.is_open() {
            self.seal(&mut state);
        }
        self.flush(&mut state);
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) <= self.send_buffer_bytes
            && !self.refused.load(Ordering::Relaxed)
            && !self.health.is_failed()
    }

    pub(crate) fn wait_writable(&self) -> Result<(), EmitError> {
        let mut state = self.lock();
        self.check_writable(&state)?;
        if state.backlog() <= self.send_buffer_bytes {
            return Ok(());
        }
        loop {
            state = self.wait_changed(state);
            self.check_writable(&state)?;
            if state.backlog() <= self.send_buffer_bytes / 2 {
                return Ok(());
            }
        }
    }

    /// Takes in a credit and sends what it lets go.
    pub(crate) fn on_credit(&self, credit: Credit) -> Result<(), ChannelError> {
        let mut state = self.lock();
        state.sender.on_credit(credit, now_ns())?;
        self.on_acknowledged(&mut state);
        Ok(())
    }

    /// Takes in what the receiver knows, and sends what it misses and what it lets go.
    pub(crate) fn on_state(&self, report: State) -> Result<(), ChannelError> {
        let now = now_ns();
        let mut state = self.lock();
        if let Some(again) = state.sender.on_state(report, now)? {
            self.submit(Message::from_slice(
                &again.probe.encode(self.id, self.attempt),
            ));
            for message in state.retained.after(again.after) {
                self.submit(Message::from(message.clone()));
            }
        }
        self.on_acknowledged(&mut state);
        self.probe(&mut state, now);
        Ok(())
    }

    /// Asks the receiver if it is time to; gives up on one that has not answered for too long.
    pub(crate) fn tick(&self) {
        let now = now_ns();
        let mut state = self.lock();
        self.probe(&mut state, now);
        // Within a machine the kernel tells when a peer is gone: one that is silent is only stopped.
        if EndpointKind::of(&self.peer) == Ok(EndpointKind::Tcp) {
            let timeout_ns = self.reconnect_timeout.as_nanos() as u64;
            if let Err(error) = state.sender.check_answered(now, timeout_ns) {
                self.health.fail(Failure::Lost(ChannelLost {
                    channel: self.id,
                    peer: self.peer.clone(),
                    reason: error.into(),
                }));
            }
        }
    }

    /// Takes in that the connection is gone.
    pub(crate) fn on_disconnected(&self) {
        self.lock().sender.on_disconnected(now_ns());
    }

    /// Takes in that there is a new connection, and asks what arrived over the old one.
    pub(crate) fn on_reconnected(&self) {
        let now = now_ns();
        let mut state = self.lock();
        state.sender.on_reconnected(now);
        self.probe(&mut state, now);
    }

    /// Sends the open frame if it has waited long enough; until when it waits, if nothing but time
    /// holds it. (A credit that comes sends it, too.)
    pub(crate) fn release(&self) -> Option<Instant> {
        let mut state = self.lock();
        self.flush(&mut state);
        let held = state.held_until?;
        let bytes = state.open.credited_bytes();
        state
            .sender
            .may_send(bytes)
            .then(|| Instant::now() + Duration::from_nanos(held.saturating_sub(now_ns())))
    }

    /// Sends the end behind everything that was checked in.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.finishing = true;
        self.flush(&mut state);
    }

    /// Blocks until everything including the end was consumed; `false` after the deadline.
    pub(crate) fn wait_drained(&self, deadline: Option<Instant>) -> Result<bool, FinishError> {
        let mut state = self.lock();
        loop {
            if let Some(refusal) = &state.refusal {
                return Err(FinishError::Emit(refusal.clone()));
            }
            if state.sender.is_drained() {
                return Ok(true);
            }
            self.health.check()?;
            let Some(deadline) = deadline else {
                state = self.wait_changed(state);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            state.waiters += 1;
            state = self.changed.wait_timeout(state, left).expect(UNPOISONED).0;
            state.waiters -= 1;
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.lock().sender.is_drained()
    }

    /// Wakes all waiters, after a failure.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    pub(crate) fn statistics(&self) -> OutputStatistics {
        let state = self.lock();
        let link = state.sender.link();
        let clock = state.sender.clock();
        OutputStatistics {
            channel: self.id,
            records: state.records,
            bytes: state.bytes,
            frames: state.frames,
            backlog_bytes: state.backlog() as u64,
            credit_bytes: state.sender.credit(),
            reconnects: link.reconnects,
            retransmitted_frames: link.retransmitted,
            longest_interruption_ns: link.longest_interruption_ns,
            clock_offset_ns: clock.offset_ns(),
            clock_uncertainty_ns: clock.uncertainty_ns(now_ns()).unwrap_or_default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().expect(UNPOISONED)
    }

    fn wait_changed<'a>(
        &self,
        mut state: MutexGuard<'a, OutboxState>,
    ) -> MutexGuard<'a, OutboxState> {
        state.waiters += 1;
        state = self.changed.wait(state).expect(UNPOISONED);
        state.waiters -= 1;
        state
    }

    fn check_writable(&self, state: &OutboxState) -> Result<(), EmitError> {
        match &state.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.health.check()?),
        }
    }

    /// Queues the open frame and opens an empty one.
    fn seal(&self, state: &mut OutboxState) {
        let frame = self.take_open(state);
        state.sealed_bytes += frame.credited_bytes();
        state.sealed.push_back(frame);
    }

    fn take_open(&self, state: &mut OutboxState) -> OpenFrame {
        std::mem::replace(&mut state.open, OpenFrame::with_buffer(self.pool.take()))
    }

    /// Whether the frame may be queued; remembers why not.
    fn accept(&self, state: &mut OutboxState, frame: &OpenFrame) -> bool {
        let refusal = if frame.body_bytes() > self.max_frame_bytes {
            EmitError::Oversized {
                channel: self.id,
                bytes: frame.body_bytes(),
                limit: self.max_frame_bytes,
            }
        } else if state.finishing && !frame.is_empty() {
            EmitError::Finished(self.id)
        } else {
            return true;
        };
        self.refuse(state, refusal);
        false
    }

    fn refuse(&self, state: &mut OutboxState, refusal: EmitError) {
        state.refusal.get_or_insert(refusal);
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Lets go of what was consumed, and sends what may leave now.
    fn on_acknowledged(&self, state: &mut OutboxState) {
        state.retained.release(state.sender.acknowledged());
        self.flush(state);
    }

    fn probe(&self, state: &mut OutboxState, now: u64) {
        if let Some(probe) = state.sender.probe_due(now) {
            self.submit(Message::from_slice(&probe.encode(self.id, self.attempt)));
        }
    }

    /// Sends whatever may leave now: sealed frames, the open frame, the end.
    fn flush(&self, state: &mut OutboxState) {
        while let Some(frame) = state.sealed.front() {
            if !state.sender.may_send(frame.credited_bytes()) {
                break;
            }
            if let Some(frame) = state.sealed.pop_front() {
                state.sealed_bytes -= frame.credited_bytes();
                self.send(state, frame);
            }
        }
        if state.sealed.is_empty()
            && !state.open.is_empty()
            && state.sender.may_send(state.open.credited_bytes())
            && !self.holds(state)
        {
            let frame = self.take_open(state);
            self.send(state, frame);
        }
        if state.may_end() {
            let sequence = state.sender.on_sent(FrameKind::End, 0, now_ns());
            let end = self.header(FrameKind::End, sequence, 0, 0);
            self.submit_kept(state, Bytes::copy_from_slice(&end.encode()));
        }
        if state.sender.close_due() {
            let closed = self.header(FrameKind::Closed, state.sender.sequence(), 0, 0);
            self.submit(Message::from_slice(&closed.encode()));
        }
        let backlog = state.backlog();
        self.backlog.store(backlog, Ordering::Relaxed);
        if state.waiters > 0 && (backlog <= self.send_buffer_bytes / 2 || state.sender.is_drained())
        {
            self.changed.notify_all();
        }
    }

    /// Whether the open frame has to wait for company; has the I/O thread release it in time.
    fn holds(&self, state: &mut OutboxState) -> bool {
        if state.finishing {
            return false;
        }
        let now = now_ns();
        let Some(until) = state.held_until else {
            let linger = now + self.linger.as_nanos() as u64;
            let until = state.sender.small_frame_due_ns().max(linger);
            if until <= now {
                return false;
            }
            state.held_until = Some(until);
            self.held.notify_one();
            return true;
        };
        now < until
    }

    /// Sends one frame, with its markers and controls, and with the end if nothing else follows.
    fn send(&self, state: &mut OutboxState, frame: OpenFrame) {
        let has_records = frame.has_records();
        let OpenFrame {
            body: mut message,
            encoding,
            records,
            mut markers,
            trailer,
        } = frame;
        let bytes = message.len() - HEADER_BYTES;
        let now = now_ns();
        state.held_until = None;
        if has_records {
            let sequence = state.sender.on_sent(FrameKind::Data, bytes, now);
            let mut header = self.header(FrameKind::Data, sequence, records, bytes);
            header.encoding = encoding;
            message[..HEADER_BYTES].copy_from_slice(&header.encode());
            state.frames += 1;
        } else {
            message.clear();
        }
        if !markers.is_empty() {
            let length = markers.len() * MARKER_BYTES;
            let sequence = state.sender.on_sent(FrameKind::Markers, length, now);
            let count = markers.len() as u32;
            let header = self.header(FrameKind::Markers, sequence, count, length);
            append_header(&mut message, &header);
            for stamp in &mut markers {
                *stamp = state.sender.clock().to_peer(*stamp);
            }
            encode_markers(&markers, &mut message);
        }
        for control in trailer.iter() {
            let sequence = state.sender.on_sent(control.kind(), CONTROL_BYTES, now);
            message.resize(padded(message.len()), 0);
            message.extend_from_slice(&control.encode(self.id, self.attempt, sequence));
        }
        if state.may_end() {
            let sequence = state.sender.on_sent(FrameKind::End, 0, now);
            append_header(&mut message, &self.header(FrameKind::End, sequence, 0, 0));
        }
        state.records += u64::from(records);
        state.bytes += bytes as u64;
        self.submit_kept(state, self.pool.lend(message));
    }

    fn header(&self, kind: FrameKind, sequence: u64, count: u32, length: usize) -> FrameHeader {
        FrameHeader {
            count,
            length: length as u32,
            ..FrameHeader::new(kind, self.id, self.attempt, sequence)
        }
    }

    /// Sends frames, and keeps them until they are acknowledged.
    fn submit_kept(&self, state: &mut OutboxState, message: Bytes) {
        let sequence = state.sender.sequence();
        state.retained.push(sequence, message.clone());
        self.submit(Message::from(message));
    }

    fn submit(&self, message: Message) {
        // A socket that takes no more is cut off: what it refuses is kept and leaves again when it
        // is missed.
        let _ = self.socket.try_send(message);
    }
}

impl OutboxState {
    fn backlog(&self) -> usize {
        self.sealed_bytes + self.open.credited_bytes()
    }

    fn may_end(&self) -> bool {
        self.finishing && self.sealed.is_empty() && self.open.is_empty() && !self.sender.is_ended()
    }
}

/// Starts another frame in the message.
fn append_header(message: &mut Vec<u8>, header: &FrameHeader) {
    message.resize(padded(message.len()), 0);
    message.extend_from_slice(&header.encode());
}

pub(crate) const UNPOISONED: &str = "no panic holds this lock";

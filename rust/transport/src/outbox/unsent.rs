//! What a channel over a socket has to send, and what of it may leave when.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use oka_protocol::{
    CONTROL_BYTES, FrameHeader, FrameKind, HEADER_BYTES, MARKER_BYTES, Sender, encode_markers,
    padded,
};
use omq_tokio::Message;

use super::Outbox;
use crate::clock::now_ns;
use crate::retained::RetainedFrames;
use crate::{EmitError, OpenFrame};

/// Frames that have not left, those that may be missed, and the protocol's sender.
pub(super) struct UnsentFrames {
    pub(super) open: OpenFrame,
    /// Until when the open frame waits for company, in ns of the clock.
    pub(super) held_until: Option<u64>,
    pub(super) sealed: VecDeque<OpenFrame>,
    pub(super) sealed_bytes: usize,
    pub(super) sender: Sender,
    pub(super) retained: RetainedFrames,
    pub(super) finishing: bool,
    pub(super) waiters: usize,
    pub(super) refusal: Option<EmitError>,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) frames: u64,
}

impl UnsentFrames {
    pub(super) fn new(clock: u64) -> Self {
        Self {
            open: OpenFrame::default(),
            held_until: None,
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            sender: Sender::new(clock),
            retained: RetainedFrames::default(),
            finishing: false,
            waiters: 0,
            refusal: None,
            records: 0,
            bytes: 0,
            frames: 0,
        }
    }

    pub(super) fn backlog(&self) -> usize {
        self.sealed_bytes + self.open.credited_bytes()
    }

    fn may_end(&self) -> bool {
        self.finishing && self.sealed.is_empty() && self.open.is_empty() && !self.sender.is_ended()
    }
}

impl Outbox {
    /// Lets go of what was consumed, and sends what may leave now.
    pub(super) fn on_acknowledged(&self, unsent: &mut UnsentFrames) {
        unsent.retained.release(unsent.sender.acknowledged());
        self.flush(unsent);
    }

    pub(super) fn probe(&self, unsent: &mut UnsentFrames, now: u64) {
        if let Some(probe) = unsent.sender.probe_due(now) {
            self.submit(Message::from_slice(&probe.encode(self.id, self.attempt)));
        }
    }

    /// Sends whatever may leave now: sealed frames, the open frame, the end.
    pub(super) fn flush(&self, unsent: &mut UnsentFrames) {
        while let Some(frame) = unsent.sealed.front() {
            if !unsent.sender.may_send(frame.credited_bytes()) {
                break;
            }
            if let Some(frame) = unsent.sealed.pop_front() {
                unsent.sealed_bytes -= frame.credited_bytes();
                self.send(unsent, frame);
            }
        }
        if unsent.sealed.is_empty()
            && !unsent.open.is_empty()
            && unsent.sender.may_send(unsent.open.credited_bytes())
            && !self.holds(unsent)
        {
            let frame = self.take_open(unsent);
            self.send(unsent, frame);
        }
        if unsent.may_end() {
            let sequence = unsent.sender.on_sent(FrameKind::End, 0, now_ns());
            let end = self.header(FrameKind::End, sequence, 0, 0);
            self.submit_kept(unsent, Bytes::copy_from_slice(&end.encode()));
        }
        if unsent.sender.close_due() {
            let closed = self.header(FrameKind::Closed, unsent.sender.sequence(), 0, 0);
            self.submit(Message::from_slice(&closed.encode()));
        }
        let backlog = unsent.backlog();
        self.backlog.store(backlog, Ordering::Relaxed);
        if unsent.waiters > 0
            && (backlog <= self.send_buffer_bytes / 2 || unsent.sender.is_drained())
        {
            self.changed.notify_all();
        }
    }

    /// Whether the open frame has to wait for company; has the I/O thread release it in time.
    fn holds(&self, unsent: &mut UnsentFrames) -> bool {
        if unsent.finishing {
            return false;
        }
        let now = now_ns();
        let Some(until) = unsent.held_until else {
            let linger = now + self.linger.as_nanos() as u64;
            let until = unsent.sender.small_frame_due_ns().max(linger);
            if until <= now {
                return false;
            }
            unsent.held_until = Some(until);
            self.held.notify_one();
            return true;
        };
        now < until
    }

    /// Sends one frame, with its markers and controls, and with the end if nothing else follows.
    fn send(&self, unsent: &mut UnsentFrames, frame: OpenFrame) {
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
        unsent.held_until = None;
        if has_records {
            let sequence = unsent.sender.on_sent(FrameKind::Data, bytes, now);
            let mut header = self.header(FrameKind::Data, sequence, records, bytes);
            header.encoding = encoding;
            message[..HEADER_BYTES].copy_from_slice(&header.encode());
            unsent.frames += 1;
        } else {
            message.clear();
        }
        if !markers.is_empty() {
            let length = markers.len() * MARKER_BYTES;
            let sequence = unsent.sender.on_sent(FrameKind::Markers, length, now);
            let count = markers.len() as u32;
            let header = self.header(FrameKind::Markers, sequence, count, length);
            append_header(&mut message, &header);
            for stamp in &mut markers {
                *stamp = unsent.sender.clock().to_peer(*stamp);
            }
            encode_markers(&markers, &mut message);
        }
        for control in trailer.iter() {
            let sequence = unsent.sender.on_sent(control.kind(), CONTROL_BYTES, now);
            message.resize(padded(message.len()), 0);
            message.extend_from_slice(&control.encode(self.id, self.attempt, sequence));
        }
        if unsent.may_end() {
            let sequence = unsent.sender.on_sent(FrameKind::End, 0, now);
            append_header(&mut message, &self.header(FrameKind::End, sequence, 0, 0));
        }
        unsent.records += u64::from(records);
        unsent.bytes += bytes as u64;
        self.submit_kept(unsent, self.pool.lend(message));
    }

    fn header(&self, kind: FrameKind, sequence: u64, count: u32, length: usize) -> FrameHeader {
        FrameHeader {
            count,
            length: length as u32,
            ..FrameHeader::new(kind, self.id, self.attempt, sequence)
        }
    }

    /// Sends frames, and keeps them until they are acknowledged.
    fn submit_kept(&self, unsent: &mut UnsentFrames, message: Bytes) {
        let sequence = unsent.sender.sequence();
        unsent.retained.push(sequence, message.clone());
        self.submit(Message::from(message));
    }

    pub(super) fn submit(&self, message: Message) {
        // A socket that takes no more is cut off: what it refuses is kept and leaves again when it
        // is missed.
        let _ = self.socket.try_send(message);
    }
}

/// Starts another frame in the message.
fn append_header(message: &mut Vec<u8>, header: &FrameHeader) {
    message.resize(padded(message.len()), 0);
    message.extend_from_slice(&header.encode());
}

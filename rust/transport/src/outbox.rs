//! The sending end of a channel over a socket, shared by its handles and the I/O thread.

mod unsent;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use oka_protocol::{ChannelError, Control, Credit, Report};
use omq_tokio::{Message, Socket};
use tokio::sync::Notify;

use self::unsent::UnsentFrames;
use crate::buffers::BufferPool;
use crate::clock::now_ns;
use crate::health::{Failure, Health};
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
    unsent: Mutex<UnsentFrames>,
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
            unsent: Mutex::new(UnsentFrames::new(clock)),
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
        let mut unsent = self.lock();
        if !self.accept(&mut unsent, frame) {
            return frame.clear();
        }
        if unsent.open.is_empty() {
            std::mem::swap(&mut unsent.open, frame);
        } else if !unsent.open.append(frame) {
            self.seal(&mut unsent);
            std::mem::swap(&mut unsent.open, frame);
        }
        if unsent.open.is_full() {
            self.seal(&mut unsent);
        }
        self.flush(&mut unsent);
    }

    /// Takes a control behind everything that was pushed; a barrier waits for no company.
    pub(crate) fn send_control(&self, control: Control) {
        let mut unsent = self.lock();
        if !unsent.open.trailer.is_open() {
            self.seal(&mut unsent);
        }
        let finished = unsent.finishing;
        if finished {
            return self.refuse(&mut unsent, EmitError::Finished(self.id));
        }
        unsent.open.trailer.add(control);
        if !unsent.open.trailer.is_open() {
            self.seal(&mut unsent);
        }
        self.flush(&mut unsent);
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) <= self.send_buffer_bytes
            && !self.refused.load(Ordering::Relaxed)
            && !self.health.is_failed()
    }

    pub(crate) fn wait_writable(&self) -> Result<(), EmitError> {
        let mut unsent = self.lock();
        self.check_writable(&unsent)?;
        if unsent.backlog() <= self.send_buffer_bytes {
            return Ok(());
        }
        loop {
            unsent = self.wait_changed(unsent);
            self.check_writable(&unsent)?;
            if unsent.backlog() <= self.send_buffer_bytes / 2 {
                return Ok(());
            }
        }
    }

    /// Takes in a credit and sends what it lets go.
    pub(crate) fn on_credit(&self, credit: Credit) -> Result<(), ChannelError> {
        let mut unsent = self.lock();
        unsent.sender.on_credit(credit, now_ns())?;
        self.on_acknowledged(&mut unsent);
        Ok(())
    }

    /// Takes in what the receiver knows, and sends what it misses and what it lets go.
    pub(crate) fn on_state(&self, report: Report) -> Result<(), ChannelError> {
        let now = now_ns();
        let mut unsent = self.lock();
        if let Some(again) = unsent.sender.on_state(report, now)? {
            self.submit(Message::from_slice(
                &again.probe.encode(self.id, self.attempt),
            ));
            for message in unsent.retained.after(again.after) {
                self.submit(Message::from(message.clone()));
            }
        }
        self.on_acknowledged(&mut unsent);
        self.probe(&mut unsent, now);
        Ok(())
    }

    /// Asks the receiver if it is time to; gives up on one that has not answered for too long.
    pub(crate) fn tick(&self) {
        let now = now_ns();
        let mut unsent = self.lock();
        self.probe(&mut unsent, now);
        // Within a machine the kernel tells when a peer is gone: one that is silent is only stopped.
        if EndpointKind::of(&self.peer) == Ok(EndpointKind::Tcp) {
            let timeout_ns = self.reconnect_timeout.as_nanos() as u64;
            if let Err(error) = unsent.sender.check_answered(now, timeout_ns) {
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
        let mut unsent = self.lock();
        unsent.sender.on_reconnected(now);
        self.probe(&mut unsent, now);
    }

    /// Sends the open frame if it has waited long enough; until when it waits, if nothing but time
    /// holds it. (A credit that comes sends it, too.)
    pub(crate) fn release(&self) -> Option<Instant> {
        let mut unsent = self.lock();
        self.flush(&mut unsent);
        let held = unsent.held_until?;
        let bytes = unsent.open.credited_bytes();
        unsent
            .sender
            .may_send(bytes)
            .then(|| Instant::now() + Duration::from_nanos(held.saturating_sub(now_ns())))
    }

    /// Sends the end behind everything that was checked in.
    pub(crate) fn finish(&self) {
        let mut unsent = self.lock();
        unsent.finishing = true;
        self.flush(&mut unsent);
    }

    /// Blocks until everything including the end was consumed; `false` after the deadline.
    pub(crate) fn wait_drained(&self, deadline: Option<Instant>) -> Result<bool, FinishError> {
        let mut unsent = self.lock();
        loop {
            if let Some(refusal) = &unsent.refusal {
                return Err(FinishError::Emit(refusal.clone()));
            }
            if unsent.sender.is_drained() {
                return Ok(true);
            }
            self.health.check()?;
            let Some(deadline) = deadline else {
                unsent = self.wait_changed(unsent);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            unsent.waiters += 1;
            unsent = self.changed.wait_timeout(unsent, left).expect(UNPOISONED).0;
            unsent.waiters -= 1;
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
        let unsent = self.lock();
        let link = unsent.sender.link();
        let clock = unsent.sender.clock();
        OutputStatistics {
            channel: self.id,
            records: unsent.records,
            bytes: unsent.bytes,
            frames: unsent.frames,
            backlog_bytes: unsent.backlog() as u64,
            credit_bytes: unsent.sender.credit(),
            reconnects: link.reconnects,
            retransmitted_frames: link.retransmitted,
            longest_interruption_ns: link.longest_interruption_ns,
            clock_offset_ns: clock.offset_ns(),
            clock_uncertainty_ns: clock.uncertainty_ns(now_ns()).unwrap_or_default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, UnsentFrames> {
        self.unsent.lock().expect(UNPOISONED)
    }

    fn wait_changed<'a>(
        &self,
        mut unsent: MutexGuard<'a, UnsentFrames>,
    ) -> MutexGuard<'a, UnsentFrames> {
        unsent.waiters += 1;
        unsent = self.changed.wait(unsent).expect(UNPOISONED);
        unsent.waiters -= 1;
        unsent
    }

    fn check_writable(&self, unsent: &UnsentFrames) -> Result<(), EmitError> {
        match &unsent.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.health.check()?),
        }
    }

    /// Queues the open frame and opens an empty one.
    fn seal(&self, unsent: &mut UnsentFrames) {
        let frame = self.take_open(unsent);
        unsent.sealed_bytes += frame.credited_bytes();
        unsent.sealed.push_back(frame);
    }

    fn take_open(&self, unsent: &mut UnsentFrames) -> OpenFrame {
        std::mem::replace(&mut unsent.open, OpenFrame::with_buffer(self.pool.take()))
    }

    /// Whether the frame may be queued; remembers why not.
    fn accept(&self, unsent: &mut UnsentFrames, frame: &OpenFrame) -> bool {
        let refusal = if frame.body_bytes() > self.max_frame_bytes {
            EmitError::Oversized {
                channel: self.id,
                bytes: frame.body_bytes(),
                limit: self.max_frame_bytes,
            }
        } else if unsent.finishing && !frame.is_empty() {
            EmitError::Finished(self.id)
        } else {
            return true;
        };
        self.refuse(unsent, refusal);
        false
    }

    fn refuse(&self, unsent: &mut UnsentFrames, refusal: EmitError) {
        unsent.refusal.get_or_insert(refusal);
        self.refused.store(true, Ordering::Relaxed);
    }
}

pub(crate) const UNPOISONED: &str = "no panic holds this lock";

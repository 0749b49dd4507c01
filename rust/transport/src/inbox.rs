use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use oka_protocol::{
    Arrival, ChannelError, Credit, FrameHeader, FrameKind, Frames, HEADER_BYTES, Probe, Receiver,
    State, decode_markers,
};
use oka_ring::Marked;
use omq_tokio::{Message, Socket};
use tokio::sync::Notify;

use crate::clock::now_ns;
use crate::health::{Failure, Health};
use crate::outbox::UNPOISONED;
use crate::shm::{RingInput, RingInputs, Sleeper};
use crate::{ChannelLost, ChannelSpec, InputStatistics, ReceiveError, Received, TryReceive};

/// Everything that arrived for a task and was not consumed, in order of arrival.
///
/// The I/O thread puts batches in, the task takes them out; credits bound its size. A batch counts
/// as consumed when the task asks for the next one.
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    /// What the task sleeps on while nothing has arrived.
    receiving: Sleeper,
    credit_lines: OnceLock<Vec<CreditLine>>,
    closing: Notify,
    waited_ns: AtomicU64,
    health: Arc<Health>,
}

/// The way back to the sender of an input channel.
pub(crate) struct CreditLine {
    pub(crate) spec: ChannelSpec,
    pub(crate) attempt: u8,
    pub(crate) socket: Socket,
}

impl CreditLine {
    fn send(&self, frame: &[u8]) {
        // A connection that takes no more is gone: the next one begins with a state.
        let _ = self.socket.try_send(Message::from_slice(frame));
    }
}

#[derive(Default)]
struct InboxState {
    inputs: Vec<Input>,
    queue: VecDeque<Queued>,
    /// What arrived on channels that are paused.
    held: VecDeque<Queued>,
    /// Whether any channel is.
    has_paused: bool,
    taken: Option<Taken>,
    connected: bool,
    rings: RingInputs,
    sockets_first: bool,
}

struct Input {
    channel: u32,
    receiver: Receiver,
    /// Whether what arrives is held.
    paused: bool,
    /// Whether it is of a side input.
    side: bool,
    /// Whether its end has arrived.
    ended: bool,
    records: u64,
    bytes: u64,
    frames: u64,
}

struct Queued {
    received: Received,
    taken: Taken,
}

/// Which frames a batch consists of, to acknowledge them.
#[derive(Clone, Copy)]
struct Taken {
    input: usize,
    sequence: u64,
    bytes: usize,
}

impl Inbox {
    pub(crate) fn new(receiving: Sleeper, health: Arc<Health>) -> Self {
        Self {
            state: Mutex::default(),
            receiving,
            credit_lines: OnceLock::new(),
            closing: Notify::new(),
            waited_ns: AtomicU64::new(0),
            health,
        }
    }

    /// What wakes the task when something has arrived.
    pub(crate) fn receiving(&self) -> &Sleeper {
        &self.receiving
    }

    /// Opens the input channels and grants their first credit.
    pub(crate) fn connect(&self, rings: &[u32], lines: Vec<CreditLine>, window: usize, clock: u64) {
        let mut state = self.lock();
        state.rings = RingInputs::new(rings);
        state.inputs = lines
            .iter()
            .map(|line| Input {
                channel: line.spec.id,
                receiver: Receiver::new(window, clock),
                paused: false,
                side: false,
                ended: false,
                records: 0,
                bytes: 0,
                frames: 0,
            })
            .collect();
        state.connected = true;
        drop(state);
        let _ = self.credit_lines.set(lines);
        self.tick();
        self.receiving.ring();
    }

    /// The sender of an input channel in shared memory is there.
    pub(crate) fn attach(&self, input: usize, ring: RingInput, mark: usize) {
        self.lock().rings.attach(input, ring, mark);
        self.receiving.ring();
    }

    /// Takes in the frames of one message, which are well-formed. Only the I/O thread calls this.
    ///
    /// All at once, so that a batch is never taken before its markers are there.
    pub(crate) fn on_message(&self, input: usize, message: &Bytes) -> Result<(), ArrivalError> {
        let mut state = self.lock();
        let result = Frames::new(message)
            .map_while(Result::ok)
            .try_for_each(|(header, body)| state.on_frame(input, message, &header, body));
        // An end that nothing is left to consume before is acknowledged here; anything else by
        // the task.
        let receiver = &mut state.inputs[input].receiver;
        let ended = receiver.is_ended();
        let credit = ended.then(|| receiver.credit_due()).flatten();
        let report = receiver
            .is_report_due()
            .then(|| receiver.state_due(now_ns()))
            .flatten();
        drop(state);
        if let Some(credit) = credit {
            self.send_credit(input, credit);
        }
        if let Some(report) = report {
            self.send_state(input, report);
        }
        if ended {
            self.closing.notify_one();
        }
        self.receiving.ring();
        result
    }

    /// Acknowledges the batch taken before, and takes the next.
    pub(crate) fn try_receive(&self) -> Result<TryReceive, ReceiveError> {
        self.health.check()?;
        let mut state = self.lock();
        let credit = state.acknowledge();
        let next = state.take(self.receiving.take_marks());
        drop(state);
        if let Some((input, credit)) = credit {
            self.send_credit(input, credit);
        }
        next.map_err(|lost| self.fail(lost))
    }

    /// Acknowledges the batch taken before, and blocks for the next.
    pub(crate) fn receive(&self) -> Result<Option<Received>, ReceiveError> {
        let mut found = self.try_receive()?;
        let started = Instant::now();
        let mut slept = false;
        let result = loop {
            match found {
                TryReceive::Batch(received) => break Ok(Some(received)),
                TryReceive::Ended => break Ok(None),
                TryReceive::Empty => {}
            }
            if self.receiving.nap_if_busy() {
                slept = true;
                found = self.take()?;
                if !matches!(found, TryReceive::Empty) {
                    continue;
                }
            }
            let turn = self.receiving.announce();
            if let Err(failure) = self.health.check() {
                break Err(failure.into());
            }
            found = self.take()?;
            if matches!(found, TryReceive::Empty) {
                slept = true;
                turn.sleep(None);
                found = self.take()?;
            }
        };
        if slept {
            let waited = started.elapsed().as_nanos() as u64;
            self.waited_ns.fetch_add(waited, Ordering::Relaxed);
        }
        result
    }

    /// Hands out nothing of these channels until they are resumed; an id that is no input of the
    /// task is given back.
    pub(crate) fn pause(&self, channels: &[u32]) -> Result<(), u32> {
        let mut state = self.lock();
        let places = state.places(channels)?;
        for place in places {
            match place {
                Place::Ring(input) => state.rings.set_paused(input, true),
                Place::Socket(input) => state.inputs[input].paused = true,
            }
            state.has_paused = true;
        }
        state.hold();
        Ok(())
    }

    /// Hands out everything again, what was held first.
    pub(crate) fn resume(&self) {
        self.lock().resume();
        self.receiving.ring();
    }

    /// Makes these channels, and no others, a side input; an id that is no input of the task is
    /// given back.
    pub(crate) fn set_side(&self, channels: &[u32]) -> Result<(), u32> {
        let mut state = self.lock();
        let places = state.places(channels)?;
        for input in &mut state.inputs {
            input.side = false;
        }
        for input in 0..state.rings.len() {
            state.rings.set_side(input, false);
        }
        for place in places {
            match place {
                Place::Ring(input) => state.rings.set_side(input, true),
                // What a socket brings is one batch of one channel anyway.
                Place::Socket(input) => state.inputs[input].side = true,
            }
        }
        drop(state);
        self.receiving.ring();
        Ok(())
    }

    /// Tells senders what they have to know, or to be told again.
    pub(crate) fn tick(&self) {
        let now = now_ns();
        let mut state = self.lock();
        let reports: Vec<_> = state
            .inputs
            .iter_mut()
            .map(|input| input.receiver.state_due(now))
            .collect();
        drop(state);
        for (input, report) in reports.into_iter().enumerate() {
            if let Some(report) = report {
                self.send_state(input, report);
            }
        }
    }

    /// Takes in that the way to the sender of this input is new.
    pub(crate) fn on_reconnected(&self, input: usize) {
        self.lock().inputs[input].receiver.on_reconnected();
        self.tick();
    }

    /// Whether the sender of this input has confirmed its end.
    pub(crate) fn is_closed(&self, input: usize) -> bool {
        self.lock().inputs[input].receiver.is_closed()
    }

    /// Takes in that a peer is gone for good; `false` if its channel had not ended.
    pub(crate) fn on_gone(&self, input: usize) -> bool {
        let mut state = self.lock();
        let receiver = &mut state.inputs[input].receiver;
        let ended = receiver.is_ended();
        receiver.on_closed();
        drop(state);
        self.closing.notify_one();
        ended
    }

    /// Waits until the senders know of every end that was acknowledged.
    ///
    /// The last credits are on their way until then; a process that ends earlier could take them
    /// along.
    pub(crate) async fn wait_closed(&self) {
        while self.is_closing() {
            self.closing.notified().await;
        }
    }

    fn is_closing(&self) -> bool {
        let state = self.lock();
        state.inputs.iter().any(|input| input.receiver.is_closing())
    }

    /// Wakes all waiters, after a failure.
    pub(crate) fn wake(&self) {
        self.receiving.ring();
    }

    pub(crate) fn credit_lines(&self) -> &[CreditLine] {
        self.credit_lines.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn statistics(&self) -> Vec<InputStatistics> {
        let statistics = |input: &Input| InputStatistics {
            channel: input.channel,
            records: input.records,
            bytes: input.bytes,
            frames: input.frames,
            backlog_bytes: input.receiver.backlog(),
        };
        let state = self.lock();
        let rings = state.rings.statistics();
        rings.chain(state.inputs.iter().map(statistics)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().expect(UNPOISONED)
    }

    fn take(&self) -> Result<TryReceive, ReceiveError> {
        let taken = self.lock().take(self.receiving.take_marks());
        taken.map_err(|lost| self.fail(lost))
    }

    #[cold]
    fn fail(&self, lost: ChannelLost) -> ReceiveError {
        self.health.fail(Failure::Lost(lost.clone()));
        lost.into()
    }

    fn send_credit(&self, input: usize, credit: Credit) {
        let line = &self.credit_lines()[input];
        line.send(&credit.encode(line.spec.id, line.attempt));
    }

    fn send_state(&self, input: usize, state: State) {
        let line = &self.credit_lines()[input];
        line.send(&state.encode(line.spec.id, line.attempt));
    }
}

impl InboxState {
    fn take(&mut self, marked: Marked) -> Result<TryReceive, ChannelLost> {
        self.rings.mark(marked);
        // Rings and sockets take turns, so that neither waits for the other.
        self.sockets_first = !self.sockets_first;
        let found = if self.sockets_first && !self.queue.is_empty() {
            self.take_queued()
        } else {
            match self.rings.take()? {
                Some(received) => Some(received),
                None => self.take_queued(),
            }
        };
        if let Some(received) = found {
            return Ok(TryReceive::Batch(received));
        }
        if self.connected && (self.main_ended() || self.others_ended()) {
            Ok(TryReceive::Ended)
        } else {
            Ok(TryReceive::Empty)
        }
    }

    /// Whether there are paused channels, and all others have ended.
    fn others_ended(&self) -> bool {
        self.has_paused
            && self.rings.others_ended()
            && self.inputs.iter().all(|input| input.paused || input.ended)
    }

    /// Whether everything was consumed that is of no side input.
    fn main_ended(&self) -> bool {
        self.held.is_empty()
            && self.rings.main_ended()
            && self.inputs.iter().all(|input| input.side || input.ended)
    }

    fn places(&self, channels: &[u32]) -> Result<Vec<Place>, u32> {
        let place = |channel: u32| {
            let mut inputs = self.inputs.iter();
            let socket = inputs.position(|input| input.channel == channel);
            let ring = self.rings.position(channel).map(Place::Ring);
            ring.or(socket.map(Place::Socket)).ok_or(channel)
        };
        channels.iter().copied().map(place).collect()
    }

    /// Puts aside what has arrived on paused channels.
    fn hold(&mut self) {
        let queued = std::mem::take(&mut self.queue);
        let inputs = &self.inputs;
        let (paused, others): (VecDeque<_>, _) = queued
            .into_iter()
            .partition(|queued: &Queued| inputs[queued.taken.input].paused);
        self.queue = others;
        self.held.extend(paused);
    }

    fn resume(&mut self) {
        for input in &mut self.inputs {
            input.paused = false;
        }
        for input in 0..self.rings.len() {
            self.rings.set_paused(input, false);
        }
        self.has_paused = false;
        // Of a channel that was paused nothing else is in the queue.
        self.held.append(&mut self.queue);
        std::mem::swap(&mut self.held, &mut self.queue);
    }

    fn take_queued(&mut self) -> Option<Received> {
        let Queued { received, taken } = self.queue.pop_front()?;
        self.taken = Some(taken);
        Some(received)
    }

    /// Counts the batch taken before as consumed; gives the credit that is due for it.
    fn acknowledge(&mut self) -> Option<(usize, Credit)> {
        let taken = self.taken.take()?;
        let receiver = &mut self.inputs[taken.input].receiver;
        receiver.on_consumed(taken.sequence, taken.bytes);
        receiver.credit_due().map(|credit| (taken.input, credit))
    }

    fn on_frame(
        &mut self,
        input: usize,
        message: &Bytes,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), ArrivalError> {
        let bytes = body.len();
        let channel = &mut self.inputs[input];
        let queue = if channel.paused {
            &mut self.held
        } else {
            &mut self.queue
        };
        match header.kind {
            FrameKind::Data => {
                channel.take_in(header, bytes)?;
                channel.records += u64::from(header.count);
                channel.bytes += bytes as u64;
                channel.frames += 1;
                let start = body.as_ptr() as usize - message.as_ptr() as usize - HEADER_BYTES;
                queue.push_back(Queued {
                    received: Received::new(
                        channel.channel,
                        header.encoding,
                        header.count as usize,
                        Vec::new(),
                        message.slice(start..start + HEADER_BYTES + bytes),
                        bytes,
                    ),
                    taken: Taken {
                        input,
                        sequence: header.sequence,
                        bytes,
                    },
                });
            }
            FrameKind::Markers => {
                // They follow their records in one message, so those are the last in the queue.
                let last = queue
                    .back_mut()
                    .filter(|last| last.taken.input == input)
                    .ok_or(ArrivalError::Malformed)?;
                let markers = decode_markers(header.count, body).ok_or(ArrivalError::Malformed)?;
                channel.take_in(header, bytes)?;
                last.received.markers = markers;
                last.taken.sequence = header.sequence;
                last.taken.bytes += bytes;
            }
            FrameKind::End => {
                channel.take_in(header, bytes)?;
                channel.ended = true;
            }
            FrameKind::Closed => {
                if !channel.receiver.on_closed() {
                    return Err(ArrivalError::Malformed);
                }
            }
            FrameKind::Probe => {
                let probe = Probe::decode(header, body).ok_or(ArrivalError::Malformed)?;
                channel.receiver.on_probe(probe, now_ns());
            }
            FrameKind::Watermark | FrameKind::Barrier | FrameKind::Credit | FrameKind::State => {
                return Err(ArrivalError::Malformed);
            }
        }
        Ok(())
    }
}

impl Input {
    /// Counts the frame if it is the next; an error if it came before, or too early.
    fn take_in(&mut self, header: &FrameHeader, bytes: usize) -> Result<(), ArrivalError> {
        match self
            .receiver
            .on_frame(header.kind, header.sequence, bytes)?
        {
            Arrival::Next => Ok(()),
            Arrival::Duplicate | Arrival::Early => Err(ArrivalError::OutOfPlace),
        }
    }
}

/// Where an input channel is.
enum Place {
    Ring(usize),
    Socket(usize),
}

/// Why a frame of a known channel was not taken in.
pub(crate) enum ArrivalError {
    /// The body is not what the header says.
    Malformed,
    /// The frame came before, or will come again behind those that are missing.
    OutOfPlace,
    /// The frame cannot belong to a correct channel.
    Channel(ChannelError),
}

impl From<ChannelError> for ArrivalError {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

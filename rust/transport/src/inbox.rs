//! The queue of received batches that the task has not consumed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use oka_protocol::{
    Alignment, Arrival, Backlogs, ChannelError, Control, Credit, END_OF_TIME, FrameHeader,
    FrameKind, Frames, HEADER_BYTES, Probe, Receiver, State, decode_markers,
};
use oka_ring::Marked;
use omq_tokio::{Message, Socket};
use tokio::sync::Notify;

use crate::barrier_wait::BarrierWait;
use crate::clock::now_ns;
use crate::health::{Failure, Health};
use crate::outbox::UNPOISONED;
use crate::shm::{RingInput, RingInputs, Sleeper};
use crate::wait_time::WaitTime;
use crate::{ChannelLost, ChannelSpec, Element, InputStatistics, ReceiveError, Received};

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
    waited: WaitTime,
    /// Whether the task is to look at something else before it waits.
    woken: AtomicBool,
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

struct InboxState {
    inputs: Vec<Input>,
    queue: VecDeque<Queued>,
    taken: Option<Taken>,
    /// Credits that became due as controls were taken in.
    credits: Vec<(usize, Credit)>,
    rings: RingInputs,
    /// What all channels together have come to: first those in shared memory, then the sockets.
    alignment: Alignment,
    barrier_wait: BarrierWait,
    backlogs: Backlogs,
    sockets_first: bool,
    connected: bool,
}

/// A channel over a socket.
struct Input {
    channel: u32,
    /// The input of the task that it belongs to.
    edge: usize,
    receiver: Receiver,
    records: u64,
    bytes: u64,
    frames: u64,
}

/// What arrived over a socket.
struct Queued {
    arrived: Arrived,
    taken: Taken,
}

enum Arrived {
    Batch(Received),
    Control(Control),
    End,
}

/// Which frames an element consists of, to acknowledge them.
#[derive(Clone, Copy)]
struct Taken {
    input: usize,
    sequence: u64,
    bytes: usize,
}

impl Inbox {
    pub(crate) fn new(receiving: Sleeper, health: Arc<Health>) -> Self {
        Self {
            state: Mutex::new(InboxState {
                inputs: Vec::new(),
                queue: VecDeque::new(),
                taken: None,
                credits: Vec::new(),
                rings: RingInputs::default(),
                alignment: Alignment::new(0),
                barrier_wait: BarrierWait::default(),
                backlogs: Backlogs::new(0, 0),
                sockets_first: false,
                connected: false,
            }),
            receiving,
            credit_lines: OnceLock::new(),
            closing: Notify::new(),
            waited: WaitTime::default(),
            woken: AtomicBool::new(false),
            health,
        }
    }

    /// What wakes the task when something has arrived.
    pub(crate) fn receiving(&self) -> &Sleeper {
        &self.receiving
    }

    /// Opens the input channels and grants their first credit.
    pub(crate) fn connect(
        &self,
        rings: &[ChannelSpec],
        lines: Vec<CreditLine>,
        window: usize,
        clock: u64,
    ) {
        let mut state = self.lock();
        let ids: Vec<_> = rings.iter().map(|spec| (spec.id, spec.input)).collect();
        state.rings = RingInputs::new(&ids);
        state.inputs = lines
            .iter()
            .map(|line| Input {
                channel: line.spec.id,
                edge: line.spec.input,
                receiver: Receiver::new(window, clock),
                records: 0,
                bytes: 0,
                frames: 0,
            })
            .collect();
        let specs = || rings.iter().chain(lines.iter().map(|line| &line.spec));
        state.alignment = Alignment::new(specs().count());
        state.backlogs = Backlogs::new(specs().count(), window);
        for (place, _) in specs().enumerate().filter(|(_, spec)| spec.side) {
            state.alignment.set_side(place);
        }
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

    /// Acknowledges the batch taken before, and takes the next element.
    pub(crate) fn try_receive(&self) -> Result<Element, ReceiveError> {
        self.health.check()?;
        let mut state = self.lock();
        let consumed = state.taken.take();
        let credit = consumed.and_then(|taken| Some((taken.input, state.consume(taken)?)));
        self.take_from(state, credit)
    }

    /// Acknowledges the batch taken before, and blocks for the next element, until the deadline or
    /// until the task is woken.
    pub(crate) fn receive(&self, deadline: Option<Instant>) -> Result<Element, ReceiveError> {
        let mut found = self.try_receive()?;
        let started = now_ns();
        let result = loop {
            if found != Element::Empty {
                break Ok(found);
            }
            if self.woken.swap(false, Ordering::Acquire) {
                break Ok(Element::Woken);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break Ok(Element::Empty);
            }
            self.waited.begin(started);
            if self.receiving.nap_if_busy(left) {
                found = self.take()?;
                if found != Element::Empty {
                    continue;
                }
            }
            let turn = self.receiving.announce();
            if let Err(failure) = self.health.check() {
                break Err(failure.into());
            }
            found = self.take()?;
            if found == Element::Empty && !self.woken.load(Ordering::Relaxed) {
                turn.sleep(left);
                found = self.take()?;
            }
        };
        self.waited.end();
        result
    }

    /// Hands out nothing of these channels until they are resumed for the same reason; an id that is
    /// no input of the task is given back.
    pub(crate) fn pause(&self, channels: &[u32], reason: &str) -> Result<(), u32> {
        let mut state = self.lock();
        for place in state.places(channels)? {
            state.alignment.hold(place, reason);
        }
        Ok(())
    }

    /// Hands out what these channels have that are paused for no other reason.
    pub(crate) fn resume(&self, channels: &[u32], reason: &str) -> Result<(), u32> {
        let mut state = self.lock();
        for place in state.places(channels)? {
            state.alignment.release(place, reason);
        }
        drop(state);
        self.receiving.ring();
        Ok(())
    }

    /// Waits for the end of side inputs, too, from now on.
    pub(crate) fn include_side_inputs(&self) {
        self.lock().alignment.include_side_inputs();
        self.receiving.ring();
    }

    /// Tells senders what they have to know, or to be told again.
    pub(crate) fn tick(&self) {
        let now = now_ns();
        let mut state = self.lock();
        state.fit_windows(now, self.waited_ns());
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

    /// Has `receive` return, now or the next time that nothing is there.
    pub(crate) fn wake(&self) {
        self.woken.swap(true, Ordering::Release);
        self.receiving.ring();
    }

    pub(crate) fn credit_lines(&self) -> &[CreditLine] {
        self.credit_lines.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited.total_ns()
    }

    pub(crate) fn barrier_wait_ns(&self) -> u64 {
        self.lock().barrier_wait.longest().as_nanos() as u64
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

    fn take(&self) -> Result<Element, ReceiveError> {
        self.take_from(self.lock(), None)
    }

    fn take_from(
        &self,
        mut state: MutexGuard<'_, InboxState>,
        credit: Option<(usize, Credit)>,
    ) -> Result<Element, ReceiveError> {
        let taken = state.take(self.receiving.take_marks());
        let awaited = state.alignment.awaited();
        state.barrier_wait.observe(awaited);
        let credits = std::mem::take(&mut state.credits);
        drop(state);
        for (input, credit) in credit.into_iter().chain(credits) {
            self.send_credit(input, credit);
        }
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
    fn take(&mut self, marked: Marked) -> Result<Element, ChannelLost> {
        self.rings.mark(marked);
        loop {
            match self.alignment.due() {
                // The end says the same.
                Some(Control::Watermark(END_OF_TIME)) => continue,
                Some(control) => return Ok(Element::Control(control)),
                None => {}
            }
            if let Some(received) = self.take_records()? {
                return Ok(Element::Batch(received));
            }
            if !self.alignment.has_changed() {
                break;
            }
        }
        if !self.connected {
            return Ok(Element::Empty);
        }
        if self.alignment.main_ended() || self.alignment.others_ended() {
            return Ok(Element::Ended);
        }
        Ok(Element::Empty)
    }

    /// Has as much on its way to the task as it gets to soon.
    fn fit_windows(&mut self, now_ns: u64, waited_ns: u64) {
        let sockets = self.inputs.iter().map(|i| i.receiver.consumed_bytes());
        let consumed = self.rings.consumed_bytes().chain(sockets);
        for (place, window) in self.backlogs.observe(now_ns, waited_ns, consumed) {
            match place.checked_sub(self.rings.len()) {
                None => self.rings.set_window(place, window),
                Some(input) => self.inputs[input].receiver.set_window(window),
            }
        }
    }

    /// Rings and sockets take turns, so that neither waits for the other.
    fn take_records(&mut self) -> Result<Option<Received>, ChannelLost> {
        self.sockets_first = !self.sockets_first;
        if self.sockets_first
            && let Some(received) = self.take_queued()
        {
            return Ok(Some(received));
        }
        match self.rings.take(&mut self.alignment)? {
            Some(received) => Ok(Some(received)),
            None => Ok(self.take_queued()),
        }
    }

    /// The first batch of a channel that is not held; what is in front of it is taken in.
    fn take_queued(&mut self) -> Option<Received> {
        let sockets = self.rings.len();
        let mut at = 0;
        while let Some(queued) = self.queue.get(at) {
            let input = queued.taken.input;
            if self.alignment.is_held(sockets + input) && !self.is_last_end(at) {
                at += 1;
                continue;
            }
            let Queued { arrived, taken } = self.queue.remove(at)?;
            match arrived {
                Arrived::Batch(received) => {
                    self.alignment.on_records(sockets + input);
                    self.taken = Some(taken);
                    return Some(received);
                }
                Arrived::Control(control) => {
                    self.alignment.on_control(sockets + input, control);
                    let credit = self.consume(taken);
                    self.credits.extend(credit.map(|credit| (input, credit)));
                }
                Arrived::End => self.alignment.on_end(sockets + input),
            }
        }
        None
    }

    /// Whether this is the end of a channel that may end, and nothing else of it waits.
    fn is_last_end(&self, at: usize) -> bool {
        let Queued { arrived, taken } = &self.queue[at];
        let mut before = self.queue.iter().take(at);
        matches!(arrived, Arrived::End)
            && self.alignment.may_end(self.rings.len() + taken.input)
            && before.all(|queued| queued.taken.input != taken.input)
    }

    /// The places of channels in the alignment.
    fn places(&self, channels: &[u32]) -> Result<Vec<usize>, u32> {
        let place = |channel: u32| {
            let mut inputs = self.inputs.iter();
            let socket = inputs.position(|input| input.channel == channel);
            let ring = self.rings.position(channel);
            ring.or(socket.map(|socket| self.rings.len() + socket))
                .ok_or(channel)
        };
        channels.iter().copied().map(place).collect()
    }

    /// Counts an element as consumed; gives the credit that is due for it.
    fn consume(&mut self, taken: Taken) -> Option<Credit> {
        let receiver = &mut self.inputs[taken.input].receiver;
        receiver.on_consumed(taken.sequence, taken.bytes);
        receiver.credit_due()
    }

    fn on_frame(
        &mut self,
        input: usize,
        message: &Bytes,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), ArrivalError> {
        let bytes = body.len();
        let (channel, queue) = (&mut self.inputs[input], &mut self.queue);
        let taken = Taken {
            input,
            sequence: header.sequence,
            bytes,
        };
        match header.kind {
            FrameKind::Data => {
                channel.take_in(header, bytes)?;
                channel.records += u64::from(header.count);
                channel.bytes += bytes as u64;
                channel.frames += 1;
                let start = body.as_ptr() as usize - message.as_ptr() as usize - HEADER_BYTES;
                let mut received = Received::new(
                    channel.channel,
                    header.encoding,
                    header.count as usize,
                    Vec::new(),
                    message.slice(start..start + HEADER_BYTES + bytes),
                    bytes,
                );
                received.input = channel.edge;
                let arrived = Arrived::Batch(received);
                queue.push_back(Queued { arrived, taken });
            }
            FrameKind::Markers => {
                // They follow their records in one message, so those are the last in the queue.
                let Some(Queued {
                    arrived: Arrived::Batch(received),
                    taken: last,
                }) = queue.back_mut().filter(|last| last.taken.input == input)
                else {
                    return Err(ArrivalError::Malformed);
                };
                let markers = decode_markers(header.count, body).ok_or(ArrivalError::Malformed)?;
                channel.take_in(header, bytes)?;
                received.markers = markers;
                last.sequence = header.sequence;
                last.bytes += bytes;
            }
            FrameKind::End => {
                channel.take_in(header, bytes)?;
                let arrived = Arrived::End;
                queue.push_back(Queued { arrived, taken });
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
            FrameKind::Watermark | FrameKind::Barrier => {
                let control = Control::decode(header, body).ok_or(ArrivalError::Malformed)?;
                channel.take_in(header, bytes)?;
                let arrived = Arrived::Control(control);
                queue.push_back(Queued { arrived, taken });
            }
            FrameKind::Credit | FrameKind::State => return Err(ArrivalError::Malformed),
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

//! What has arrived over all channels of a task, and which of it the task may have next.

use std::collections::VecDeque;

use bytes::Bytes;
use oka_protocol::{
    Alignment, Arrival, Backlogs, ChannelError, Control, Credit, END_OF_TIME, FrameHeader,
    FrameKind, HEADER_BYTES, Probe, Receiver, decode_markers,
};
use oka_ring::TakenMarks;

use super::CreditLine;
use crate::barrier_wait::BarrierWait;
use crate::clock::now_ns;
use crate::shm::RingInputs;
use crate::{ChannelLost, ChannelSpec, Element, InputStatistics, ReceivedFrames};

/// The channels of a task, and the elements of them that it has not consumed.
pub(super) struct Arrivals {
    pub(super) inputs: Vec<SocketInput>,
    queue: VecDeque<QueuedElement>,
    pub(super) taken: Option<ElementFrames>,
    /// Credits that became due as controls were taken in.
    pub(super) credits: Vec<(usize, Credit)>,
    pub(super) rings: RingInputs,
    /// What all channels together have come to: first those in shared memory, then the sockets.
    pub(super) alignment: Alignment,
    pub(super) barrier_wait: BarrierWait,
    backlogs: Backlogs,
    sockets_first: bool,
    connected: bool,
}

/// A channel over a socket.
pub(super) struct SocketInput {
    channel: u32,
    /// The input of the task that it belongs to.
    edge: usize,
    pub(super) receiver: Receiver,
    records: u64,
    bytes: u64,
    frames: u64,
}

/// What arrived over a socket.
struct QueuedElement {
    arrived: InputElement,
    taken: ElementFrames,
}

enum InputElement {
    Batch(ReceivedFrames),
    Control(Control),
    End,
}

/// Which frames an element consists of, to acknowledge them.
#[derive(Clone, Copy)]
pub(super) struct ElementFrames {
    pub(super) input: usize,
    sequence: u64,
    bytes: usize,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
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
        }
    }

    /// The channels of the task, from now on.
    pub(super) fn connect(
        &mut self,
        rings: &[ChannelSpec],
        lines: &[CreditLine],
        window: usize,
        clock: u64,
    ) {
        let ids: Vec<_> = rings.iter().map(|spec| (spec.id, spec.input)).collect();
        self.rings = RingInputs::new(&ids);
        self.inputs = lines
            .iter()
            .map(|line| SocketInput {
                channel: line.spec.id,
                edge: line.spec.input,
                receiver: Receiver::new(window, clock),
                records: 0,
                bytes: 0,
                frames: 0,
            })
            .collect();
        let specs = || rings.iter().chain(lines.iter().map(|line| &line.spec));
        self.alignment = Alignment::new(specs().count());
        self.backlogs = Backlogs::new(specs().count(), window);
        for (place, _) in specs().enumerate().filter(|(_, spec)| spec.side) {
            self.alignment.set_side(place);
        }
        self.connected = true;
    }

    pub(super) fn statistics(&self) -> impl Iterator<Item = InputStatistics> {
        let statistics = |input: &SocketInput| InputStatistics {
            channel: input.channel,
            records: input.records,
            bytes: input.bytes,
            frames: input.frames,
            backlog_bytes: input.receiver.backlog(),
        };
        let rings = self.rings.statistics();
        rings.chain(self.inputs.iter().map(statistics))
    }

    pub(super) fn take(&mut self, marked: TakenMarks) -> Result<Element, ChannelLost> {
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
    pub(super) fn fit_windows(&mut self, now_ns: u64, waited_ns: u64) {
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
    fn take_records(&mut self) -> Result<Option<ReceivedFrames>, ChannelLost> {
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
    fn take_queued(&mut self) -> Option<ReceivedFrames> {
        let sockets = self.rings.len();
        let mut at = 0;
        while let Some(queued) = self.queue.get(at) {
            let input = queued.taken.input;
            if self.alignment.is_held(sockets + input) && !self.is_last_end(at) {
                at += 1;
                continue;
            }
            let QueuedElement { arrived, taken } = self.queue.remove(at)?;
            match arrived {
                InputElement::Batch(received) => {
                    self.alignment.on_records(sockets + input);
                    self.taken = Some(taken);
                    return Some(received);
                }
                InputElement::Control(control) => {
                    self.alignment.on_control(sockets + input, control);
                    let credit = self.consume(taken);
                    self.credits.extend(credit.map(|credit| (input, credit)));
                }
                InputElement::End => self.alignment.on_end(sockets + input),
            }
        }
        None
    }

    /// Whether this is the end of a channel that may end, and nothing else of it waits.
    fn is_last_end(&self, at: usize) -> bool {
        let QueuedElement { arrived, taken } = &self.queue[at];
        let mut before = self.queue.iter().take(at);
        matches!(arrived, InputElement::End)
            && self.alignment.may_end(self.rings.len() + taken.input)
            && before.all(|queued| queued.taken.input != taken.input)
    }

    /// The places of channels in the alignment.
    pub(super) fn places(&self, channels: &[u32]) -> Result<Vec<usize>, u32> {
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
    pub(super) fn consume(&mut self, taken: ElementFrames) -> Option<Credit> {
        let receiver = &mut self.inputs[taken.input].receiver;
        receiver.on_consumed(taken.sequence, taken.bytes);
        receiver.credit_due()
    }

    pub(super) fn on_frame(
        &mut self,
        input: usize,
        message: &Bytes,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), ArrivalError> {
        let bytes = body.len();
        let (channel, queue) = (&mut self.inputs[input], &mut self.queue);
        let taken = ElementFrames {
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
                let mut received = ReceivedFrames::new(
                    channel.channel,
                    header.encoding,
                    header.count as usize,
                    Vec::new(),
                    message.slice(start..start + HEADER_BYTES + bytes),
                    bytes,
                );
                received.input = channel.edge;
                let arrived = InputElement::Batch(received);
                queue.push_back(QueuedElement { arrived, taken });
            }
            FrameKind::Markers => {
                // They follow their records in one message, so those are the last in the queue.
                let Some(QueuedElement {
                    arrived: InputElement::Batch(received),
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
                let arrived = InputElement::End;
                queue.push_back(QueuedElement { arrived, taken });
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
                let arrived = InputElement::Control(control);
                queue.push_back(QueuedElement { arrived, taken });
            }
            FrameKind::Credit | FrameKind::State => return Err(ArrivalError::Malformed),
        }
        Ok(())
    }
}

impl SocketInput {
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

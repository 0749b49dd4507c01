//! The queue of received batches that the task has not consumed.

mod arrivals;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use oka_protocol::{Credit, Frames, Report};
use omq_tokio::{Message, Socket};
use tokio::sync::Notify;

pub(crate) use self::arrivals::ArrivalError;

use self::arrivals::Arrivals;
use crate::clock::now_ns;
use crate::health::{Failure, Health};
use crate::outbox::UNPOISONED;
use crate::shm::{RingInput, Sleeper};
use crate::wait_time::WaitTime;
use crate::{ChannelLost, ChannelSpec, Element, InputStatistics, ReceiveError};

/// Everything that arrived for a task and was not consumed, in order of arrival.
///
/// The I/O thread puts batches in, the task takes them out; credits bound its size. A batch counts
/// as consumed when the task asks for the next one.
pub(crate) struct Inbox {
    arrivals: Mutex<Arrivals>,
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

impl Inbox {
    pub(crate) fn new(receiving: Sleeper, health: Arc<Health>) -> Self {
        Self {
            arrivals: Mutex::new(Arrivals::new()),
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
        self.lock().connect(rings, &lines, window, clock);
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
        let mut arrivals = self.lock();
        let result = Frames::new(message)
            .map_while(Result::ok)
            .try_for_each(|(header, body)| arrivals.on_frame(input, message, &header, body));
        // An end that nothing is left to consume before is acknowledged here; anything else by
        // the task.
        let receiver = &mut arrivals.inputs[input].receiver;
        let ended = receiver.is_ended();
        let credit = ended.then(|| receiver.credit_due()).flatten();
        let report = receiver
            .is_report_due()
            .then(|| receiver.state_due(now_ns()))
            .flatten();
        drop(arrivals);
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
        let mut arrivals = self.lock();
        let consumed = arrivals.taken.take();
        let credit = consumed.and_then(|taken| Some((taken.input, arrivals.consume(taken)?)));
        self.take_from(arrivals, credit)
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
        let mut arrivals = self.lock();
        for place in arrivals.places(channels)? {
            arrivals.alignment.hold(place, reason);
        }
        Ok(())
    }

    /// Hands out what these channels have that are paused for no other reason.
    pub(crate) fn resume(&self, channels: &[u32], reason: &str) -> Result<(), u32> {
        let mut arrivals = self.lock();
        for place in arrivals.places(channels)? {
            arrivals.alignment.release(place, reason);
        }
        drop(arrivals);
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
        let mut arrivals = self.lock();
        arrivals.fit_windows(now, self.waited_ns());
        let reports: Vec<_> = arrivals
            .inputs
            .iter_mut()
            .map(|input| input.receiver.state_due(now))
            .collect();
        drop(arrivals);
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
        let mut arrivals = self.lock();
        let receiver = &mut arrivals.inputs[input].receiver;
        let ended = receiver.is_ended();
        receiver.on_closed();
        drop(arrivals);
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
        let arrivals = self.lock();
        arrivals
            .inputs
            .iter()
            .any(|input| input.receiver.is_closing())
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
        self.lock().statistics().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().expect(UNPOISONED)
    }

    fn take(&self) -> Result<Element, ReceiveError> {
        self.take_from(self.lock(), None)
    }

    fn take_from(
        &self,
        mut arrivals: MutexGuard<'_, Arrivals>,
        credit: Option<(usize, Credit)>,
    ) -> Result<Element, ReceiveError> {
        let taken = arrivals.take(self.receiving.take_marks());
        let awaited = arrivals.alignment.awaited();
        arrivals.barrier_wait.observe(awaited);
        let credits = std::mem::take(&mut arrivals.credits);
        drop(arrivals);
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

    fn send_state(&self, input: usize, state: Report) {
        let line = &self.credit_lines()[input];
        line.send(&state.encode(line.spec.id, line.attempt));
    }
}

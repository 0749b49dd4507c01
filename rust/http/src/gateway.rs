//! Requests between the server's thread, which they come and go by, and the task that takes them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::Config;
use crate::board::Board;
use crate::budget::{Budget, BudgetFull, BudgetShare};
use crate::codes::Codes;
use crate::slots::{Id, Slots};

/// A request that somebody has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which it is.
    pub id: Id,
    /// Such as `POST`.
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
    /// The headers, a line each, as in HTTP/1.1.
    pub head: Bytes,
    pub body: Bytes,
    /// When nobody waits for it any more.
    pub deadline: Instant,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The request's.
    pub id: Id,
    /// Such as 200.
    pub status: u16,
    /// Headers, a line each, as in HTTP/1.1.
    pub head: Bytes,
    pub body: Bytes,
}

/// How requests have ended up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub answered: u64,
    /// Their time was over.
    pub expired: u64,
    /// Their client had gone.
    pub disconnected: u64,
    /// Too many were under way, or too many bytes, or the gateway was closing.
    pub refused: u64,
}

/// What waits for the answer of a request under way.
#[derive(Debug)]
enum Waiter {
    Answer(oneshot::Sender<Answer>),
    /// Its answer has begun, and goes on by this.
    Stream(mpsc::Sender<Piece>),
}

/// An answer, with what goes on behind its body, if it is a stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) rest: Option<mpsc::Receiver<Piece>>,
    /// What it takes of the budget, if there is room.
    pub(crate) kept: Result<Option<BudgetShare>, BudgetFull>,
}

pub(crate) type Piece = Result<Bytes, BrokenAnswer>;

/// An answer does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is broken off")]
pub(crate) struct BrokenAnswer;

/// Why a request does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    TooMany,
    /// Too many bytes are under way.
    TooLarge,
    Closing,
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Exchange {
    state: Mutex<GatewayState>,
    /// There is something to take, or nothing more will be.
    arrived: Condvar,
    replies: Mutex<Vec<Reply>>,
    /// There are requests that nobody has been told of.
    pub(crate) begun: Notify,
    /// There are replies.
    pub(crate) replied: Notify,
    /// Of requests and answers.
    pub(crate) budget: Arc<Budget>,
    /// Tasks of the job that have not said that they work.
    awaited: AtomicUsize,
    counters: Counters,
    /// Of all answers, also of those to requests that did not begin.
    pub(crate) codes: Codes,
    /// Sockets of the other gateways that listen on its port.
    pub(crate) beside: OnceLock<Vec<PathBuf>>,
}

#[derive(Debug)]
struct GatewayState {
    slots: Slots<Waiter>,
    /// How many are still being read, for each of which there will be a slot.
    reading: usize,
    /// Requests that nobody has taken.
    waiting: VecDeque<Request>,
    is_closing: bool,
    is_cancelled: bool,
    /// Whether somebody waits for requests.
    is_wanted: bool,
}

impl GatewayState {
    /// Requests under way, those included that are still being read.
    fn taken(&self) -> usize {
        self.slots.len() + self.reading
    }

    fn refuses(&self) -> Option<Refusal> {
        if self.is_closing {
            return Some(Refusal::Closing);
        }
        let is_full = self.taken() >= self.slots.most();
        is_full.then_some(Refusal::TooMany)
    }
}

/// Room for a request.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    exchange: &'a Exchange,
}

impl Reservation<'_> {
    /// Begins the request, to which `id` is given; its reply comes by the receiver.
    pub(crate) fn begin(
        self,
        mut request: Request,
    ) -> Result<(Id, oneshot::Receiver<Answer>), Refusal> {
        let exchange = self.exchange;
        let (sender, receiver) = oneshot::channel();
        let mut state = exchange.state();
        state.reading -= 1;
        std::mem::forget(self);
        if state.is_closing {
            return Err(Refusal::Closing);
        }
        let Ok(id) = state.slots.begin(Waiter::Answer(sender)) else {
            return Err(Refusal::TooMany);
        };
        request.id = id;
        state.waiting.push_back(request);
        let is_wanted = state.is_wanted;
        drop(state);
        if is_wanted {
            exchange.begun.notify_one();
        }
        Ok((id, receiver))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.exchange.state().reading -= 1;
    }
}

#[derive(Debug, Default)]
struct Counters {
    answered: AtomicU64,
    expired: AtomicU64,
    disconnected: AtomicU64,
    refused: AtomicU64,
}

impl Exchange {
    pub(crate) fn new(config: &Config, board: Option<Board>) -> Self {
        let slots = Slots::new(config.gateway, config.max_in_flight);
        Self {
            state: Mutex::new(GatewayState {
                slots: slots.shown_on(board),
                reading: 0,
                waiting: VecDeque::new(),
                is_closing: false,
                is_cancelled: false,
                is_wanted: false,
            }),
            arrived: Condvar::new(),
            replies: Mutex::default(),
            begun: Notify::new(),
            replied: Notify::new(),
            budget: Budget::new(config.max_in_flight_bytes),
            awaited: AtomicUsize::new(config.tasks),
            counters: Counters::default(),
            codes: Codes::new(),
            beside: OnceLock::new(),
        }
    }

    /// Makes room for a request that is going to be read.
    pub(crate) fn reserve(&self) -> Result<Reservation<'_>, Refusal> {
        let mut state = self.state();
        if let Some(refusal) = state.refuses() {
            return Err(refusal);
        }
        state.reading += 1;
        Ok(Reservation { exchange: self })
    }

    /// Whether one more would be taken in, and all tasks of the job work.
    pub(crate) fn is_ready(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) == 0 && self.state().refuses().is_none()
    }

    /// A task of the job works.
    pub(crate) fn note_work(&self) {
        let left = |awaited: usize| awaited.checked_sub(1);
        let _ = self
            .awaited
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    /// Counts a request that has been refused.
    pub(crate) fn refuse(&self) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a request without an answer of the task's, unless it has ended.
    pub(crate) fn give_up(&self, id: Id, is_expired: bool) {
        let mut state = self.state();
        let counters = &self.counters;
        match state.slots.abandon(id) {
            None => return,
            Some(Waiter::Stream(_)) => {} // counted when it began
            Some(Waiter::Answer(_)) if is_expired => {
                counters.expired.fetch_add(1, Ordering::Relaxed);
            }
            Some(Waiter::Answer(_)) => {
                counters.disconnected.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.wake_at_the_end(&state);
    }

    /// Answers a request with what goes on by the sender; None if it has ended.
    pub(crate) fn begin_stream(&self, reply: Reply) -> Option<mpsc::Sender<Piece>> {
        let mut state = self.state();
        let (sender, receiver) = mpsc::channel(MOST_PIECES);
        let waiting = state.slots.get_mut(reply.id)?;
        if matches!(waiting, Waiter::Stream(_)) {
            return None;
        }
        let Waiter::Answer(waiting) = std::mem::replace(waiting, Waiter::Stream(sender.clone()))
        else {
            return None;
        };
        self.counters.answered.fetch_add(1, Ordering::Relaxed);
        let _ = waiting.send(Answer {
            reply,
            rest: Some(receiver),
            kept: Ok(None),
        }); // or its client has just gone
        Some(sender)
    }

    /// Ends a request whose stream is over.
    pub(crate) fn end_stream(&self, id: Id) {
        let mut state = self.state();
        state.slots.end(id);
        self.wake_at_the_end(&state);
    }

    /// Takes up to `limit` requests; waits for the first for as long as `timeout`, and then for more
    /// for as long as `linger`. `None` when there will be no more, or after [`Self::cancel`].
    ///
    /// Requests whose client has gone, or whose time is over, are left out.
    pub(crate) fn take(
        &self,
        limit: usize,
        timeout: Duration,
        linger: Duration,
    ) -> Option<Vec<Request>> {
        let mut deadline = Instant::now() + timeout;
        let mut state = self.state();
        let mut has_first = false;
        loop {
            if state.is_cancelled || (state.is_closing && state.slots.is_empty()) {
                return None;
            }
            if !state.waiting.is_empty() && !has_first {
                has_first = true;
                deadline = Instant::now() + linger;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.waiting.len() >= limit || left.is_zero() {
                break;
            }
            state.is_wanted = true;
            let waited = self.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_wanted = false;
        let GatewayState { slots, waiting, .. } = &mut *state;
        let mut taken = Vec::with_capacity(limit.min(waiting.len()));
        while taken.len() < limit
            && let Some(request) = waiting.pop_front()
        {
            if slots.has(request.id) {
                taken.push(request);
            }
        }
        Some(taken)
    }

    /// Answers requests, those that have not ended otherwise.
    pub(crate) fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        let mut waiting = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.is_empty();
        waiting.extend(replies);
        let is_new = was_empty && !waiting.is_empty();
        drop(waiting);
        if is_new {
            self.replied.notify_one();
        }
    }

    /// Wakes who waits for requests; in the server's thread, behind all connections that were ready
    /// with the first: they make one batch.
    pub(crate) fn announce(&self) {
        if std::mem::take(&mut self.state().is_wanted) {
            self.arrived.notify_one();
        }
    }

    /// Hands on what [`Self::reply`] got; in the server's thread.
    pub(crate) fn deliver(&self) {
        let replies =
            std::mem::take(&mut *self.replies.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.state();
        for reply in replies {
            if let Some(Waiter::Answer(_)) = state.slots.get_mut(reply.id)
                && let Some(Waiter::Answer(sender)) = state.slots.end(reply.id)
            {
                let kept = self.budget.keep(reply.body.len());
                if kept.is_ok() {
                    self.counters.answered.fetch_add(1, Ordering::Relaxed);
                }
                let _ = sender.send(Answer {
                    reply,
                    rest: None,
                    kept,
                }); // or its client has just gone
            }
        }
        self.wake_at_the_end(&state);
    }

    /// Refuses requests from now on, those that nobody has taken, too; others go on.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        let GatewayState { slots, waiting, .. } = &mut *state;
        for request in waiting.drain(..) {
            slots.end(request.id); // its receiver sees that nobody will answer
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Ends all requests, which get no answer of the task's, and whoever waits for some.
    pub(crate) fn cancel(&self) {
        let mut state = self.state();
        state.is_closing = true;
        state.is_cancelled = true;
        state.waiting.clear();
        for waiting in state.slots.end_all() {
            if let Waiter::Stream(sender) = waiting {
                let _ = sender.try_send(Err(BrokenAnswer)); // a full one ends with its connection
            }
        }
        drop(state);
        self.arrived.notify_all();
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().slots.len()
    }

    /// As many as `max_in_flight` is of: those that are still being read, too.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken()
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            answered: read(&self.counters.answered),
            expired: read(&self.counters.expired),
            disconnected: read(&self.counters.disconnected),
            refused: read(&self.counters.refused),
        }
    }

    fn wake_at_the_end(&self, state: &GatewayState) {
        if state.is_closing && state.slots.is_empty() {
            self.arrived.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, GatewayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a stream, before its client has read them.
const MOST_PIECES: usize = 16;

//! One connection: whose turn it is and since when, so that no client keeps one for nothing.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection is at. All times are milliseconds since it began.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: Instant,
    /// When its client last did what it had to.
    since: AtomicU64,
    /// When the socket took no more of what is written; [`NEVER`] where it does.
    blocked: AtomicU64,
    /// Requests that have begun and not been answered whole.
    requests: AtomicUsize,
    /// Those of them that wait for whoever takes them.
    waiting: AtomicUsize,
    has_asked: AtomicBool,
    /// Answers that the client has not read, as far as the socket does not tell.
    answers: Mutex<Vec<Weak<Progress>>>,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            since: AtomicU64::new(0),
            blocked: AtomicU64::new(NEVER),
            requests: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            has_asked: AtomicBool::new(false),
            answers: Mutex::default(),
        })
    }

    /// The client has done something that it had to.
    pub(crate) fn touch(&self) {
        self.since.store(self.now(), Relaxed);
    }

    /// How much longer the client may take, of so long in all; None where that is over.
    pub(crate) fn left(&self, patience: Duration) -> Option<Duration> {
        let mut oldest = self.blocked.load(Relaxed);
        if self.is_idle() {
            oldest = oldest.min(self.since.load(Relaxed));
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|answer| {
            let since = answer.upgrade().map(|answer| answer.since.load(Relaxed));
            oldest = oldest.min(since.unwrap_or(NEVER));
            since.is_some()
        });
        if oldest == NEVER {
            return Some(patience);
        }
        let over = Duration::from_millis(self.now().saturating_sub(oldest));
        patience.checked_sub(over).filter(|left| !left.is_zero())
    }

    /// For how long it has been the client's turn; None where it is not.
    pub(crate) fn age(&self) -> Option<Duration> {
        let over = self.now().saturating_sub(self.since.load(Relaxed));
        (self.waiting.load(Relaxed) == 0).then(|| Duration::from_millis(over))
    }

    /// Whether there is no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// Whether there ever was one.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Relaxed)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

/// A request, until its answer has been handed on.
#[derive(Debug)]
pub(crate) struct ActivityGuard(pub(crate) Arc<Activity>);

impl ActivityGuard {
    pub(crate) fn begin(activity: &Arc<Activity>) -> Self {
        activity.has_asked.store(true, Relaxed);
        activity.requests.fetch_add(1, Relaxed);
        activity.touch();
        Self(Arc::clone(activity))
    }

    /// That it waits for whoever takes it, as long as what is returned lives.
    pub(crate) fn wait(&self) -> Waits<'_> {
        self.0.waiting.fetch_add(1, Relaxed);
        Waits(&self.0)
    }

    /// What tells that its answer is read on.
    pub(crate) fn answer(&self) -> Arc<Progress> {
        let progress = Arc::new(Progress {
            since: AtomicU64::new(self.0.now()),
        });
        let mut answers = self
            .0
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        answers.retain(|answer| answer.strong_count() > 0);
        answers.push(Arc::downgrade(&progress));
        progress
    }

    /// Something of an answer was handed on; or there is nothing to hand on.
    pub(crate) fn go_on(&self, answer: &Progress, has_more: bool) {
        let now = if has_more { self.0.now() } else { NEVER };
        answer.since.store(now, Relaxed);
        self.0.touch();
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

/// See [`ActivityGuard::wait`].
#[derive(Debug)]
pub(crate) struct Waits<'a>(&'a Activity);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// Since when the next of an answer can be read, as long as any of it is there.
#[derive(Debug)]
pub(crate) struct Progress {
    since: AtomicU64,
}

/// A socket that tells when it takes no more.
#[derive(Debug)]
pub(crate) struct WatchedSocket<S> {
    pub(crate) socket: S,
    pub(crate) activity: Arc<Activity>,
}

impl<S> WatchedSocket<S> {
    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        let blocked = &self.activity.blocked;
        let was_blocked = blocked.load(Relaxed) != NEVER;
        if written.is_pending() != was_blocked {
            let since = if was_blocked {
                NEVER
            } else {
                self.activity.now()
            };
            blocked.store(since, Relaxed);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

const NEVER: u64 = u64::MAX;

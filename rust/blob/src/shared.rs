//! What all threads of a node share: its blobs behind one lock, its sockets, its threads.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use crate::config::BlobConfig;
use crate::error::{BlobLost, MemoryError, WaitError};
use crate::local::Follower;
use crate::memory::{Blob, Ledger};
use crate::message::FailedNode;
use crate::table::{BlobId, Table};
use oka_ipc::secure::Identity;
use oka_ipc::{Key, monotonic_ns};

pub(crate) struct Shared {
    pub(crate) config: BlobConfig,
    pub(crate) identity: Option<Identity>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Counters,
    state: Mutex<NodeState>,
    changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    sockets: Mutex<HashMap<u64, OwnedFd>>,
    next_socket: AtomicU64,
}

/// What the lock guards.
#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) stopped: bool,
    pub(crate) table: Table,
    /// None before `connect`.
    pub(crate) joined: Option<Membership>,
    pub(crate) followers: Vec<Follower>,
    /// Followers that ever came.
    pub(crate) arrived: usize,
    /// Connections whose blob is whole, and whose sender has not heard the last of it.
    pub(crate) answering: usize,
    /// Of each origin that a leader hands over, whether that leader is there.
    pub(crate) leaders: HashMap<u32, bool>,
}

/// What a node was told by `connect`.
pub(crate) struct Membership {
    pub(crate) chain: Vec<String>,
    pub(crate) peers: HashSet<Key>,
    pub(crate) followers: usize,
}

/// Counters that only grow.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) chunks_resent: AtomicU64,
    pub(crate) nodes_bypassed: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
}

/// A socket that is shut down when the node stops; forgotten on drop.
pub(crate) struct SocketRegistration {
    shared: Arc<Shared>,
    pub(crate) id: u64,
}

impl Shared {
    pub(crate) fn new(config: BlobConfig, identity: Option<Identity>) -> Self {
        let ledger = Ledger {
            limit: config.memory_limit,
            ..Ledger::default()
        };
        Self {
            config,
            identity,
            ledger: Arc::new(ledger),
            counters: Counters::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            threads: Mutex::default(),
            sockets: Mutex::default(),
            next_socket: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Tells everyone who waits that something has changed.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, at most that long.
    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, NodeState>,
        timeout: Duration,
    ) -> MutexGuard<'a, NodeState> {
        self.changed
            .wait_timeout(state, timeout)
            .expect(UNPOISONED)
            .0
    }

    /// Sleeps, unless the node stops; returns whether it has.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, left);
        }
        true
    }

    /// The blob is whole: seals it, and hands it to everyone on this machine.
    pub(crate) fn land(&self, id: BlobId) -> Result<(), MemoryError> {
        let content = self.lock().table.get(id).and_then(|entry| {
            let content = entry.content.as_ref()?;
            Some(Arc::clone(&content.memory))
        });
        let Some(memory) = content else {
            return Ok(());
        };
        memory.seal()?;
        let blob = Arc::new(Blob::of(memory, monotonic_ns())?);
        let mut state = self.lock();
        if let Some(entry) = state.table.get_mut(id) {
            entry.blob = Some(blob);
        }
        state.hand_over(id);
        self.notify();
        Ok(())
    }

    /// The blob will not be whole here.
    pub(crate) fn fail(&self, id: BlobId, reason: &str) {
        let mut state = self.lock();
        state.table.fail(id, reason.to_owned());
        state.tell_failed(id, reason);
        self.notify();
    }

    /// The chain behind this node has it, but for these.
    pub(crate) fn relayed(&self, id: BlobId, generation: u64, failed: Vec<FailedNode>) {
        let mut state = self.lock();
        if let Some(entry) = state.table.get_mut(id)
            && entry.relay.generation == generation
        {
            entry.relay.done = Some(failed);
            state.table.release(id);
            self.notify();
        }
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(Arc<Self>) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(self);
        let builder = thread::Builder::new().name(name.to_owned());
        let mut threads = self.threads.lock().expect(UNPOISONED);
        threads.retain(|thread| !thread.is_finished());
        threads.push(builder.spawn(move || work(shared))?);
        Ok(())
    }

    /// Registers a socket to be shut down when the node stops.
    pub(crate) fn register(self: &Arc<Self>, socket: impl AsFd) -> io::Result<SocketRegistration> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        let id = self.next_socket.fetch_add(1, Ordering::Relaxed);
        self.sockets.lock().expect(UNPOISONED).insert(id, socket);
        if self.lock().stopped {
            self.shut(id);
        }
        let shared = Arc::clone(self);
        Ok(SocketRegistration { shared, id })
    }

    /// Ends whatever waits at that socket.
    pub(crate) fn shut(&self, id: u64) {
        if let Some(socket) = self.sockets.lock().expect(UNPOISONED).get(&id) {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Waits until everyone who sent a blob that is whole has its answer, at most that long.
    pub(crate) fn settle(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.stopped && state.answering > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.wait(state, left);
        }
    }

    /// Ends everything that waits, now and later.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.notify();
        for socket in self.sockets.lock().expect(UNPOISONED).values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Waits until every thread has ended.
    pub(crate) fn join(&self) {
        loop {
            let threads = std::mem::take(&mut *self.threads.lock().expect(UNPOISONED));
            if threads.is_empty() {
                break;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
        let mut state = self.lock();
        state.followers.clear();
        state.table.clear();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }
}

impl Drop for SocketRegistration {
    fn drop(&mut self) {
        self.shared
            .sockets
            .lock()
            .expect(UNPOISONED)
            .remove(&self.id);
    }
}

impl BlobId {
    pub(crate) fn lost(self, what: impl Into<String>) -> WaitError {
        WaitError::Lost(BlobLost {
            origin: self.origin,
            number: self.number,
            what: what.into(),
        })
    }

    pub(crate) fn timed_out(self, waited: Duration) -> WaitError {
        WaitError::TimedOut {
            origin: self.origin,
            number: self.number,
            waited,
        }
    }
}

/// A connection whose sender waits for the last answer.
pub(crate) struct PendingAnswer<'a>(&'a Shared);

impl<'a> PendingAnswer<'a> {
    pub(crate) fn begin(shared: &'a Shared) -> Self {
        shared.lock().answering += 1;
        Self(shared)
    }
}

impl Drop for PendingAnswer<'_> {
    fn drop(&mut self) {
        self.0.lock().answering -= 1;
        self.0.notify();
    }
}

/// Connects, within that time, to whichever address of the host answers first; ends early when the
/// node stops.
pub(crate) fn dial(shared: &Shared, address: &str, timeout: Duration) -> io::Result<TcpStream> {
    use std::net::ToSocketAddrs;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, connect, sockopt::socket_error};

    let until = Instant::now() + timeout;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its host has no address");
    for address in address.to_socket_addrs()? {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let socket = oka_ipc::socket(family, SocketType::STREAM, false)?;
        let mut outcome = connect(&socket, &address);
        while let Err(Errno::INPROGRESS) = outcome {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || shared.is_stopped() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it does not answer",
                ));
            }
            let tick = shared.config.tick().min(left);
            let tick = tick.try_into().map_err(io::Error::other)?;
            let ready = poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&tick));
            if ready.is_ok_and(|ready| ready > 0) {
                outcome = socket_error(&socket)?;
            }
        }
        match outcome {
            Ok(()) => {
                let stream = TcpStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

pub(crate) const UNPOISONED: &str = "no thread panics with a lock";

//! How the two ends of a channel get acquainted, over a Unix socket.
//!
//! The sender connects and says which channel it comes for, with a ring and the doorbell that it
//! sleeps on; the receiver answers with its own doorbell and the mark to leave at it, even if its task
//! does not know yet which channels it has. The connection then stays, silent: when it closes, the
//! task at its other end is gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oka_ring::{MARKS, MapError, SharedBell, SharedRing};
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::outbox::UNPOISONED;

/// Where a task can be reached; the file goes when it is dropped.
pub(crate) struct ShmListener {
    listener: UnixListener,
    path: PathBuf,
}

impl ShmListener {
    pub(crate) fn bind(path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        Ok(Self { listener, path })
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        // It may be gone already: names are removed as soon as all tasks are connected.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What one end of a channel has of the other once they are acquainted.
pub(crate) struct Acquaintance {
    pub(crate) ring: SharedRing,
    /// What the peer sleeps on.
    pub(crate) bell: SharedBell,
    /// What the sender leaves at the receiver's doorbell.
    pub(crate) mark: usize,
    /// Closes when the peer goes.
    pub(crate) stream: UnixStream,
}

/// Where senders and the channels that wait for them meet.
pub(crate) struct Rendezvous {
    /// The channels without a visitor; none before the task has connected.
    expected: Mutex<HashMap<u32, oneshot::Sender<Acquaintance>>>,
    connected: watch::Sender<bool>,
    next_mark: AtomicUsize,
    bells: Bells,
    attempt: u8,
}

/// What other processes open the doorbells of a task by.
pub(crate) struct Bells {
    /// Rung when something has arrived for the task.
    pub(crate) receiving: OwnedFd,
    /// Rung when there is room for what the task sends.
    pub(crate) emitting: OwnedFd,
}

impl Rendezvous {
    pub(crate) fn new(bells: Bells, attempt: u8) -> Self {
        Self {
            expected: Mutex::default(),
            connected: watch::Sender::new(false),
            next_mark: AtomicUsize::new(0),
            bells,
            attempt,
        }
    }

    /// Registers the channels that senders may come for; once. Each gets its own visitor.
    pub(crate) fn expect(&self, channels: &[u32]) -> Vec<oneshot::Receiver<Acquaintance>> {
        let mut expected = self.expected.lock().expect(UNPOISONED);
        let arrivals = channels
            .iter()
            .map(|channel| {
                let (here, arrival) = oneshot::channel();
                expected.insert(*channel, here);
                arrival
            })
            .collect();
        self.connected.send_replace(true);
        arrivals
    }

    /// Listens for senders until it is aborted; calls `refused` for those that are none.
    pub(crate) async fn receive(self: Arc<Self>, at: ShmListener, refused: impl Fn()) {
        let mut greetings = JoinSet::new();
        loop {
            tokio::select! {
                accepted = at.listener.accept(), if greetings.len() < GREETINGS_AT_ONCE => {
                    match accepted {
                        Ok((stream, _)) => {
                            greetings.spawn(Arc::clone(&self).greet(stream));
                        }
                        // Out of descriptors, most likely; others may close some.
                        Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                    }
                }
                Some(greeted) = greetings.join_next() => {
                    if !greeted.unwrap_or(false) {
                        refused();
                    }
                }
            }
        }
    }

    /// Connects to the receiver of a channel, with a new ring; waits for it to listen, and to answer.
    pub(crate) async fn visit(
        &self,
        path: &Path,
        channel: u32,
        ring_bytes: usize,
    ) -> Result<Acquaintance, MapError> {
        let (ring, descriptor) = SharedRing::create(ring_bytes)?;
        let own_bell = self.bells.emitting.as_fd();
        let stream = loop {
            match UnixStream::connect(path).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
            }
        };
        let hello = hello_for(channel, self.attempt);
        send(&stream, &hello, &[descriptor.as_fd(), own_bell]).await?;
        let mut answer = [0; 2];
        match receive(&stream, &mut answer).await? {
            [Some(bell), None] => Ok(Acquaintance {
                ring,
                bell: SharedBell::open(&bell)?,
                mark: usize::from(u16::from_le_bytes(answer)) % MARKS,
                stream,
            }),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    /// Hears which channel a sender comes for, and hands it over; `false` if it has no business.
    async fn greet(self: Arc<Self>, stream: UnixStream) -> bool {
        let own_bell = self.bells.receiving.as_fd();
        let mark = self.next_mark.fetch_add(1, Ordering::Relaxed) % MARKS;
        let Ok(Ok((channel, sender))) = timeout(
            GREETING_TIMEOUT,
            welcome(stream, mark, own_bell, self.attempt),
        )
        .await
        else {
            return false;
        };
        let mut connected = self.connected.subscribe();
        if connected.wait_for(|connected| *connected).await.is_err() {
            return false;
        }
        let here = self.expected.lock().expect(UNPOISONED).remove(&channel);
        here.is_some_and(|here| here.send(sender).is_ok())
    }
}

/// Hears a sender, and answers with the doorbell that its reader sleeps on.
async fn welcome(
    stream: UnixStream,
    mark: usize,
    own_bell: BorrowedFd<'_>,
    attempt: u8,
) -> Result<(u32, Acquaintance), MapError> {
    let mut hello = [0; HELLO_BYTES];
    let descriptors = receive(&stream, &mut hello).await?;
    let (Some(channel), [Some(ring), Some(bell)]) = (channel_of(hello, attempt), descriptors)
    else {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    };
    let (ring, bell) = (SharedRing::open(&ring)?, SharedBell::open(&bell)?);
    send(&stream, &(mark as u16).to_le_bytes(), &[own_bell]).await?;
    let sender = Acquaintance {
        ring,
        bell,
        mark,
        stream,
    };
    Ok((channel, sender))
}

/// Waits until the peer closes the connection. It says nothing more, so anything else is an end too.
pub(crate) async fn wait_gone(stream: &UnixStream) {
    let read = || stream.try_read(&mut [0; 1]);
    while stream.readable().await.is_ok() {
        if !read().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
    }
}

fn hello_for(channel: u32, attempt: u8) -> [u8; HELLO_BYTES] {
    let mut hello = [0; HELLO_BYTES];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4..8].copy_from_slice(&channel.to_le_bytes());
    hello[8] = attempt;
    hello
}

/// Which channel a sender of the same attempt comes for.
fn channel_of(hello: [u8; HELLO_BYTES], attempt: u8) -> Option<u32> {
    let [a, b, c, d, channel @ .., its_attempt] = hello;
    let known = [a, b, c, d] == MAGIC && its_attempt == attempt;
    known.then(|| u32::from_le_bytes(channel))
}

async fn send(stream: &UnixStream, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<()> {
    let sent = stream.async_io(Interest::WRITABLE, || {
        Ok(oka_ipc::send(
            stream.as_fd(),
            bytes,
            with,
            SendFlags::empty(),
        )?)
    });
    // A message this short is sent whole on a fresh socket.
    (sent.await? == bytes.len())
        .then_some(())
        .ok_or_else(|| io::ErrorKind::WriteZero.into())
}

/// The descriptors that came along with exactly these many bytes.
async fn receive(
    stream: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<[Option<OwnedFd>; DESCRIPTORS]> {
    let (length, found) = stream
        .async_io(Interest::READABLE, || {
            Ok(oka_ipc::receive(stream.as_fd(), bytes)?)
        })
        .await?;
    if length == bytes.len() {
        Ok(found)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Oka, and the version of this rendezvous.
const MAGIC: [u8; 4] = *b"OKA2";
const HELLO_BYTES: usize = 9;
const DESCRIPTORS: usize = 2;

/// Senders that may be heard at one time; others wait in the listener's queue.
const GREETINGS_AT_ONCE: usize = 256;

/// How long a sender may take to say what it wants.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two attempts to accept when the system refuses.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Between two attempts to reach a receiver that does not listen yet.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

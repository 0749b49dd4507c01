//! The receiving end of a connection: one thread takes a blob, chunk by chunk.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use crate::memory::Memory;
use crate::message::{ChunkHead, Header, Message, Refusal};
use crate::send::relay;
use crate::shared::{PendingAnswer, Shared, SocketRegistration};
use crate::table::{Admission, BlobId};
use crate::wire::{Reader, Writer, malformed, prepare, welcome};
use oka_ipc::Key;

/// Accepts connections until the node stops.
pub(crate) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while !shared.is_stopped() {
        let Ok((socket, _)) = listener.accept() else {
            // Out of descriptors, most likely; others may close some.
            shared.pause(ACCEPT_PAUSE);
            continue;
        };
        // Without a thread for it, it is closed; the sender tries again.
        let _ = shared.spawn("oka-blob-in", move |shared| {
            let served = serve(&shared, socket);
            if served.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                let refused = &shared.counters.refused_connections;
                refused.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

fn serve(shared: &Arc<Shared>, socket: TcpStream) -> io::Result<()> {
    prepare(&socket, &shared.config)?;
    let socket = Arc::new(socket);
    let registered = shared.register(&socket)?;
    let silence = shared.config.bypass;
    let identity = shared.identity.as_ref();
    let (mut reader, mut writer) =
        welcome(socket, identity, silence, |key| is_admitted(shared, key))?;
    let Message::Begin(header) = reader.message(&mut || Ok(()))? else {
        return Err(malformed("a connection that does not begin with a blob"));
    };
    let connection = registered.id;
    let begun = shared.lock().table.begin(&header, connection, || {
        Memory::create(header.size, &shared.ledger).map_err(|error| error.to_string())
    });
    shared.notify();
    match begun {
        Admission::Refused(refusal) => {
            writer.message(&Message::Refused(refusal))?;
            linger(reader, silence);
        }
        Admission::Finished(failed) => {
            writer.message(&Message::Have(header.chunks()))?;
            writer.message(&Message::Landed)?;
            writer.message(&Message::Done(failed))?;
            linger(reader, silence);
        }
        Admission::Goes {
            memory,
            have,
            relay: generation,
            replaced,
        } => {
            if let Some(replaced) = replaced {
                shared.shut(replaced);
            }
            let id = BlobId {
                origin: header.origin,
                number: header.number,
            };
            if let Some(generation) = generation {
                let onward = Header {
                    position: header.position.saturating_add(1),
                    ..header.clone()
                };
                let started = shared.spawn("oka-blob-out", move |shared| {
                    relay(&shared, id, generation, onward);
                });
                if let Err(error) = started {
                    shared.fail(id, &format!("could not be relayed: {error}"));
                }
            }
            let mut transfer = Receiver {
                shared,
                id,
                connection: &registered,
                memory,
                header,
                have,
                corrupted: 0,
                answering: None,
            };
            let received = transfer.receive(&mut reader, &mut writer);
            let _answering = transfer.answering.take();
            drop(transfer); // and its hold on the memory
            shared
                .lock()
                .table
                .upstream_lost(id, connection, Instant::now());
            shared.notify();
            received?;
            linger(reader, silence);
        }
    }
    Ok(())
}

/// Peers connect in any order: one that comes before this node knows its peers waits a little.
fn is_admitted(shared: &Shared, key: Key) -> bool {
    let until = Instant::now() + shared.config.bypass;
    let mut state = shared.lock();
    loop {
        if let Some(joined) = &state.joined {
            return joined.peers.contains(&key);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || state.stopped {
            return false;
        }
        state = shared.wait(state, left);
    }
}

/// Lets the other end close: closing first, with something unread, would take back the last words.
fn linger(mut reader: Reader, silence: Duration) {
    let until = Instant::now() + silence;
    while Instant::now() < until {
        let bounded = &mut || {
            let over = Instant::now() >= until;
            if over {
                Err(io::ErrorKind::TimedOut.into())
            } else {
                Ok(())
            }
        };
        if reader.message(bounded).is_err() {
            break;
        }
    }
}

struct Receiver<'a> {
    shared: &'a Arc<Shared>,
    id: BlobId,
    connection: &'a SocketRegistration,
    memory: Arc<Memory>,
    header: Header,
    have: u64,
    corrupted: u32,
    answering: Option<PendingAnswer<'a>>,
}

impl Receiver<'_> {
    fn receive(&mut self, reader: &mut Reader, writer: &mut Writer) -> io::Result<()> {
        let (tick, chunks) = (self.shared.config.tick(), self.header.chunks());
        writer.message(&Message::Have(self.have))?;
        let mut chunk = Vec::new();
        let mut said = Instant::now();
        while self.have < chunks {
            let mut alive = || {
                if said.elapsed() >= tick {
                    writer.message(&Message::Alive { fed: true })?;
                    said = Instant::now();
                }
                Ok(())
            };
            match reader.message(&mut alive)? {
                Message::Chunk(head) => {
                    let length = self.length(head)?;
                    if chunk.len() < length {
                        chunk.resize(length, 0);
                    }
                    reader.chunk(&mut chunk[..length], &mut alive)?;
                    if !self.take(head, &chunk[..length])? {
                        writer.message(&Message::Have(self.have))?;
                    }
                }
                message => self.hear(message)?,
            }
        }
        drop(chunk);
        self.answering = Some(PendingAnswer::begin(self.shared));
        self.land()?;
        writer.message(&Message::Landed)?;
        self.wait_relayed(reader, writer)
    }

    /// The length of a chunk that is announced, if it can be one.
    fn length(&self, head: ChunkHead) -> io::Result<usize> {
        let start = head.index.checked_mul(u64::from(self.header.chunk_bytes));
        let left = start.and_then(|start| self.header.size.checked_sub(start));
        let length = left.map(|left| left.min(u64::from(self.header.chunk_bytes)));
        if length.is_none_or(|length| length == 0 || length != u64::from(head.length)) {
            return Err(malformed("a chunk that is no part of its blob"));
        }
        Ok(head.length as usize)
    }

    /// Keeps a chunk; `false` if it has to be sent again.
    fn take(&mut self, head: ChunkHead, bytes: &[u8]) -> io::Result<bool> {
        let received = &self.shared.counters.bytes_received;
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if head.index != self.have {
            return Ok(true); // behind one that is being sent again
        }
        if xxh3_64(bytes) != head.hash {
            self.corrupted += 1;
            if self.corrupted > CORRUPTED {
                return Err(malformed(
                    "chunks that were changed on their way, again and again",
                ));
            }
            return Ok(false);
        }
        let offset = head.index * u64::from(self.header.chunk_bytes);
        if let Err(error) = self.memory.write_at(bytes, offset) {
            return Err(self.give_up(&error.to_string()));
        }
        self.have += 1;
        let mut state = self.shared.lock();
        let entry = state.table.get_mut(self.id);
        let entry = entry.filter(|entry| entry.is_from(self.connection.id));
        let Some(content) = entry.and_then(|entry| entry.content.as_mut()) else {
            return Err(malformed("another sender has taken over"));
        };
        content.hashes.push(head.hash);
        drop(state);
        self.shared.notify();
        Ok(true)
    }

    /// Takes in a message that is no chunk.
    fn hear(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Alive { fed } => {
                let mut state = self.shared.lock();
                if let Some(entry) = state.table.get_mut(self.id)
                    && let Some(upstream) = &mut entry.upstream
                    && upstream.connection == self.connection.id
                    && upstream.fed != fed
                {
                    upstream.fed = fed;
                    self.shared.notify();
                }
                Ok(())
            }
            Message::Abort(reason) => {
                self.shared.fail(self.id, &reason);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            _ => Err(malformed("a message that goes up the chain came down")),
        }
    }

    fn land(&self) -> io::Result<()> {
        let is_whole = {
            let state = self.shared.lock();
            let entry = state.table.get(self.id);
            entry.is_none_or(|entry| entry.blob.is_some())
        };
        if is_whole {
            return Ok(()); // by an earlier connection
        }
        let landed = self.shared.land(self.id);
        landed.map_err(|error| self.give_up(&error.to_string()))
    }

    /// The blob cannot be kept here.
    fn give_up(&self, reason: &str) -> io::Error {
        self.shared.fail(self.id, reason);
        malformed(reason)
    }

    /// Answers when the chain behind this node has the blob, too.
    fn wait_relayed(&mut self, reader: &mut Reader, writer: &mut Writer) -> io::Result<()> {
        let tick = self.shared.config.tick();
        loop {
            match self.relayed(tick) {
                RelayOutcome::Done(failed) => return writer.message(&Message::Done(failed)),
                RelayOutcome::Failed(reason) => {
                    return writer.message(&Message::Refused(Refusal::Reason(reason)));
                }
                RelayOutcome::NotYet => {}
            }
            writer.message(&Message::Alive { fed: true })?;
            while reader.is_ready(Duration::ZERO)? {
                if let Message::Chunk(head) = reader.message(&mut || Ok(()))? {
                    // One that was sent again for nothing.
                    let length = self.length(head)?;
                    reader.chunk(&mut vec![0; length], &mut || Ok(()))?;
                }
            }
            reader.check_silence()?;
        }
    }

    /// Waits for the chain, at most that long.
    fn relayed(&self, timeout: Duration) -> RelayOutcome {
        let until = Instant::now() + timeout;
        let mut state = self.shared.lock();
        loop {
            match state.table.ending(self.id) {
                Some(Ok(failed)) => return RelayOutcome::Done(failed.clone()),
                Some(Err(reason)) => return RelayOutcome::Failed(reason.clone()),
                None => {}
            }
            let entry = state.table.get(self.id);
            if let Some(failed) = entry.and_then(|entry| entry.relay.done.as_ref()) {
                return RelayOutcome::Done(failed.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.stopped {
                return RelayOutcome::NotYet;
            }
            state = self.shared.wait(state, left);
        }
    }
}

enum RelayOutcome {
    Done(Vec<crate::message::FailedNode>),
    Failed(String),
    NotYet,
}

/// Chunks of one connection that may be asked for again.
const CORRUPTED: u32 = 16;

/// Between two attempts to accept when the system refuses.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

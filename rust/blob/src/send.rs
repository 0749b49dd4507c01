//! The sending end: one thread brings a blob to the chain behind this node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use std::time::Duration;

use crate::chain::{Chain, Outcome, Step};
use crate::memory::Memory;
use crate::message::{ChunkHead, Header, Message, Refusal};
use crate::shared::{Shared, dial};
use crate::table::BlobId;
use crate::wire::{Reader, Writer, greet, malformed, prepare};
use oka_ipc::Endpoint;

/// Sends a blob along the chain, until everyone has it or is given up, or there is no need any more.
pub(crate) fn relay(shared: &Arc<Shared>, id: BlobId, generation: u64, header: Header) {
    let mut chain = Chain::new(header.rest.clone(), shared.config.limits());
    let mut sender = Sender {
        shared,
        id,
        generation,
        header,
        reached: (String::new(), 0),
    };
    loop {
        let (to, rest) = match chain.next() {
            Step::Send { to, rest } => (to, rest),
            Step::Finished(failed) => return shared.relayed(id, generation, failed),
        };
        let outcome = match sender.send(&mut chain, to, rest) {
            Ok(outcome) => outcome,
            Err(SendError::Lost(error)) => Outcome::Lost(error.to_string()),
            Err(SendError::Needless) => return,
        };
        let lost = matches!(outcome, Outcome::Lost(_));
        if chain.ended(outcome, Instant::now()) {
            let bypassed = &shared.counters.nodes_bypassed;
            bypassed.fetch_add(1, Ordering::Relaxed);
        } else if lost && shared.pause(RETRY_PAUSE) {
            return;
        }
    }
}

struct Sender<'a> {
    shared: &'a Arc<Shared>,
    id: BlobId,
    generation: u64,
    header: Header,
    /// How many chunks were sent, and to whom.
    reached: (String, u64),
}

/// Why a sending ended without an answer.
enum SendError {
    Lost(io::Error),
    /// The node stops, the blob failed, or another chain has taken the place of this one.
    Needless,
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// What there is to send.
enum NextSend {
    Chunk(ChunkHead, Arc<Memory>, u64),
    /// Everything was sent.
    Nothing,
    NotYet {
        fed: bool,
    },
    Failed(String),
}

impl Sender<'_> {
    fn send(
        &mut self,
        chain: &mut Chain,
        to: String,
        rest: Vec<String>,
    ) -> Result<Outcome, SendError> {
        if self.is_needless() {
            return Err(SendError::Needless);
        }
        let header = Header {
            rest,
            ..self.header.clone()
        };
        let config = &self.shared.config;
        let endpoint = Endpoint::of_peer(&to, config.encryption);
        let endpoint = endpoint.map_err(|error| malformed(&error.reason))?;
        if self.reached.0 != to {
            self.reached = (to, 0);
        }
        let socket = dial(self.shared, &endpoint.address, config.bypass)?;
        prepare(&socket, config)?;
        let socket = Arc::new(socket);
        let _registered = self.shared.register(&socket)?;
        let keys = self.shared.identity.as_ref().zip(endpoint.key.as_ref());
        let (mut reader, mut writer) = greet(socket, keys, config.bypass)?;
        let chunks = header.chunks();
        writer.message(&Message::Begin(header))?;
        let next = match reader.message(&mut || Ok(()))? {
            Message::Have(have) if have <= chunks => have,
            Message::Refused(Refusal::Superseded) => return Ok(Outcome::Superseded),
            Message::Refused(Refusal::Reason(reason)) => return Ok(Outcome::Lost(reason)),
            _ => return Err(malformed("its first answer is none").into()),
        };
        chain.connected(next, Instant::now());
        self.bring(chain, next, chunks, &mut reader, &mut writer)
    }

    fn bring(
        &mut self,
        chain: &mut Chain,
        mut next: u64,
        chunks: u64,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<Outcome, SendError> {
        let tick = self.shared.config.tick();
        let mut said = Instant::now();
        loop {
            while reader.is_ready(Duration::ZERO)? {
                match reader.message(&mut || Ok(()))? {
                    Message::Have(have) if have <= next => next = have,
                    Message::Alive { .. } => {}
                    Message::Landed => chain.landed(),
                    Message::Done(failed) => return Ok(Outcome::Done(failed)),
                    Message::Refused(Refusal::Reason(reason)) => return Ok(Outcome::Lost(reason)),
                    _ => return Err(malformed("it said what it cannot mean").into()),
                }
            }
            let fed = match self.ready(next, tick)? {
                NextSend::Chunk(head, memory, offset) => {
                    writer.chunk(head, &memory, offset)?;
                    self.count(head);
                    next += 1;
                    // It may be busy with what was sent, and answers after that.
                    reader.not_silent();
                    continue;
                }
                NextSend::Nothing => {
                    debug_assert_eq!(next, chunks);
                    reader.is_ready(tick)?;
                    true
                }
                NextSend::NotYet { fed } => fed,
                NextSend::Failed(reason) => {
                    writer.message(&Message::Abort(reason))?;
                    // Closing first, with something unread, would take it back.
                    while reader.message(&mut || Ok(())).is_ok() {}
                    return Err(SendError::Needless);
                }
            };
            reader.check_silence()?;
            if said.elapsed() >= tick {
                writer.message(&Message::Alive { fed })?;
                said = Instant::now();
            }
        }
    }

    /// What to send next; waits for it, at most that long.
    fn ready(&self, next: u64, timeout: Duration) -> Result<NextSend, SendError> {
        let until = Instant::now() + timeout;
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return Err(SendError::Needless);
            }
            let Some(entry) = state.table.get(self.id) else {
                return match state.table.ending(self.id) {
                    Some(Err(reason)) => Ok(NextSend::Failed(reason.clone())),
                    _ => Err(SendError::Needless),
                };
            };
            let content = entry.content.as_ref().ok_or(SendError::Needless)?;
            if entry.relay.generation != self.generation {
                return Err(SendError::Needless);
            }
            if next == content.chunks && entry.blob.is_some() {
                return Ok(NextSend::Nothing);
            }
            if let Some(hash) = content.hashes.get(next as usize) {
                let offset = next * u64::from(content.chunk_bytes);
                let left = content.memory.size() - offset;
                let head = ChunkHead {
                    index: next,
                    length: left.min(u64::from(content.chunk_bytes)) as u32,
                    hash: *hash,
                };
                return Ok(NextSend::Chunk(head, Arc::clone(&content.memory), offset));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let fed = entry.is_fed();
                return Ok(NextSend::NotYet { fed });
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Whether the node stops, everyone has it, or there is a newer chain. A blob that failed is told
    /// of still.
    fn is_needless(&self) -> bool {
        let state = self.shared.lock();
        let entry = state.table.get(self.id);
        let needed = match entry {
            Some(entry) => entry.relay.generation == self.generation,
            None => matches!(state.table.ending(self.id), Some(Err(_))),
        };
        state.stopped || !needed
    }

    fn count(&mut self, head: ChunkHead) {
        let counters = &self.shared.counters;
        counters
            .bytes_sent
            .fetch_add(u64::from(head.length), Ordering::Relaxed);
        if head.index < self.reached.1 {
            counters.chunks_resent.fetch_add(1, Ordering::Relaxed);
        }
        self.reached.1 = self.reached.1.max(head.index + 1);
    }
}

/// Between two attempts to reach a node.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

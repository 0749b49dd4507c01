//! One blob on a node: how much of it is here, who sends it, who still needs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::memory::{Blob, Memory};
use crate::message::FailedNode;

/// One blob on this node.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) role: Role,
    /// Where its bytes are, or will be; none while nothing has come of it.
    pub(crate) content: Option<Content>,
    /// The bytes, once they are whole.
    pub(crate) blob: Option<Arc<Blob>>,
    pub(crate) upstream: Option<Upstream>,
    /// Since when somebody waits, and nobody sends it.
    pub(crate) alone_since: Option<Instant>,
    /// Why the last sender was turned away.
    pub(crate) trouble: Option<String>,
    pub(crate) relay: Relay,
    /// Whether a call of `get` will come.
    pub(crate) consume: bool,
    /// Whether every follower has been handed it.
    pub(crate) handed: bool,
}

/// Where a blob comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It begins here.
    Origin,
    /// From another node.
    Receiver,
}

/// What is there of a blob's bytes.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) memory: Arc<Memory>,
    pub(crate) chunk_bytes: u32,
    pub(crate) chunks: u64,
    /// Of the chunks that are here: the first so many of them.
    pub(crate) hashes: Vec<u64>,
}

/// The connection that a blob comes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upstream {
    pub(crate) connection: u64,
    /// How far its sender is from the origin.
    pub(crate) position: u32,
    /// Whether its sender gets the blob itself, or has it.
    pub(crate) fed: bool,
}

/// The chain behind this node.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// Counts the chains that this node was told: a sender of an old one stops.
    pub(crate) generation: u64,
    pub(crate) rest: Vec<String>,
    /// Who has not got it, once the others have.
    pub(crate) done: Option<Vec<FailedNode>>,
}

impl Transfer {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            content: None,
            blob: None,
            upstream: None,
            alone_since: None,
            trouble: None,
            relay: Relay::default(),
            consume: true,
            handed: false,
        }
    }

    /// A blob as a leader handed it over: nobody else is served from here.
    pub(crate) fn land_handed(&mut self, blob: Arc<Blob>) {
        self.blob = Some(blob);
        self.handed = true;
        self.relay.done = Some(Vec::new());
    }

    pub(crate) fn is_from(&self, connection: u64) -> bool {
        self.upstream
            .is_some_and(|upstream| upstream.connection == connection)
    }

    /// Whether it is whole, or someone is there who makes it so.
    pub(crate) fn is_fed(&self) -> bool {
        let fed = self.upstream.is_some_and(|upstream| upstream.fed);
        self.role == Role::Origin || self.blob.is_some() || fed
    }

    /// How long it will still be waited for; none if there is no reason to stop.
    pub(crate) fn patience_left(&mut self, patience: Duration, now: Instant) -> Option<Duration> {
        if self.is_fed() {
            self.alone_since = None;
            return None;
        }
        let since = *self.alone_since.get_or_insert(now);
        Some(patience.saturating_sub(now.duration_since(since)))
    }
}

impl Content {
    pub(crate) fn new(memory: Memory, chunk_bytes: u32) -> Self {
        Self {
            chunks: memory.size().div_ceil(u64::from(chunk_bytes)),
            memory: Arc::new(memory),
            chunk_bytes,
            hashes: Vec::new(),
        }
    }

    /// The first so many chunks are here.
    pub(crate) fn have(&self) -> u64 {
        self.hashes.len() as u64
    }
}

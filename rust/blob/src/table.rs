//! What a node knows about each blob: how much of it is here, who sends it, who still needs it.
//!
//! No sockets and no clock: the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::memory::{Blob, Memory};
use crate::message::{Failed, Header, Refusal};

/// Which blob: where it began, and which one of that origin it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlobId {
    pub(crate) origin: u32,
    pub(crate) number: u64,
}

/// One blob on this node.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) role: Role,
    /// Where its bytes are, or will be; none while nothing has come of it.
    pub(crate) content: Option<Content>,
    /// The bytes, once they are whole.
    pub(crate) blob: Option<Arc<Blob>>,
    pub(crate) upstream: Option<Upstream>,
    /// Since when somebody waits, and nobody sends it.
    alone_since: Option<Instant>,
    /// Why the last sender was turned away.
    pub(crate) trouble: Option<String>,
    pub(crate) relay: Relay,
    /// Whether a call of `get` will come.
    consume: bool,
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
    pub(crate) done: Option<Vec<Failed>>,
}

/// What becomes of a connection that brings a blob.
pub(crate) enum Begun {
    /// It goes on from the chunks that are here; perhaps to a new chain.
    Goes {
        memory: Arc<Memory>,
        have: u64,
        relay: Option<u64>,
        /// The connection whose place it takes.
        replaced: Option<u64>,
    },
    /// It was here, and everyone was served.
    Finished(Vec<Failed>),
    Refused(Refusal),
}

/// How a blob ended on this node.
pub(crate) type Ending = Result<Vec<Failed>, String>;

/// All blobs of a node.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: HashMap<BlobId, Entry>,
    /// The last ones of each origin: a sender whose connection broke may ask for its answer again.
    ended: HashMap<u32, VecDeque<(u64, Ending)>>,
}

impl Table {
    pub(crate) fn get(&self, id: BlobId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: BlobId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub(crate) fn ids(&self) -> Vec<BlobId> {
        self.entries.keys().copied().collect()
    }

    pub(crate) fn ending(&self, id: BlobId) -> Option<&Ending> {
        let ended = self.ended.get(&id.origin)?.iter();
        ended
            .rev()
            .find_map(|(number, ending)| (*number == id.number).then_some(ending))
    }

    /// A blob that begins here; `false` if there is one already.
    pub(crate) fn create(
        &mut self,
        id: BlobId,
        content: Content,
        chain: Vec<String>,
        consume: bool,
    ) -> bool {
        if self.entries.contains_key(&id) || self.ending(id).is_some() {
            return false;
        }
        let entry = Entry {
            content: Some(content),
            relay: Relay {
                generation: 0,
                done: chain.is_empty().then(Vec::new),
                rest: chain,
            },
            consume,
            ..Entry::new(Role::Origin)
        };
        self.entries.insert(id, entry);
        true
    }

    /// The entry of a blob that comes from elsewhere; made if there is none.
    pub(crate) fn expected(&mut self, id: BlobId) -> &mut Entry {
        let new = || Entry::new(Role::Receiver);
        self.entries.entry(id).or_insert_with(new)
    }

    /// A connection brings a blob. `allocate` makes the memory, if there is none yet.
    pub(crate) fn begin(
        &mut self,
        header: &Header,
        connection: u64,
        allocate: impl FnOnce() -> Result<Memory, String>,
    ) -> Begun {
        let refused = |reason: &str| Begun::Refused(Refusal::Reason(reason.to_owned()));
        let id = BlobId {
            origin: header.origin,
            number: header.number,
        };
        match self.ending(id) {
            Some(Ok(failed)) => return Begun::Finished(failed.clone()),
            Some(Err(reason)) => return refused(reason),
            None => {}
        }
        let entry = self.expected(id);
        if entry.role == Role::Origin {
            return refused("it began here");
        }
        let nearer = |upstream: Upstream| upstream.position < header.position;
        if entry.upstream.is_some_and(nearer) {
            return Begun::Refused(Refusal::Superseded);
        }
        let first = entry.content.is_none();
        if first {
            match allocate() {
                Ok(memory) => entry.content = Some(Content::new(memory, header.chunk_bytes)),
                Err(reason) => {
                    entry.trouble = Some(reason.clone());
                    return Begun::Refused(Refusal::Reason(reason));
                }
            }
        }
        let content = entry.content.as_ref().expect("made above");
        if (content.memory.size(), content.chunk_bytes) != (header.size, header.chunk_bytes) {
            return refused("it had another size before");
        }
        let (memory, have) = (Arc::clone(&content.memory), content.have());
        let replaced = entry.upstream.replace(Upstream {
            connection,
            position: header.position,
            fed: true,
        });
        (entry.alone_since, entry.trouble) = (None, None);
        let relay = (first || entry.relay.rest != header.rest).then(|| {
            entry.relay.generation += 1;
            entry.relay.rest.clone_from(&header.rest);
            entry.relay.done = header.rest.is_empty().then(Vec::new);
            entry.relay.generation
        });
        Begun::Goes {
            memory,
            have,
            relay: relay.filter(|_| !header.rest.is_empty()),
            replaced: replaced.map(|upstream| upstream.connection),
        }
    }

    /// A connection that brought a blob is gone.
    pub(crate) fn upstream_lost(&mut self, id: BlobId, connection: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.is_from(connection)
        {
            entry.upstream = None;
            entry.alone_since = Some(now);
        }
    }

    /// The blob will not be whole here; nothing of it is kept.
    pub(crate) fn fail(&mut self, id: BlobId, reason: String) {
        if self.entries.remove(&id).is_some() {
            self.end(id, Err(reason));
        }
    }

    /// Lets go of a blob that nobody here needs any more.
    pub(crate) fn release(&mut self, id: BlobId) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        let needed = entry.consume || !entry.handed || entry.blob.is_none();
        if let (false, Some(failed)) = (needed, &entry.relay.done) {
            let ending = Ok(failed.clone());
            self.entries.remove(&id);
            self.end(id, ending);
        }
    }

    /// The blob, for the one call of `get` that there is.
    pub(crate) fn take(&mut self, id: BlobId) -> Option<Arc<Blob>> {
        let entry = self.entries.get_mut(&id)?;
        let blob = Arc::clone(entry.blob.as_ref()?);
        entry.consume = false;
        self.release(id);
        Some(blob)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    fn end(&mut self, id: BlobId, ending: Ending) {
        let ended = self.ended.entry(id.origin).or_default();
        if ended.len() == REMEMBERED {
            ended.pop_front();
        }
        ended.push_back((id.number, ending));
    }
}

impl Entry {
    fn new(role: Role) -> Self {
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

/// Blobs of one origin whose end is remembered; at most a few are in flight.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: BlobId = BlobId {
        origin: 1,
        number: 2,
    };

    fn header(position: u32, rest: &[&str]) -> Header {
        Header {
            origin: 1,
            number: 2,
            size: 10,
            chunk_bytes: 4096,
            position,
            rest: rest.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        }
    }

    fn memory() -> Result<Memory, String> {
        Memory::create(10, &Arc::default()).map_err(|error| error.to_string())
    }

    fn whole() -> Arc<Blob> {
        let memory = memory().unwrap();
        memory.seal().unwrap();
        Arc::new(Blob::of(Arc::new(memory), 0).unwrap())
    }

    fn relayed(begun: Begun) -> (Option<u64>, Option<u64>) {
        match begun {
            Begun::Goes {
                relay, replaced, ..
            } => (relay, replaced),
            Begun::Finished(_) => panic!("finished"),
            Begun::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn a_reconnect_takes_the_place_of_what_was_there() {
        let mut table = Table::default();
        let first = table.begin(&header(1, &["next"]), 7, memory);
        assert_eq!(relayed(first), (Some(1), None));
        let again = table.begin(&header(1, &["next"]), 8, memory);
        assert_eq!(relayed(again), (None, Some(7)));
        let now = Instant::now();
        table.upstream_lost(ID, 7, now);
        assert!(table.get(ID).unwrap().is_fed(), "the old one ended");
        table.upstream_lost(ID, 8, now);
        assert!(!table.get(ID).unwrap().is_fed());
    }

    #[test]
    fn the_nearer_sender_counts_and_the_newer_chain() {
        let mut table = Table::default();
        table.begin(&header(1, &["next"]), 7, memory);
        let nearer = table.begin(&header(0, &["next"]), 8, memory);
        assert_eq!(relayed(nearer), (None, Some(7)));
        let further = table.begin(&header(1, &["next"]), 9, memory);
        assert!(matches!(further, Begun::Refused(Refusal::Superseded)));
        let alone = table.begin(&header(0, &[]), 10, memory);
        assert_eq!(relayed(alone), (None, Some(8)));
        let entry = table.get(ID).unwrap();
        assert_eq!(
            (entry.relay.generation, &entry.relay.done),
            (2, &Some(vec![]))
        );
    }

    #[test]
    fn what_contradicts_or_has_no_room_is_refused() {
        let mut table = Table::default();
        let full = table.begin(&header(0, &[]), 1, || Err("full".to_owned()));
        assert!(matches!(full, Begun::Refused(Refusal::Reason(_))));
        assert_eq!(table.get(ID).unwrap().trouble.as_deref(), Some("full"));
        relayed(table.begin(&header(0, &[]), 2, memory));
        let mut other = header(0, &[]);
        other.size = 11;
        let other = table.begin(&other, 3, memory);
        assert!(matches!(other, Begun::Refused(Refusal::Reason(_))));
        table.fail(ID, "lost".to_owned());
        let late = table.begin(&header(0, &[]), 4, memory);
        assert!(matches!(late, Begun::Refused(Refusal::Reason(_))));
        assert_eq!(table.ending(ID), Some(&Err("lost".to_owned())));
    }

    #[test]
    fn it_is_let_go_of_when_nobody_needs_it() {
        let mut table = Table::default();
        table.begin(&header(0, &["next"]), 1, memory);
        assert!(table.take(ID).is_none());
        table.get_mut(ID).unwrap().blob = Some(whole());
        assert!(table.take(ID).is_some());
        table.get_mut(ID).unwrap().handed = true;
        table.release(ID);
        assert!(table.get(ID).is_some(), "the chain has not got it");
        table.get_mut(ID).unwrap().relay.done = Some(Vec::new());
        table.release(ID);
        assert!(table.get(ID).is_none());
        let late = table.begin(&header(0, &["next"]), 4, memory);
        assert!(matches!(late, Begun::Finished(failed) if failed.is_empty()));
    }

    #[test]
    fn patience_begins_with_the_first_one_who_waits_alone() {
        let mut table = Table::default();
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let entry = table.expected(ID);
        assert_eq!(entry.patience_left(second, now), Some(second));
        assert_eq!(
            entry.patience_left(second, now + second),
            Some(Duration::ZERO)
        );
        table.begin(&header(0, &[]), 1, memory);
        let entry = table.get_mut(ID).unwrap();
        assert_eq!(entry.patience_left(second, now + 2 * second), None);
        entry.upstream.as_mut().unwrap().fed = false;
        assert_eq!(entry.patience_left(second, now + 3 * second), Some(second));
    }

    #[test]
    fn numbers_count_once_and_only_the_last_are_remembered() {
        let mut table = Table::default();
        let content = || Content::new(memory().unwrap(), 4096);
        for number in 0..1000 {
            let id = BlobId { origin: 1, number };
            assert!(table.create(id, content(), Vec::new(), true));
            assert!(!table.create(id, content(), Vec::new(), true));
            table.fail(id, String::new());
            assert!(!table.create(id, content(), Vec::new(), true));
        }
        assert_eq!(table.ended[&1].len(), REMEMBERED);
        assert!(table.ids().is_empty());
    }
}

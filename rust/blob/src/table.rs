//! What a node knows about each blob: how much of it is here, who sends it, who still needs it.
//!
//! No sockets and no clock: the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::memory::{Blob, Memory};
use crate::message::{FailedNode, Header, Refusal};
use crate::transfer::{Content, Relay, Role, Transfer, Upstream};

/// Which blob: where it began, and which one of that origin it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlobId {
    pub(crate) origin: u32,
    pub(crate) number: u64,
}

/// What becomes of a connection that brings a blob.
pub(crate) enum Admission {
    /// It goes on from the chunks that are here; perhaps to a new chain.
    Goes {
        memory: Arc<Memory>,
        have: u64,
        relay: Option<u64>,
        /// The connection whose place it takes.
        replaced: Option<u64>,
    },
    /// It was here, and everyone was served.
    Finished(Vec<FailedNode>),
    Refused(Refusal),
}

/// How a blob ended on this node.
pub(crate) type Ending = Result<Vec<FailedNode>, String>;

/// All blobs of a node.
#[derive(Debug, Default)]
pub(crate) struct Table {
    transfers: HashMap<BlobId, Transfer>,
    /// The last ones of each origin: a sender whose connection broke may ask for its answer again.
    ended: HashMap<u32, VecDeque<(u64, Ending)>>,
}

impl Table {
    pub(crate) fn get(&self, id: BlobId) -> Option<&Transfer> {
        self.transfers.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: BlobId) -> Option<&mut Transfer> {
        self.transfers.get_mut(&id)
    }

    pub(crate) fn ids(&self) -> Vec<BlobId> {
        self.transfers.keys().copied().collect()
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
        if self.transfers.contains_key(&id) || self.ending(id).is_some() {
            return false;
        }
        let transfer = Transfer {
            content: Some(content),
            relay: Relay {
                generation: 0,
                done: chain.is_empty().then(Vec::new),
                rest: chain,
            },
            consume,
            ..Transfer::new(Role::Origin)
        };
        self.transfers.insert(id, transfer);
        true
    }

    /// The transfer of a blob that comes from elsewhere; made if there is none.
    pub(crate) fn expected(&mut self, id: BlobId) -> &mut Transfer {
        let new = || Transfer::new(Role::Receiver);
        self.transfers.entry(id).or_insert_with(new)
    }

    /// A connection brings a blob. `allocate` makes the memory, if there is none yet.
    pub(crate) fn begin(
        &mut self,
        header: &Header,
        connection: u64,
        allocate: impl FnOnce() -> Result<Memory, String>,
    ) -> Admission {
        let refused = |reason: &str| Admission::Refused(Refusal::Reason(reason.to_owned()));
        let id = BlobId {
            origin: header.origin,
            number: header.number,
        };
        match self.ending(id) {
            Some(Ok(failed)) => return Admission::Finished(failed.clone()),
            Some(Err(reason)) => return refused(reason),
            None => {}
        }
        let transfer = self.expected(id);
        if transfer.role == Role::Origin {
            return refused("it began here");
        }
        let nearer = |upstream: Upstream| upstream.position < header.position;
        if transfer.upstream.is_some_and(nearer) {
            return Admission::Refused(Refusal::Superseded);
        }
        let first = transfer.content.is_none();
        if first {
            match allocate() {
                Ok(memory) => transfer.content = Some(Content::new(memory, header.chunk_bytes)),
                Err(reason) => {
                    transfer.trouble = Some(reason.clone());
                    return Admission::Refused(Refusal::Reason(reason));
                }
            }
        }
        let content = transfer.content.as_ref().expect("made above");
        if (content.memory.size(), content.chunk_bytes) != (header.size, header.chunk_bytes) {
            return refused("it had another size before");
        }
        let (memory, have) = (Arc::clone(&content.memory), content.have());
        let replaced = transfer.upstream.replace(Upstream {
            connection,
            position: header.position,
            fed: true,
        });
        (transfer.alone_since, transfer.trouble) = (None, None);
        let relay = (first || transfer.relay.rest != header.rest).then(|| {
            transfer.relay.generation += 1;
            transfer.relay.rest.clone_from(&header.rest);
            transfer.relay.done = header.rest.is_empty().then(Vec::new);
            transfer.relay.generation
        });
        Admission::Goes {
            memory,
            have,
            relay: relay.filter(|_| !header.rest.is_empty()),
            replaced: replaced.map(|upstream| upstream.connection),
        }
    }

    /// A connection that brought a blob is gone.
    pub(crate) fn upstream_lost(&mut self, id: BlobId, connection: u64, now: Instant) {
        if let Some(transfer) = self.transfers.get_mut(&id)
            && transfer.is_from(connection)
        {
            transfer.upstream = None;
            transfer.alone_since = Some(now);
        }
    }

    /// The blob will not be whole here; nothing of it is kept.
    pub(crate) fn fail(&mut self, id: BlobId, reason: String) {
        if self.transfers.remove(&id).is_some() {
            self.end(id, Err(reason));
        }
    }

    /// Lets go of a blob that nobody here needs any more.
    pub(crate) fn release(&mut self, id: BlobId) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        let needed = transfer.consume || !transfer.handed || transfer.blob.is_none();
        if let (false, Some(failed)) = (needed, &transfer.relay.done) {
            let ending = Ok(failed.clone());
            self.transfers.remove(&id);
            self.end(id, ending);
        }
    }

    /// The blob, for the one call of `get` that there is.
    pub(crate) fn take(&mut self, id: BlobId) -> Option<Arc<Blob>> {
        let transfer = self.transfers.get_mut(&id)?;
        let blob = Arc::clone(transfer.blob.as_ref()?);
        transfer.consume = false;
        self.release(id);
        Some(blob)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.transfers.clear();
    }

    fn end(&mut self, id: BlobId, ending: Ending) {
        let ended = self.ended.entry(id.origin).or_default();
        if ended.len() == REMEMBERED {
            ended.pop_front();
        }
        ended.push_back((id.number, ending));
    }
}

/// Blobs of one origin whose end is remembered; at most a few are in flight.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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

    fn relayed(begun: Admission) -> (Option<u64>, Option<u64>) {
        match begun {
            Admission::Goes {
                relay, replaced, ..
            } => (relay, replaced),
            Admission::Finished(_) => panic!("finished"),
            Admission::Refused(refusal) => panic!("{refusal:?}"),
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
        assert!(matches!(further, Admission::Refused(Refusal::Superseded)));
        let alone = table.begin(&header(0, &[]), 10, memory);
        assert_eq!(relayed(alone), (None, Some(8)));
        let transfer = table.get(ID).unwrap();
        assert_eq!(
            (transfer.relay.generation, &transfer.relay.done),
            (2, &Some(vec![]))
        );
    }

    #[test]
    fn what_contradicts_or_has_no_room_is_refused() {
        let mut table = Table::default();
        let full = table.begin(&header(0, &[]), 1, || Err("full".to_owned()));
        assert!(matches!(full, Admission::Refused(Refusal::Reason(_))));
        assert_eq!(table.get(ID).unwrap().trouble.as_deref(), Some("full"));
        relayed(table.begin(&header(0, &[]), 2, memory));
        let mut other = header(0, &[]);
        other.size = 11;
        let other = table.begin(&other, 3, memory);
        assert!(matches!(other, Admission::Refused(Refusal::Reason(_))));
        table.fail(ID, "lost".to_owned());
        let late = table.begin(&header(0, &[]), 4, memory);
        assert!(matches!(late, Admission::Refused(Refusal::Reason(_))));
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
        assert!(matches!(late, Admission::Finished(failed) if failed.is_empty()));
    }

    #[test]
    fn patience_begins_with_the_first_one_who_waits_alone() {
        let mut table = Table::default();
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let transfer = table.expected(ID);
        assert_eq!(transfer.patience_left(second, now), Some(second));
        assert_eq!(
            transfer.patience_left(second, now + second),
            Some(Duration::ZERO)
        );
        table.begin(&header(0, &[]), 1, memory);
        let transfer = table.get_mut(ID).unwrap();
        assert_eq!(transfer.patience_left(second, now + 2 * second), None);
        transfer.upstream.as_mut().unwrap().fed = false;
        assert_eq!(
            transfer.patience_left(second, now + 3 * second),
            Some(second)
        );
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

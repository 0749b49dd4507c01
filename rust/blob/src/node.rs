//! The node of one worker: it begins blobs, relays them, and hands them to tasks.

use std::collections::{BTreeMap, HashSet};
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::config::BlobConfig;
use crate::error::{BindError, ConnectError, CreateError, WaitError, undelivered};
use crate::landing::Landing;
use crate::local::{Meeting, accept_followers, follow};
use crate::memory::{Blob, Memory};
use crate::message::Header;
use crate::receive::accept;
use crate::send::relay;
use crate::shared::{Membership, Shared, SocketRegistration, UNPOISONED};
use crate::statistics::BlobStatistics;
use crate::table::BlobId;
use crate::transfer::{Content, Role};
use oka_ipc::secure::Identity;
use oka_ipc::{Endpoint, EndpointKind, InvalidEndpoint, Key};

/// The large values of one worker: those that begin here, and those that come by.
///
/// All calls may be made from any thread; those that wait end when the node is cancelled or closed.
/// Closed on drop.
pub struct BlobNode {
    shared: Arc<Shared>,
    endpoint: String,
    meeting: Arc<Meeting>,
    /// The listening sockets.
    _registered: [SocketRegistration; 2],
    closing: Mutex<()>,
}

impl BlobNode {
    /// Listens for other nodes on `tcp://host:port` (port 0 picks one), and for processes of this
    /// machine at a path.
    pub fn bind(config: BlobConfig, listen: &str, local: &Path) -> Result<Self, BindError> {
        config.check()?;
        let at = over_tcp(listen, false)?;
        let refused = |endpoint: &str, error: std::io::Error| BindError::Refused {
            endpoint: endpoint.to_owned(),
            reason: error.to_string(),
        };
        let at_tcp = |error| refused(listen, error);
        let at_local = |error| refused(&local.display().to_string(), error);
        let identity = config.encryption.then(Identity::generate).transpose();
        let identity = identity.map_err(at_tcp)?;
        let addresses = at.address.to_socket_addrs().map_err(at_tcp)?;
        let listener = TcpListener::bind(&addresses.collect::<Vec<_>>()[..]).map_err(at_tcp)?;
        let endpoint = Endpoint {
            kind: EndpointKind::Tcp,
            key: identity.as_ref().map(|identity| identity.public),
            address: listener.local_addr().map_err(at_tcp)?.to_string(),
        };
        let meeting = Arc::new(Meeting::bind(local).map_err(at_local)?);
        let shared = Arc::new(Shared::new(config, identity));
        let node = Self {
            endpoint: endpoint.to_string(),
            meeting: Arc::clone(&meeting),
            _registered: [
                shared.register(&listener).map_err(at_tcp)?,
                shared.register(&meeting.socket).map_err(at_local)?,
            ],
            closing: Mutex::default(),
            shared,
        };
        let threads = [
            node.shared
                .spawn("oka-blob-accept", move |shared| accept(&shared, &listener)),
            node.shared.spawn("oka-blob-local", move |shared| {
                accept_followers(&shared, &meeting);
            }),
        ];
        for thread in threads {
            thread.map_err(at_tcp)?;
        }
        Ok(node)
    }

    /// Where other nodes connect to: `tcp://KEY@host:port`, the key only with encryption.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Tells the node its peers, and waits for those on this machine. Once.
    ///
    /// `chain`: where blobs that begin here go, in order. `peers`: who may send blobs here. `leaders`:
    /// of which origins another process of this machine hands over the blobs, and where that one
    /// listens. `followers`: how many processes are handed blobs from here.
    pub fn connect(
        &self,
        chain: &[String],
        peers: &[String],
        leaders: &[(u32, PathBuf)],
        followers: usize,
        timeout: Duration,
    ) -> Result<(), ConnectError> {
        let until = Instant::now() + timeout;
        let encryption = self.shared.config.encryption;
        for endpoint in chain {
            over_tcp(endpoint, encryption)?;
        }
        let keys = |peer: &String| -> Result<Option<Key>, InvalidEndpoint> {
            Ok(over_tcp(peer, encryption)?.key)
        };
        let keys = peers.iter().map(keys).collect::<Result<Vec<_>, _>>()?;
        let mut state = self.shared.lock();
        if state.joined.is_some() {
            return Err(ConnectError::AlreadyConnected);
        }
        state.joined = Some(Membership {
            chain: chain.to_vec(),
            peers: keys.into_iter().flatten().collect::<HashSet<_>>(),
            followers,
        });
        state.settle_followers();
        drop(state);
        self.shared.notify();

        let timed_out = |missing| ConnectError::TimedOut {
            missing,
            waited: timeout,
        };
        let mut by_path: BTreeMap<&Path, Vec<u32>> = BTreeMap::new();
        for (origin, path) in leaders {
            by_path.entry(path).or_default().push(*origin);
        }
        for (path, origins) in by_path {
            if let Err(error) = follow(&self.shared, path, origins, until) {
                if self.shared.is_stopped() {
                    return Err(ConnectError::Cancelled);
                }
                let missing = format!("the leader at {} is not there: {error}", path.display());
                return Err(timed_out(missing));
            }
        }
        let mut state = self.shared.lock();
        while state.arrived < followers {
            let left = until.saturating_duration_since(Instant::now());
            if state.stopped {
                return Err(ConnectError::Cancelled);
            }
            if left.is_zero() {
                let missing = format!("{} of {followers} followers came", state.arrived);
                return Err(timed_out(missing));
            }
            state = self.shared.wait(state, left);
        }
        Ok(())
    }

    /// Removes the name of the local socket: after every process of this machine has connected.
    pub fn unlink(&self) {
        self.meeting.unlink();
    }

    /// Begins a blob here. `relay`: it goes along the chain. `consume`: it will be got here, too.
    pub fn create(
        &self,
        origin: u32,
        number: u64,
        size: u64,
        relay_it: bool,
        consume: bool,
    ) -> Result<Landing, CreateError> {
        let id = BlobId { origin, number };
        let chunk_bytes = self.shared.config.chunk_bytes;
        let content = Content::new(Memory::create(size, &self.shared.ledger)?, chunk_bytes);
        let memory = Arc::clone(&content.memory);
        let mut state = self.shared.lock();
        if state.stopped {
            return Err(CreateError::Cancelled);
        }
        let chain = state.joined.as_ref().filter(|_| relay_it);
        let chain = chain.map_or_else(Vec::new, |joined| joined.chain.clone());
        if !state.table.create(id, content, chain.clone(), consume) {
            return Err(CreateError::Duplicate { origin, number });
        }
        drop(state);
        let landing = Landing::new(
            Arc::clone(&self.shared),
            id,
            memory,
            chunk_bytes,
            !chain.is_empty(),
        );
        if !chain.is_empty() {
            let header = Header {
                origin,
                number,
                size,
                chunk_bytes,
                position: 0,
                rest: chain,
            };
            let started = self.shared.spawn("oka-blob-out", move |shared| {
                relay(&shared, id, 0, header);
            });
            if let Err(error) = started {
                return Err(CreateError::Memory(error.into()));
            }
        }
        Ok(landing)
    }

    /// The blob, once it is whole here. Each one once.
    pub fn get(
        &self,
        origin: u32,
        number: u64,
        timeout: Option<Duration>,
    ) -> Result<Arc<Blob>, WaitError> {
        let id = BlobId { origin, number };
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let patience = self.shared.config.patience;
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return Err(WaitError::Cancelled);
            }
            if let Some(blob) = state.table.take(id) {
                self.shared.notify();
                return Ok(blob);
            }
            match state.table.ending(id) {
                Some(Ok(_)) => {
                    return Err(id.lost("was taken before\n\nhint: keep what get returned"));
                }
                Some(Err(reason)) => return Err(id.lost(reason)),
                None => {}
            }
            let now = Instant::now();
            let patience_left = match state.leaders.get(&origin) {
                Some(true) => None,
                Some(false) => {
                    return Err(id.lost(LEADER_GONE));
                }
                None => state.table.expected(id).patience_left(patience, now),
            };
            if patience_left.is_some_and(|left| left.is_zero()) {
                let trouble = state.table.get(id).and_then(|entry| entry.trouble.clone());
                drop(state);
                let trouble = trouble.map_or_else(String::new, |reason| format!(": {reason}"));
                self.shared.fail(
                    id,
                    &format!(
                        "did not come: nobody has sent it for {:.1} s{trouble}{ALONE_HINT}",
                        patience.as_secs_f64()
                    ),
                );
                state = self.shared.lock();
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(now));
            if let (Some(left), Some(timeout)) = (left, timeout)
                && left.is_zero()
            {
                return Err(id.timed_out(timeout));
            }
            let wait = patience_left.into_iter().chain(left).min();
            state = self.shared.wait(state, wait.unwrap_or(LONG));
        }
    }

    /// Says that a blob will be got here; not needed, `get` says so, too.
    pub fn expect(&self, origin: u32, number: u64) {
        let id = BlobId { origin, number };
        let mut state = self.shared.lock();
        if state.table.ending(id).is_none() && !state.leaders.contains_key(&origin) {
            state.table.expected(id);
        }
    }

    /// Waits until a blob that began here is with every node of the chain, and with the followers.
    pub fn wait_delivered(
        &self,
        origin: u32,
        number: u64,
        timeout: Option<Duration>,
    ) -> Result<(), WaitError> {
        let id = BlobId { origin, number };
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.shared.lock();
        loop {
            let failed = match state.table.ending(id) {
                Some(Ok(failed)) => Some(failed),
                Some(Err(reason)) => return Err(id.lost(reason)),
                None => {
                    let entry = state.table.get(id);
                    let entry = entry.filter(|entry| entry.role == Role::Origin);
                    let entry = entry.ok_or_else(|| id.lost(NOT_BEGUN))?;
                    let local = entry.blob.is_some() && entry.handed;
                    entry.relay.done.as_ref().filter(|_| local)
                }
            };
            match failed.map(Vec::as_slice) {
                Some([]) => return Ok(()),
                Some(failed) => return Err(id.lost(undelivered(failed))),
                None => {}
            }
            if state.stopped {
                return Err(WaitError::Cancelled);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if let (Some(left), Some(timeout)) = (left, timeout)
                && left.is_zero()
            {
                return Err(id.timed_out(timeout));
            }
            state = self.shared.wait(state, left.unwrap_or(LONG));
        }
    }

    /// A snapshot of the counters.
    pub fn statistics(&self) -> BlobStatistics {
        let blobs = self.shared.lock().table.ids().len() as u64;
        let counters = &self.shared.counters;
        BlobStatistics {
            bytes_sent: counters.bytes_sent.load(Ordering::Relaxed),
            bytes_received: counters.bytes_received.load(Ordering::Relaxed),
            chunks_resent: counters.chunks_resent.load(Ordering::Relaxed),
            nodes_bypassed: counters.nodes_bypassed.load(Ordering::Relaxed),
            refused_connections: counters.refused_connections.load(Ordering::Relaxed),
            held_bytes: self.shared.ledger.held.load(Ordering::Relaxed),
            blobs,
        }
    }

    /// Makes every call that waits, now or later, end, and every connection; never waits.
    pub fn cancel(&self) {
        self.shared.stop();
    }

    /// Cancels, waits for all threads, and lets go of all blobs but those that were got. Idempotent.
    ///
    /// Unless it was cancelled before: whoever sent a blob that is whole here hears of it first, and
    /// of the chain behind; that is waited for as long as a node may be out of reach, and no longer.
    pub fn close(&self) {
        let _one = self.closing.lock().expect(UNPOISONED);
        self.shared.settle(self.shared.config.bypass);
        self.shared.stop();
        self.shared.join();
        self.meeting.unlink();
    }
}

impl Drop for BlobNode {
    fn drop(&mut self) {
        self.close();
    }
}

/// A wait without a limit looks around that often.
const LONG: Duration = Duration::from_hours(1);

const LEADER_GONE: &str = "did not come: the connection of its leader on this machine \
                           ended\n\nhint: look at the log of that task, which stopped";

/// Takes the endpoint of a node apart.
fn over_tcp(text: &str, encryption: bool) -> Result<Endpoint, InvalidEndpoint> {
    let endpoint = Endpoint::of_peer(text, encryption)?;
    if endpoint.kind == EndpointKind::Tcp {
        return Ok(endpoint);
    }
    Err(InvalidEndpoint {
        endpoint: text.to_owned(),
        reason: "it does not begin with tcp://".to_owned(),
    })
}

const NOT_BEGUN: &str = "did not begin here\n\nhint: only its origin knows who has it";

const ALONE_HINT: &str = "\n\nhint: is the host of its origin up, and the network to it? raise \
                          reconnect_timeout_seconds to wait longer";

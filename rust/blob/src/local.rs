//! How whole blobs get to the other processes of a node, over a Unix socket.
//!
//! A follower connects to its leader and says which origins it follows there. From then on the leader
//! hands it the sealed memory of every blob of theirs, as a descriptor, or says that a blob failed.
//! When the connection ends, the leader is gone.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use oka_ipc::{accept, packet_socket, peer_user, receive_packet, send_packet};
use rustix::fs::{Mode, chmod};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketAddrUnix, bind, connect, listen};
use rustix::process::geteuid;

use crate::memory::Blob;
use crate::shared::{NodeState, Shared, SocketRegistration};
use crate::table::BlobId;
use crate::transfer::Transfer;

/// A process that is handed the blobs of some origins.
pub(crate) struct Follower {
    socket: Arc<OwnedFd>,
    origins: Vec<u32>,
}

/// The socket that followers come to; its name goes when it is dropped.
pub(crate) struct Meeting {
    pub(crate) socket: OwnedFd,
    path: PathBuf,
}

impl Meeting {
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let socket = packet_socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let meeting = Self {
            socket,
            path: path.to_owned(),
        };
        chmod(path, Mode::RUSR | Mode::WUSR)?;
        listen(&meeting.socket, BACKLOG)?;
        Ok(meeting)
    }

    /// Removes the name; those who are connected stay so.
    pub(crate) fn unlink(&self) {
        // It may be gone already: it is removed as soon as everyone is connected.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Accepts followers until the node stops.
pub(crate) fn accept_followers(shared: &Arc<Shared>, meeting: &Meeting) {
    while !shared.is_stopped() {
        let Ok(socket) = accept(&meeting.socket) else {
            shared.pause(ACCEPT_PAUSE);
            continue;
        };
        if let Ok(follower) = welcome(socket) {
            let mut state = shared.lock();
            state.arrived += 1;
            state.follow(follower);
            shared.notify();
        } else {
            let refused = &shared.counters.refused_connections;
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Comes to a leader; from then on its blobs arrive. Waits for it to listen.
pub(crate) fn follow(
    shared: &Arc<Shared>,
    path: &Path,
    origins: Vec<u32>,
    until: Instant,
) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    let socket = loop {
        let socket = packet_socket()?;
        match connect(&socket, &address) {
            Ok(()) => break socket,
            Err(error) if Instant::now() >= until || shared.pause(CONNECT_PAUSE) => {
                return Err(error.into());
            }
            Err(_) => {}
        }
    };
    let registered = shared.register(&socket)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(GREETING_TIMEOUT))?;
    let mut hello = MAGIC.to_vec();
    hello.extend(origins.iter().flat_map(|origin| origin.to_le_bytes()));
    send_packet(&socket, &hello, None)?;
    let (answer, _) = receive(&socket, &mut [0; MAX_MESSAGE])?;
    if answer != MAGIC.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    set_socket_timeout(&socket, Timeout::Recv, None)?;
    let mut state = shared.lock();
    state
        .leaders
        .extend(origins.iter().map(|origin| (*origin, true)));
    drop(state);
    shared.spawn("oka-blob-local", move |shared| {
        listen_to(&shared, &socket, &origins, registered);
    })
}

/// Takes what a leader hands over, until it is gone.
fn listen_to(shared: &Shared, leader: &OwnedFd, origins: &[u32], _registered: SocketRegistration) {
    let mut bytes = [0; MAX_MESSAGE];
    while let Ok((length, file)) = receive(leader, &mut bytes) {
        let Some(handed) = Handover::decode(&bytes[..length]) else {
            break;
        };
        let id = handed.id;
        if !origins.contains(&id.origin) {
            break;
        }
        let blob = match handed.failed {
            Some(reason) => Err(reason),
            None => Blob::open(file.as_ref(), handed.size, handed.landed_ns)
                .map_err(|error| error.to_string()),
        };
        match blob {
            Ok(blob) => {
                let mut state = shared.lock();
                if state.table.ending(id).is_none() {
                    state.table.expected(id).land_handed(Arc::new(blob));
                }
                shared.notify();
            }
            Err(reason) => {
                shared.lock().table.expected(id);
                shared.fail(id, &reason);
            }
        }
    }
    let mut state = shared.lock();
    state
        .leaders
        .extend(origins.iter().map(|origin| (*origin, false)));
    shared.notify();
}

impl NodeState {
    /// Hands a new follower what is here already.
    fn follow(&mut self, follower: Follower) {
        let mut gone = false;
        for id in self.table.ids() {
            gone |= follower.origins.contains(&id.origin)
                && self
                    .table
                    .get(id)
                    .and_then(|entry| entry.handed_over(id))
                    .is_some_and(|(message, file)| !follower.tell(&message, file));
        }
        if !gone {
            self.followers.push(follower);
        }
        self.settle_followers();
    }

    /// Hands a blob that is whole to all followers of its origin.
    pub(crate) fn hand_over(&mut self, id: BlobId) {
        let entry = self.table.get(id);
        let handed = entry.and_then(|entry| entry.handed_over(id));
        if let Some((message, file)) = handed {
            self.followers.retain(|follower| {
                !follower.origins.contains(&id.origin) || follower.tell(&message, file)
            });
        }
        self.settle_followers();
    }

    /// Tells all followers that a blob will not come.
    pub(crate) fn tell_failed(&mut self, id: BlobId, reason: &str) {
        let message = Handover {
            id,
            size: 0,
            landed_ns: 0,
            failed: Some(reason.to_owned()),
        };
        let message = message.encode();
        self.followers.retain(|follower| {
            !follower.origins.contains(&id.origin) || follower.tell(&message, None)
        });
    }

    /// Once all followers have come, whatever is whole has been handed to them.
    pub(crate) fn settle_followers(&mut self) {
        let expected = self.joined.as_ref().map(|joined| joined.followers);
        if expected.is_none_or(|expected| self.arrived < expected) {
            return;
        }
        for id in self.table.ids() {
            if let Some(entry) = self.table.get_mut(id)
                && entry.blob.is_some()
            {
                entry.handed = true;
                self.table.release(id);
            }
        }
    }
}

impl Transfer {
    /// The message that hands the blob over, and the descriptor that goes with it, once it is whole.
    fn handed_over(&self, id: BlobId) -> Option<(Vec<u8>, Option<BorrowedFd<'_>>)> {
        let (blob, content) = (self.blob.as_ref()?, self.content.as_ref()?);
        let message = Handover {
            id,
            size: content.memory.size(),
            landed_ns: blob.landed_ns(),
            failed: None,
        };
        Some((message.encode(), content.memory.file()))
    }
}

impl Follower {
    /// `false` if it is gone, or does not listen any more.
    fn tell(&self, message: &[u8], file: Option<BorrowedFd<'_>>) -> bool {
        send_packet(&self.socket, message, file).is_ok()
    }
}

/// Hears a follower.
fn welcome(socket: OwnedFd) -> io::Result<Follower> {
    let stranger = || io::Error::from(io::ErrorKind::PermissionDenied);
    if peer_user(&socket)? != geteuid() {
        return Err(stranger());
    }
    set_socket_timeout(&socket, Timeout::Recv, Some(GREETING_TIMEOUT))?;
    let mut hello = [0; MAX_MESSAGE];
    let (length, _) = receive(&socket, &mut hello)?;
    let origins = hello[..length]
        .strip_prefix(&MAGIC[..])
        .ok_or_else(stranger)?;
    let (origins, []) = origins.as_chunks() else {
        return Err(stranger());
    };
    send_packet(&socket, &MAGIC, None)?;
    Ok(Follower {
        socket: Arc::new(socket),
        origins: origins.iter().copied().map(u32::from_le_bytes).collect(),
    })
}

/// What a leader says: a blob is here, or will never be.
#[derive(Debug, PartialEq, Eq)]
struct Handover {
    id: BlobId,
    size: u64,
    landed_ns: u64,
    failed: Option<String>,
}

impl Handover {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.failed.is_some())];
        bytes.extend(self.id.origin.to_le_bytes());
        for number in [self.id.number, self.size, self.landed_ns] {
            bytes.extend(number.to_le_bytes());
        }
        let reason = self.failed.as_deref().unwrap_or_default();
        let room = reason.floor_char_boundary(MAX_MESSAGE - bytes.len());
        bytes.extend(&reason.as_bytes()[..room]);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, reason) = bytes.split_first_chunk::<29>()?;
        let [failed, a, b, c, d, ..] = *head;
        let number = |at: usize| {
            let bytes = head[at..].first_chunk();
            bytes.map(|bytes| u64::from_le_bytes(*bytes))
        };
        let failed = match failed {
            0 => None,
            _ => Some(str::from_utf8(reason).ok()?.to_owned()),
        };
        Some(Self {
            id: BlobId {
                origin: u32::from_le_bytes([a, b, c, d]),
                number: number(5)?,
            },
            size: number(13)?,
            landed_ns: number(21)?,
            failed,
        })
    }
}

/// One message; an error once the connection has ended.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    match receive_packet(socket, bytes)? {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        packet => Ok(packet),
    }
}

/// Oka's blobs on one machine, and the version of this meeting.
const MAGIC: [u8; 4] = *b"OKL1";
const MAX_MESSAGE: usize = 8192;
const BACKLOG: i32 = 1024;

/// How long the other may take to say what it wants.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two attempts to accept when the system refuses.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Between two attempts to reach a leader that does not listen yet.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_comes_back() {
        for failed in [None, Some("it was \u{e9}".to_owned())] {
            let handed = Handover {
                id: BlobId {
                    origin: 7,
                    number: u64::MAX - 1,
                },
                size: 1 << 40,
                landed_ns: 3,
                failed,
            };
            assert_eq!(Handover::decode(&handed.encode()), Some(handed));
        }
        assert_eq!(Handover::decode(&[0; 28]), None);
    }
}

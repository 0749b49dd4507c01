//! Replies on their way from the process that makes them to that of the gateway: over a local socket,
//! or from another host over TCP, where both ends prove their keys and all is encrypted.
//!
//! A connection begins with a byte that says what it is for. One of work has no more: a task of the
//! job says that it works. One of metrics gets what the gateway tells of itself. One of replies has as many as come: each
//! is its header of fixed length, then the lines of its headers, then the body. One of a stream has a
//! single reply, and then its pieces, each behind its length, the last of length 0; so a client that
//! reads slowly holds up its own stream alone.

mod receive;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use oka_ipc::secure::{Cipher, FIRST_BYTES, Identity, SECOND_BYTES};
use oka_ipc::{Endpoint, Key};

use crate::board::Board;
use crate::gateway::Reply;
use crate::slots::{Id, gateway_of};

pub(crate) use self::receive::{Admission, receive_local, receive_tcp};

/// Where the replies of other processes come in at a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// On the same host: its socket and its board, as in [`Config`](crate::Config).
    Local(PathBuf),
    /// What [`Gateway::listen`](crate::Gateway::listen) has said, and how long to try.
    Tcp(Endpoint, Duration),
}

/// The ways from a task to the gateways of others.
#[derive(Debug)]
pub struct Replies {
    identity: Option<Arc<Identity>>,
    ways: BTreeMap<u16, ReplyLink>,
}

#[derive(Debug)]
struct ReplyLink {
    way: Way,
    board: Option<Board>,
    connection: Connection,
    /// What is to be sent.
    bytes: Vec<u8>,
}

impl Replies {
    /// To no gateway yet; `encryption` of what goes over TCP.
    pub fn new(encryption: bool) -> io::Result<Self> {
        let identity = encryption.then(Identity::generate).transpose()?;
        Ok(Self {
            identity: identity.map(Arc::new),
            ways: BTreeMap::new(),
        })
    }

    /// What gateways of other hosts have to admit; None without encryption.
    pub fn key(&self) -> Option<Key> {
        self.identity.as_ref().map(|identity| identity.public)
    }

    /// Connects to the gateway of that number.
    pub fn connect(&mut self, gateway: u16, way: Way) -> io::Result<()> {
        let connection = Connection::open(&way, self.identity.as_deref(), REPLIES)?;
        let board = match &way {
            Way::Local(path) => Some(Board::open(&board_of(path))?),
            Way::Tcp(..) => None,
        };
        let bytes = Vec::new();
        let open = ReplyLink {
            way,
            board,
            connection,
            bytes,
        };
        self.ways.insert(gateway, open);
        Ok(())
    }

    /// Whether there is a way to the gateway of this request.
    pub fn reaches(&self, id: Id) -> bool {
        self.ways.contains_key(&gateway_of(id))
    }

    /// Sends replies, each to its gateway, with one call of the system to each; blocks while a gateway
    /// has too many.
    pub fn send<'a>(&mut self, replies: impl IntoIterator<Item = &'a Reply>) -> io::Result<()> {
        for reply in replies {
            reply.encode(&mut way_of(&mut self.ways, reply.id)?.bytes);
        }
        for open in self.ways.values_mut() {
            if !open.bytes.is_empty() {
                open.connection.write(&open.bytes)?;
                open.bytes.clear();
            }
        }
        Ok(())
    }

    /// Tells all gateways that the task works.
    pub fn tell_work(&self) -> io::Result<()> {
        for open in self.ways.values() {
            Connection::open(&open.way, self.identity.as_deref(), WORK)?;
        }
        Ok(())
    }

    /// What [`Stream::open`] needs for the stream of a request.
    pub fn stream(&self, id: Id) -> io::Result<Stream> {
        let open = self.ways.get(&gateway_of(id)).ok_or_else(nowhere)?;
        Ok(Stream {
            way: open.way.clone(),
            identity: self.identity.clone(),
            connection: None,
        })
    }

    /// How many requests of gateways of this host have ended without an answer; wraps around.
    pub fn abandoned(&self) -> u32 {
        let boards = self.ways.values().filter_map(|open| open.board.as_ref());
        boards.fold(0, |sum, board| sum.wrapping_add(board.abandoned()))
    }

    /// Whether a request has ended without an answer; None where that cannot be seen from here: it is
    /// of a gateway on another host.
    pub fn is_abandoned(&self, id: Id) -> Option<bool> {
        let board = self.ways.get(&gateway_of(id))?.board.as_ref()?;
        Some(board.is_abandoned(id))
    }
}

/// An answer that goes piece by piece.
#[derive(Debug)]
pub struct Stream {
    way: Way,
    identity: Option<Arc<Identity>>,
    connection: Option<Connection>,
}

impl Stream {
    /// Begins: the reply's status and headers; its body is left out.
    pub fn open(&mut self, reply: &Reply) -> io::Result<()> {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        let mut connection = Connection::open(&self.way, self.identity.as_deref(), STREAM)?;
        connection.write(&bytes)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Sends a piece; blocks while the client reads more slowly, fails when it is gone.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        self.send(piece)
    }

    /// That was all. Without it, the client sees that the answer is broken off.
    pub fn finish(mut self) -> io::Result<()> {
        self.send(&[])
    }

    fn send(&mut self, piece: &[u8]) -> io::Result<()> {
        let connection = self.connection.as_mut().ok_or_else(nowhere)?;
        let mut bytes = Vec::with_capacity(4 + piece.len());
        bytes.put_u32_le(piece.len() as u32);
        bytes.extend_from_slice(piece);
        connection.write(&bytes)
    }
}

/// The end that is written to.
struct Connection {
    socket: Box<dyn Write + Send>,
    cipher: Option<Cipher>,
    sealed: Vec<u8>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    fn open(way: &Way, identity: Option<&Identity>, purpose: u8) -> io::Result<Self> {
        let (socket, cipher): (Box<dyn Write + Send>, _) = match way {
            Way::Local(path) => (Box::new(UnixStream::connect(path)?), None),
            Way::Tcp(endpoint, timeout) => {
                let (socket, cipher) = greet(endpoint, *timeout, identity)?;
                (Box::new(socket), cipher)
            }
        };
        let mut connection = Self {
            socket,
            cipher,
            sealed: Vec::new(),
        };
        connection.write(&[purpose])?;
        Ok(connection)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(cipher) = &mut self.cipher else {
            return self.socket.write_all(bytes);
        };
        for piece in bytes.chunks(MOST_SEALED_BYTES) {
            self.sealed.clear();
            self.sealed.put_u32_le(piece.len() as u32);
            self.sealed.extend_from_slice(piece);
            let tag = cipher.seal(&mut self.sealed[LENGTH_BYTES..])?;
            self.sealed.extend_from_slice(&tag);
            self.socket.write_all(&self.sealed)?;
        }
        Ok(())
    }
}

fn greet(
    endpoint: &Endpoint,
    timeout: Duration,
    identity: Option<&Identity>,
) -> io::Result<(TcpStream, Option<Cipher>)> {
    let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(&endpoint.address)?;
    let address = addresses.next().ok_or_else(nowhere)?;
    let mut socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_nodelay(true)?;
    let (Some(identity), Some(peer)) = (identity, &endpoint.key) else {
        return Ok((socket, None));
    };
    socket.set_read_timeout(Some(timeout))?;
    let mut handshake = identity.initiate(PROLOGUE, peer)?;
    socket.write_all(&handshake.write::<FIRST_BYTES>()?)?;
    let mut second = [0; SECOND_BYTES];
    socket.read_exact(&mut second)?;
    handshake.read(&second)?;
    let (send, _) = handshake.finish()?;
    Ok((socket, Some(send)))
}

impl Reply {
    /// Appends the reply as it travels.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64_le(self.id);
        bytes.put_u16_le(self.status);
        bytes.put_u32_le(self.head.len() as u32);
        bytes.put_u64_le(self.body.len() as u64);
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(&self.body);
    }

    /// Takes off the reply that the bytes begin with, if it is there as a whole.
    pub fn decode(bytes: &mut BytesMut) -> Option<Self> {
        let mut header = bytes.get(..HEADER_BYTES)?;
        let (id, status) = (header.get_u64_le(), header.get_u16_le());
        let head = header.get_u32_le() as usize;
        let body = usize::try_from(header.get_u64_le()).ok()?;
        let whole = HEADER_BYTES.checked_add(head)?.checked_add(body)?;
        if bytes.len() < whole {
            return None;
        }
        bytes.advance(HEADER_BYTES);
        let head = bytes.split_to(head).freeze();
        let body = bytes.split_to(body).freeze();
        Some(Self {
            id,
            status,
            head,
            body,
        })
    }
}

/// The board of the gateway whose socket is here.
pub(crate) fn board_of(socket: &std::path::Path) -> PathBuf {
    socket.with_extension("board")
}

fn way_of(ways: &mut BTreeMap<u16, ReplyLink>, id: Id) -> io::Result<&mut ReplyLink> {
    ways.get_mut(&gateway_of(id)).ok_or_else(nowhere)
}

fn nowhere() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no way to this gateway")
}

const REPLIES: u8 = b'R';
const STREAM: u8 = b'S';
const WORK: u8 = b'W';
pub(crate) const METRICS: u8 = b'M';
const PROLOGUE: &[u8] = b"oka replies 1";
const HEADER_BYTES: usize = 8 + 2 + 4 + 8;
const LENGTH_BYTES: usize = 4;
const MOST_SEALED_BYTES: usize = 1 << 20;

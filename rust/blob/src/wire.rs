//! A connection between two nodes: messages and the bytes of chunks, encrypted or not.
//!
//! Each half belongs to one thread. Reading is bounded in time: while nothing comes, the caller is
//! asked again and again whether to go on.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::BlobConfig;
use crate::memory::Memory;
use crate::message::{ChunkHead, MAX_MESSAGE_BYTES, Message};
use oka_ipc::Key;
use oka_ipc::secure::{Cipher, FIRST_BYTES, Identity, SECOND_BYTES, TAG_BYTES};

/// The half that receives.
pub(crate) struct Reader {
    socket: Arc<TcpStream>,
    cipher: Option<Cipher>,
    frame: Vec<u8>,
    /// How long it may be silent.
    silence: Duration,
    heard: Instant,
}

/// The half that sends.
pub(crate) struct Writer {
    socket: Arc<TcpStream>,
    cipher: Option<Cipher>,
    out: Vec<u8>,
    encoded: Vec<u8>,
    /// Where a chunk is encrypted.
    chunk: Vec<u8>,
}

/// Makes a socket notice within `bypass` that its peer is gone.
pub(crate) fn prepare(socket: &TcpStream, config: &BlobConfig) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(config.tick()))?;
    socket.set_write_timeout(Some(config.bypass))?;
    sockopt::set_socket_keepalive(socket, true)?;
    let probe = Duration::from_secs(1);
    sockopt::set_tcp_keepidle(socket, probe)?;
    sockopt::set_tcp_keepintvl(socket, probe)?;
    sockopt::set_tcp_keepcnt(socket, (config.bypass.as_secs() as u32).max(1))?;
    sockopt::set_tcp_user_timeout(socket, config.bypass.as_millis() as u32)?;
    Ok(())
}

/// Greets the one who listens; with keys, both prove that they have theirs.
pub(crate) fn greet(
    socket: Arc<TcpStream>,
    keys: Option<(&Identity, &Key)>,
    silence: Duration,
) -> io::Result<(Reader, Writer)> {
    let (mut reader, mut writer) = halves(socket, silence);
    let Some((identity, peer)) = keys else {
        writer.write(PLAIN)?;
        return Ok((reader, writer));
    };
    let mut handshake = identity.initiate(PROLOGUE, peer)?;
    let first = handshake.write::<FIRST_BYTES>()?;
    writer.write(&[&ENCRYPTED[..], &first[..]].concat())?;
    let mut second = [0; SECOND_BYTES];
    reader.fill(&mut second, &mut || Ok(()))?;
    handshake.read(&second)?;
    let (send, receive) = handshake.finish()?;
    (writer.cipher, reader.cipher) = (Some(send), Some(receive));
    Ok((reader, writer))
}

/// Hears the one who connected; with encryption, only if `admit` knows its key.
pub(crate) fn welcome(
    socket: Arc<TcpStream>,
    identity: Option<&Identity>,
    silence: Duration,
    admit: impl FnOnce(Key) -> bool,
) -> io::Result<(Reader, Writer)> {
    let stranger = |what| io::Error::new(io::ErrorKind::PermissionDenied, what);
    let (mut reader, mut writer) = halves(socket, silence);
    let mut greeting = [0; PLAIN.len()];
    reader.fill(&mut greeting, &mut || Ok(()))?;
    let Some(identity) = identity else {
        let plain = greeting == *PLAIN;
        return plain
            .then_some((reader, writer))
            .ok_or_else(|| stranger("it does not speak the protocol, or encrypts"));
    };
    if greeting != *ENCRYPTED {
        return Err(stranger("it does not speak the protocol, or not encrypted"));
    }
    let mut first = [0; FIRST_BYTES];
    reader.fill(&mut first, &mut || Ok(()))?;
    let mut handshake = identity.respond(PROLOGUE)?;
    handshake
        .read(&first)
        .map_err(|_| stranger("its handshake is none"))?;
    if !handshake.peer().is_some_and(admit) {
        return Err(stranger("its key is unknown"));
    }
    let second = handshake.write::<SECOND_BYTES>()?;
    writer.write(&second)?;
    let (send, receive) = handshake.finish()?;
    (writer.cipher, reader.cipher) = (Some(send), Some(receive));
    Ok((reader, writer))
}

fn halves(socket: Arc<TcpStream>, silence: Duration) -> (Reader, Writer) {
    let reader = Reader {
        socket: Arc::clone(&socket),
        cipher: None,
        frame: Vec::new(),
        silence,
        heard: Instant::now(),
    };
    let writer = Writer {
        socket,
        cipher: None,
        out: Vec::new(),
        encoded: Vec::new(),
        chunk: Vec::new(),
    };
    (reader, writer)
}

impl Reader {
    /// The next message. `meanwhile` is called now and then until it is whole, and ends the reading
    /// with an error.
    pub(crate) fn message(
        &mut self,
        meanwhile: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Message> {
        let mut length = [0; 4];
        self.fill(&mut length, meanwhile)?;
        let length = u32::from_le_bytes(length) as usize;
        let tag = self.cipher.as_ref().map_or(SUM_BYTES, |_| TAG_BYTES);
        if !(tag..=MAX_MESSAGE_BYTES + tag).contains(&length) {
            return Err(malformed("a message of an impossible length"));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        // Set aside as it comes: a stranger's word for its length costs nothing.
        while frame.len() < length {
            let start = frame.len();
            frame.resize(length.min(start + PIECE), 0);
            self.fill(&mut frame[start..], meanwhile)?;
        }
        let message = self
            .open(&mut frame)
            .and_then(|bytes| Message::decode(bytes).map_err(|error| malformed(error.0)));
        self.frame = frame;
        message
    }

    /// The bytes of a chunk, into `bytes`.
    pub(crate) fn chunk(
        &mut self,
        bytes: &mut [u8],
        meanwhile: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        self.fill(bytes, meanwhile)?;
        if self.cipher.is_some() {
            let mut tag = [0; TAG_BYTES];
            self.fill(&mut tag, meanwhile)?;
            if let Some(cipher) = &mut self.cipher {
                cipher.open(bytes, tag)?;
            }
        }
        Ok(())
    }

    /// Whether there is something to read, now or within that time.
    pub(crate) fn is_ready(&self, timeout: Duration) -> io::Result<bool> {
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = timeout
            .try_into()
            .map_err(|_| malformed("a time too long"))?;
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The time of the silence begins anew: it was the turn of the other half.
    pub(crate) fn not_silent(&mut self) {
        self.heard = Instant::now();
    }

    /// An error if nothing was heard for too long.
    pub(crate) fn check_silence(&self) -> io::Result<()> {
        if self.heard.elapsed() < self.silence {
            return Ok(());
        }
        let what = format!("it was silent for {:.1} s", self.silence.as_secs_f64());
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    fn fill(
        &mut self,
        mut bytes: &mut [u8],
        meanwhile: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.socket).read(bytes) {
                Ok(0) => return Err(closed()),
                Ok(read) => {
                    self.heard = Instant::now();
                    bytes = &mut bytes[read..];
                    meanwhile()?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.check_silence()?;
                    meanwhile()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn open<'a>(&mut self, frame: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let Some(cipher) = &mut self.cipher else {
            let (bytes, sum) = frame
                .split_last_chunk_mut::<SUM_BYTES>()
                .ok_or_else(|| malformed("a message without a checksum"))?;
            return if xxh3_64(bytes).to_le_bytes() == *sum {
                Ok(bytes)
            } else {
                Err(malformed("a message that was changed on its way"))
            };
        };
        let (bytes, tag) = frame
            .split_last_chunk_mut::<TAG_BYTES>()
            .ok_or_else(|| malformed("a message without a tag"))?;
        cipher.open(bytes, *tag)?;
        Ok(bytes)
    }
}

impl Writer {
    pub(crate) fn message(&mut self, message: &Message) -> io::Result<()> {
        self.frame(message)?;
        let out = std::mem::take(&mut self.out);
        let written = self.write(&out);
        self.out = out;
        written
    }

    /// The bytes of a chunk, behind the message that announces them.
    pub(crate) fn chunk(
        &mut self,
        head: ChunkHead,
        memory: &Memory,
        offset: u64,
    ) -> io::Result<()> {
        self.frame(&Message::Chunk(head))?;
        let length = head.length as usize;
        if self.chunk.len() < length {
            self.chunk.resize(length, 0);
        }
        let chunk = &mut self.chunk[..length];
        // A copy, and cheaper than none: what sendfile queues is single pages, which cost the kernel
        // more on their way through virtual links and at the receiver than copying them costs here.
        let sent = write_more(&self.socket, &self.out)
            .and_then(|()| memory.read_at(chunk, offset))
            .and_then(|()| match &mut self.cipher {
                None => write_all(&self.socket, chunk),
                Some(cipher) => {
                    let tag = cipher.seal(chunk)?;
                    write_more(&self.socket, chunk)?;
                    write_all(&self.socket, &tag)
                }
            });
        sent.map_err(stuck)
    }

    /// The message with its length before it, in `out`.
    fn frame(&mut self, message: &Message) -> io::Result<()> {
        self.encoded.clear();
        message.encode(&mut self.encoded);
        if let Some(cipher) = &mut self.cipher {
            let tag = cipher.seal(&mut self.encoded)?;
            self.encoded.extend(tag);
        } else {
            let sum = xxh3_64(&self.encoded);
            self.encoded.extend(sum.to_le_bytes());
        }
        self.out.clear();
        self.out.extend((self.encoded.len() as u32).to_le_bytes());
        self.out.extend(&self.encoded);
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.socket, bytes).map_err(stuck)
    }
}

fn write_all(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes)
}

/// Writes what more follows at once, so that they leave together.
fn write_more(socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::net::send;
    while !bytes.is_empty() {
        match send(socket.as_fd(), bytes, oka_ipc::MORE) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn stuck(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "it takes nothing any more")
        }
        _ => error,
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "its connection closed")
}

pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Oka's blobs, the version of the protocol, and how it goes on.
const PROLOGUE: &[u8] = b"oka blob 1";

const PLAIN: &[u8; 6] = b"OKAB1p";
const ENCRYPTED: &[u8; 6] = b"OKAB1n";

/// The checksum behind a message that is not encrypted.
const SUM_BYTES: usize = 8;

/// Bytes of a message that are set aside before they are there.
const PIECE: usize = 4096;

//! The gateway's end of the connections that replies come by.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use oka_ipc::Key;
use oka_ipc::secure::{Cipher, FIRST_BYTES, Identity, SECOND_BYTES, TAG_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use super::{LENGTH_BYTES, METRICS, MOST_SEALED_BYTES, PROLOGUE, REPLIES, STREAM, WORK};
use crate::content::together;
use crate::gateway::{BrokenAnswer, Exchange, Reply};
use crate::metrics::Told;

/// The key of a gateway, and those that it admits, once it knows them.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) identity: Arc<Identity>,
    pub(crate) admitted: watch::Receiver<Option<HashSet<Key>>>,
}

/// Takes in the replies of all who connect from this host.
pub(crate) async fn receive_local(listener: UnixListener, exchange: Arc<Exchange>) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await; // out of descriptors, most likely
            continue;
        };
        let incoming = ReplyReader {
            socket,
            cipher: None,
        };
        tokio::spawn(hear(incoming, Arc::clone(&exchange)));
    }
}

/// Takes in the replies of all who connect from others, and whose keys are admitted.
pub(crate) async fn receive_tcp(
    listener: TcpListener,
    admission: Option<Admission>,
    exchange: Arc<Exchange>,
) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await; // out of descriptors, most likely
            continue;
        };
        let (admission, exchange) = (admission.clone(), Arc::clone(&exchange));
        tokio::spawn(async move {
            if let Ok(incoming) = welcome(socket, admission).await {
                hear(incoming, exchange).await;
            }
        });
    }
}

async fn welcome(
    mut socket: tokio::net::TcpStream,
    admission: Option<Admission>,
) -> io::Result<ReplyReader<tokio::net::TcpStream>> {
    let Some(mut admission) = admission else {
        let cipher = None;
        return Ok(ReplyReader { socket, cipher });
    };
    let stranger = || io::Error::from(io::ErrorKind::PermissionDenied);
    let greeting = async {
        let mut first = [0; FIRST_BYTES];
        socket.read_exact(&mut first).await?;
        let mut handshake = admission.identity.respond(PROLOGUE)?;
        handshake.read(&first)?;
        // Tasks connect in any order: this gateway may not know its peers yet.
        let peer = handshake.peer().ok_or_else(stranger)?;
        let known = admission.admitted.wait_for(Option::is_some).await;
        let is_admitted = known.is_ok_and(|keys| keys.iter().flatten().any(|key| *key == peer));
        if !is_admitted {
            return Err(stranger());
        }
        let second = handshake.write::<SECOND_BYTES>()?;
        socket.write_all(&second).await?;
        handshake.finish()
    };
    let greeted = tokio::time::timeout(GREETING, greeting).await;
    let (_, receive) = greeted.map_err(|_| stranger())??;
    let cipher = Some(receive);
    Ok(ReplyReader { socket, cipher })
}

/// The end that is read from.
struct ReplyReader<S> {
    socket: S,
    cipher: Option<Cipher>,
}

impl<S: AsyncRead + Unpin> ReplyReader<S> {
    /// Appends what has come; fails at the end.
    async fn fill(&mut self, bytes: &mut BytesMut) -> io::Result<()> {
        let Some(cipher) = &mut self.cipher else {
            bytes.reserve(ROOM);
            return match self.socket.read_buf(bytes).await? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(()),
            };
        };
        let length = self.socket.read_u32_le().await? as usize;
        if length > MOST_SEALED_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let start = bytes.len();
        bytes.resize(start + length, 0);
        self.socket.read_exact(&mut bytes[start..]).await?;
        let mut tag = [0; TAG_BYTES];
        self.socket.read_exact(&mut tag).await?;
        cipher.open(&mut bytes[start..], tag)
    }
}

async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    mut incoming: ReplyReader<S>,
    exchange: Arc<Exchange>,
) {
    let mut bytes = BytesMut::new();
    if incoming.fill(&mut bytes).await.is_err() {
        return;
    }
    match bytes.get_u8() {
        REPLIES => loop {
            exchange.reply(std::iter::from_fn(|| Reply::decode(&mut bytes)));
            if incoming.fill(&mut bytes).await.is_err() {
                return;
            }
        },
        WORK => exchange.note_work(),
        METRICS if incoming.cipher.is_none() => {
            let told = Told::of(&exchange).encode();
            let _ = incoming.socket.write_all(&told).await; // or nobody waits for it
        }
        STREAM => {
            let _ = pass_on(incoming, bytes, &exchange).await; // its client sees what became of it
        }
        _ => {}
    }
}

/// Hands a stream on to its client, as fast as that one reads.
async fn pass_on<S: AsyncRead + Unpin>(
    mut incoming: ReplyReader<S>,
    mut bytes: BytesMut,
    exchange: &Exchange,
) -> Result<(), BrokenAnswer> {
    let first = loop {
        if let Some(reply) = Reply::decode(&mut bytes) {
            break reply;
        }
        incoming.fill(&mut bytes).await.map_err(|_| BrokenAnswer)?;
    };
    let id = first.id;
    let pieces = exchange.begin_stream(first).ok_or(BrokenAnswer)?;
    loop {
        while let Some(piece) = piece(&mut bytes) {
            if piece.is_empty() {
                exchange.end_stream(id);
                return Ok(());
            }
            let kept = tokio::select! {
                kept = exchange.budget.wait(piece.len()) => kept,
                () = pieces.closed() => return Err(BrokenAnswer),
            };
            let piece = Ok(together(piece, kept));
            pieces.send(piece).await.map_err(|_| BrokenAnswer)?;
        }
        if incoming.fill(&mut bytes).await.is_err() {
            let _ = pieces.send(Err(BrokenAnswer)).await;
            exchange.end_stream(id);
            return Err(BrokenAnswer);
        }
    }
}

/// Takes off the piece that the bytes begin with, if it is there as a whole.
fn piece(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = bytes.get(..LENGTH_BYTES)?.get_u32_le() as usize;
    if bytes.len() - LENGTH_BYTES < length {
        return None;
    }
    bytes.advance(LENGTH_BYTES);
    Some(bytes.split_to(length).freeze())
}

const ROOM: usize = 64 * 1024;
/// For a peer to prove its key.
const GREETING: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);

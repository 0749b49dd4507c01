//! Replies on their way from the process that makes them to that of the gateway, over a local socket.
//!
//! A reply is its header of fixed length, then the lines of its headers, then the body.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;

use crate::gateway::{Exchange, Reply};

/// The end that replies are sent from.
#[derive(Debug)]
pub struct Replies {
    socket: UnixStream,
    bytes: Vec<u8>,
}

impl Replies {
    /// To the gateway whose socket is here.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: UnixStream::connect(path)?,
            bytes: Vec::new(),
        })
    }

    /// Sends replies with one call of the system; blocks while the gateway has too many.
    pub fn send<'a>(&mut self, replies: impl IntoIterator<Item = &'a Reply>) -> io::Result<()> {
        self.bytes.clear();
        for reply in replies {
            reply.encode(&mut self.bytes);
        }
        self.socket.write_all(&self.bytes)
    }
}

/// Takes in the replies of all who connect.
pub(crate) async fn receive(listener: UnixListener, exchange: Arc<Exchange>) {
    while let Ok((mut socket, _)) = listener.accept().await {
        let exchange = Arc::clone(&exchange);
        tokio::spawn(async move {
            let mut bytes = BytesMut::new();
            loop {
                bytes.reserve(ROOM);
                match socket.read_buf(&mut bytes).await {
                    Ok(1..) => exchange.reply(std::iter::from_fn(|| Reply::decode(&mut bytes))),
                    _ => return,
                }
            }
        });
    }
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

const HEADER_BYTES: usize = 8 + 2 + 4 + 8;
const ROOM: usize = 64 * 1024;

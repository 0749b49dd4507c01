//! One connection that is kept alive: a request at a time, and its reply.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::reply;

pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// When the request that it is busy with should have been sent.
    pub request: Option<u64>,
}

/// What came of reading.
#[derive(Debug, PartialEq)]
pub enum ReadOutcome {
    /// The reply is not all there.
    Partial,
    /// It is, with this status.
    Reply { status: u16, closes: bool },
    /// The connection is of no more use.
    Broken,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(4096),
            request: None,
        })
    }

    /// Sends a request, all of it or none: those of a benchmark fit into the socket's buffer.
    pub fn send(&mut self, bytes: &[u8], due_ns: u64) -> io::Result<()> {
        let sent = self.stream.write(bytes)?;
        if sent < bytes.len() {
            return Err(ErrorKind::WriteZero.into());
        }
        self.request = Some(due_ns);
        Ok(())
    }

    /// Reads what is there.
    pub fn read(&mut self) -> ReadOutcome {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => return ReadOutcome::Broken,
            Ok(size) => self.received.extend_from_slice(&chunk[..size]),
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => ReadOutcome::Partial,
                    _ => ReadOutcome::Broken,
                };
            }
        }
        match reply::parse(&self.received) {
            Ok(Some(head)) if self.received.len() == head.length && self.request.is_some() => {
                self.received.clear();
                ReadOutcome::Reply {
                    status: head.status,
                    closes: head.closes,
                }
            }
            Ok(Some(head)) if self.received.len() < head.length => ReadOutcome::Partial,
            Ok(None) => ReadOutcome::Partial,
            _ => ReadOutcome::Broken,
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

const CONNECT: Duration = Duration::from_secs(1);

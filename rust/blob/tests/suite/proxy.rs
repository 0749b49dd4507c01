//! A TCP proxy that stands before a node, cuts what goes through it and flips bits of it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards to one node, until it is told not to. Bytes are counted on the way to the node, over all
/// connections.
pub struct Proxy {
    pub endpoint: String,
    gate: Arc<Gate>,
}

struct Gate {
    closed: AtomicBool,
    ends: Mutex<Vec<TcpStream>>,
    passed: AtomicU64,
    cut_at: AtomicU64,
    flip_at: AtomicU64,
    connections: AtomicU64,
}

impl Proxy {
    pub fn to(endpoint: &str) -> Self {
        let start = endpoint.find('@').unwrap_or("tcp:/".len()) + 1;
        let (scheme_and_key, target) = endpoint.split_at(start);
        let target = target.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(Gate {
            closed: AtomicBool::new(false),
            ends: Mutex::default(),
            passed: AtomicU64::new(0),
            cut_at: AtomicU64::new(u64::MAX),
            flip_at: AtomicU64::new(u64::MAX),
            connections: AtomicU64::new(0),
        });
        thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if !gate.closed.load(Ordering::SeqCst)
                        && let Ok(server) = TcpStream::connect(&target)
                    {
                        gate.join(client, server);
                    }
                }
            }
        });
        Self {
            endpoint: format!("{scheme_and_key}{address}"),
            gate,
        }
    }

    /// Cuts the connection that carries the byte with that number, before it; once.
    pub fn cut_at(&self, byte: u64) {
        self.gate.cut_at.store(byte, Ordering::SeqCst);
    }

    /// Flips a bit of the byte with that number.
    pub fn flip_at(&self, byte: u64) {
        self.gate.flip_at.store(byte, Ordering::SeqCst);
    }

    /// Cuts every connection, and those that come.
    pub fn close(&self) {
        self.gate.closed.store(true, Ordering::SeqCst);
        self.gate.cut();
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.gate.closed.store(false, Ordering::SeqCst);
    }

    pub fn connections(&self) -> u64 {
        self.gate.connections.load(Ordering::SeqCst)
    }
}

impl Gate {
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let clone = |stream: &TcpStream| stream.try_clone().unwrap();
        let mut ends = self.ends.lock().unwrap();
        ends.extend([clone(&client), clone(&server)]);
        drop(ends);
        let (back, forth) = (clone(&server), clone(&client));
        let gate = Arc::clone(self);
        thread::spawn(move || gate.forward(client, server));
        thread::spawn(move || copy(back, forth));
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let start = self.passed.fetch_add(read as u64, Ordering::SeqCst);
            let within = |byte: &AtomicU64| {
                let at = byte.load(Ordering::SeqCst).checked_sub(start)? as usize;
                let found = at < read;
                found.then(|| byte.store(u64::MAX, Ordering::SeqCst));
                found.then_some(at)
            };
            if let Some(at) = within(&self.flip_at) {
                bytes[at] ^= 4;
            }
            let cut = within(&self.cut_at);
            if to.write_all(&bytes[..cut.unwrap_or(read)]).is_err() || cut.is_some() {
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

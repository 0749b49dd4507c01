//! A TCP proxy for tests, that stands before one end, cuts what goes through it and flips bits of it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::Endpoint;

/// Forwards to one endpoint, until it is told not to. Bytes are counted on the way to it, over all
/// connections.
pub struct Proxy {
    /// Where it is to be reached through this proxy.
    pub endpoint: String,
    gate: Arc<Gate>,
}

struct Gate {
    target: String,
    pause: Duration,
    closed: AtomicBool,
    connections: Mutex<Vec<Connection>>,
    connected: AtomicU64,
    passed: AtomicU64,
    cut_at: AtomicU64,
    flip_at: AtomicU64,
}

/// Both ends of a connection, and whether what it carries is lost.
struct Connection {
    ends: [TcpStream; 2],
    loses: Arc<AtomicBool>,
}

impl Proxy {
    /// With a pause after each piece that it forwards: a slow link is a busy one.
    pub fn to(endpoint: &str, pause: Duration) -> Self {
        let endpoint = Endpoint::parse(endpoint).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Arc::new(Gate {
            target: endpoint.address.clone(),
            pause,
            closed: AtomicBool::new(false),
            connections: Mutex::default(),
            connected: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            cut_at: AtomicU64::new(u64::MAX),
            flip_at: AtomicU64::new(u64::MAX),
        });
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    gate.join(&client);
                }
            }
        });
        let endpoint = Endpoint {
            address,
            ..endpoint
        }
        .to_string();
        Self { endpoint, gate }
    }

    /// Cuts the connection that carries the byte with that number, before it; once.
    pub fn cut_at(&self, byte: u64) {
        self.gate.cut_at.store(byte, Ordering::SeqCst);
    }

    /// Flips a bit of the byte with that number.
    pub fn flip_at(&self, byte: u64) {
        self.gate.flip_at.store(byte, Ordering::SeqCst);
    }

    /// Loses what every connection carries for a moment, and cuts it, wherever it is in a message.
    pub fn cut(&self) {
        let connections: Vec<_> = self.gate.connections.lock().unwrap().drain(..).collect();
        for connection in &connections {
            connection.loses.store(true, Ordering::SeqCst);
        }
        thread::sleep(Duration::from_millis(5));
        for connection in &connections {
            end_both(&connection.ends);
        }
    }

    /// Cuts every connection, and all that come from now on.
    pub fn close(&self) {
        self.gate.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.gate.closed.store(false, Ordering::SeqCst);
    }

    /// How many it has let through.
    pub fn connections(&self) -> u64 {
        self.gate.connected.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl Gate {
    fn join(self: &Arc<Self>, client: &TcpStream) {
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(&self.target) else {
            return;
        };
        self.connected.fetch_add(1, Ordering::SeqCst);
        let clone = |stream: &TcpStream| stream.try_clone().unwrap();
        let loses = Arc::new(AtomicBool::new(false));
        for is_there in [true, false] {
            let mut ends = [clone(client), clone(&server)];
            if !is_there {
                ends.reverse();
            }
            let (gate, loses) = (Arc::clone(self), Arc::clone(&loses));
            thread::spawn(move || gate.forward(ends, is_there, &loses));
        }
        let ends = [clone(client), server];
        let connection = Connection { ends, loses };
        self.connections.lock().unwrap().push(connection);
    }

    fn forward(&self, mut ends: [TcpStream; 2], is_there: bool, loses: &AtomicBool) {
        let mut bytes = vec![0; 64 * 1024];
        let [from, to] = &mut ends;
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let mut cut = None;
            if is_there {
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
                cut = within(&self.cut_at);
            }
            let whole = &bytes[..cut.unwrap_or(read)];
            let is_lost = !loses.load(Ordering::SeqCst) && to.write_all(whole).is_err();
            if is_lost || cut.is_some() {
                break;
            }
            thread::sleep(self.pause);
        }
        end_both(&ends);
    }
}

fn end_both(ends: &[TcpStream; 2]) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both);
    }
}

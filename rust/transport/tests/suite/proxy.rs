//! A TCP proxy that stands between two networks, and cuts what goes through it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use oka_transport::{ChannelSpec, Network};

/// Forwards to one network, until it is told not to.
pub struct Proxy {
    scheme_and_key: String,
    pub address: String,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

/// Both ends of a connection, and whether what it carries is lost.
struct Connection {
    ends: [TcpStream; 2],
    loses: Arc<AtomicBool>,
}

impl Proxy {
    pub fn to(network: &Network) -> Self {
        let endpoint = &network.endpoints()[0];
        let start = endpoint.find('@').unwrap_or("tcp:/".len()) + 1;
        let (scheme_and_key, target) = endpoint.split_at(start);
        let (scheme_and_key, target) = (scheme_and_key.to_owned(), target.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let gate = Arc::new(Gate::default());
        thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if !gate.closed.load(Ordering::SeqCst)
                        && let Ok(server) = TcpStream::connect(&target)
                    {
                        gate.join(&client, &server);
                    }
                }
            }
        });
        Self {
            scheme_and_key,
            address,
            gate,
        }
    }

    /// Where the network is to be reached through this proxy.
    pub fn channel(&self, id: u32) -> ChannelSpec {
        ChannelSpec::new(id, format!("{}{}", self.scheme_and_key, self.address))
    }

    /// Loses what every connection carries for a moment, and cuts it, wherever it is in a message.
    pub fn cut(&self) {
        let connections: Vec<_> = self.gate.connections.lock().unwrap().drain(..).collect();
        for connection in &connections {
            connection.loses.store(true, Ordering::SeqCst);
        }
        thread::sleep(Duration::from_millis(5));
        for end in connections.iter().flat_map(|connection| &connection.ends) {
            let _ = end.shutdown(Shutdown::Both);
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
}

impl Gate {
    fn join(&self, client: &TcpStream, server: &TcpStream) {
        let loses = Arc::new(AtomicBool::new(false));
        for (from, to) in [(client, server), (server, client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let loses = Arc::clone(&loses);
            thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count) = from.read(&mut buffer)
                    && count > 0
                    && (loses.load(Ordering::SeqCst) || to.write_all(&buffer[..count]).is_ok())
                {
                    // A slow link is a busy one.
                    thread::sleep(Duration::from_millis(1));
                }
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
            });
        }
        let connection = Connection {
            ends: [client, server].map(|stream| stream.try_clone().unwrap()),
            loses,
        };
        self.connections.lock().unwrap().push(connection);
    }
}

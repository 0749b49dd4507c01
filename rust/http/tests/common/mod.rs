//! A gateway, and clients of it over real sockets.
#![allow(dead_code, reason = "each file of tests needs a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oka_http::{Config, Gateway, Reply, Request};

pub fn config() -> Config {
    Config {
        gateway: 3,
        host: "127.0.0.1".to_owned(),
        port: 0,
        shares_port: false,
        path: "/predict".to_owned(),
        token: None,
        max_in_flight: 8,
        max_body_bytes: 1000,
        timeout: Duration::from_mins(1),
        client_timeout: Duration::from_mins(1),
        max_connections: 1000,
        max_in_flight_bytes: 1 << 20,
        tasks: 0,
        certificate: None,
        replies: None,
    }
}

pub fn start(config: Config) -> Arc<Gateway> {
    Arc::new(Gateway::start(config).unwrap())
}

pub struct Client {
    pub socket: BufReader<TcpStream>,
}

impl Client {
    pub fn new(gateway: &Gateway) -> Self {
        let socket = TcpStream::connect(gateway.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket: BufReader::new(socket),
        }
    }

    pub fn send(&mut self, request: &str) -> &mut Self {
        self.socket.get_mut().write_all(request.as_bytes()).unwrap();
        self
    }

    pub fn post(&mut self, body: &str) -> &mut Self {
        let length = body.len();
        self.send(&format!(
            "POST /predict?n=1 HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    /// Status, headers and body of the next response.
    pub fn read(&mut self) -> (u16, Vec<String>, String) {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.socket.read_line(&mut line);
            assert!(matches!(read, Ok(1..)), "{read:?}, {lines:?}");
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let length = lines
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.socket.read_exact(&mut body).unwrap();
        let status = lines.remove(0).split(' ').nth(1).unwrap().parse().unwrap();
        (status, lines, String::from_utf8(body).unwrap())
    }

    pub fn status(&mut self) -> u16 {
        self.read().0
    }

    pub fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// Requests, once there are so many.
pub fn take(gateway: &Gateway, count: usize) -> Vec<Request> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = gateway.take(count, PATIENCE, Duration::ZERO).unwrap();
        assert!(!more.is_empty(), "{} of {count}", taken.len());
        taken.extend(more);
    }
    taken
}

pub fn reply(request: &Request, text: &str) -> Reply {
    Reply {
        id: request.id,
        status: 200,
        head: Bytes::from_static(b"x-kind: test\r\n"),
        body: Bytes::copy_from_slice(text.as_bytes()),
    }
}

pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(2));
    }
}

pub const PATIENCE: Duration = Duration::from_secs(30);

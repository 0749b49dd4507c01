//! What no client can make a gateway keep, for long or in bulk.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oka_http::{Config, Gateway, Replies, Reply, Request, Way};

use common::{Client, PATIENCE, config, reply, start, take, wait_until};

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// With little patience.
fn strict() -> Config {
    Config {
        client_timeout: Duration::from_millis(300),
        ..config()
    }
}

fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let begin = [&length.to_be_bytes()[1..], &[kind, flags, 0, 0, 0, stream]].concat();
    [&begin, content].concat()
}

/// One of HTTP/2, which lets the server send as many bytes of an answer as it says.
fn http2(gateway: &Gateway, window: u32) -> TcpStream {
    let mut socket = TcpStream::connect(gateway.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
    socket.write_all(PREFACE.as_bytes()).unwrap();
    socket.write_all(&frame(SETTINGS, 0, 0, &setting)).unwrap();
    socket
}

fn ask(socket: &mut TcpStream, stream: u8) -> std::io::Result<()> {
    let headers = [&[0x82, 0x86, 0x41, 1, b'x', 0x44, 8][..], b"/predict"].concat();
    socket.write_all(&frame(HEADERS, 0b101, stream, &headers))
}

/// Whether the server ends the connection.
fn ends(socket: &mut TcpStream) -> bool {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn large(request: &Request, bytes: usize) -> Reply {
    Reply {
        body: Bytes::from(vec![b'x'; bytes]),
        ..reply(request, "")
    }
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let gateway = start(strict());
    let long = format!("{PREFACE}\0\0\0\u{4}\0\0\0\0\0");
    let begun = "POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc";
    for said in ["", "P", "PRI * HTTP", PREFACE, &long, "GET /pre", begun] {
        assert!(
            ends(Client::new(&gateway).send(said).socket.get_mut()),
            "{said:?}"
        );
    }
    let mut kept = Client::new(&gateway);
    kept.post("a");
    gateway.reply([reply(&take(&gateway, 1)[0], "ok")]);
    assert_eq!(kept.status(), 200);
    assert!(kept.is_closed(), "it asks no more");
    assert_eq!(gateway.in_flight(), 0);
}

#[test]
fn who_reads_nothing_is_not_waited_for() {
    let gateway = start(strict());
    for bytes in [100, 30_000, 100_000] {
        let mut client = http2(&gateway, 0);
        ask(&mut client, 1).unwrap();
        gateway.reply([large(&take(&gateway, 1)[0], bytes)]);
        assert!(ends(&mut client), "{bytes} over HTTP/2");
    }
    // One that reads the first byte of it, and nothing more.
    let mut client = http2(&gateway, 1);
    ask(&mut client, 1).unwrap();
    gateway.reply([large(&take(&gateway, 1)[0], 1000)]);
    assert!(ends(&mut client));

    let mut client = Client::new(&gateway);
    client.post("a");
    gateway.reply([large(&take(&gateway, 1)[0], 64 << 20)]);
    let mut other = Client::new(&gateway);
    let answer = |other: &mut Client| {
        other.post("b");
        gateway.reply([large(&take(&gateway, 1)[0], 100_000)]);
        other.status()
    };
    assert_eq!(answer(&mut other), 503, "its budget is taken");
    other.post("c");
    gateway.reply([reply(&take(&gateway, 1)[0], "small")]);
    assert_eq!(other.read().2, "small");
    wait_until(|| answer(&mut Client::new(&gateway)) == 200);
    assert!(ends(client.socket.get_mut()));
}

/// A stream that has nothing to say for long, and a request that waits for long, are the server's turn.
#[test]
fn who_waits_for_the_server_stays() {
    let folder = std::env::temp_dir().join(format!("oka-waits-{}", std::process::id()));
    let gateway = start(Config {
        replies: Some(folder.clone()),
        client_timeout: Duration::from_millis(200),
        ..config()
    });
    let mut replies = Replies::new(false).unwrap();
    replies.connect(3, Way::Local(folder.clone())).unwrap();
    std::fs::remove_file(folder.with_extension("board")).unwrap();
    let mut waiting = Client::new(&gateway);
    waiting.post("a");
    let request = take(&gateway, 1).remove(0);
    let mut clients = [
        TcpStream::connect(gateway.address()).unwrap(),
        http2(&gateway, 65_535),
    ];
    let asked = b"GET /predict HTTP/1.1\r\nhost: x\r\n\r\n";
    clients[0].write_all(asked).unwrap();
    ask(&mut clients[1], 1).unwrap();
    let socket = clients[1].try_clone().unwrap();
    std::thread::spawn(move || answer_pings(socket));
    let mut streams: Vec<_> = take(&gateway, 2)
        .iter()
        .map(|each| {
            let mut stream = replies.stream(each.id).unwrap();
            stream.open(&reply(each, "")).unwrap();
            stream.write(b"one").unwrap();
            stream
        })
        .collect();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(gateway.in_flight(), 3);
        for stream in &mut streams {
            stream.write(b"more").unwrap();
        }
    }
    gateway.reply([reply(&request, "late")]);
    assert_eq!(waiting.read().2, "late");
    assert_eq!(gateway.counts().disconnected, 0);
    std::fs::remove_file(&folder).unwrap();
}

/// As every client of HTTP/2 does, as long as it is there.
fn answer_pings(mut socket: TcpStream) {
    let mut begin = [0; 9];
    while socket.read_exact(&mut begin).is_ok() {
        let mut content = vec![0; usize::from(begin[1]) << 8 | usize::from(begin[2])];
        let read = socket.read_exact(&mut content);
        if read.is_ok() && begin[3] == PING && begin[4] == 0 {
            let _ = socket.write_all(&frame(PING, 1, 0, &content));
        }
    }
}

#[test]
fn bodies_have_one_budget() {
    let gateway = start(Config {
        max_body_bytes: 1 << 20,
        max_in_flight_bytes: 1 << 20,
        ..config()
    });
    let mut first = Client::new(&gateway);
    first.post(&"x".repeat(900_000));
    let taken = take(&gateway, 1);
    assert_eq!(taken[0].body.len(), 900_000);
    let mut other = Client::new(&gateway);
    other.post(&"y".repeat(500_000));
    assert_eq!(other.status(), 503, "as long as the first is under way");
    let mut small = Client::new(&gateway);
    small.post("a");
    gateway.reply([reply(&take(&gateway, 1)[0], "ok")]);
    assert_eq!(small.status(), 200);
    gateway.reply([reply(&taken[0], "ok")]);
    assert_eq!(first.status(), 200);
    first.post(&"z".repeat(1 << 20));
    let request = take(&gateway, 1).remove(0);
    assert_eq!(request.body.len(), 1 << 20);
    gateway.reply([reply(&request, "ok")]);
    assert_eq!(first.status(), 200);
    assert_eq!(gateway.counts().refused, 1);
}

#[test]
fn the_idlest_make_room() {
    let gateway = start(Config {
        max_connections: 3,
        max_in_flight: 3,
        ..config()
    });
    let mut silent: Vec<_> = (0..3).map(|_| Client::new(&gateway)).collect();
    let mut client = Client::new(&gateway);
    client.post("a");
    let taken = take(&gateway, 1);
    assert!(silent[0].is_closed(), "it came first");
    let mut waiting = [(); 2].map(|()| Client::new(&gateway));
    for other in &mut waiting {
        other.post("b");
    }
    let others = take(&gateway, 2);
    assert!(silent.iter_mut().all(Client::is_closed));
    // All wait for the server now: none of them has to go.
    let mut late = Client::new(&gateway);
    let status = late.read().0;
    assert_eq!(status, 503);
    gateway.reply(taken.iter().chain(&others).map(|each| reply(each, "ok")));
    assert_eq!(client.status(), 200);
    assert!(waiting.iter_mut().all(|other| other.status() == 200));
}

/// Who has come before the end is told of it.
#[test]
fn those_who_have_just_come_are_told_of_the_end() {
    let gateway = start(config());
    let mut clients: Vec<_> = (0..20).map(|_| Client::new(&gateway)).collect();
    gateway.drain();
    let other = Arc::clone(&gateway);
    let closing = std::thread::spawn(move || other.close());
    for client in &mut clients {
        client.post("a");
    }
    for client in &mut clients {
        let (status, headers, _) = client.read();
        assert_eq!(status, 503);
        assert!(headers.contains(&"connection: close".to_owned()));
    }
    closing.join().unwrap();
}

#[test]
fn it_is_ready_when_all_tasks_work() {
    let folder = std::env::temp_dir().join(format!("oka-ready-{}", std::process::id()));
    let gateway = start(Config {
        replies: Some(folder.clone()),
        tasks: 2,
        ..config()
    });
    let status = || {
        let mut client = Client::new(&gateway);
        client
            .send("GET /-/readyz HTTP/1.1\r\nhost: x\r\n\r\n")
            .status()
    };
    for ready in [503, 503, 200] {
        wait_until(|| status() == ready);
        let mut replies = Replies::new(false).unwrap();
        replies.connect(3, Way::Local(folder.clone())).unwrap();
        replies.tell_work().unwrap();
    }
    std::fs::remove_file(&folder).unwrap();
    std::fs::remove_file(folder.with_extension("board")).unwrap();
}

#[test]
fn floods_of_http2_end_with_their_connection() {
    let gateway = start(strict());
    let ping = frame(PING, 0, 0, &[0; 8]);
    let settings = frame(SETTINGS, 0, 0, &[]);
    let reset = |stream| frame(RESET, 0, stream, &[0, 0, 0, 8]);
    let mut asked = http2(&gateway, 0);
    for stream in (1..250).step_by(2) {
        let asks = ask(&mut asked, stream).and_then(|()| asked.write_all(&reset(stream)));
        if asks.is_err() {
            break;
        }
    }
    assert!(ends(&mut asked), "resets");
    for flood in [ping, settings] {
        let client = http2(&gateway, 0);
        client
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let mut answers = vec![0; 1 << 16];
        let many = flood.repeat(100);
        wait_until(|| {
            let mut client = &client;
            let _ = client.read(&mut answers);
            client.write_all(&many).is_err()
        });
    }
    let mut client = http2(&gateway, 0);
    let begin = frame(HEADERS, 0, 1, &[0x82]);
    client.write_all(&begin).unwrap();
    let more = frame(CONTINUATION, 0, 1, &[0x82; 1000]);
    wait_until(|| client.write_all(&more).is_err());
    let mut good = Client::new(&gateway);
    good.post("a");
    wait_until(|| {
        for request in gateway.take(9, Duration::ZERO, Duration::ZERO).unwrap() {
            gateway.reply([reply(&request, "ok")]);
        }
        gateway.counts().answered > 0
    });
    assert_eq!(good.status(), 200);
    wait_until(|| gateway.in_flight() == 0);
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

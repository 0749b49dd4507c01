//! The gateway over real sockets.

mod common;

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oka_http::{Config, Counts, Gateway, Replies, Reply, Way};
use oka_ipc::Endpoint;

use common::{Client, PATIENCE, config, reply, start, take, wait_until};

#[test]
fn requests_are_taken_and_answered() {
    let gateway = start(config());
    let mut client = Client::new(&gateway);
    for round in ["one", "two"] {
        client.post(round);
        let [request] = &take(&gateway, 1)[..] else {
            panic!("one request");
        };
        assert_eq!(
            (&*request.method, &*request.target),
            ("POST", "/predict?n=1")
        );
        assert_eq!(request.head, "host: x\r\ncontent-length: 3\r\n");
        assert_eq!(request.body, round);
        assert!(request.deadline > Instant::now());
        gateway.reply([reply(request, "yes")]);
        let (status, headers, body) = client.read();
        assert_eq!((status, &*body), (200, "yes"));
        assert!(headers.contains(&"x-kind: test".to_owned()));
    }
    assert_eq!(gateway.in_flight(), 0);
    assert_eq!(gateway.counts().answered, 2);
}

#[test]
fn answers_come_in_the_order_of_a_connections_requests() {
    let gateway = start(config());
    let mut client = Client::new(&gateway);
    client.post("first").post("second");
    // A connection has one request under way, however many wait in it.
    for text in ["first", "second"] {
        let request = &take(&gateway, 1)[0];
        assert_eq!(request.body, text);
        gateway.reply([reply(request, text)]);
    }
    assert_eq!(client.read().2, "first");
    assert_eq!(client.read().2, "second");
}

#[test]
fn replies_may_come_in_any_order_and_twice() {
    let gateway = start(config());
    let mut clients: Vec<_> = (0..5).map(|_| Client::new(&gateway)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.post(&number.to_string());
    }
    let taken = take(&gateway, 5);
    let replies = taken.iter().rev().map(|request| {
        let text = String::from_utf8(request.body.to_vec()).unwrap();
        reply(request, &text)
    });
    let replies: Vec<_> = replies.collect();
    gateway.reply(replies.iter().cloned().chain(replies.clone()));
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read().2, number.to_string());
    }
    assert_eq!(gateway.counts().answered, 5);
}

#[test]
fn too_many_are_refused_at_once() {
    let gateway = start(Config {
        max_in_flight: 2,
        ..config()
    });
    let mut under_way = [Client::new(&gateway), Client::new(&gateway)];
    for client in &mut under_way {
        client.post("a");
    }
    let taken = take(&gateway, 2);
    let mut refused = Client::new(&gateway);
    let (status, headers, _) = refused.post("b").read();
    assert_eq!(status, 503);
    assert!(headers.contains(&"retry-after: 1".to_owned()));
    assert_eq!(
        Client::new(&gateway)
            .send("GET /-/readyz HTTP/1.1\r\nhost: x\r\n\r\n")
            .status(),
        503
    );
    gateway.reply(taken.iter().map(|request| reply(request, "a")));
    for client in &mut under_way {
        assert_eq!(client.status(), 200);
    }
    refused.post("b");
    gateway.reply([reply(&take(&gateway, 1)[0], "b")]);
    assert_eq!(refused.status(), 200);
}

#[test]
fn what_nobody_answers_expires() {
    let gateway = start(Config {
        timeout: Duration::from_millis(30),
        ..config()
    });
    let mut client = Client::new(&gateway);
    client.post("a");
    let taken = take(&gateway, 1);
    assert_eq!(client.status(), 504);
    wait_until(|| gateway.in_flight() == 0);
    gateway.reply([reply(&taken[0], "too late")]);
    // And one that was over before anybody took it does not come out.
    assert_eq!(client.post("b").status(), 504);
    wait_until(|| gateway.in_flight() == 0);
    assert_eq!(
        gateway.take(1, Duration::ZERO, Duration::ZERO),
        Some(vec![])
    );
    let expected = Counts {
        expired: 2,
        ..Counts::default()
    };
    assert_eq!(gateway.counts(), expected);
}

#[test]
fn clients_that_go_take_their_requests_along() {
    let gateway = start(config());
    for _ in 0..100 {
        let mut client = Client::new(&gateway);
        client.post("a");
        wait_until(|| gateway.in_flight() == 1);
        drop(client);
        wait_until(|| gateway.in_flight() == 0);
    }
    assert_eq!(
        gateway.take(9, Duration::ZERO, Duration::ZERO),
        Some(vec![])
    );
    assert_eq!(gateway.counts().disconnected, 100);
}

#[test]
fn what_is_too_large_or_too_slow_is_told_so() {
    let gateway = start(Config {
        client_timeout: Duration::from_millis(50),
        ..config()
    });
    assert_eq!(Client::new(&gateway).post(&"x".repeat(1001)).status(), 413);
    let chunk = "x".repeat(1001);
    let chunked = format!(
        "POST /predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{chunk}\r\n0\r\n\r\n"
    );
    assert_eq!(Client::new(&gateway).send(&chunked).status(), 413);
    for kib in [65, 66, 80, 100, 200] {
        let flood = format!(
            "GET /predict HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
            "x".repeat(kib << 10)
        );
        assert_eq!(Client::new(&gateway).send(&flood).status(), 431, "{kib}");
    }
    let half = "POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nab";
    assert_eq!(Client::new(&gateway).send(half).status(), 408);
    assert!(Client::new(&gateway).send("POST /pre").is_closed());
    assert_eq!(gateway.in_flight(), 0);
}

/// Requests that servers in a row might understand differently: refused, or the last of their
/// connection.
#[test]
fn ambiguous_requests_are_refused() {
    let gateway = start(config());
    for wrong in [
        "content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        "content-length: +3\r\n\r\nabc",
        "content-length : 3\r\n\r\nabc",
        "transfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: xchunked\r\n\r\n",
        "x: a\rb\r\n\r\n",
        "x: a\0b\r\n\r\n",
        "\u{1}: a\r\n\r\n",
        "host: x\r\n\r\n",
        "host: y\r\n\r\n",
    ] {
        let mut client = Client::new(&gateway);
        client.send(&format!("POST /predict HTTP/1.1\r\nhost: x\r\n{wrong}"));
        assert_eq!(client.status(), 400, "{wrong:?}");
        assert!(client.is_closed(), "{wrong:?}");
    }
    assert_eq!(gateway.in_flight(), 0);
}

#[test]
fn a_request_names_one_host() {
    let gateway = start(config());
    for (wrong, status) in [
        ("HTTP/1.1\r\n\r\n", 400),
        ("HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
        ("HTTP/1.1\r\nhost: a/b\r\n\r\n", 400),
        ("HTTP/1.1\r\nhost:\r\n\r\n", 200),
        ("HTTP/1.1\r\nhost: [::1]:80\r\n\r\n", 200),
        ("HTTP/1.0\r\n\r\n", 200),
        ("HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n", 400),
    ] {
        let mut client = Client::new(&gateway);
        client.send(&format!("GET /-/healthz {wrong}"));
        assert_eq!(client.status(), status, "{wrong:?}");
    }
    // That of the target counts, where it has one.
    let mut client = Client::new(&gateway);
    client.send("GET http://you@a:8/predict?n HTTP/1.1\r\nhost: b\r\nx: y\r\n\r\n");
    let request = take(&gateway, 1).remove(0);
    assert_eq!(&*request.target, "/predict?n");
    assert_eq!(request.head, "host: a:8\r\nx: y\r\n");
}

#[test]
fn strangers_are_refused() {
    let gateway = start(Config {
        token: Some("secret".to_owned()),
        ..config()
    });
    for shown in [
        "",
        "authorization: Bearer secre\r\n",
        "authorization: secret\r\n",
        "authorization: Basic secret\r\n",
        "authorization: Bearer secret \u{e4}\r\n",
        "authorization: Bearersecret\r\n",
    ] {
        let request = format!("GET /predict HTTP/1.1\r\nhost: x\r\n{shown}\r\n");
        assert_eq!(
            Client::new(&gateway).send(&request).status(),
            401,
            "{shown}"
        );
    }
    let mut client = Client::new(&gateway);
    for scheme in ["Bearer", "bearer", "BEARER", "bearer "] {
        client.send(&format!(
            "GET /predict HTTP/1.1\r\nhost: x\r\nauthorization: {scheme} secret\r\n\r\n"
        ));
        gateway.reply([reply(&take(&gateway, 1)[0], "come in")]);
        assert_eq!(client.status(), 200, "{scheme}");
    }
}

#[test]
fn paths_of_its_own() {
    let gateway = start(config());
    for (path, expected) in [
        ("/-/healthz", 200),
        ("/-/readyz", 200),
        ("/-/metrics", 200),
        ("/", 404),
        ("/predict/", 404),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(Client::new(&gateway).send(&request).status(), expected);
    }
}

#[test]
fn a_reply_that_http_cannot_say_is_an_error() {
    let gateway = start(config());
    let mut client = Client::new(&gateway);
    for (status, head) in [
        (7, "a: b"),
        (100, "a: b"),
        (200, "no header"),
        (200, "a: \0"),
    ] {
        client.post("a");
        let request = take(&gateway, 1).remove(0);
        gateway.reply([Reply {
            id: request.id,
            status,
            head: Bytes::from_static(head.as_bytes()),
            body: Bytes::new(),
        }]);
        assert_eq!(client.status(), 500);
    }
    // And what would break the framing is left out.
    for status in [204, 304] {
        client.post("a");
        let request = take(&gateway, 1).remove(0);
        gateway.reply([Reply {
            status,
            ..reply(&request, "a body")
        }]);
        assert_eq!(client.status(), status);
    }
    client.post("a");
    let request = take(&gateway, 1).remove(0);
    gateway.reply([Reply {
        id: request.id,
        status: 200,
        head: Bytes::from_static(b"content-length: 100\r\ntransfer-encoding: chunked\r\n"),
        body: Bytes::from_static(b"four"),
    }]);
    assert_eq!(client.read().2, "four");
}

#[test]
fn it_waits_for_more() {
    let gateway = start(config());
    let other = Arc::clone(&gateway);
    let taking = thread::spawn(move || other.take(3, PATIENCE, PATIENCE).unwrap().len());
    let mut clients = [(); 3].map(|()| Client::new(&gateway));
    for (number, client) in clients.iter_mut().enumerate() {
        client.post("a");
        wait_until(|| gateway.in_flight() == number + 1);
        assert!(number == 2 || !taking.is_finished());
    }
    assert_eq!(taking.join().unwrap(), 3);
}

#[test]
fn a_gateway_that_drains_finishes_what_was_taken() {
    let gateway = start(config());
    let mut clients = [Client::new(&gateway), Client::new(&gateway)];
    clients[0].post("a");
    let taken = take(&gateway, 1);
    clients[1].post("b");
    wait_until(|| gateway.in_flight() == 2);
    gateway.drain();
    assert_eq!(clients[1].status(), 503);
    assert_eq!(Client::new(&gateway).post("c").status(), 503);
    assert_eq!(
        gateway.take(1, Duration::ZERO, Duration::ZERO),
        Some(vec![])
    );
    gateway.reply([reply(&taken[0], "a")]);
    assert_eq!(clients[0].status(), 200);
    assert_eq!(gateway.take(1, PATIENCE, Duration::ZERO), None);
}

#[test]
fn one_that_is_closed_answers_what_is_left() {
    let gateway = start(config());
    let mut client = Client::new(&gateway);
    client.post("a");
    take(&gateway, 1);
    let other = Arc::clone(&gateway);
    let taking = thread::spawn(move || other.take(1, PATIENCE, Duration::ZERO));
    gateway.close();
    assert_eq!(taking.join().unwrap(), None);
    assert_eq!(client.status(), 503);
    assert!(client.is_closed());
    TcpStream::connect(gateway.address()).unwrap_err();
    gateway.close();
}

#[test]
fn replies_come_from_other_processes() {
    let folder = std::env::temp_dir().join(format!("oka-http-{}", std::process::id()));
    let gateway = start(Config {
        replies: Some(folder.clone()),
        ..config()
    });
    let mut replies = [(); 2].map(|()| near(&folder));
    std::fs::remove_file(&folder).unwrap();
    std::fs::remove_file(folder.with_extension("board")).unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| Client::new(&gateway)).collect();
    for client in &mut clients {
        client.post("a");
    }
    let long = "long ".repeat(100_000);
    let all: Vec<_> = take(&gateway, 6)
        .iter()
        .map(|request| reply(request, &long))
        .collect();
    let (ones, others) = all.split_at(3);
    replies[0].send(ones).unwrap();
    replies[1].send(others).unwrap();
    for client in &mut clients {
        assert_eq!(client.read().2, long);
    }
}

#[test]
fn requests_that_are_being_read_count() {
    let gateway = start(config());
    let mut slow: Vec<_> = (0..8).map(|_| Client::new(&gateway)).collect();
    for client in &mut slow {
        client.send("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na");
    }
    let refused = || Client::new(&gateway).post("a").status() == 503;
    wait_until(refused); // all of them have begun
    drop(slow.pop());
    wait_until(|| {
        let mut other = Client::new(&gateway);
        other.send("GET /-/readyz HTTP/1.1\r\nhost: x\r\n\r\n");
        other.status() == 200
    });
    for client in &mut slow {
        client.send("b");
    }
    gateway.reply(take(&gateway, 7).iter().map(|each| reply(each, "ok")));
    for client in &mut slow {
        assert_eq!(client.status(), 200);
    }
}

/// A way over TCP, whose key is admitted or not.
fn far(gateway: &Gateway, is_encrypted: bool, is_admitted: bool) -> std::io::Result<Replies> {
    let endpoint = gateway.listen("tcp://127.0.0.1:0", is_encrypted).unwrap();
    assert_eq!(endpoint.contains('@'), is_encrypted);
    let way = Way::Tcp(Endpoint::parse(&endpoint).unwrap(), PATIENCE);
    let mut replies = Replies::new(is_encrypted)?;
    gateway.admit(replies.key().filter(|_| is_admitted));
    replies.connect(3, way)?;
    Ok(replies)
}

#[test]
fn replies_of_other_hosts_are_encrypted_or_not() {
    for is_encrypted in [true, false] {
        let gateway = start(config());
        let mut replies = far(&gateway, is_encrypted, true).unwrap();
        let mut client = Client::new(&gateway);
        let long = "long ".repeat(1_000_000);
        for body in ["short", &long, ""] {
            client.post("a");
            let request = &take(&gateway, 1)[0];
            assert_eq!(replies.is_abandoned(request.id), None, "it is not seen");
            replies.send(&[reply(request, body)]).unwrap();
            assert_eq!(client.read().2, body);
        }
    }
}

#[test]
fn strangers_do_not_answer() {
    let gateway = start(config());
    far(&gateway, true, false).unwrap_err();
    let mut client = Client::new(&gateway);
    client.post("a");
    let request = &take(&gateway, 1)[0];
    let endpoint = gateway.listen("tcp://127.0.0.1:0", true).unwrap();
    let address = Endpoint::parse(&endpoint).unwrap().address;
    let mut socket = TcpStream::connect(address).unwrap();
    let mut bytes = vec![b'R'];
    reply(request, "forged").encode(&mut bytes);
    bytes.resize(1000, 0);
    let _ = socket.write_all(&bytes);
    assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0, "it is cut off");
    gateway.reply([reply(request, "genuine")]);
    assert_eq!(client.read().2, "genuine");
}

/// The chunk that comes next; empty at the end, None where it breaks off.
fn chunk(client: &mut Client) -> Option<String> {
    let mut line = String::new();
    client.socket.read_line(&mut line).unwrap();
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut body = vec![0; length + 2];
    client.socket.read_exact(&mut body).unwrap();
    body.truncate(length);
    Some(String::from_utf8(body).unwrap())
}

/// A way to one gateway on this host, and to all that it has to do with.
fn near(folder: &Path) -> Replies {
    let mut replies = Replies::new(false).unwrap();
    replies.connect(3, Way::Local(folder.to_owned())).unwrap();
    replies
}

#[test]
fn answers_that_go_piece_by_piece() {
    let folder = std::env::temp_dir().join(format!("oka-stream-{}", std::process::id()));
    let gateway = start(Config {
        replies: Some(folder.clone()),
        ..config()
    });
    for replies in [near(&folder), far(&gateway, true, true).unwrap()] {
        let mut client = Client::new(&gateway);
        let began = |client: &mut Client| {
            client.post("a");
            let head = reply(&take(&gateway, 1)[0], "");
            let mut stream = replies.stream(head.id).unwrap();
            stream.open(&head).unwrap();
            assert_eq!(client.status(), 200);
            stream
        };
        let mut stream = began(&mut client);
        for piece in ["one", "", "two"] {
            stream.write(piece.as_bytes()).unwrap();
            if !piece.is_empty() {
                assert_eq!(chunk(&mut client).unwrap(), piece, "as soon as it is there");
            }
        }
        assert_eq!(gateway.in_flight(), 1);
        stream.finish().unwrap();
        assert_eq!(chunk(&mut client).unwrap(), "");
        assert_eq!(gateway.in_flight(), 0);

        drop(began(&mut client)); // not finished
        assert_eq!(chunk(&mut client), None);

        // A client that does not read holds up its stream; when it goes, that ends.
        let mut client = Client::new(&gateway);
        let mut stream = began(&mut client);
        let (sender, receiver) = std::sync::mpsc::channel();
        let writer = thread::spawn(move || {
            let piece = vec![b'x'; 1 << 20];
            while stream.write(&piece).is_ok() {
                sender.send(()).unwrap();
            }
        });
        while receiver.recv_timeout(Duration::from_millis(300)).is_ok() {}
        assert!(!writer.is_finished());
        drop(client);
        writer.join().unwrap();
        wait_until(|| gateway.in_flight() == 0);
    }
    std::fs::remove_file(&folder).unwrap();
    std::fs::remove_file(folder.with_extension("board")).unwrap();
}

#[test]
fn others_see_what_is_abandoned() {
    let folder = std::env::temp_dir().join(format!("oka-seen-{}", std::process::id()));
    let gateway = start(Config {
        replies: Some(folder.clone()),
        ..config()
    });
    let replies = near(&folder);
    std::fs::remove_file(&folder).unwrap();
    std::fs::remove_file(folder.with_extension("board")).unwrap();
    let mut clients = [(); 2].map(|()| Client::new(&gateway));
    for (number, client) in clients.iter_mut().enumerate() {
        client.post("a");
        wait_until(|| gateway.in_flight() == number + 1); // in their order
    }
    let requests = take(&gateway, 2);
    let [stays, goes] = clients;
    drop(goes);
    wait_until(|| replies.abandoned() == 1);
    assert_eq!(replies.is_abandoned(requests[0].id), Some(false));
    assert_eq!(replies.is_abandoned(requests[1].id), Some(true));
    gateway.reply([reply(&requests[0], "ok")]);
    let mut stays = stays;
    assert_eq!(stays.status(), 200);
    assert_eq!(replies.is_abandoned(requests[0].id), Some(false));
}

#[test]
fn http2_without_encryption() {
    let gateway = start(config());
    let mut socket = TcpStream::connect(gateway.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(b"PR").unwrap(); // it may come in parts
    thread::sleep(Duration::from_millis(5));
    socket.write_all(b"I * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap(); // SETTINGS
    // Two requests at once: `:method: GET`, `:scheme: http`, `:authority: x`, `:path: /predict`.
    for stream in [1, 3] {
        let headers = [&[0x82, 0x86, 0x41, 1, b'x', 0x44, 8][..], b"/predict"].concat();
        let begin = [0, 0, headers.len() as u8, 1, 0b101, 0, 0, 0, stream];
        socket.write_all(&[&begin[..], &headers].concat()).unwrap();
    }
    let requests = take(&gateway, 2);
    assert_eq!(
        (&*requests[0].method, &*requests[0].target),
        ("GET", "/predict")
    );
    assert_eq!(requests[0].head, "host: x\r\n");
    let replies = requests.iter().rev().map(|each| reply(each, "ok"));
    gateway.reply(replies.collect::<Vec<_>>());
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let mut begin = [0; 9];
        socket.read_exact(&mut begin).unwrap();
        let mut content = vec![0; usize::from(begin[1]) << 8 | usize::from(begin[2])];
        socket.read_exact(&mut content).unwrap();
        if begin[3] == 0 && !content.is_empty() {
            assert_eq!(content, b"ok");
            answered.push(begin[8]);
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 3]);
}

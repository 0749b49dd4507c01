//! What gateways tell Prometheus.

mod common;

use std::time::Duration;

use oka_http::{Config, Gateway};

use common::{Client, config, reply, start, take, wait_until};

#[test]
fn requests_under_way_and_how_others_have_ended() {
    let gateway = start(Config {
        token: Some("secret".to_owned()), // who scrapes shows none
        max_in_flight: 3,
        ..config()
    });
    assert_eq!(scraped(&gateway), ([0, 0, 0, 0, 0], vec![]));
    let mut clients = [(); 3].map(|()| Client::new(&gateway));
    let [answered, gone, slow] = &mut clients;
    answered.send(&post(1)).send("a");
    gateway.reply([reply(&take(&gateway, 1)[0], "yes")]);
    assert_eq!(answered.status(), 200);
    gone.send(&post(1)).send("a");
    slow.send(&post(2)).send("a"); // and one byte is still to come
    answered.send(&post(1)).send("a");
    take(&gateway, 2);
    wait_until(|| scraped(&gateway) == ([3, 1, 0, 0, 0], vec![(200, 1)]));
    assert_eq!(Client::new(&gateway).send(&post(0)).status(), 503);
    let stranger = post(0).replace("secret", "guess");
    assert_eq!(Client::new(&gateway).send(&stranger).status(), 401);
    let elsewhere = post(0).replace("/predict", "/other");
    assert_eq!(Client::new(&gateway).send(&elsewhere).status(), 404);
    let codes = |closed| vec![(200, 1), (401, 1), (404, 1), (503, closed)];
    let [answered, gone, mut slow] = clients;
    drop(gone);
    wait_until(|| scraped(&gateway) == ([2, 1, 0, 1, 1], codes(1)));
    gateway.drain();
    slow.send("a");
    assert_eq!(slow.status(), 503);
    assert_eq!(
        scraped(&gateway),
        ([1, 1, 0, 1, 2], codes(2)),
        "until the last has ended"
    );
    drop(answered);
    wait_until(|| scraped(&gateway) == ([0, 1, 0, 2, 2], codes(2)));
}

#[test]
fn what_expires() {
    let gateway = start(Config {
        timeout: Duration::from_millis(30),
        ..config()
    });
    assert_eq!(Client::new(&gateway).post("a").status(), 504);
    wait_until(|| scraped(&gateway) == ([0, 0, 1, 0, 0], vec![(504, 1)]));
}

/// A scrape comes to one of those that share a port, and gets the sum.
#[test]
fn gateways_of_one_port_are_told_as_one() {
    let sockets = ["one", "two"].map(|name| {
        std::env::temp_dir().join(format!("oka-metrics-{name}-{}", std::process::id()))
    });
    let [one, two] = sockets.clone().map(|socket| {
        start(Config {
            replies: Some(socket),
            ..config()
        })
    });
    one.share_with(vec![sockets[1].clone()]);
    two.share_with(vec![sockets[0].clone()]);
    let mut clients = [Client::new(&one), Client::new(&two), Client::new(&two)];
    for client in &mut clients {
        client.post("a");
    }
    wait_until(|| scraped(&one) == ([3, 0, 0, 0, 0], vec![]));
    gateway_answers(&two, &mut clients[1..]);
    assert_eq!(Client::new(&one).send(NOWHERE).status(), 404);
    assert_eq!(Client::new(&two).send(NOWHERE).status(), 404);
    for gateway in [&one, &two] {
        let expected = ([1, 2, 0, 0, 0], vec![(200, 2), (404, 2)]);
        assert_eq!(scraped(gateway), expected);
    }
    for socket in &sockets {
        std::fs::remove_file(socket).unwrap();
        std::fs::remove_file(socket.with_extension("board")).unwrap();
    }
    // A part is not the whole.
    let request = "GET /-/metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(Client::new(&one).send(request).status(), 503);
}

fn gateway_answers(gateway: &Gateway, clients: &mut [Client]) {
    let taken = take(gateway, clients.len());
    gateway.reply(taken.iter().map(|request| reply(request, "yes")));
    for client in clients {
        assert_eq!(client.status(), 200);
    }
}

fn post(bytes: usize) -> String {
    let token = "authorization: Bearer secret";
    format!("POST /predict HTTP/1.1\r\nhost: x\r\n{token}\r\ncontent-length: {bytes}\r\n\r\n")
}

const NOWHERE: &str = "GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n";

/// The numbers, and statuses with theirs, of a text that is else as it has to be.
fn scraped(gateway: &Gateway) -> ([u64; 5], Vec<(u16, u64)>) {
    let mut client = Client::new(gateway);
    let (status, headers, text) = client
        .send("GET /-/metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        .read();
    let kind = "content-type: text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(status, 200);
    assert!(headers.iter().any(|line| line == kind), "{headers:?}");
    let names = [
        "# HELP oka_requests_in_flight Requests under way, those included whose body is still coming.",
        "# TYPE oka_requests_in_flight gauge",
        "oka_requests_in_flight",
        "# HELP oka_requests_total Requests that have ended, by how.",
        "# TYPE oka_requests_total counter",
        "oka_requests_total{end=\"answered\"}",
        "oka_requests_total{end=\"expired\"}",
        "oka_requests_total{end=\"disconnected\"}",
        "oka_requests_total{end=\"refused\"}",
        "# HELP oka_responses_total Responses, by their status.",
        "# TYPE oka_responses_total counter",
    ];
    assert!(text.ends_with('\n'));
    let mut lines = text.lines();
    let mut numbers = Vec::new();
    for (name, line) in names.into_iter().zip(lines.by_ref()) {
        let rest = line.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
        numbers.extend(
            rest.strip_prefix(' ')
                .map(|number| number.parse::<u64>().unwrap()),
        );
    }
    let codes = lines.map(|line| {
        let rest = line.strip_prefix("oka_responses_total{code=\"").unwrap();
        let (code, count) = rest.split_once("\"} ").unwrap();
        (code.parse().unwrap(), count.parse().unwrap())
    });
    (numbers.try_into().unwrap(), codes.collect())
}

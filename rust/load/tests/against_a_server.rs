//! The program against a small server in this process.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\nok";

/// Answers what comes, the n-th request of all with `reply(n)`; None ends the connection.
fn serve(reply: impl Fn(u64) -> Option<&'static str> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (reply, requests) = (Arc::new(reply), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (reply, requests) = (Arc::clone(&reply), Arc::clone(&counted));
            thread::spawn(move || answer(stream.unwrap(), &*reply, &requests));
        }
    });
    Server { address, requests }
}

fn answer(stream: TcpStream, reply: &dyn Fn(u64) -> Option<&'static str>, requests: &AtomicU64) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        match reply(requests.fetch_add(1, Ordering::Relaxed)) {
            Some(text) if stream.write_all(text.as_bytes()).is_ok() => {}
            _ => return,
        }
    }
}

struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// What the program writes.
    fn load(&self, options: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_oka-load"))
            .arg(format!("http://{}/", self.address))
            .args(options.split_whitespace())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The number behind a name, of a class or, with "", of the whole.
fn number(json: &str, class: &str, name: &str) -> f64 {
    let start = json.find(&format!("\"{class}\": {{")).unwrap_or(0);
    let name = format!("\"{name}\": ");
    let rest = &json[start + json[start..].find(&name).expect(json) + name.len()..];
    rest[..rest.find([',', '}']).unwrap()].parse().unwrap()
}

fn count(json: &str, class: &str, name: &str) -> u64 {
    number(json, class, name) as u64
}

#[test]
fn every_request_is_answered() {
    let server = serve(|_| Some(OK));
    let json = server.load("--rate 500 --seconds 0.5 --warmup 0.2 --connections 4 --drain 60");
    let arrived = count(&json, "", "arrived");
    assert!((150..350).contains(&arrived), "{json}"); // 250 of them, by chance
    assert_eq!(count(&json, "2xx", "count"), arrived, "{json}");
    for class in ["503", "other", "errors"] {
        assert_eq!(count(&json, class, "count"), 0, "{json}");
    }
    let all = server.requests.load(Ordering::Relaxed);
    assert!(all > arrived, "{all} with those of the warm-up: {json}");
}

#[test]
fn statuses_have_classes_of_their_own() {
    let server = serve(|number| Some(if number % 4 == 0 { OK } else { BUSY }));
    let json = server.load("--rate 400 --seconds 0.5 --connections 4 --drain 60");
    let (done, refused) = (count(&json, "2xx", "count"), count(&json, "503", "count"));
    assert_eq!(done + refused, count(&json, "", "arrived"), "{json}");
    assert!(refused.abs_diff(3 * done) <= 3, "{json}");
}

/// The server takes 20 ms, so that one connection serves less than 50 of the 200 a second.
#[test]
fn waiting_here_counts() {
    let slow = || {
        serve(|_| {
            thread::sleep(Duration::from_millis(20));
            Some(OK)
        })
    };
    let json = slow().load("--rate 200 --seconds 0.5 --connections 1 --drain 600");
    assert_eq!(count(&json, "2xx", "count"), count(&json, "", "arrived"));
    assert!(number(&json, "2xx", "max_ms") > 500.0, "{json}");
    assert!(count(&json, "", "waited") > 30, "{json}");

    let json = slow().load("--rate 200 --seconds 0.5 --connections 1 --waiting 0 --drain 600");
    let not_sent = count(&json, "", "not_sent");
    assert!(not_sent > 0, "{json}");
    assert_eq!(
        count(&json, "2xx", "count") + not_sent,
        count(&json, "", "arrived"),
        "{json}"
    );
}

#[test]
fn connections_are_made_again() {
    for (reply, class) in [
        (Some(LAST), "2xx"),
        (None, "errors"),
        (Some(ENDLESS), "errors"),
    ] {
        let server = serve(move |_| reply);
        let json = server.load("--rate 200 --seconds 0.3 --connections 2 --drain 60");
        assert_eq!(
            count(&json, class, "count"),
            count(&json, "", "arrived"),
            "{json}"
        );
        assert!(count(&json, "", "reconnects") >= count(&json, class, "count"));
    }
}

#[test]
fn what_is_never_answered_is_an_error() {
    let server = serve(|_| {
        thread::sleep(Duration::from_hours(1));
        None
    });
    let json = server.load("--rate 100 --seconds 0.3 --connections 2 --drain 0.1");
    assert_eq!(count(&json, "errors", "count"), 2, "{json}");
    assert_eq!(
        count(&json, "", "not_sent") + 2,
        count(&json, "", "arrived"),
        "{json}"
    );
}

#[test]
fn clients_that_go() {
    let server = serve(|_| Some(OK));
    let json = server.load("--disconnect 200 --connections 8 --within-ms 1");
    assert_eq!(count(&json, "", "clients"), 200);
    assert_eq!(count(&json, "", "failed"), 0);
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let output = Command::new(env!("CARGO_BIN_EXE_oka-load"))
        .args([&format!("http://{}/", address.unwrap()), "--rate", "1"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused"));
}

//! What the command line asks for.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// All of it.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub target: Target,
    pub mode: Mode,
    /// Requests per second.
    pub rate: f64,
    /// How long requests arrive after the warm-up.
    pub seconds: Duration,
    /// At the start; what arrives then is not counted.
    pub warmup: Duration,
    /// How long replies are waited for after the last arrival.
    pub drain: Duration,
    pub connections: usize,
    /// Most requests that wait for a connection.
    pub waiting: usize,
    pub seed: u64,
    /// Longest before a client of `--disconnect` goes.
    pub within: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Requests at the rate.
    Open,
    /// So many clients that do not wait for their replies.
    Disconnect(u64),
}

/// A server, and the requests to it.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// Request n is the one at n modulo their number.
    pub requests: Vec<Vec<u8>>,
}

impl Arguments {
    /// Those of the command line, or what is wrong with them.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut url = None;
        let mut found = Self {
            target: Target {
                address: SocketAddr::from(([0, 0, 0, 0], 0)),
                requests: Vec::new(),
            },
            mode: Mode::Open,
            rate: 0.0,
            seconds: Duration::from_secs(10),
            warmup: Duration::ZERO,
            drain: Duration::from_secs(5),
            connections: 64,
            waiting: 10_000,
            seed: 0,
            within: Duration::from_millis(5),
        };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            if !name.starts_with("--") {
                if let Some(first) = url.replace(name) {
                    return Err(format!("two URLs, {first} and {name}, expected one"));
                }
                continue;
            }
            let value = words.next().ok_or(format!("{name} has no value"))?;
            match name.as_str() {
                "--rate" => found.rate = number(name, value)?,
                "--seconds" => found.seconds = seconds(name, value)?,
                "--warmup" => found.warmup = seconds(name, value)?,
                "--drain" => found.drain = seconds(name, value)?,
                "--connections" => found.connections = whole(name, value, 1)? as usize,
                "--waiting" => found.waiting = whole(name, value, 0)? as usize,
                "--seed" => found.seed = whole(name, value, 0)?,
                "--disconnect" => found.mode = Mode::Disconnect(whole(name, value, 1)?),
                "--within-ms" => found.within = seconds(name, value)? / 1000,
                _ => return Err(format!("there is no option {name}")),
            }
        }
        found.target = Target::of(url.ok_or("no URL, expected one")?)?;
        if found.mode == Mode::Open && found.rate <= 0.0 {
            return Err(format!("--rate is {}, expected more than 0", found.rate));
        }
        Ok(found)
    }
}

impl Target {
    /// The server of a URL, and the requests that the URL makes.
    fn of(url: &str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("http://")
            .ok_or(format!("the URL is {url}, expected http://HOST:PORT/PATH"))?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let address = host
            .to_socket_addrs()
            .map_err(|error| format!("{host} is no host with a port: {error}"))?
            .next()
            .ok_or(format!("{host} has no address"))?;
        let variants = if path.contains(NUMBER) { VARIANTS } else { 1 };
        let request = |number: u64| {
            let path = path.replace(NUMBER, &number.to_string());
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
        };
        Ok(Self {
            address,
            requests: (0..variants).map(request).collect(),
        })
    }
}

fn number(name: &str, value: &str) -> Result<f64, String> {
    match value.parse() {
        Ok(number) if (0.0..1e12).contains(&number) => Ok(number),
        _ => Err(format!(
            "{name} is {value}, expected a number of at least 0"
        )),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    number(name, value).map(Duration::from_secs_f64)
}

fn whole(name: &str, value: &str, least: u64) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!(
            "{name} is {value}, expected a whole number of at least {least}"
        )),
    }
}

const NUMBER: &str = "{n}";
const VARIANTS: u64 = 1000;

pub const HELP: &str = "\
Requests to an HTTP/1.1 server at a rate, as one thread of one process sends them.

usage: oka-load URL --rate N [OPTIONS]
       oka-load URL --disconnect N [OPTIONS]

  URL                http://HOST:PORT/PATH; {n} in it is the number of the request modulo 1000

Open loop: requests arrive at random moments (Poisson), whatever has become of earlier ones. The
latency of each is from when it arrived to the last byte of its reply: what it waited here for a
free connection counts. One JSON object on standard output.

  --rate N           requests per second
  --seconds S        how long they arrive [10]
  --warmup S         before that, not counted [0]
  --connections N    kept alive, one request at a time on each [64]
  --waiting N        most requests that wait for a free connection; what arrives beyond is
                     counted as not_sent [10000]
  --drain S          longest wait for replies after the last arrival; then they are errors [5]
  --seed N           of the moments [0]

`classes` has what came of the requests: `2xx`, `503`, `other` statuses, `errors` (a connection
that broke, no reply, a reply without a length). Each has its `count`, `per_second` of what
ended within the measured seconds, percentiles in ms, and an HDR histogram (V2, base64, ns).

Clients that go: each connects, sends its request and closes the connection without reading.

  --disconnect N     so many clients, --connections at a time
  --within-ms MS     each goes at a random moment up to then [5]
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::parse(&words)
    }

    #[test]
    fn options_and_url() {
        let found = parse("http://127.0.0.1:81/a --rate 2.5 --seconds 3 --connections 4").unwrap();
        assert!((found.rate - 2.5).abs() < 1e-9);
        assert_eq!(found.seconds, Duration::from_secs(3));
        assert_eq!(found.connections, 4);
        assert_eq!(found.target.address.port(), 81);
        assert_eq!(
            found.target.requests,
            [b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:81\r\n\r\n".to_vec()]
        );
    }

    #[test]
    fn a_number_in_the_path() {
        let found = parse("http://127.0.0.1:81/?user={n} --rate 1").unwrap();
        assert_eq!(found.target.requests.len(), 1000);
        assert!(found.target.requests[7].starts_with(b"GET /?user=7 HTTP/1.1\r\n"));
    }

    #[test]
    fn what_is_wrong() {
        for (line, told) in [
            ("--rate 1", "no URL"),
            ("http://127.0.0.1:81", "--rate is 0"),
            ("https://127.0.0.1:81 --rate 1", "expected http://"),
            ("http://127.0.0.1:81 --rate", "has no value"),
            ("http://127.0.0.1:81 --rate x", "--rate is x"),
            ("http://127.0.0.1:81 --rate 1 --connections 0", "at least 1"),
            ("http://127.0.0.1:81 --speed 1", "no option --speed"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(told), "{line}: {message}");
        }
    }
}

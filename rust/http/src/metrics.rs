//! What a gateway tells Prometheus: how many requests are under way, how others have ended, and the status
//! of all answers, at this port. Those that share it are asked, since a scrape comes to any one of them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::gateway::{Counts, Exchange};
use crate::replies::METRICS;

/// What is told of one gateway, or of several together.
#[derive(Debug)]
pub(crate) struct Told {
    /// In the order of [`ENDS`], behind how many are under way.
    numbers: [u64; 1 + ENDS.len()],
    /// How many answers there were of each status.
    codes: BTreeMap<u64, u64>,
}

impl Told {
    pub(crate) fn of(exchange: &Exchange) -> Self {
        let Counts {
            answered,
            expired,
            disconnected,
            refused,
        } = exchange.counts();
        let taken = exchange.taken() as u64;
        let codes = exchange.codes.counted();
        Self {
            numbers: [taken, answered, expired, disconnected, refused],
            codes: codes
                .map(|(code, count)| (u64::from(code), count))
                .collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        for (number, more) in self.numbers.iter_mut().zip(other.numbers) {
            *number += more;
        }
        for (code, more) in &other.codes {
            *self.codes.entry(*code).or_default() += more;
        }
    }

    /// The numbers, and behind how many codes there are, each with its count.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let codes = self.codes.iter().flat_map(|(code, count)| [*code, *count]);
        let all = self.numbers.into_iter().chain([self.codes.len() as u64]);
        all.chain(codes).flat_map(u64::to_le_bytes).collect()
    }

    async fn ask(socket: &Path) -> io::Result<Self> {
        let mut socket = UnixStream::connect(socket).await?;
        socket.write_u8(METRICS).await?;
        let mut numbers = <[u64; 1 + ENDS.len()]>::default();
        for number in &mut numbers {
            *number = socket.read_u64_le().await?;
        }
        let mut codes = BTreeMap::new();
        for _ in 0..socket.read_u64_le().await? {
            codes.insert(socket.read_u64_le().await?, socket.read_u64_le().await?);
        }
        Ok(Self { numbers, codes })
    }
}

/// What is told of all gateways of the port, as text; fails where one of them does not answer: a sum
/// without it would be wrong.
pub(crate) async fn text(exchange: &Exchange) -> io::Result<String> {
    let mut told = Told::of(exchange);
    for socket in exchange.beside.get().into_iter().flatten() {
        told.add(&timeout(PATIENCE, Told::ask(socket)).await??);
    }
    let [in_flight, ended @ ..] = told.numbers;
    let ended = ENDS.iter().zip(ended);
    let ended = ended.map(|(end, count)| format!("oka_requests_total{{end=\"{end}\"}} {count}\n"));
    let codes = told.codes.iter();
    let codes =
        codes.map(|(code, count)| format!("oka_responses_total{{code=\"{code}\"}} {count}\n"));
    Ok(format!(
        "# HELP oka_requests_in_flight Requests under way, those included whose body is still coming.\n\
         # TYPE oka_requests_in_flight gauge\n\
         oka_requests_in_flight {in_flight}\n\
         # HELP oka_requests_total Requests that have ended, by how.\n\
         # TYPE oka_requests_total counter\n\
         {}\
         # HELP oka_responses_total Responses, by their status.\n\
         # TYPE oka_responses_total counter\n\
         {}",
        ended.collect::<String>(),
        codes.collect::<String>(),
    ))
}

const ENDS: [&str; 4] = ["answered", "expired", "disconnected", "refused"];
const PATIENCE: Duration = Duration::from_secs(2);

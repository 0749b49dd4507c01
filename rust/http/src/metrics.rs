//! What a gateway tells Prometheus: how many requests are under way and how others have ended, at this
//! port. Those that share it are asked, since a scrape comes to any one of them.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::gateway::{Counts, Exchange};
use crate::replies::METRICS;

/// The numbers in the order of [`ENDS`], behind how many are under way.
pub(crate) type Numbers = [u64; 1 + ENDS.len()];

/// Those of one gateway.
pub(crate) fn numbers(exchange: &Exchange) -> Numbers {
    let Counts {
        answered,
        expired,
        disconnected,
        refused,
    } = exchange.counts();
    let taken = exchange.taken() as u64;
    [taken, answered, expired, disconnected, refused]
}

/// Those of all gateways of the port, as text; fails where one of them does not answer: a sum without it
/// would be wrong.
pub(crate) async fn text(exchange: &Exchange) -> io::Result<String> {
    let mut sum = numbers(exchange);
    for socket in exchange.beside.get().into_iter().flatten() {
        let asked = timeout(PATIENCE, ask(socket)).await??;
        for (number, more) in sum.iter_mut().zip(asked) {
            *number += more;
        }
    }
    let [in_flight, ended @ ..] = sum;
    let ended = ENDS.iter().zip(ended);
    let ended = ended.map(|(end, count)| format!("oka_requests_total{{end=\"{end}\"}} {count}\n"));
    Ok(format!(
        "# HELP oka_requests_in_flight Requests under way, those included whose body is still coming.\n\
         # TYPE oka_requests_in_flight gauge\n\
         oka_requests_in_flight {in_flight}\n\
         # HELP oka_requests_total Requests that have ended, by how.\n\
         # TYPE oka_requests_total counter\n\
         {}",
        ended.collect::<String>()
    ))
}

async fn ask(socket: &Path) -> io::Result<Numbers> {
    let mut socket = UnixStream::connect(socket).await?;
    socket.write_u8(METRICS).await?;
    let mut numbers = Numbers::default();
    for number in &mut numbers {
        *number = socket.read_u64_le().await?;
    }
    Ok(numbers)
}

const ENDS: [&str; 4] = ["answered", "expired", "disconnected", "refused"];
const PATIENCE: Duration = Duration::from_secs(2);

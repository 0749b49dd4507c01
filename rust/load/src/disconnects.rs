//! Clients that send a request and go without its reply.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::arguments::Arguments;
use crate::arrivals::Random;

pub struct Disconnects {
    clients: u64,
    /// Those that could not connect or send.
    failed: u64,
    seconds: f64,
}

impl Disconnects {
    pub fn to_json(&self) -> String {
        format!(
            "{{\"clients\": {}, \"failed\": {}, \"seconds\": {:.6}}}",
            self.clients, self.failed, self.seconds
        )
    }
}

/// So many clients, `connections` at a time; raises what keeps the first from connecting.
pub fn run(arguments: &Arguments, clients: u64) -> io::Result<Disconnects> {
    drop(TcpStream::connect(arguments.target.address)?);
    let start = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..arguments.connections as u64 {
            let (next, failed) = (&next, &failed);
            scope.spawn(move || {
                let mut random = Random(arguments.seed ^ thread << 32);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= clients {
                        return;
                    }
                    if client(arguments, number, &mut random).is_err() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(Disconnects {
        clients,
        failed: failed.into_inner(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn client(arguments: &Arguments, number: u64, random: &mut Random) -> io::Result<()> {
    let requests = &arguments.target.requests;
    let mut stream = TcpStream::connect(arguments.target.address)?;
    stream.write_all(&requests[number as usize % requests.len()])?;
    thread::sleep(arguments.within.mul_f64(random.share()));
    Ok(())
}

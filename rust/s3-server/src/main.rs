//! A server of S3's protocol over a folder, for development and tests.
//!
//! Crate `s3s` speaks the protocol; objects are plain files. Every signature is checked, and temporary
//! credentials are handed out. The first line of standard output says where it serves, or why it does
//! not. Each line of standard input is answered by one of requests, bytes sent and bytes received so far; the
//! server ends when standard input does, and so with whoever started it.
//!
//! The storage is ours, as `s3s-fs` 0.13 lets several clients create one key: of 30 keys that four clients created
//! at once by `If-None-Match: *`, 10 had more than one creator, here none. It also hashes the whole object at each
//! request of a part: to read 128 MiB in parts took 4.9 s of its CPU time, 0.1 here (2 cores of a shared VM,
//! 2026-11-26), and it has neither temporary credentials nor listings of more than 1,000 keys.
//!
//! The keys are in the environment, which no list of processes shows. No secret is in an error.

mod arguments;
mod body;
mod conditions;
mod expected;
mod failure;
mod folder;
mod identity;
mod listing;
mod server;
mod storage;
mod sts;
mod uploads;

use crate::server::{Server, ServerConfig};
use std::env;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let config = match arguments::parse(env::args_os().skip(1), |name| env::var(name).ok()) {
        Ok(config) => config,
        Err(message) => {
            eprintln!("oka-s3-server: {message}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(config) {
        Ok(code) => code,
        Err(_) => ExitCode::SUCCESS, // nobody reads the answers: the other end is gone
    }
}

fn run(config: ServerConfig) -> io::Result<ExitCode> {
    let mut output = io::stdout().lock();
    let mut server = match Server::start(config) {
        Ok(server) => server,
        Err(error) => {
            writeln!(output, "{error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    writeln!(output, "http://{}", server.address())?;
    for line in io::stdin().lock().lines() {
        line?;
        let now = server.statistics();
        writeln!(
            output,
            "{} {} {}",
            now.requests, now.bytes_sent, now.bytes_received
        )?;
    }
    server.close();
    Ok(ExitCode::SUCCESS)
}

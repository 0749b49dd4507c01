//! Requests to an HTTP/1.1 server at a rate, and how long each took from when it should have been sent.
//!
//! Open loop: when requests arrive does not depend on when earlier ones are answered, so that a server
//! which stalls cannot hide it. One thread, one epoll, raw bytes: of a reply it reads the status and
//! the length, no more.
//!
//! Ours, as `vegeta` 12.13 times a request from when a worker sends it. While a server stood still for one of
//! ten seconds (1,000 requests a second, 64 connections), its 99th percentile was 173 and 191 ms, here 959 and
//! 936; a request takes 82 µs of its CPU time, 30 here (2 cores of a shared VM, 2026-11-26). `wrk2` counts from
//! the intended time, too, but at a constant rate, not at random moments, and no Debian package has it.

mod arguments;
mod arrivals;
mod connection;
mod disconnects;
mod open_loop;
mod reply;
mod report;

use std::process::ExitCode;

use crate::arguments::{Arguments, HELP, Mode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse(&words) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("oka-load: {message}\n\nhint: oka-load --help");
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.mode {
        Mode::Open => open_loop::run(&arguments).map(|found| found.to_json()),
        Mode::Disconnect(clients) => {
            disconnects::run(&arguments, clients).map(|found| found.to_json())
        }
    };
    match outcome {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("oka-load: {}: {error}", arguments.target.address);
            ExitCode::FAILURE
        }
    }
}

//! Requests to an HTTP/1.1 server at a rate, and how long each took from when it should have been sent.
//!
//! Open loop: when requests arrive does not depend on when earlier ones are answered, so that a server
//! which stalls cannot hide it. One thread, one epoll, raw bytes: of a reply it reads the status and
//! the length, no more.

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

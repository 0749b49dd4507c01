//! Writes Nexmark's events of one kind to standard output, as the buffers of Arrow's columns.
//!
//! `oka-nexmark KIND EVENTS RATE BLOCK DISORDER FIRST STEP`: of the first EVENTS events of all kinds,
//! RATE of which are in a second of event time, those of KIND (`person`, `auction` or `bid`), in
//! blocks of BLOCK. Of these it writes each STEP-th from FIRST on, so that STEP processes share them out. Event n follows from n alone: any block is made
//! without those in front of it.
//!
//! A block is the number of its rows in 8 bytes, then column by column (`rows`). Arrow's own crates
//! are not used: compiled for this program alone they take three minutes, this takes seconds.

mod events;
mod rows;

use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::process::ExitCode;

use crate::events::{Events, Kind};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((events, first, step)) = parse(&arguments) else {
        eprintln!("usage: oka-nexmark person|auction|bid EVENTS RATE BLOCK DISORDER FIRST STEP");
        return ExitCode::from(2);
    };
    match write(&events, first, step) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oka-nexmark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<(Events, u64, usize)> {
    let [kind, numbers @ ..] = arguments else {
        return None;
    };
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|each| each.parse().ok())
        .collect::<Option<_>>()?;
    let &[events, rate, block, disorder, first, step] = numbers.as_slice() else {
        return None;
    };
    if rate == 0 || block == 0 || disorder == 0 || step == 0 {
        return None;
    }
    let events = Events::new(Kind::of(kind)?, events, rate as usize, block, disorder);
    Some((events, first, usize::try_from(step).ok()?))
}

fn write(events: &Events, first: u64, step: usize) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 20, stdout().lock());
    for block in (first..events.blocks()).step_by(step) {
        events.block(block).write(&mut output)?;
    }
    output.flush()
}

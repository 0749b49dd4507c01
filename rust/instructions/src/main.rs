//! Hot paths of the Rust core, one at a time, so that valgrind can count their instructions.
//!
//! `oka-instructions` lists the paths, each with the records of a round; `oka-instructions PATH
//! ROUNDS` runs one. The work is the same in every run: fixed data, no clock, one thread. The
//! difference between n and 2 n rounds is what n rounds cost, without start-up and without what
//! only the first round does.
//!
//! Ours, as `gungraun` 0.20 (once `iai-callgrind`) would bring 13 crates, and a runner of the same version with
//! some 200 more to build (`cargo tree`, 2026-11-26), for the hundred lines that start valgrind and read its count.

mod channel;
mod columns;
mod data;
mod records;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            for path in PATHS {
                println!("{} {}", path.name, data::RECORDS);
            }
            return ExitCode::SUCCESS;
        }
        [name, rounds] => {
            let path = PATHS.iter().find(|path| path.name == *name);
            if let (Some(path), Ok(rounds)) = (path, rounds.parse()) {
                (path.run)(rounds);
                return ExitCode::SUCCESS;
            }
        }
        _ => {}
    }
    eprintln!("usage: oka-instructions [PATH ROUNDS]; without arguments it lists the paths");
    ExitCode::from(2)
}

/// One way that records take through the core.
struct Path {
    name: &'static str,
    /// Takes [`data::RECORDS`] records that way, so many times.
    run: fn(usize),
}

/// Names are those of the committed baseline, `benchmarks/guard/baseline.json`.
const PATHS: &[Path] = &[
    path("record_encode", records::encode),
    path("record_decode", records::decode),
    path("record_partition", records::partition),
    path("record_count", records::count),
    path("record_sum", records::sum),
    path("window_count", records::window_count),
    path("session_count", records::session_count),
    path("frame_encode", channel::frame_encode),
    path("frame_decode", channel::frame_decode),
    path("channel", channel::channel),
    path("ring", channel::ring),
    path("column_encode", columns::encode),
    path("column_decode", columns::decode),
    path("column_partition", columns::partition),
    path("column_count", columns::count),
    path("column_sum", columns::sum),
    path("column_window_count", columns::window_count),
    path("column_session_count", columns::session_count),
];

const fn path(name: &'static str, run: fn(usize)) -> Path {
    Path { name, run }
}

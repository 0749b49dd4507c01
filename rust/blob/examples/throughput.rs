//! Throughput and CPU of blobs between two processes, from `create` at one to `get` at the other.
//!
//! `cargo run --release -p oka-blob --example throughput -- plain 564000000 5` sends five blobs of
//! 564 MB over loopback; `noise` encrypts. Between machines or network namespaces, the addresses of
//! the two ends and a command that runs the receiving one follow:
//! `ip netns exec a …/throughput plain 564000000 5 10.0.0.1 10.0.0.2 ip netns exec b`.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use oka_blob::{BlobConfig, BlobNode};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", kind, host, runs, origin] => sink(kind, host, runs.parse()?, origin),
        [kind, size, runs] => measure(kind, size.parse()?, runs, ["127.0.0.1", "127.0.0.1"], &[]),
        [kind, size, runs, here, there, ref command @ ..] => {
            measure(kind, size.parse()?, runs, [here, there], command)
        }
        _ => Err("usage: throughput plain|noise BYTES RUNS [HERE THERE COMMAND…]".into()),
    }
}

/// The process where the blobs begin: starts the other, and reports.
fn measure(
    kind: &str,
    size: usize,
    runs: &str,
    [here, there]: [&str; 2],
    command: &[&str],
) -> Result<(), Box<dyn Error>> {
    let node = bind(kind, here, "origin")?;
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("a path that is no text")?;
    let sink = [program, "sink", kind, there, runs, node.endpoint()];
    let line: Vec<_> = command.iter().chain(&sink).collect();
    let mut sink = Command::new(line[0])
        .args(&line[1..])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(sink.stdout.take().ok_or("no output")?).lines();
    let peer = lines.next().ok_or("the sink stopped")??;
    node.connect(&[peer], &[], &[], 0, LIMIT)?;
    let model = vec![7; size];
    let mut out = std::io::stdout().lock();
    writeln!(out, "{kind}, {size} bytes")?;
    for number in 0..runs.parse()? {
        let cpu = cpu_seconds();
        let started = Instant::now();
        let landing = node.create(0, number, size as u64, true, false)?;
        landing.write(&model)?;
        let written = started.elapsed().as_secs_f64();
        landing.finish()?;
        let sink_cpu = lines.next().ok_or("the sink stopped")??;
        let elapsed = started.elapsed().as_secs_f64();
        node.wait_delivered(0, number, Some(LIMIT))?;
        writeln!(
            out,
            "  {:.2} GB/s ({elapsed:.3} s, written after {written:.3} s), CPU: origin {:.2} s, sink {sink_cpu} s",
            size as f64 / elapsed / 1e9,
            cpu_seconds() - cpu,
        )?;
    }
    sink.wait()?;
    Ok(())
}

/// The process that gets them.
fn sink(kind: &str, host: &str, runs: u64, origin: &str) -> Result<(), Box<dyn Error>> {
    let node = bind(kind, host, "sink")?;
    println!("{}", node.endpoint());
    node.connect(&[], &[origin.to_owned()], &[], 0, LIMIT)?;
    for number in 0..runs {
        let cpu = cpu_seconds();
        let blob = node.get(0, number, Some(LIMIT))?;
        println!("{:.2}", cpu_seconds() - cpu);
        drop(blob);
    }
    Ok(())
}

fn bind(kind: &str, host: &str, name: &str) -> Result<BlobNode, Box<dyn Error>> {
    let local = env::temp_dir().join(format!("oka-blob-{}-{name}", std::process::id()));
    let config = BlobConfig {
        encryption: kind == "noise",
        ..BlobConfig::default()
    };
    Ok(BlobNode::bind(config, &format!("tcp://{host}:0"), &local)?)
}

/// User and system time of this process, in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

const LIMIT: Duration = Duration::from_mins(2);

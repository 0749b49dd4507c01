//! Throughput, latency and CPU of one channel between two processes.
//!
//! `cargo run --release -p oka-transport --example throughput -- shm 65536 2` sends records of
//! 65,536 bytes over shared memory for two seconds, then 1,000 lone records at 1,000 per second,
//! then times the calls of the writing thread.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, thread};

use oka_protocol::LatencyHistogram;
use oka_transport::{ChannelSpec, Element, Network, NetworkConfig, OpenFrame, OutputChannel};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [kind, size, seconds] => measure(kind, size.parse()?, seconds.parse()?),
        ["source", kind, size, seconds, sink] => {
            source(kind, size.parse()?, seconds.parse()?, sink)
        }
        _ => Err("usage: throughput shm|ipc|tcp|curve RECORD_BYTES SECONDS".into()),
    }
}

/// The receiving process: starts the other, receives, and reports.
fn measure(kind: &str, size: usize, seconds: f64) -> Result<(), Box<dyn Error>> {
    let network = bind(kind, "sink")?;
    let mut source = Command::new(env::current_exe()?)
        .args(["source", kind, &size.to_string(), &seconds.to_string()])
        .arg(&network.endpoints()[0])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(source.stdout.take().ok_or("no output")?).lines();
    let peer = lines.next().ok_or("the source stopped")??;
    network.connect(&[], &[ChannelSpec::new(1, peer)])?;

    let (mut bytes, mut frames) = (0_u64, 0_u64);
    let cpu = cpu_seconds();
    let started = Instant::now();
    while let Element::Batch(batch) = network.receive(None)? {
        if !batch.markers.is_empty() {
            break;
        }
        for (_, body) in batch.bodies() {
            bytes += body.len() as u64;
            frames += 1;
            black_box(body.last());
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    let sink_cpu = cpu_seconds() - cpu;

    let mut latencies = LatencyHistogram::new();
    let idle_cpu = cpu_seconds();
    while let Element::Batch(batch) = network.receive(None)? {
        for stamp in &batch.markers {
            latencies.record(now_ns().saturating_sub(*stamp));
        }
    }
    let idle_cpu = cpu_seconds() - idle_cpu;
    let source_cpu: f64 = lines.next().ok_or("the source stopped")??.parse()?;
    let calls = lines.next().ok_or("the source stopped")??;
    wait(source)?;

    let mut out = std::io::stdout().lock();
    writeln!(out, "{kind}, records of {size} bytes")?;
    writeln!(
        out,
        "  {:.2} GB/s, {:.0} records/s, {:.0} frames/s of {} bytes",
        bytes as f64 / elapsed / 1e9,
        bytes as f64 / size as f64 / elapsed,
        frames as f64 / elapsed,
        bytes / frames.max(1),
    )?;
    writeln!(
        out,
        "  CPU per frame: source {:.2} us, sink {:.2} us",
        source_cpu * 1e6 / frames as f64,
        sink_cpu * 1e6 / frames as f64,
    )?;
    writeln!(
        out,
        "  lone records at 1,000/s: p50 {:.0} us, p99 {:.0} us, sink CPU {:.1} %",
        latencies.percentile(50.0),
        latencies.percentile(99.0),
        100.0 * idle_cpu,
    )?;
    writeln!(out, "  {calls}")?;
    Ok(())
}

/// The sending process.
fn source(kind: &str, size: usize, seconds: f64, sink: &str) -> Result<(), Box<dyn Error>> {
    let network = bind(kind, "source")?;
    println!("{}", network.endpoints()[0]);
    let peer = sink.to_owned();
    network.connect(&[ChannelSpec::new(1, peer)], &[])?;
    let output = network.output(1).ok_or("not connected")?;
    let record = vec![7; size];
    let mut frame = OpenFrame::new();

    let cpu = cpu_seconds();
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < seconds {
        for _ in 0..(65_536 / size).clamp(1, 1_000) {
            emit(&output, &mut frame, &record, None);
            if !output.is_writable() {
                output.wait_writable()?;
            }
        }
    }
    let source_cpu = cpu_seconds() - cpu;
    thread::sleep(Duration::from_millis(200));
    emit(&output, &mut frame, &record, Some(now_ns()));
    for _ in 0..1_000 {
        thread::sleep(Duration::from_millis(1));
        emit(&output, &mut frame, &[7; 32], Some(now_ns()));
    }
    network.finish(None)?;
    println!("{source_cpu}");
    println!("{}", time_calls(kind)?);
    Ok(())
}

fn emit(output: &OutputChannel, frame: &mut OpenFrame, record: &[u8], stamp: Option<u64>) {
    frame.body.extend_from_slice(record);
    frame.records += 1;
    frame.markers.extend(stamp);
    output.push(frame);
}

/// Nanoseconds of the calls a task makes per batch, between two networks of this process.
fn time_calls(kind: &str) -> Result<String, Box<dyn Error>> {
    let writer = bind(kind, "writer")?;
    let reader = bind(kind, "reader")?;
    let to = |network: &Network| ChannelSpec::new(2, &network.endpoints()[0]);
    thread::scope(|scope| {
        let connecting = scope.spawn(|| writer.connect(&[to(&reader)], &[]));
        reader.connect(&[], &[to(&writer)])?;
        connecting.join().expect("connecting does not panic")
    })?;
    let output = writer.output(2).ok_or("not connected")?;
    let full = vec![7; 65_536];
    let mut frame = OpenFrame::new();
    let (mut pushes, mut receives) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        emit(&output, &mut frame, &[7; 32], None);
        emit(&output, &mut frame, &[7; 32], None);
        let started = Instant::now();
        for _ in 0..1_000 {
            emit(&output, &mut frame, &[7; 32], None);
        }
        pushes.push(started.elapsed().as_nanos() / 1_000);
        while writer.statistics().outputs[0].backlog_bytes > 0 {
            let _ = reader.try_receive()?;
        }
        for _ in 0..6 {
            emit(&output, &mut frame, &full, None);
        }
        thread::sleep(Duration::from_millis(1));
        loop {
            let started = Instant::now();
            let found = reader.try_receive()?;
            receives.push(started.elapsed().as_nanos());
            if matches!(found, Element::Empty) {
                receives.pop();
                break;
            }
        }
    }
    pushes.sort_unstable();
    receives.sort_unstable();
    Ok(format!(
        "push of 32 bytes: {} ns; try_receive with a batch there: {} ns (medians)",
        pushes[pushes.len() / 2],
        receives[receives.len() / 2],
    ))
}

fn bind(kind: &str, name: &str) -> Result<Network, Box<dyn Error>> {
    let path = env::temp_dir().join(format!("oka-throughput-{}-{name}", std::process::id()));
    let endpoint = match kind {
        "tcp" | "curve" => "tcp://127.0.0.1:0".to_owned(),
        local => format!("{local}://{}", path.display()),
    };
    let config = NetworkConfig {
        encryption: kind == "curve",
        ..NetworkConfig::default()
    };
    Ok(Network::bind(config, &[endpoint])?)
}

fn wait(mut source: Child) -> Result<(), Box<dyn Error>> {
    let status = source.wait()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("the source ended with {status}").into())
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// User and system time of this process, in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

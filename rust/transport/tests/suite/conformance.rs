//! What every transport must do, run over each endpoint kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Directory, Kind, NOTICED, ReceiveBatch as _, channel, connect, emit, pair, receive_all,
    wait_until,
};
use oka_protocol::HEADER_BYTES;
use oka_transport::{
    ConnectError, Element, EmitError, FRAME_BYTES, FinishError, Network, NetworkConfig, OpenFrame,
    OutputChannel, ReceiveError,
};

over_every_kind!(
    many_small_records_arrive_in_order,
    large_records_arrive,
    a_large_record_begins_in_the_last_bytes_of_a_window,
    markers_travel_behind_their_records,
    a_stalled_reader_bounds_memory_and_blocks_the_writer,
    little_waits_for_a_slow_reader,
    a_slow_reader_has_its_next_frame_at_once,
    a_lone_record_arrives_soon,
    lingering_records_arrive_too,
    an_empty_channel_ends,
    nothing_is_lost_when_jobs_end_at_once,
    eight_sources_fan_in,
    many_channels_end_at_once,
    one_source_fans_out,
    a_middle_task_passes_everything_on,
    cancel_wakes_a_blocked_writer,
    cancel_wakes_a_blocked_reader,
    cancel_wakes_a_blocked_finish,
    finish_times_out_on_a_stalled_reader,
    a_peer_that_goes_early_is_lost,
    closing_leaves_no_file,
    endpoints_may_be_unlinked_early,
    oversized_frames_are_refused,
    a_missing_peer_times_out,
);

fn many_small_records_arrive_in_order(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let reader = thread::spawn(move || {
        let counts = receive_all(&sink, 32, 1).unwrap();
        (counts, sink)
    });
    let output = source.output(1).unwrap();
    for number in 0..1_000_000 {
        emit(&output, number, 32).unwrap();
    }
    source.finish(None).unwrap();
    let (counts, sink) = reader.join().unwrap();
    assert_eq!(counts, [1_000_000]);

    let sent = &source.statistics().outputs[0];
    let arrived = &sink.statistics().inputs[0];
    assert_eq!((sent.records, arrived.records), (1_000_000, 1_000_000));
    assert_eq!((sent.bytes, arrived.bytes), (32_000_000, 32_000_000));
    assert_eq!((sent.backlog_bytes, arrived.backlog_bytes), (0, 0));
    assert_eq!(sent.frames, arrived.frames);
    // Sockets have small records wait for company; in a ring they gather by themselves.
    let most = if kind == Kind::Shm {
        1_000_000
    } else {
        100_000
    };
    assert!(sent.frames <= most, "{} frames", sent.frames);
    assert_eq!(sink.statistics().dropped_messages, 0);
}

fn large_records_arrive(kind: Kind) {
    const SIZE: usize = 50_000_000;
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let reader = thread::spawn(move || {
        let mut sizes = Vec::new();
        while let Some(batch) = sink.receive_batch().unwrap() {
            for (records, body) in batch.bodies() {
                assert_eq!(body[0], body[body.len() - 1]);
                sizes.push((records, body.len()));
            }
        }
        sizes
    });
    let output = source.output(1).unwrap();
    for number in 0..3 {
        let mut frame = OpenFrame::new();
        let end = frame.body.len() + SIZE + number as usize;
        frame.body.resize(end, number);
        frame.records = 1;
        output.push(&mut frame);
        output.wait_writable().unwrap();
    }
    source.finish(None).unwrap();
    assert_eq!(
        reader.join().unwrap(),
        [(1, SIZE), (1, SIZE + 1), (1, SIZE + 2)]
    );
}

fn a_large_record_begins_in_the_last_bytes_of_a_window(kind: Kind) {
    const WINDOW: usize = 65_536;
    let config = NetworkConfig {
        window_bytes: WINDOW,
        ..NetworkConfig::default()
    };
    for left in [8, 16, 24, 32] {
        let directory = Directory::new();
        let (source, sink) = pair(&directory, kind, &config);
        let sizes = [WINDOW - HEADER_BYTES - left, 2 * WINDOW];
        let output = source.output(1).unwrap();
        for size in sizes {
            let mut frame = OpenFrame::new();
            frame.body.resize(frame.body.len() + size, 7);
            frame.records = 1;
            output.push(&mut frame);
        }
        let writing = thread::spawn(move || {
            output.wait_writable().unwrap();
            source.finish(None).unwrap();
        });
        for size in sizes {
            let batch = sink.receive_batch().unwrap().unwrap();
            assert_eq!(
                (batch.records, batch.size()),
                (1, size),
                "{left} bytes left"
            );
        }
        assert_eq!(sink.receive_batch().unwrap(), None);
        writing.join().unwrap();
    }
}

fn markers_travel_behind_their_records(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let output = source.output(1).unwrap();
    for number in 0..100 {
        let mut frame = OpenFrame::new();
        frame.body.extend_from_slice(&[number; 10]);
        frame.records += 1;
        frame.markers.push(u64::from(number));
        output.push(&mut frame);
    }
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    let mut stamps = Vec::new();
    while let Some(batch) = sink.receive_batch().unwrap() {
        assert_eq!(batch.markers.len(), batch.records);
        stamps.extend(batch.markers);
    }
    finishing.join().unwrap();
    assert_eq!(stamps, (0..100).collect::<Vec<_>>());
}

fn a_stalled_reader_bounds_memory_and_blocks_the_writer(kind: Kind) {
    let config = NetworkConfig::default();
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &config);
    let source = Arc::new(source);
    let writer = thread::spawn({
        let source = Arc::clone(&source);
        move || {
            let output = source.output(1).unwrap();
            for number in 0..10_000 {
                emit(&output, number, 1_000).unwrap();
            }
            source.finish(None).unwrap();
        }
    });
    wait_until(|| {
        let statistics = source.statistics();
        let output = &statistics.outputs[0];
        let waiting = match kind {
            Kind::Shm => 0,
            _ => config.send_buffer_bytes as u64,
        };
        output.backlog_bytes > waiting
            && output.credit_bytes < FRAME_BYTES as u64 + 1_000
            && statistics.blocked_ns > 0
    });
    let held = sink.statistics().inputs[0].backlog_bytes;
    assert!(held <= config.window_bytes as u64, "{held} bytes");
    let backlog = source.statistics().outputs[0].backlog_bytes;
    assert!(backlog <= (config.send_buffer_bytes + FRAME_BYTES) as u64);
    assert_eq!(receive_all(&sink, 1_000, 1).unwrap(), [10_000]);
    writer.join().unwrap();
}

/// It works off some 600 KB in a second, and has a window of 1 MiB.
fn little_waits_for_a_slow_reader(kind: Kind) {
    let config = NetworkConfig::default();
    let little = config.window_bytes as u64 / 2;
    let turn = |sink: &Network| {
        let _batch = sink.receive_batch().unwrap();
        thread::sleep(Duration::from_millis(100));
        sink.statistics().inputs[0].backlog_bytes < little
    };
    assert!(ten_in_a_row(kind, (1_000, 0), turn), "much still waits");
}

/// It takes longer for one than may wait for it; the next is made meanwhile.
fn a_slow_reader_has_its_next_frame_at_once(kind: Kind) {
    let turn = |sink: &Network| {
        let soon = Instant::now() + Duration::from_millis(100);
        let is_there = matches!(sink.receive(Some(soon)).unwrap(), Element::Batch(_));
        thread::sleep(Duration::from_millis(450));
        is_there && sink.statistics().inputs[0].backlog_bytes < 400_000
    };
    assert!(
        ten_in_a_row(kind, (100_000, 150), turn),
        "it waits each time"
    );
}

/// Whether a reader's turns go well ten times in a row at last, while a writer emits records of a size,
/// each of which takes it so many ms.
fn ten_in_a_row(kind: Kind, (size, ms): (usize, u64), turn: impl Fn(&Network) -> bool) -> bool {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let output = source.output(1).unwrap();
            let mut number = 0;
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(ms));
                emit(&output, number, size).unwrap();
                number += 1;
            }
            source.finish(None).unwrap();
        });
        let mut in_a_row = 0;
        for _ in 0..100 {
            in_a_row = if turn(&sink) { in_a_row + 1 } else { 0 };
            if in_a_row == 10 {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        while sink.receive_batch().unwrap().is_some() {}
        in_a_row == 10
    })
}

fn a_lone_record_arrives_soon(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let output = source.output(1).unwrap();
    let mut delays = Vec::new();
    for number in 0..50 {
        let sent = Instant::now();
        emit(&output, number, 32).unwrap();
        assert_eq!(sink.receive_batch().unwrap().unwrap().records, 1);
        delays.push(sent.elapsed());
    }
    delays.sort();
    // The quickest: a machine with much to do delays most of them.
    assert!(delays[5] < Duration::from_millis(5), "{:?}", delays[5]);
    assert_eq!(sink.try_receive().unwrap(), Element::Empty);
}

fn lingering_records_arrive_too(kind: Kind) {
    let config = NetworkConfig {
        linger: Duration::from_millis(20),
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &config);
    let output = source.output(1).unwrap();
    for number in 0..3 {
        emit(&output, number, 32).unwrap();
    }
    assert_eq!(sink.receive_batch().unwrap().unwrap().records, 3);
    emit(&output, 3, 32).unwrap();
    assert_eq!(sink.receive_batch().unwrap().unwrap().records, 1);
    emit(&output, 4, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    assert_eq!(sink.receive_batch().unwrap().unwrap().records, 1);
    assert_eq!(sink.receive_batch().unwrap(), None);
    finishing.join().unwrap();
}

fn an_empty_channel_ends(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let reader = thread::spawn(move || sink.receive_batch().unwrap());
    source.finish(None).unwrap();
    assert_eq!(reader.join().unwrap(), None);
    assert!(
        source
            .try_receive()
            .is_ok_and(|found| found == Element::Ended)
    );
}

fn nothing_is_lost_when_jobs_end_at_once(kind: Kind) {
    for _ in 0..20 {
        let directory = Directory::new();
        let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
        let reader = thread::spawn(move || {
            let counts = receive_all(&sink, 100, 1).unwrap();
            sink.close();
            counts
        });
        let output = source.output(1).unwrap();
        for number in 0..2_000 {
            emit(&output, number, 100).unwrap();
        }
        source.finish(None).unwrap();
        source.close();
        assert_eq!(reader.join().unwrap(), [2_000]);
    }
}

fn eight_sources_fan_in(kind: Kind) {
    fan_in::<8>(kind, 20_000, None);
}

fn many_channels_end_at_once(kind: Kind) {
    for _ in 0..20 {
        fan_in::<6>(kind, 50, Some(Duration::from_secs(20)));
    }
}

/// So many sources each send `records` to one sink, and finish within the limit.
fn fan_in<const SOURCES: usize>(kind: Kind, records: u64, limit: Option<Duration>) {
    let config = NetworkConfig::default();
    let directory = Directory::new();
    let sink = directory.bind(kind, "sink", &config);
    let sources: Vec<_> = (1..=SOURCES as u32)
        .map(|id| (id, directory.bind(kind, &format!("source{id}"), &config)))
        .collect();
    let inputs: Vec<_> = sources
        .iter()
        .map(|(id, source)| channel(*id, source))
        .collect();
    thread::scope(|scope| {
        for (id, source) in &sources {
            let sink = &sink;
            scope.spawn(move || {
                source.connect(&[channel(*id, sink)], &[]).unwrap();
                let output = source.output(*id).unwrap();
                for number in 0..records {
                    emit(&output, number, 64).unwrap();
                }
                source.finish(limit).unwrap();
            });
        }
        sink.connect(&[], &inputs).unwrap();
        assert_eq!(receive_all(&sink, 64, SOURCES).unwrap(), [records; SOURCES]);
    });
}

fn one_source_fans_out(kind: Kind) {
    let config = NetworkConfig::default();
    let directory = Directory::new();
    let source = directory.bind(kind, "source", &config);
    let sinks: Vec<_> = (1..=8)
        .map(|id| (id, directory.bind(kind, &format!("sink{id}"), &config)))
        .collect();
    let outputs: Vec<_> = sinks.iter().map(|(id, sink)| channel(*id, sink)).collect();
    thread::scope(|scope| {
        for (id, sink) in &sinks {
            let source = &source;
            scope.spawn(move || {
                sink.connect(&[], &[channel(*id, source)]).unwrap();
                let counts = receive_all(sink, 64, 8).unwrap();
                assert_eq!(counts[*id as usize - 1], 20_000);
            });
        }
        source.connect(&outputs, &[]).unwrap();
        let outputs: Vec<_> = (1..=8).map(|id| source.output(id).unwrap()).collect();
        for number in 0..20_000 {
            for output in &outputs {
                emit(output, number, 64).unwrap();
            }
        }
        source.finish(None).unwrap();
    });
}

fn a_middle_task_passes_everything_on(kind: Kind) {
    let config = NetworkConfig::default();
    let directory = Directory::new();
    let [source, middle, sink] =
        ["source", "middle", "sink"].map(|name| directory.bind(kind, name, &config));
    connect(&[
        (&source, &[channel(1, &middle)], &[]),
        (&middle, &[channel(2, &sink)], &[channel(1, &source)]),
        (&sink, &[], &[channel(2, &middle)]),
    ]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let output = source.output(1).unwrap();
            for number in 0..200_000 {
                emit(&output, number, 32).unwrap();
            }
            source.finish(None).unwrap();
        });
        scope.spawn(|| {
            let output = middle.output(2).unwrap();
            while let Some(batch) = middle.receive_batch().unwrap() {
                let mut frame = OpenFrame::new();
                for (_, body) in batch.bodies() {
                    frame.body.extend_from_slice(body);
                }
                frame.records += batch.records as u32;
                output.push(&mut frame);
                output.wait_writable().unwrap();
            }
            middle.finish(None).unwrap();
        });
        assert_eq!(receive_all(&sink, 32, 2).unwrap(), [0, 200_000]);
    });
}

fn cancel_wakes_a_blocked_writer(kind: Kind) {
    let directory = Directory::new();
    let (source, _sink) = pair(&directory, kind, &NetworkConfig::default());
    let source = Arc::new(source);
    let writer = thread::spawn({
        let output = source.output(1).unwrap();
        move || fill(&output)
    });
    let full = if kind == Kind::Shm { 0 } else { 128 * 1024 };
    wait_until(|| source.statistics().outputs[0].backlog_bytes > full);
    source.cancel();
    assert_eq!(writer.join().unwrap(), EmitError::Cancelled);
    assert!(!source.output(1).unwrap().is_writable());
}

fn cancel_wakes_a_blocked_reader(kind: Kind) {
    let directory = Directory::new();
    let (_source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let sink = Arc::new(sink);
    let reader = thread::spawn({
        let sink = Arc::clone(&sink);
        move || sink.receive_batch()
    });
    thread::sleep(Duration::from_millis(20));
    sink.cancel();
    sink.cancel();
    assert_eq!(reader.join().unwrap(), Err(ReceiveError::Cancelled));
    assert_eq!(sink.try_receive(), Err(ReceiveError::Cancelled));
}

fn cancel_wakes_a_blocked_finish(kind: Kind) {
    let directory = Directory::new();
    let (source, _sink) = pair(&directory, kind, &NetworkConfig::default());
    let source = Arc::new(source);
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn({
        let source = Arc::clone(&source);
        move || source.finish(None)
    });
    thread::sleep(Duration::from_millis(20));
    source.cancel();
    assert_eq!(finishing.join().unwrap(), Err(FinishError::Cancelled));
}

fn finish_times_out_on_a_stalled_reader(kind: Kind) {
    let directory = Directory::new();
    let (source, _sink) = pair(&directory, kind, &NetworkConfig::default());
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let error = source.finish(Some(Duration::from_millis(50))).unwrap_err();
    assert!(matches!(error, FinishError::TimedOut { channels, .. } if channels == [1]));
}

fn a_peer_that_goes_early_is_lost(kind: Kind) {
    let config = NetworkConfig {
        reconnect_timeout: Duration::from_millis(200),
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &config);
    let writer = thread::spawn({
        let output = source.output(1).unwrap();
        move || fill(&output)
    });
    sink.receive_batch().unwrap().unwrap();
    let gone = Instant::now();
    drop(sink);
    let EmitError::Lost(lost) = writer.join().unwrap() else {
        panic!("the writer should have lost its channel");
    };
    assert!(gone.elapsed() < NOTICED, "{:?}", gone.elapsed());
    assert_eq!(lost.channel, 1);
    assert!(matches!(source.receive_batch(), Err(ReceiveError::Lost(_))));
    drop(source);

    let (source, sink) = pair(&directory, kind, &config);
    let gone = Instant::now();
    drop(source);
    assert!(matches!(sink.receive_batch(), Err(ReceiveError::Lost(_))));
    assert!(gone.elapsed() < NOTICED, "{:?}", gone.elapsed());
}

fn closing_leaves_no_file(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    assert_eq!(
        directory.files(),
        match kind {
            Kind::Tcp | Kind::Curve => 0,
            Kind::Shm | Kind::Ipc => 2,
        }
    );
    source.close();
    source.close();
    sink.cancel();
    drop(sink);
    assert_eq!(directory.files(), 0);
}

fn endpoints_may_be_unlinked_early(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    source.unlink_endpoints();
    sink.unlink_endpoints();
    assert_eq!(directory.files(), 0);
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    assert_eq!(receive_all(&sink, 32, 1).unwrap(), [1]);
    finishing.join().unwrap();
    sink.close();
}

fn oversized_frames_are_refused(kind: Kind) {
    let config = NetworkConfig {
        max_frame_bytes: 1_000,
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let (source, _sink) = pair(&directory, kind, &config);
    let output = source.output(1).unwrap();
    emit(&output, 0, 1_000).unwrap();
    wait_until(|| source.statistics().outputs[0].frames == 1);
    let error = emit(&output, 1, 1_001).unwrap_err();
    assert!(matches!(
        error,
        EmitError::Oversized {
            bytes: 1_001,
            limit: 1_000,
            ..
        }
    ));
    assert_eq!(source.finish(None), Err(FinishError::Emit(error)));
    let error = emit(&output, 2, 10).unwrap_err();
    assert!(
        matches!(error, EmitError::Oversized { .. }),
        "the first refusal stays"
    );
}

fn a_missing_peer_times_out(kind: Kind) {
    let config = NetworkConfig {
        connect_timeout: Duration::from_millis(100),
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let source = directory.bind(kind, "source", &config);
    let sink = directory.bind(kind, "sink", &config);
    let to_nobody = [channel(1, &sink)];
    sink.close();
    let error = source.connect(&to_nobody, &[]).unwrap_err();
    assert!(
        matches!(error, ConnectError::TimedOut { channel: 1, .. }),
        "{error}"
    );
}

/// Writes until the channel refuses.
fn fill(output: &OutputChannel) -> EmitError {
    (0..)
        .find_map(|number| emit(output, number, 1_000).err())
        .expect("the channel refuses sooner or later")
}

#[test]
fn networks_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Network>();
    shared::<OutputChannel>();
}

//! Channels that are paused, over each endpoint kind: nothing comes of them, nothing is lost.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Directory, Kind, ReceiveBatch as _, channel, connect, emit, receive_all, wait_until,
};
use oka_transport::{ChannelSpec, Element, EmitError, Network, NetworkConfig, NoInput};

over_every_kind!(
    a_paused_channel_waits_for_its_resume,
    what_had_arrived_is_held_too,
    an_end_counts_after_the_resume,
    all_others_ended_before_the_resume,
    credits_bound_what_waits,
    a_resume_wakes_a_blocked_reader,
    markers_stay_with_their_records,
    large_records_wait_too,
    cancel_wakes_a_reader_of_paused_channels,
    a_side_input_shares_no_batch,
    a_side_input_is_not_waited_for,
    a_paused_channel_without_records_ends,
    what_is_held_comes_before_the_end,
);

const REASON: &str = "test";

/// Two sources, of channels 1 and 2, and their sink.
struct Three {
    _directory: Directory,
    first: Network,
    second: Network,
    sink: Network,
}

fn three(kind: Kind) -> Three {
    connected(kind, |spec| spec)
}

/// The same, with channel 2 of a side input.
fn three_beside(kind: Kind) -> Three {
    connected(kind, |spec| spec.of_input(1).aside())
}

fn connected(kind: Kind, second_as: impl Fn(ChannelSpec) -> ChannelSpec) -> Three {
    let config = NetworkConfig::default();
    let directory = Directory::new();
    let first = directory.bind(kind, "first", &config);
    let second = directory.bind(kind, "second", &config);
    let sink = directory.bind(kind, "sink", &config);
    connect(&[
        (&first, &[channel(1, &sink)], &[]),
        (&second, &[channel(2, &sink)], &[]),
        (
            &sink,
            &[],
            &[channel(1, &first), second_as(channel(2, &second))],
        ),
    ]);
    Three {
        _directory: directory,
        first,
        second,
        sink,
    }
}

fn send(source: &Network, id: u32, numbers: std::ops::Range<u64>) {
    let output = source.output(id).unwrap();
    for number in numbers {
        emit(&output, number, 64).unwrap();
    }
}

/// Something comes of each of these channels, and then nothing comes for a while of any other.
fn expect_channels(sink: &Network, expected: &[u32]) {
    let mut found = Vec::new();
    let mut last = Instant::now();
    let missing = |found: &Vec<u32>| expected.iter().any(|channel| !found.contains(channel));
    while last.elapsed() < Duration::from_millis(50)
        || missing(&found) && last.elapsed() < Duration::from_secs(20)
    {
        match sink.try_receive().unwrap() {
            Element::Batch(batch) => {
                found.extend(batch.frames().map(|(header, _)| header.channel));
                last = Instant::now();
            }
            Element::Empty => thread::sleep(Duration::from_millis(1)),
            Element::Ended => break,
            other => panic!("{other:?}"),
        }
    }
    found.dedup();
    assert_eq!(found, expected);
}

fn a_paused_channel_waits_for_its_resume(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1], REASON).unwrap();
    thread::scope(|scope| {
        for (source, id) in [(&three.first, 1), (&three.second, 2)] {
            scope.spawn(move || {
                send(source, id, 0..1_000);
                source.finish(None).unwrap();
            });
        }
        expect_channels(&three.sink, &[2]);
        three.sink.resume(&[1, 2], REASON).unwrap();
        let counts = receive_rest(&three.sink);
        assert_eq!(counts, 1_000);
    });
}

/// Channel 1 to its end, from number 0.
fn receive_rest(sink: &Network) -> u64 {
    receive_all(sink, 64, 1).unwrap()[0]
}

fn what_had_arrived_is_held_too(kind: Kind) {
    let three = three(kind);
    // One record is one frame: of several small ones, the third waits until somebody receives.
    send(&three.first, 1, 0..1);
    send(&three.second, 2, 0..1);
    if kind != Kind::Shm {
        wait_until(|| {
            three
                .sink
                .statistics()
                .inputs
                .iter()
                .all(|i| i.records == 1)
        });
    }
    three.sink.pause(&[1], REASON).unwrap();
    expect_channels(&three.sink, &[2]);
    send(&three.first, 1, 1..20);
    expect_channels(&three.sink, &[]);
    three.sink.resume(&[1, 2], REASON).unwrap();
    let Three { first, second, .. } = &three;
    thread::scope(|scope| {
        scope.spawn(|| first.finish(None).unwrap());
        scope.spawn(|| second.finish(None).unwrap());
        assert_eq!(receive_rest(&three.sink), 20);
    });
}

fn an_end_counts_after_the_resume(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1], REASON).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| three.first.finish(None).unwrap());
        expect_channels(&three.sink, &[]);
        assert_eq!(three.sink.try_receive().unwrap(), Element::Empty);
        send(&three.second, 2, 0..1);
        expect_channels(&three.sink, &[2]);
        three.sink.resume(&[1, 2], REASON).unwrap();
        scope.spawn(|| three.second.finish(None).unwrap());
        assert_eq!(three.sink.receive_batch().unwrap(), None);
    });
}

fn all_others_ended_before_the_resume(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1], REASON).unwrap();
    send(&three.first, 1, 0..5);
    thread::scope(|scope| {
        scope.spawn(|| three.second.finish(None).unwrap());
        assert_eq!(three.sink.receive_batch().unwrap(), None);
        assert_eq!(three.sink.try_receive().unwrap(), Element::Ended);
        three.sink.resume(&[1, 2], REASON).unwrap();
        scope.spawn(|| three.first.finish(None).unwrap());
        assert_eq!(receive_rest(&three.sink), 5);
    });
}

fn credits_bound_what_waits(kind: Kind) {
    let three = three(kind);
    let config = NetworkConfig::default();
    three.sink.pause(&[1], REASON).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let output = three.first.output(1).unwrap();
            let result = (0..100_000).try_for_each(|number| emit(&output, number, 64));
            result.and_then(|()| three.first.finish(None).map_err(|_| EmitError::Cancelled))
        });
        let mut before = 0;
        wait_until(|| {
            thread::sleep(Duration::from_millis(20));
            let records = three.first.statistics().outputs[0].records;
            records > 0 && records == std::mem::replace(&mut before, records)
        });
        assert!(before < 100_000, "{before} records");
        let held = three.sink.statistics().inputs[0].backlog_bytes;
        assert!(held <= config.window_bytes as u64, "{held} bytes");
        three.sink.resume(&[1, 2], REASON).unwrap();
        scope.spawn(|| three.second.finish(None).unwrap());
        assert_eq!(receive_rest(&three.sink), 100_000);
        writer.join().unwrap().unwrap();
    });
}

fn a_resume_wakes_a_blocked_reader(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1], REASON).unwrap();
    send(&three.first, 1, 0..3);
    thread::scope(|scope| {
        let reader = scope.spawn(|| three.sink.receive_batch().unwrap().unwrap().channel);
        thread::sleep(Duration::from_millis(30));
        assert!(!reader.is_finished());
        three.sink.resume(&[1, 2], REASON).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

fn markers_stay_with_their_records(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1], REASON).unwrap();
    let output = three.first.output(1).unwrap();
    for number in 0..100_u8 {
        let mut frame = oka_transport::OpenFrame::new();
        frame.body.extend_from_slice(&[number; 10]);
        frame.records += 1;
        frame.markers.push(u64::from(number));
        output.push(&mut frame);
    }
    expect_channels(&three.sink, &[]);
    three.sink.resume(&[1, 2], REASON).unwrap();
    let mut stamps = Vec::new();
    while stamps.len() < 100 {
        let batch = three.sink.receive_batch().unwrap().unwrap();
        assert_eq!(batch.markers.len(), batch.records);
        stamps.extend(batch.markers);
    }
    assert_eq!(stamps, (0..100).collect::<Vec<_>>());
}

fn large_records_wait_too(kind: Kind) {
    const SIZE: usize = 5_000_000;
    let three = three(kind);
    thread::scope(|scope| {
        scope.spawn(|| {
            let output = three.first.output(1).unwrap();
            for number in 0..3 {
                emit(&output, number, SIZE).unwrap();
            }
            three.first.finish(None).unwrap();
        });
        // Part of the first has been taken in.
        thread::sleep(Duration::from_millis(5));
        let mut records = match three.sink.try_receive().unwrap() {
            Element::Batch(batch) => batch.records,
            _ => 0,
        };
        three.sink.pause(&[1], REASON).unwrap();
        scope.spawn(|| {
            send(&three.second, 2, 0..3);
            three.second.finish(None).unwrap();
        });
        expect_channels(&three.sink, &[2]);
        three.sink.resume(&[1, 2], REASON).unwrap();
        while let Some(batch) = three.sink.receive_batch().unwrap() {
            assert_eq!(batch.size(), SIZE);
            if batch.channel == 1 {
                records += batch.records;
            }
        }
        assert_eq!(records, 3);
    });
}

fn cancel_wakes_a_reader_of_paused_channels(kind: Kind) {
    let three = three(kind);
    three.sink.pause(&[1, 2], REASON).unwrap();
    // All channels are paused: all the others, which are none, have ended.
    assert_eq!(three.sink.receive_batch().unwrap(), None);
    three.sink.resume(&[1, 2], REASON).unwrap();
    three.sink.pause(&[2], REASON).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| three.sink.receive_batch());
        thread::sleep(Duration::from_millis(10));
        three.sink.cancel();
        assert!(reader.join().unwrap().is_err());
    });
}

fn a_side_input_shares_no_batch(kind: Kind) {
    let three = three_beside(kind);
    assert_eq!(three.sink.pause(&[1, 7], REASON), Err(NoInput(7)));
    assert_eq!(three.sink.resume(&[7], REASON), Err(NoInput(7)));
    thread::scope(|scope| {
        for (source, id) in [(&three.first, 1), (&three.second, 2)] {
            scope.spawn(move || {
                for number in 0..500 {
                    send(source, id, number..number + 1);
                    if number % 10 == 0 {
                        thread::yield_now();
                    }
                }
                source.finish(None).unwrap();
            });
        }
        let mut records = [0, 0];
        let mut receive_all = || {
            while let Some(batch) = three.sink.receive_batch().unwrap() {
                assert!(
                    batch
                        .frames()
                        .all(|(header, _)| header.channel == batch.channel)
                );
                records[batch.channel as usize - 1] += batch.records;
            }
            records
        };
        assert_eq!(receive_all()[0], 500);
        three.sink.include_side_inputs();
        assert_eq!(receive_all(), [500, 500]);
    });
}

fn a_side_input_is_not_waited_for(kind: Kind) {
    let three = three_beside(kind);
    thread::scope(|scope| {
        scope.spawn(|| {
            send(&three.first, 1, 0..5);
            three.first.finish(None).unwrap();
        });
        let mut records = 0;
        while let Some(batch) = three.sink.receive_batch().unwrap() {
            records += batch.records;
        }
        assert_eq!(records, 5);
        assert_eq!(three.sink.receive_batch().unwrap(), None);

        // What comes of it later can be taken all the same, to its end.
        three.sink.include_side_inputs();
        assert_eq!(three.sink.try_receive().unwrap(), Element::Empty);
        send(&three.second, 2, 0..1);
        assert_eq!(three.sink.receive_batch().unwrap().unwrap().channel, 2);
        scope.spawn(|| three.second.finish(None).unwrap());
        assert_eq!(three.sink.receive_batch().unwrap(), None);
    });
}

fn a_paused_channel_without_records_ends(kind: Kind) {
    let three = three_beside(kind);
    three.sink.pause(&[1], REASON).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| three.sink.receive_batch().unwrap());
        three.first.finish(None).unwrap();
        assert_eq!(reader.join().unwrap(), None);
    });
}

fn what_is_held_comes_before_the_end(kind: Kind) {
    let three = three_beside(kind);
    three.sink.pause(&[1], REASON).unwrap();
    send(&three.first, 1, 0..5);
    thread::scope(|scope| {
        scope.spawn(|| three.first.finish(None).unwrap());
        expect_channels(&three.sink, &[]);
        assert_eq!(three.sink.try_receive().unwrap(), Element::Empty);
        three.sink.resume(&[1, 2], REASON).unwrap();
        assert_eq!(receive_rest(&three.sink), 5);
    });
}

//! What comes between records, over each endpoint kind: in its place, of all inputs together.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Directory, Kind, channel, connect, emit, pair};
use oka_transport::Control::{Barrier, Idle, Watermark};
use oka_transport::{
    ChannelSpec, Control, Element, EmitError, Network, NetworkConfig, OpenFrame, OutputChannel,
};

over_every_kind!(
    controls_keep_their_place,
    a_control_alone_comes_at_once,
    many_controls_and_records_come_in_order,
    a_large_record_and_controls_come_in_order,
    an_input_waits_at_a_barrier,
    an_input_that_ended_is_aligned,
    the_end_behind_a_barrier_waits_for_it,
    a_pause_and_a_barrier_do_not_free_each_other,
    a_deadline_is_no_end,
    batches_hold_records_of_one_input,
    nothing_follows_the_end,
    how_long_inputs_wait_at_a_barrier_is_told,
);

struct Inputs {
    _directory: Directory,
    sources: [Network; 2],
    sink: Network,
}

impl Inputs {
    /// Two sources, of channels 0 and 1, and their sink.
    fn new(kind: Kind, inputs: [usize; 2]) -> Self {
        let config = NetworkConfig::default();
        let directory = Directory::new();
        let sources = ["first", "second"].map(|name| directory.bind(kind, name, &config));
        let sink = directory.bind(kind, "sink", &config);
        let of = |place: usize| -> ChannelSpec {
            channel(place as u32, &sources[place]).of_input(inputs[place])
        };
        connect(&[
            (&sources[0], &[channel(0, &sink)], &[]),
            (&sources[1], &[channel(1, &sink)], &[]),
            (&sink, &[], &[of(0), of(1)]),
        ]);
        Self {
            _directory: directory,
            sources,
            sink,
        }
    }

    fn output(&self, place: usize) -> OutputChannel {
        self.sources[place].output(place as u32).unwrap()
    }

    fn expect_nothing(&self) {
        let soon = Instant::now() + Duration::from_millis(30);
        assert_eq!(self.sink.receive(Some(soon)).unwrap(), Element::Empty);
    }

    fn expect_control(&self, control: Control) {
        assert_eq!(next(&self.sink), Element::Control(control));
    }

    fn expect_records_of(&self, channel: u32) {
        match next(&self.sink) {
            Element::Batch(batch) => assert_eq!(batch.channel, channel),
            other => panic!("{other:?}"),
        }
    }
}

fn next(sink: &Network) -> Element {
    let late = Instant::now() + Duration::from_secs(20);
    sink.receive(Some(late)).unwrap()
}

fn controls_keep_their_place(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let output = source.output(1).unwrap();
    let mut came = Vec::new();
    for number in 0..3 {
        emit(&output, number, 32).unwrap();
        output.send_control(Watermark(number as i64));
        output.send_control(Barrier(number + 1));
    }
    output.send_control(Idle);
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    loop {
        came.push(match next(&sink) {
            Element::Batch(batch) => {
                assert_eq!(batch.records, 1);
                None
            }
            Element::Control(control) => Some(control),
            Element::Ended => break,
            other => panic!("{other:?}, but there is more"),
        });
    }
    finishing.join().unwrap();
    let mut expected = Vec::new();
    for number in 0..3 {
        expected.extend([
            None,
            Some(Watermark(number)),
            Some(Barrier(number as u64 + 1)),
        ]);
    }
    // The end follows the idleness at once, and may be there when it is told.
    came.truncate(expected.len());
    assert_eq!(came, expected);
}

fn a_control_alone_comes_at_once(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let output = source.output(1).unwrap();
    for control in [Watermark(-5), Idle, Watermark(7), Barrier(1), Watermark(8)] {
        output.send_control(control);
        assert_eq!(next(&sink), Element::Control(control));
    }
    thread::scope(|scope| {
        let reader = scope.spawn(|| sink.receive(None));
        thread::sleep(Duration::from_millis(20));
        output.send_control(Barrier(2));
        assert_eq!(
            reader.join().unwrap().unwrap(),
            Element::Control(Barrier(2))
        );
    });
}

/// More of both than a window holds.
fn many_controls_and_records_come_in_order(kind: Kind) {
    const RECORDS: u64 = 100_000;
    const EVERY: u64 = 100;
    let config = NetworkConfig {
        window_bytes: 65_536,
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &config);
    let writer = thread::spawn(move || {
        let output = source.output(1).unwrap();
        for number in 0..RECORDS {
            emit(&output, number, 16).unwrap();
            output.send_control(Watermark(number as i64));
            if number % EVERY == EVERY - 1 {
                output.send_control(Barrier(number / EVERY + 1));
            }
        }
        source.finish(None).unwrap();
    });
    let (mut records, mut watermark, mut epoch) = (0, -1, 0);
    loop {
        match next(&sink) {
            Element::Batch(batch) => {
                records += batch.records as u64;
                assert!(records <= (epoch + 1) * EVERY, "a barrier divides");
            }
            Element::Control(Watermark(time)) => {
                assert!(
                    watermark < time && time < records as i64,
                    "behind its records"
                );
                watermark = time;
            }
            Element::Control(Barrier(number)) => {
                epoch += 1;
                assert_eq!((number, records), (epoch, epoch * EVERY));
                assert_eq!(watermark, records as i64 - 1, "it came before");
            }
            Element::Ended => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((records, epoch), (RECORDS, RECORDS / EVERY));
    writer.join().unwrap();
}

fn a_large_record_and_controls_come_in_order(kind: Kind) {
    const SIZE: usize = 3_000_000;
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let writer = thread::spawn(move || {
        let output = source.output(1).unwrap();
        for number in 0..3 {
            emit(&output, number, SIZE).unwrap();
            output.send_control(Watermark(number as i64));
            output.send_control(Barrier(number + 1));
        }
        source.finish(None).unwrap();
    });
    for number in 0..3 {
        assert!(matches!(next(&sink), Element::Batch(batch) if batch.size() == SIZE));
        assert_eq!(next(&sink), Element::Control(Watermark(number)));
        assert_eq!(next(&sink), Element::Control(Barrier(number as u64 + 1)));
    }
    assert_eq!(next(&sink), Element::Ended);
    writer.join().unwrap();
}

fn an_input_waits_at_a_barrier(kind: Kind) {
    let inputs = Inputs::new(kind, [0, 0]);
    let [first, second] = [inputs.output(0), inputs.output(1)];
    first.send_control(Barrier(1));
    emit(&first, 0, 32).unwrap();
    first.send_control(Watermark(9));
    inputs.expect_nothing();
    emit(&second, 0, 32).unwrap();
    inputs.expect_records_of(1);
    second.send_control(Watermark(5));
    inputs.expect_nothing();
    second.send_control(Barrier(1));
    inputs.expect_control(Barrier(1));
    inputs.expect_records_of(0);
    inputs.expect_control(Watermark(5));
    inputs.expect_nothing();
}

fn how_long_inputs_wait_at_a_barrier_is_told(kind: Kind) {
    let inputs = Inputs::new(kind, [0, 0]);
    let told = || Duration::from_nanos(inputs.sink.statistics().barrier_wait_ns);
    for (epoch, wait) in [(1, 40), (2, 1)] {
        inputs.output(0).send_control(Barrier(epoch));
        inputs.expect_nothing(); // it is taken in, and that takes 30 ms
        assert!(told() > Duration::ZERO, "one waits");
        thread::sleep(Duration::from_millis(wait));
        inputs.output(1).send_control(Barrier(epoch));
        inputs.expect_control(Barrier(epoch));
        assert!(told() >= Duration::from_millis(40), "the longest stays");
    }
    let longest = told();
    inputs.expect_nothing();
    assert_eq!(told(), longest, "none waits");
}

fn an_input_that_ended_is_aligned(kind: Kind) {
    let inputs = Inputs::new(kind, [0, 0]);
    let first = inputs.output(0);
    first.send_control(Watermark(3));
    first.send_control(Barrier(1));
    inputs.expect_nothing();
    thread::scope(|scope| {
        scope.spawn(|| inputs.sources[1].finish(None).unwrap());
        inputs.expect_control(Watermark(3));
        inputs.expect_control(Barrier(1));
        inputs.expect_nothing();
        scope.spawn(|| inputs.sources[0].finish(None).unwrap());
        assert_eq!(next(&inputs.sink), Element::Ended);
    });
}

fn the_end_behind_a_barrier_waits_for_it(kind: Kind) {
    let inputs = Inputs::new(kind, [0, 0]);
    inputs.output(0).send_control(Barrier(1));
    thread::scope(|scope| {
        scope.spawn(|| inputs.sources[0].finish(None).unwrap());
        inputs.expect_nothing();
        let second = inputs.output(1);
        second.send_control(Watermark(4));
        inputs.expect_nothing();
        second.send_control(Barrier(1));
        inputs.expect_control(Barrier(1));
        inputs.expect_control(Watermark(4));
        scope.spawn(|| inputs.sources[1].finish(None).unwrap());
        assert_eq!(next(&inputs.sink), Element::Ended);
    });
}

fn a_pause_and_a_barrier_do_not_free_each_other(kind: Kind) {
    let inputs = Inputs::new(kind, [0, 0]);
    let [first, second] = [inputs.output(0), inputs.output(1)];
    let sink = &inputs.sink;
    first.send_control(Barrier(1));
    inputs.expect_nothing();
    emit(&first, 0, 32).unwrap();
    for reason in ["model", "memory"] {
        sink.pause(&[0], reason).unwrap();
    }
    sink.resume(&[0, 1], "memory").unwrap();
    inputs.expect_nothing();
    second.send_control(Barrier(1));
    inputs.expect_control(Barrier(1));
    inputs.expect_nothing();
    emit(&second, 0, 32).unwrap();
    inputs.expect_records_of(1);
    sink.resume(&[1], "model").unwrap();
    inputs.expect_nothing();
    sink.resume(&[0], "model").unwrap();
    inputs.expect_records_of(0);
}

fn a_deadline_is_no_end(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let started = Instant::now();
    let deadline = started + Duration::from_millis(20);
    assert_eq!(sink.receive(Some(deadline)).unwrap(), Element::Empty);
    assert!(started.elapsed() >= Duration::from_millis(20));
    assert_eq!(
        sink.receive(Some(started)).unwrap(),
        Element::Empty,
        "it is over"
    );
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    assert!(matches!(next(&sink), Element::Batch(_)));
    thread::scope(|scope| {
        scope.spawn(|| source.finish(None).unwrap());
        assert_eq!(next(&sink), Element::Ended);
        assert_eq!(sink.receive(Some(started)).unwrap(), Element::Ended);
    });
}

fn batches_hold_records_of_one_input(kind: Kind) {
    let inputs = Inputs::new(kind, [1, 0]);
    thread::scope(|scope| {
        for place in 0..2 {
            let inputs = &inputs;
            scope.spawn(move || {
                let output = inputs.output(place);
                for number in 0..2_000 {
                    emit(&output, number, 32).unwrap();
                }
                inputs.sources[place].finish(None).unwrap();
            });
        }
        let mut records = [0, 0];
        while let Element::Batch(batch) = next(&inputs.sink) {
            assert!(
                batch
                    .frames()
                    .all(|(header, _)| header.channel == batch.channel)
            );
            assert_eq!(batch.input, 1 - batch.channel as usize);
            records[batch.input] += batch.records;
        }
        assert_eq!(records, [2_000, 2_000]);
    });
}

fn nothing_follows_the_end(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    thread::scope(|scope| {
        scope.spawn(|| source.finish(None).unwrap());
        assert_eq!(next(&sink), Element::Ended);
    });
    let output = source.output(1).unwrap();
    output.push(&mut OpenFrame::new());
    output.send_control(Watermark(1));
    assert!(!output.is_writable());
    assert_eq!(output.wait_writable(), Err(EmitError::Finished(1)));
}

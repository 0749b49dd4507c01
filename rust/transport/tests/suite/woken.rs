//! A task that is woken while it waits for elements, over each endpoint kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Directory, Kind, emit, pair, wait_until};
use oka_transport::{Element, NetworkConfig};

over_every_kind!(
    a_wake_ends_one_wait,
    a_task_that_sleeps_is_woken,
    what_has_arrived_comes_first,
    no_wake_is_slept_through,
);

fn a_wake_ends_one_wait(kind: Kind) {
    let directory = Directory::new();
    let (_source, sink) = pair(&directory, kind, &NetworkConfig::default());
    sink.wake();
    sink.wake();
    assert_eq!(sink.receive(None).unwrap(), Element::Woken);
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(sink.receive(Some(soon)).unwrap(), Element::Empty);
}

fn a_task_that_sleeps_is_woken(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    thread::scope(|scope| {
        let receiver = scope.spawn(|| sink.receive(None));
        thread::sleep(Duration::from_millis(20));
        assert!(!receiver.is_finished());
        sink.wake();
        assert_eq!(receiver.join().unwrap().unwrap(), Element::Woken);
    });
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    assert!(matches!(sink.receive(None).unwrap(), Element::Batch(_)));
}

fn what_has_arrived_comes_first(kind: Kind) {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, kind, &NetworkConfig::default());
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    wait_until(|| sink.statistics().inputs[0].backlog_bytes > 0);
    sink.wake();
    assert!(matches!(sink.receive(None).unwrap(), Element::Batch(_)));
    assert_eq!(sink.receive(None).unwrap(), Element::Woken);
}

/// Each change is told by one wake, and the next is made when it was seen: one that is slept through
/// stops both for good.
fn no_wake_is_slept_through(kind: Kind) {
    const CHANGES: u64 = 20_000;
    let directory = Directory::new();
    let (_source, sink) = pair(&directory, kind, &NetworkConfig::default());
    let (made, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=CHANGES {
                made.store(number, Ordering::Relaxed);
                sink.wake();
                while seen.load(Ordering::Relaxed) < number {
                    thread::yield_now();
                }
            }
        });
        while seen.load(Ordering::Relaxed) < CHANGES {
            let late = Instant::now() + Duration::from_secs(20);
            assert_eq!(sink.receive(Some(late)).unwrap(), Element::Woken);
            seen.store(made.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
}

//! Nanoseconds per record of windows and spans over encoded pairs (word, time), without any channel or Python:
//! `cargo run --release -p oka-compute --example windows`, with a part of a name behind it for the cases that have it.
//!
//! The best of some rounds: the machine's other work only ever adds. What is given is looked at as
//! records are: a watermark follows each batch.

use std::hint::black_box;
use std::time::Instant;

use oka_compute::{
    Aggregate, Aggregation, Emit, Path, Problem, RollingAggregate, Span, Step, TimePath, Unit,
    WindowAggregate, encode,
};
use oka_window::{Assigner, Windows};

fn main() {
    println!("ns per record                          taken in     given  rows per record");
    let second = 1_000_000;
    for keys in [100, 100_000] {
        let bodies = Bodies::new(keys);
        let name = |windows: &str| format!("{windows}, {keys} keys");
        if std::env::args().len() == 1 {
            println!("{:38} {:8.1}", name("count"), bodies.count());
        }
        let tumbling = Windows::new(second, second, 0).expect("a size");
        bodies.windows(&name("tumbling"), tumbling.into());
        let sliding = Windows::new(60 * second, second, 0).expect("sizes");
        bodies.windows(&name("sliding"), sliding.into());
        for (sessions, gap) in [("sessions", second), ("short sessions", second / 5)] {
            let sessions_of = Assigner::sessions(gap).expect("a gap");
            bodies.windows(&name(sessions), sessions_of);
        }
        for (over, length) in [("over, mean", second), ("over half, mean", second / 2)] {
            Bodies::best(&name(over), || bodies.over(Span::Time(length)));
        }
    }
}

/// Batches of records, one each microsecond.
struct Bodies(Vec<Vec<u8>>);

impl Bodies {
    fn new(keys: u64) -> Self {
        let mut state = 1_u64;
        let mut body = |batch: usize| {
            let mut body = Vec::new();
            for row in 0..BATCH {
                // Knuth's linear congruential generator (MMIX).
                state = state.wrapping_mul(6_364_136_223_846_793_005);
                state = state.wrapping_add(1_442_695_040_888_963_407);
                let number = (state >> 33) % keys;
                encode::array(&mut body, 2);
                encode::text(&mut body, format!("word number {number:06}").as_bytes());
                encode::int(&mut body, START_US + (batch * BATCH + row) as i64);
            }
            body
        };
        Self((0..BATCHES).map(&mut body).collect())
    }

    fn count(&self) -> f64 {
        let best = (0..ROUNDS).map(|_| {
            let key = Path::from([Step::Item(0)]);
            let mut counts = Aggregate::new((Aggregation::Count, Path::default()), key);
            let start = Instant::now();
            for body in &self.0 {
                counts.update(black_box(body), BATCH).expect("pairs");
                drop(counts.take_updates());
            }
            start.elapsed().as_nanos() as f64
        });
        best.fold(f64::INFINITY, f64::min) / (BATCHES * BATCH) as f64
    }

    fn windows(&self, name: &str, assigner: Assigner) {
        Self::best(name, || self.round(assigner));
    }

    fn best(name: &str, round: impl Fn() -> (f64, f64, usize)) {
        if !std::env::args()
            .nth(1)
            .is_none_or(|part| name.contains(&part))
        {
            return;
        }
        let (mut taken, mut given, mut rows) = (f64::INFINITY, f64::INFINITY, 0);
        for _ in 0..ROUNDS {
            let found = round();
            (taken, given, rows) = (taken.min(found.0), given.min(found.1), found.2);
        }
        let records = (BATCHES * BATCH) as f64;
        let (taken, given, rows) = (taken / records, given / records, rows as f64 / records);
        println!("{name:38} {taken:8.1}  {given:8.1}  {rows:15.4}");
    }

    fn round(&self, assigner: Assigner) -> (f64, f64, usize) {
        let mut windows = WindowAggregate::new(
            (Aggregation::Count, Path::default()),
            Path::from([Step::Item(0)]),
            TimePath::new(Path::from([Step::Item(1)]), Some(Unit::Microseconds)),
            (assigner, 0),
            Emit::Final,
            false,
        );
        let (mut taken, mut given, mut rows) = (0, 0, 0);
        for (batch, body) in (1..).zip(&self.0) {
            let start = Instant::now();
            let mut foreign = |_: &[u8]| Err(Problem::NotATime);
            let updated = windows.update(black_box(body), BATCH, &mut foreign);
            updated.expect("pairs");
            let middle = Instant::now();
            windows.advance(START_US + batch * BATCH as i64 - 2);
            loop {
                let some = windows.give(BATCH, |window, update| {
                    black_box((window, update.key, update.value));
                    Ok::<_, Problem>(())
                });
                match some.expect("counts") {
                    0 => break,
                    some => rows += some,
                }
            }
            given += middle.elapsed().as_nanos();
            taken += (middle - start).as_nanos();
        }
        (taken as f64, given as f64, rows)
    }

    /// The mean of the times within a span that ends at each record.
    fn over(&self, span: Span) -> (f64, f64, usize) {
        let time = || Path::from([Step::Item(1)]);
        let mut spans = RollingAggregate::new(
            (Aggregation::Mean, time()),
            Path::from([Step::Item(0)]),
            TimePath::new(time(), Some(Unit::Microseconds)),
            [span],
            false,
        );
        let (mut taken, mut given, mut rows) = (0, 0, 0);
        for (batch, body) in (1..).zip(&self.0) {
            let start = Instant::now();
            let mut foreign = |_: &[u8]| Err(Problem::NotATime);
            let updated = spans.update(black_box(body), BATCH, &mut foreign);
            updated.expect("pairs");
            let middle = Instant::now();
            spans.advance(START_US + batch * BATCH as i64 - 2);
            loop {
                let some = spans.give(BATCH, |record, values| {
                    black_box((record, values));
                    Ok::<_, Problem>(())
                });
                match some.expect("means") {
                    0 => break,
                    some => rows += some,
                }
            }
            given += middle.elapsed().as_nanos();
            taken += (middle - start).as_nanos();
        }
        (taken as f64, given as f64, rows)
    }
}

const BATCH: usize = 1_000;
const BATCHES: usize = 4_000;
const ROUNDS: usize = 5;
/// In October 2025: what times of today take in a record.
const START_US: i64 = 1_760_000_000_000_000;

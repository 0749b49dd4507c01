//! Rolling aggregates against a loop over all records: any disorder, and restarts from what was kept.

use oka_compute::Aggregation::{Count, First, Last, Max, Mean, Min, Sum, Variance};
use oka_compute::{
    Accumulated, Aggregation, KeyPath, Path, Problem, RollingAggregate, Span, Step, TimePath, Unit,
    encode,
};
use proptest::prelude::*;

/// A key, a time and a value.
type Record = (u8, i64, Cell);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Integer(i64),
    Float(f64),
}

#[derive(Clone, Debug)]
enum Event {
    Record(Record),
    /// The watermark moves on by so much.
    Watermark(i64),
    Restart,
}

const AGGREGATIONS: [Aggregation; 8] = [Sum, Count, Mean, Min, Max, First, Last, Variance];

fn item(item: i64) -> Path {
    Path::from([Step::Item(item)])
}

fn aggregate(spans: &[Span]) -> RollingAggregate {
    let time = TimePath::new(item(1), Some(Unit::Microseconds));
    let first = RollingAggregate::new((Sum, item(2)), KeyPath::One(item(0)), time, spans, true);
    AGGREGATIONS[1..]
        .iter()
        .fold(first, |all, each| all.and((*each, item(2))))
}

fn encoded((key, time, cell): Record) -> Vec<u8> {
    let mut out = Vec::new();
    encode::array(&mut out, 3);
    encode::int(&mut out, key.into());
    encode::int(&mut out, time);
    write(cell, &mut out);
    out
}

fn write(cell: Cell, out: &mut Vec<u8>) {
    match cell {
        Cell::Integer(number) => encode::int(out, number),
        Cell::Float(number) => encode::float(out, number),
    }
}

fn add(rolling: &mut RollingAggregate, record: Record) {
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    rolling
        .update(&encoded(record), 1, &mut foreign)
        .expect("a record");
}

fn give(rolling: &mut RollingAggregate, found: &mut Vec<(Vec<u8>, Vec<Accumulated>)>) {
    let visit = |record: &[u8], values: &[Option<Accumulated>]| {
        found.push((record.to_vec(), values.iter().flatten().cloned().collect()));
        Ok::<_, Problem>(())
    };
    let mut visit = visit;
    while rolling.give(3, &mut visit).expect("results") > 0 {}
}

/// Another that goes on with what this one keeps.
fn restarted(rolling: &mut RollingAggregate, spans: &[Span]) -> RollingAggregate {
    let (keys, kept) = rolling.export()().expect("a state");
    let entries: Vec<_> = keys.iter().zip(kept.iter()).collect();
    let mut other = aggregate(spans);
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    other.import(&entries, &mut foreign).expect("a state");
    assert_eq!(other.len(), rolling.len());
    other
}

/// What a loop over the records of a span gives.
fn looped(aggregation: Aggregation, cells: &[Cell]) -> Accumulated {
    let bytes = |cell: &Cell| {
        let mut out = Vec::new();
        write(*cell, &mut out);
        out
    };
    let mut all = Accumulated::first(aggregation, &bytes(&cells[0])).expect("a number");
    for cell in &cells[1..] {
        all.add(aggregation, &bytes(cell)).expect("a number");
    }
    all
}

fn near(left: &Accumulated, right: &Accumulated) -> bool {
    use Accumulated::{Float, FloatMean, Moments};
    let close =
        |left: f64, right: f64| left.is_nan() && right.is_nan() || (left - right).abs() < 1e-9;
    match (left, right) {
        (Float(left), Float(right)) => close(*left, *right),
        (
            FloatMean { count, sum },
            FloatMean {
                count: n,
                sum: total,
            },
        ) => count == n && close(*sum, *total),
        (Moments(left), Moments(right)) => {
            let variance = |of: &oka_compute::Moments| of.variance(0.0).unwrap_or_default();
            close(variance(left), variance(right))
        }
        (left, right) => left == right,
    }
}

fn expected(records: &[Record], spans: &[Span]) -> Vec<(Vec<u8>, Vec<Accumulated>)> {
    let mut order: Vec<_> = records.iter().collect();
    order.sort_by_key(|record| record.1); // keeps the order of equal times
    let results = order.iter().enumerate().map(|(at, (key, time, cell))| {
        let mut values = Vec::new();
        for span in spans {
            let own: Vec<_> = match span {
                Span::Time(length) => (order.iter())
                    .filter(|it| it.0 == *key && it.1 <= *time && it.1 >= time - length)
                    .map(|it| it.2)
                    .collect(),
                Span::Rows(rows) => {
                    let own = order[..=at].iter().filter(|it| it.0 == *key);
                    let own: Vec<_> = own.map(|it| it.2).collect();
                    own[own.len().saturating_sub(*rows as usize)..].to_vec()
                }
            };
            values.extend(AGGREGATIONS.map(|each| looped(each, &own)));
        }
        (encoded((*key, *time, *cell)), values)
    });
    results.collect()
}

fn event(floats: bool) -> impl Strategy<Value = Event> {
    let cell = if floats {
        prop_oneof![
            3 => (-8_i32..8).prop_map(|n| Cell::Float(f64::from(n) / 4.0)),
            1 => (-5_i64..5).prop_map(Cell::Integer),
            1 => Just(Cell::Float(f64::NAN)),
        ]
        .boxed()
    } else {
        (-5_i64..5).prop_map(Cell::Integer).boxed()
    };
    prop_oneof![
        12 => (0_u8..3, 0_i64..12, cell).prop_map(Event::Record),
        3 => (0_i64..6).prop_map(Event::Watermark),
        1 => Just(Event::Restart),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        (1_i64..20).prop_map(Span::Time),
        (1_u64..6).prop_map(Span::Rows)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn spans_are_those_of_a_loop(
        events in prop::bool::ANY.prop_flat_map(|floats| prop::collection::vec(event(floats), 1..120)),
        spans in prop::collection::vec(span(), 1..4),
    ) {
        let mut rolling = aggregate(&spans);
        let (mut found, mut taken, mut late) = (Vec::new(), Vec::new(), 0);
        let (mut watermark, mut counted) = (0, 0);
        rolling.advance(watermark);
        for event in events {
            match event {
                Event::Record((key, ahead, cell)) => {
                    let record = (key, watermark - 2 + ahead, cell);
                    add(&mut rolling, record);
                    if record.1 > watermark {
                        taken.push(record);
                    } else {
                        late += 1;
                    }
                }
                Event::Watermark(by) => {
                    watermark += by;
                    rolling.advance(watermark);
                    give(&mut rolling, &mut found);
                }
                Event::Restart => {
                    counted += rolling.late();
                    rolling = restarted(&mut rolling, &spans);
                    rolling.advance(watermark); // without keys nobody has kept it
                }
            }
        }
        prop_assert_eq!(counted + rolling.late(), late);
        rolling.advance(i64::MAX);
        give(&mut rolling, &mut found);
        // Where nothing restarts, keys of one time come in order of arrival, too.
        found.sort_by_key(|it| it.0[1]);
        let mut expected = expected(&taken, &spans);
        expected.sort_by_key(|it| it.0[1]);
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(&found.0, &expected.0);
            prop_assert_eq!(found.1.len(), expected.1.len());
            for (found, expected) in found.1.iter().zip(&expected.1) {
                prop_assert!(near(found, expected), "{:?} for {:?}", found, expected);
            }
        }
        if !spans.iter().any(|span| matches!(span, Span::Rows(_))) {
            prop_assert!(rolling.is_empty(), "{} keys are left", rolling.len());
        }
    }
}

#[test]
fn floats_do_not_drift() {
    let mut rolling = aggregate(&[Span::Rows(2)]);
    let mut found = Vec::new();
    for (time, number) in [(1, 1e300), (2, 0.1), (3, 0.2), (4, 0.3)] {
        add(&mut rolling, (0, time, Cell::Float(number)));
    }
    rolling.advance(9);
    give(&mut rolling, &mut found);
    assert_eq!(found[3].1[0], Accumulated::Float(0.2 + 0.3));
}

#[test]
fn a_restart_gives_the_same_floats() {
    let spans = [Span::Time(50), Span::Rows(7)];
    let mut whole = aggregate(&spans);
    let mut cut = aggregate(&spans);
    let (mut of_whole, mut of_cut) = (Vec::new(), Vec::new());
    for time in 0..400 {
        let number = f64::from(time * 7919 % 1009) / 7.0;
        for rolling in [&mut whole, &mut cut] {
            add(rolling, (0, i64::from(time), Cell::Float(number)));
            rolling.advance(i64::from(time));
        }
        give(&mut whole, &mut of_whole);
        give(&mut cut, &mut of_cut);
        if time % 13 == 0 {
            cut = restarted(&mut cut, &spans);
        }
    }
    assert_eq!(of_whole, of_cut);
}

#[test]
fn keys_that_are_out_of_every_span_are_forgotten() {
    let mut rolling = aggregate(&[Span::Time(10)]);
    let mut found = Vec::new();
    for key in 0..200 {
        add(&mut rolling, (key, i64::from(key), Cell::Integer(1)));
    }
    rolling.advance(199);
    give(&mut rolling, &mut found);
    assert_eq!((found.len(), rolling.len()), (200, 10));
    rolling.advance(209);
    give(&mut rolling, &mut found);
    assert!(rolling.is_empty());
}

#[test]
fn a_value_of_another_kind_fails_and_changes_nothing() {
    let time = TimePath::new(item(1), Some(Unit::Microseconds));
    let spans = [Span::Time(10)];
    let mut rolling =
        RollingAggregate::new((Min, item(2)), KeyPath::One(item(0)), time, spans, false)
            .careful(true);
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    let record = |time, text: Option<&str>| {
        let mut out = Vec::new();
        encode::array(&mut out, 3);
        encode::int(&mut out, 0);
        encode::int(&mut out, time);
        match text {
            Some(text) => encode::text(&mut out, text.as_bytes()),
            None => encode::int(&mut out, 7),
        }
        out
    };
    rolling
        .update(&record(1, Some("b")), 1, &mut foreign)
        .expect("a text");
    let refused = rolling.update(&record(2, None), 1, &mut foreign);
    assert_eq!(refused.expect_err("a number").problem, Problem::Mixed);
    rolling.advance(1);
    let mut found = Vec::new();
    give(&mut rolling, &mut found);
    let refused = rolling.update(&record(2, None), 1, &mut foreign);
    assert_eq!(refused.expect_err("a number").problem, Problem::Mixed);
    rolling
        .update(&record(3, Some("a")), 1, &mut foreign)
        .expect("a text");
    rolling.advance(9);
    give(&mut rolling, &mut found);
    let text = |text: &str| vec![Accumulated::Text(text.as_bytes().into())];
    let values: Vec<_> = found.into_iter().map(|(_, values)| values).collect();
    assert_eq!(values, [text("b"), text("a")]);
}

/// What has come of the key within the spans of each record, when it comes.
fn expected_at_once(records: &[Record], spans: &[Span]) -> Vec<Vec<Accumulated>> {
    let of = |count: usize| {
        let so_far = &records[..=count];
        let mut order: Vec<_> = (0..so_far.len()).collect();
        order.sort_by_key(|at| so_far[*at].1);
        let (key, time, _) = so_far[count];
        let mut values = Vec::new();
        for span in spans {
            let own = order.iter().filter(|at| so_far[**at].0 == key);
            let own: Vec<_> = match span {
                Span::Time(length) => own
                    .filter(|at| (time - length..=time).contains(&so_far[**at].1))
                    .collect(),
                Span::Rows(rows) => {
                    let own: Vec<_> = own.collect();
                    let end = own.iter().position(|at| **at == count).expect("it came") + 1;
                    own[end.saturating_sub(*rows as usize)..end].to_vec()
                }
            };
            let cells: Vec<_> = own.into_iter().map(|at| so_far[*at].2).collect();
            values.extend(AGGREGATIONS.map(|each| looped(each, &cells)));
        }
        values
    };
    (0..records.len()).map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn results_at_once_are_those_of_what_has_come(
        events in prop::collection::vec(event(true), 1..80),
        spans in prop::collection::vec(span(), 1..4),
    ) {
        let mut rolling = aggregate(&spans).at_once();
        let (mut found, mut taken, mut watermark) = (Vec::new(), Vec::new(), 0);
        rolling.advance(watermark);
        for event in events {
            match event {
                Event::Record((key, ahead, cell)) => {
                    let record = (key, watermark + 1 + ahead, cell);
                    add(&mut rolling, record);
                    taken.push(record);
                    give(&mut rolling, &mut found);
                    prop_assert_eq!(found.len(), taken.len());
                }
                Event::Watermark(by) => {
                    watermark += by;
                    rolling.advance(watermark);
                    give(&mut rolling, &mut found);
                }
                Event::Restart => {
                    let (keys, kept) = rolling.export()().expect("a state");
                    let entries: Vec<_> = keys.iter().zip(kept.iter()).collect();
                    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
                    rolling = aggregate(&spans).at_once();
                    rolling.import(&entries, &mut foreign).expect("a state");
                    rolling.advance(watermark);
                }
            }
        }
        for (found, expected) in found.iter().zip(expected_at_once(&taken, &spans)) {
            for (found, expected) in found.1.iter().zip(&expected) {
                prop_assert!(near(found, expected), "{:?} for {:?}", found, expected);
            }
        }
        rolling.advance(i64::MAX);
        give(&mut rolling, &mut found);
        prop_assert_eq!(found.len(), taken.len());
        if !spans.iter().any(|span| matches!(span, Span::Rows(_))) {
            prop_assert!(rolling.is_empty());
        }
    }
}

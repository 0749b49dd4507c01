//! Records and watermarks in thousands of drawn orders, against windows that keep all records.

mod random;

use self::random::Random;
use oka_window::{FARTHEST, Miss, Slices, Table, Window, Windows};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// How often each key came.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    of: BTreeMap<u64, u64>,
    subtracts: bool,
}

impl Table for Counts {
    type Error = Infallible;

    fn merge(&mut self, other: &Self) -> Result<(), Infallible> {
        for (key, count) in &other.of {
            *self.of.entry(*key).or_default() += count;
        }
        Ok(())
    }

    fn subtract(&mut self, other: &Self) -> bool {
        for (key, count) in &other.of {
            let left = self.of.get_mut(key).expect("a key that was merged");
            *left -= count;
            if *left == 0 {
                self.of.remove(key);
            }
        }
        self.subtracts
    }
}

/// All records that count, and what was given of them.
struct Oracle {
    size: i64,
    slide: i64,
    offset: i64,
    lateness: i64,
    watermark: i64,
    records: Vec<(i64, u64)>,
    /// The last end up to which windows were given.
    given: i64,
}

impl Oracle {
    /// The windows that have a time.
    fn windows(&self, time: i64) -> impl Iterator<Item = Window> + use<> {
        let (size, slide, offset) = (self.size, self.slide, self.offset);
        let starts = (time - size + 1)..=time;
        let aligned = starts.filter(move |start| (start - offset).rem_euclid(slide) == 0);
        aligned.map(move |start| Window {
            start,
            end: start + size,
        })
    }

    fn takes(&mut self, time: i64, key: u64) -> bool {
        let kept = |window: Window| window.end - 1 + self.lateness > self.watermark;
        let taken = self.windows(time).any(kept);
        if taken {
            self.records.push((time, key));
        }
        taken
    }

    fn counts(&self, window: Window) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for (time, key) in &self.records {
            if (window.start..window.end).contains(time) {
                *counts.entry(*key).or_default() += 1;
            }
        }
        counts
    }

    /// The windows that are complete at a watermark and were not before.
    fn complete(&mut self, watermark: i64) -> Vec<(Window, BTreeMap<u64, u64>)> {
        let before = self.watermark;
        self.watermark = before.max(watermark);
        let mut found: Vec<_> = (self.records.iter())
            .flat_map(|(time, _)| self.windows(*time))
            .filter(|window| window.end - 1 > before && window.end - 1 <= self.watermark)
            .collect();
        found.sort();
        found.dedup();
        assert!(found.iter().all(|window| window.end > self.given));
        self.given = found.last().map_or(self.given, |window| window.end);
        found
            .into_iter()
            .map(|window| (window, self.counts(window)))
            .collect()
    }
}

/// One schedule; how many records were late, and how many came to windows that were given.
fn run(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let size = 1 + random.below(30);
    let slide = if random.below(2) == 0 {
        size
    } else {
        1 + random.below(size)
    };
    let offset = random.below(100) - 50;
    let lateness = if random.below(2) == 0 {
        0
    } else {
        random.below(40)
    };
    let subtracts = random.below(2) == 0;
    let disorder = 1 + random.below(60);
    let far = [0, -1_000_000, FARTHEST - 1_000, 1_000 - FARTHEST][random.below(4) as usize];
    let windows = Windows::new(size, slide, offset).expect("sizes");
    let mut slices: Slices<Counts> = Slices::new(windows, lateness as u64);
    let mut oracle = Oracle {
        size,
        slide,
        offset,
        lateness,
        watermark: i64::MIN,
        records: Vec::new(),
        given: i64::MIN,
    };
    let make = || Counts {
        of: BTreeMap::new(),
        subtracts,
    };
    let (mut now, mut late, mut again) = (far, 0, 0);
    for _ in 0..20 + random.below(60) {
        now += random.below(6);
        if random.below(5) == 0 {
            advance(
                &mut slices,
                &mut oracle,
                now - random.below(disorder + 10),
                make,
            );
            continue;
        }
        let (time, key) = (now - random.below(disorder), random.below(5) as u64);
        let taken = slices.table(time, make).map(|table| {
            *table.of.entry(key).or_default() += 1;
        });
        assert_eq!(taken.is_ok(), oracle.takes(time, key), "{time}");
        if taken.is_err() {
            late += 1;
            continue;
        }
        for window in windows.of_slice(windows.slice(time).start) {
            if slices.is_given(window) && !slices.is_gone(window) {
                again += 1;
                let mut merged = make();
                for slice in slices.of(window) {
                    merged.merge(&slice.table).expect("counts");
                }
                assert_eq!(merged.of, oracle.counts(window));
            }
        }
    }
    advance(&mut slices, &mut oracle, i64::MAX, make);
    assert!(slices.is_empty());
    (late, again)
}

fn advance(
    slices: &mut Slices<Counts>,
    oracle: &mut Oracle,
    watermark: i64,
    make: impl Fn() -> Counts + Copy,
) {
    slices.advance(watermark);
    let mut given = Vec::new();
    while let Some(window) = slices.complete() {
        assert!(slices.is_given(window));
        let merged = slices.merged(window, make).expect("counts");
        given.push((window, merged.of.clone()));
    }
    assert_eq!(given, oracle.complete(watermark));
}

#[test]
fn windows_are_those_of_one_that_keeps_all_records() {
    let (mut late, mut again) = (0, 0);
    for seed in 0..10_000 {
        let found = std::panic::catch_unwind(|| run(seed));
        let found = found.unwrap_or_else(|_| panic!("seed {seed}"));
        late += found.0;
        again += found.1;
    }
    assert!(
        late > 10_000 && again > 10_000,
        "{late} late, {again} again"
    );
}

#[test]
fn times_beyond_the_farthest_are_refused() {
    let windows = Windows::new(10, 10, 0).expect("sizes");
    let mut slices: Slices<Counts> = Slices::new(windows, 0);
    for time in [FARTHEST + 1, -FARTHEST - 1, i64::MAX, i64::MIN] {
        let missed = slices.table(time, Counts::default).map(drop);
        assert_eq!(missed, Err(Miss::Far));
    }
    assert!(slices.table(FARTHEST, Counts::default).is_ok());
}

#[test]
fn nothing_is_left_of_many_windows() {
    let windows = Windows::new(60, 7, 0).expect("sizes");
    let mut slices: Slices<Counts> = Slices::new(windows, 5);
    let make = || Counts {
        subtracts: true,
        ..Counts::default()
    };
    let mut most = 0;
    for time in 0..100_000 {
        let table = slices.table(time, make).expect("a time that is not late");
        *table.of.entry(time as u64 % 3).or_default() += 1;
        slices.advance(time);
        while let Some(window) = slices.complete() {
            let merged = slices.merged(window, make).expect("counts");
            assert_eq!(
                merged.of.values().sum::<u64>() as i64,
                window.end - window.start.max(0)
            );
        }
        most = most.max(slices.len());
    }
    assert!(most <= 22, "{most} slices");
    slices.advance(i64::MAX);
    while slices.complete().is_some() {}
    assert!(slices.is_empty());
}

//! Joins in thousands of drawn orders, against ones that look at all rows.

#[path = "../../window/tests/random/mod.rs"]
mod random;

use self::random::Random;
use oka_join::{Join, Kept, NO_ROW, Rule, Step};
use oka_window::Windows;
use std::collections::{BTreeMap, BTreeSet};

/// A row as it was given: its key, its time, and its place among all of its side.
type Given = (i64, i64, usize);
type Partners = (Option<usize>, Option<usize>);

/// Tasks of a join, each with its share of the keys, and which rows have which numbers.
struct Tasks {
    tasks: Vec<(Join, [BTreeMap<u32, usize>; 2])>,
}

impl Tasks {
    fn new(rule: Rule, outer: [bool; 2], tasks: usize) -> Self {
        let task = |_| (Join::new(rule, outer), Default::default());
        Self {
            tasks: (0..tasks).map(task).collect(),
        }
    }

    fn add(&mut self, side: usize, batch: &[Given]) -> (Vec<Partners>, Vec<usize>) {
        let (mut pairs, mut late) = (Vec::new(), Vec::new());
        let count = self.tasks.len();
        for (index, (join, rows)) in self.tasks.iter_mut().enumerate() {
            let own: Vec<_> = (batch.iter())
                .filter(|(key, ..)| *key as usize % count == index)
                .collect();
            let keys: Vec<_> = own.iter().map(|row| row.0).collect();
            let times: Vec<_> = own.iter().map(|row| row.1).collect();
            let step = join.add(side, &keys, &times);
            assert_eq!(step.rows.len(), own.len());
            for (number, row) in step.rows.iter().zip(&own) {
                if *number != NO_ROW {
                    assert_eq!(rows[side].insert(*number, row.2), None, "a number twice");
                }
            }
            late.extend(step.late.iter().map(|place| own[*place as usize].2));
            pairs.extend(taken(step, rows));
            check(join, rows);
        }
        (pairs, late)
    }

    fn close(&mut self, watermark: i64, most: usize) -> Vec<Partners> {
        let mut pairs = Vec::new();
        for (join, rows) in &mut self.tasks {
            loop {
                let step = join.close(watermark, most);
                let is_last = step.pairs.len() < most;
                pairs.extend(taken(step, rows));
                check(join, rows);
                if is_last {
                    break;
                }
            }
        }
        pairs
    }

    /// So many tasks that go on with what these have kept.
    fn rescaled(&self, rule: Rule, outer: [bool; 2], count: usize) -> Self {
        let mut others = Self::new(rule, outer, count);
        for (join, rows) in &self.tasks {
            for side in [0, 1] {
                let kept = join.kept(side);
                for (index, (other, of_other)) in others.tasks.iter_mut().enumerate() {
                    let places = (0..kept.keys.len())
                        .filter(|place| kept.keys[*place] as usize % count == index);
                    let places: Vec<_> = places.collect();
                    let share = Kept {
                        keys: places.iter().map(|place| kept.keys[*place]).collect(),
                        times: places.iter().map(|place| kept.times[*place]).collect(),
                        rows: Vec::new(),
                        are_joined: places.iter().map(|place| kept.are_joined[*place]).collect(),
                        identities: Vec::new(),
                    };
                    let step = other.restore(side, &share, join.watermark());
                    for (number, place) in step.rows.iter().zip(places) {
                        of_other[side].insert(*number, rows[side][&kept.rows[place]]);
                    }
                }
            }
        }
        others
    }

    fn kept(&self) -> usize {
        let of = |join: &Join| join.size(0) + join.size(1);
        self.tasks.iter().map(|(join, _)| of(join)).sum()
    }
}

fn taken(step: &Step, rows: &mut [BTreeMap<u32, usize>; 2]) -> Vec<Partners> {
    let of = |side: usize, number: u32| (number != NO_ROW).then(|| rows[side][&number]);
    let pairs = step.pairs.iter();
    let pairs = pairs
        .map(|(left, right)| (of(0, *left), of(1, *right)))
        .collect();
    for (rows, gone) in rows.iter_mut().zip(&step.gone) {
        for number in gone {
            rows.remove(number).expect("a row that was there");
        }
    }
    pairs
}

fn check(join: &Join, rows: &[BTreeMap<u32, usize>; 2]) {
    for (side, rows) in rows.iter().enumerate() {
        let mut kept = join.kept(side).rows;
        kept.sort_unstable();
        assert!(kept.iter().eq(rows.keys()));
        assert_eq!(join.size(side), rows.len());
    }
    assert!(join.keys().len() <= join.size(0) + join.size(1));
}

/// All rows that were not late, and what is to come of them.
struct Oracle {
    rule: Rule,
    outer: [bool; 2],
    rows: [Vec<(Given, bool)>; 2],
    watermark: Option<i64>,
}

impl Oracle {
    fn has_come(&self, time: i64) -> bool {
        self.watermark.is_some_and(|now| time <= now)
    }

    fn is_late(&self, side: usize, (key, time, _): Given) -> bool {
        match self.rule {
            Rule::Interval { .. } => self.has_come(time),
            Rule::Temporal => side == 0 && self.has_come(time),
            Rule::Windows(_) => self.has_come(self.last(side, time)),
            Rule::Sessions { gap } => {
                let mut rows = self.rows.iter().flatten();
                let is_near = rows.any(|(row, _)| row.0 == key && (row.1 - time).abs() < gap);
                self.has_come(time + gap - 1) && !is_near
            }
            Rule::Unbounded { .. } => unreachable!("tested beside"),
        }
    }

    /// When a row without more to come is of no use.
    fn last(&self, side: usize, time: i64) -> i64 {
        match self.rule {
            Rule::Interval { low, high } => {
                time.saturating_add(if side == 0 { high } else { -low })
            }
            Rule::Windows(windows) => {
                let all = windows.of_slice(windows.slice(time).start);
                all.last().expect("a window").end - 1
            }
            Rule::Temporal | Rule::Sessions { .. } | Rule::Unbounded { .. } => time,
        }
    }

    fn add(&mut self, side: usize, row: Given) -> (Vec<Partners>, bool) {
        if self.is_late(side, row) {
            return (Vec::new(), true);
        }
        let mut pairs = Vec::new();
        let mut is_joined = false;
        if let Rule::Interval { low, high } = self.rule {
            for (other, of_other) in &mut self.rows[1 - side] {
                let (left, right) = if side == 0 {
                    (row, *other)
                } else {
                    (*other, row)
                };
                let by = right.1 - left.1;
                if left.0 == right.0 && (low..=high).contains(&by) {
                    (is_joined, *of_other) = (true, true);
                    pairs.push((Some(left.2), Some(right.2)));
                }
            }
        }
        self.rows[side].push((row, is_joined));
        if matches!(self.rule, Rule::Interval { .. }) {
            pairs.extend(self.alone(side));
        }
        (pairs, false)
    }

    fn close(&mut self, watermark: i64) -> Vec<Partners> {
        let before = self.watermark;
        self.watermark = self.watermark.max(Some(watermark));
        match self.rule {
            Rule::Interval { .. } => [self.alone(0), self.alone(1)].concat(),
            Rule::Temporal => self.versions(),
            Rule::Unbounded { .. } => unreachable!("tested beside"),
            Rule::Windows(windows) => {
                let mut pairs = Vec::new();
                let times = self
                    .rows
                    .iter()
                    .flatten()
                    .map(|((key, time, _), _)| (*key, *time));
                let all = times.flat_map(|(key, time)| {
                    windows
                        .of_slice(windows.slice(time).start)
                        .map(move |window| (key, window))
                });
                for (key, window) in all.collect::<BTreeSet<_>>() {
                    let is_new = before.is_none_or(|before| window.end - 1 > before);
                    if is_new && self.has_come(window.end - 1) {
                        pairs.extend(self.product(key, window.start, window.end));
                    }
                }
                for side in [0, 1] {
                    let rows = std::mem::take(&mut self.rows[side]);
                    let kept = rows
                        .into_iter()
                        .filter(|(row, _)| !self.has_come(self.last(side, row.1)));
                    self.rows[side] = kept.collect();
                }
                pairs
            }
            Rule::Sessions { gap } => {
                let mut pairs = Vec::new();
                let keys: BTreeSet<_> = self.rows.iter().flatten().map(|(row, _)| row.0).collect();
                for key in keys {
                    let of_key = self.rows.iter().flatten().filter(|(row, _)| row.0 == key);
                    let times = sorted(of_key.map(|(row, _)| row.1).collect());
                    for session in times.chunk_by(|one, other| other - one < gap) {
                        let (first, last) = (session[0], session[session.len() - 1]);
                        if self.has_come(last + gap - 1) {
                            pairs.extend(self.product(key, first, last + 1));
                            for rows in &mut self.rows {
                                rows.retain(|(row, _)| {
                                    row.0 != key || !(first..=last).contains(&row.1)
                                });
                            }
                        }
                    }
                }
                pairs
            }
        }
    }

    /// All rows of a key and a window, with each other or alone.
    fn product(&self, key: i64, start: i64, end: i64) -> Vec<Partners> {
        let [lefts, rights] = self.rows.each_ref().map(|rows| {
            let rows = rows.iter().map(|(row, _)| row);
            let found = rows.filter(|row| row.0 == key && (start..end).contains(&row.1));
            found.map(|row| Some(row.2)).collect::<Vec<_>>()
        });
        if rights.is_empty() && self.outer[0] {
            return lefts.into_iter().map(|left| (left, None)).collect();
        }
        if lefts.is_empty() && self.outer[1] {
            return rights.into_iter().map(|right| (None, right)).collect();
        }
        let pairs = |left| rights.iter().map(move |right| (left, *right));
        lefts.into_iter().flat_map(pairs).collect()
    }

    /// Rows that get no partner any more, and are forgotten.
    fn alone(&mut self, side: usize) -> Vec<Partners> {
        let rows = std::mem::take(&mut self.rows[side]);
        let (gone, kept) = (rows.into_iter())
            .partition::<Vec<_>, _>(|(row, _)| self.has_come(self.last(side, row.1)));
        self.rows[side] = kept;
        (gone
            .into_iter()
            .filter(|(_, is_joined)| !is_joined && self.outer[side]))
        .map(|((.., place), _)| {
            if side == 0 {
                (Some(place), None)
            } else {
                (None, Some(place))
            }
        })
        .collect()
    }

    fn versions(&mut self) -> Vec<Partners> {
        let rows = std::mem::take(&mut self.rows[0]);
        let (due, kept) =
            (rows.into_iter()).partition::<Vec<_>, _>(|(row, _)| self.has_come(row.1));
        self.rows[0] = kept;
        let versions = || self.rows[1].iter().map(|(version, _)| version);
        (due.into_iter().map(|(row, _)| {
            let of_key = versions().filter(|(key, time, _)| *key == row.0 && *time <= row.1);
            (
                Some(row.2),
                of_key
                    .max_by_key(|(_, time, place)| (*time, *place))
                    .map(|found| found.2),
            )
        }))
        .filter(|(_, version)| version.is_some() || self.outer[0])
        .collect()
    }

    fn kept(&self) -> usize {
        let rows = |side: usize| self.rows[side].iter().map(|(row, _)| row);
        if !matches!(self.rule, Rule::Temporal) {
            return rows(0).count() + rows(1).count();
        }
        let newest: BTreeMap<_, _> = (rows(1).filter(|row| self.has_come(row.1)))
            .map(|row| (row.0, row))
            .collect();
        rows(0).count() + newest.len() + rows(1).filter(|row| !self.has_come(row.1)).count()
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}

fn check_schedule(seed: u64) {
    let mut random = Random(seed);
    let base = [0, -70, i64::MAX / 4, i64::MIN / 4][random.below(4) as usize];
    let low = [random.below(100) - 40, -i64::MAX][usize::from(random.below(8) == 0)];
    let high = [low.saturating_add(random.below(40)), i64::MAX][usize::from(random.below(8) == 0)];
    let (length, pause) = (1 + random.below(60), 1 + random.below(40));
    let windows = Windows::new(length, 1 + random.below(length), random.below(100) - 50);
    let rule = [
        Rule::Interval { low, high },
        Rule::Temporal,
        Rule::Windows(windows.expect("sizes")),
        Rule::Sessions { gap: pause },
    ][random.below(4) as usize];
    let mut outer = [random.below(2) == 0, random.below(2) == 0];
    outer[1] &= !matches!(rule, Rule::Temporal);
    let mut tasks = Tasks::new(rule, outer, 1 + random.below(3) as usize);
    let mut oracle = Oracle {
        rule,
        outer,
        rows: [vec![], vec![]],
        watermark: None,
    };
    let (keys, most) = (1 + random.below(4), 1 + random.below(8));
    let pairs = [1, 3, usize::MAX][random.below(3) as usize];
    let (mut time, mut place) = (base, 0);
    for _ in 0..random.below(60) {
        match random.below(8) {
            0 => {
                let watermark = time - random.below(30);
                assert_eq!(
                    sorted(tasks.close(watermark, pairs)),
                    sorted(oracle.close(watermark)),
                    "{seed}"
                );
            }
            1 if random.below(4) == 0 => {
                tasks = tasks.rescaled(rule, outer, 1 + random.below(3) as usize);
            }
            _ => {
                let side = random.below(2) as usize;
                let batch: Vec<Given> = (0..random.below(most))
                    .map(|_| {
                        time += random.below(12);
                        place += 1;
                        (random.below(keys), time - random.below(40), place)
                    })
                    .collect();
                let (found, late) = tasks.add(side, &batch);
                let (mut wanted, mut wanted_late) = (Vec::new(), Vec::new());
                for row in batch {
                    let (pairs, is_late) = oracle.add(side, row);
                    wanted.extend(pairs);
                    wanted_late.extend(is_late.then_some(row.2));
                }
                assert_eq!(sorted(found), sorted(wanted), "{seed}");
                assert_eq!(sorted(late), wanted_late, "{seed}");
            }
        }
        assert_eq!(tasks.kept(), oracle.kept(), "{seed}");
    }
    assert_eq!(
        sorted(tasks.close(i64::MAX, pairs)),
        sorted(oracle.close(i64::MAX)),
        "{seed}"
    );
    assert_eq!(tasks.kept(), 0);
}

#[test]
fn joins_give_what_a_look_at_all_rows_gives() {
    for seed in 0..2000 {
        check_schedule(seed);
    }
}

#[test]
fn partners_come_in_the_order_of_their_times() {
    let mut join = Join::new(Rule::Interval { low: -10, high: 10 }, [false; 2]);
    let rights = join.add(1, &[1, 1, 1], &[9, 3, 3]).rows.clone();
    let pairs = join.add(0, &[1], &[5]).pairs.clone();
    let found: Vec<_> = pairs.iter().map(|(_, right)| *right).collect();
    assert_eq!(found, [rights[1], rights[2], rights[0]]);
}

#[test]
fn a_number_is_given_again_no_sooner_than_in_the_next_step() {
    let mut join = Join::new(Rule::Interval { low: 0, high: 0 }, [true; 2]);
    join.close(10, 9);
    let first = join.add(0, &[1], &[11]).rows[0];
    assert_eq!(join.close(11, 9).gone[0], [first]);
    assert_eq!(join.add(0, &[2], &[12]).rows, [first]);
}

#[test]
fn windows_come_in_the_order_of_their_ends() {
    let windows = Windows::new(10, 10, 0).expect("sizes");
    let mut join = Join::new(Rule::Windows(windows), [true, false]);
    let rows = join.add(0, &[1, 1, 2, 2], &[0, 10, 5, 15]).rows.clone();
    let lefts = [rows[0], rows[2], rows[1], rows[3]];
    let pairs = &join.close(100, 100).pairs;
    assert_eq!(*pairs, lefts.map(|left| (left, NO_ROW)));
}

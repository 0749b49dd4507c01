//! Sessions and count windows in thousands of drawn orders, against ones that keep all records.

mod random;

use self::random::Random;
use oka_window::{Counted, FARTHEST, Miss, Placement, Sessions, Spans, Window};
use std::collections::BTreeMap;

/// A key, and its records with their places among all.
type Given = (u64, Window, Vec<(i64, u64)>);

/// Sessions, and what they have come to as others keep it: by numbers.
struct Kept {
    sessions: Sessions,
    keys: BTreeMap<u64, usize>,
    records: Vec<Vec<(i64, u64)>>,
    compacted: usize,
}

impl Kept {
    fn new(gap: i64, lateness: i64, tells_changes: bool) -> Self {
        Self {
            sessions: Sessions::new(gap, lateness as u64, tells_changes),
            keys: BTreeMap::new(),
            records: Vec::new(),
            compacted: 0,
        }
    }

    fn add(&mut self, key: u64, time: i64, place: u64) -> Result<(), Miss> {
        let next = self.keys.values().max().map_or(0, |number| number + 1);
        let number = *self.keys.entry(key).or_insert(next);
        match self.sessions.add(number, time)? {
            Placement::Begun(number) => {
                assert_eq!(number, self.records.len());
                self.records.push(vec![(time, place)]);
            }
            Placement::Grown(number) => self.records[number].push((time, place)),
            Placement::Joined { into, from } => {
                let mut other = std::mem::take(&mut self.records[from]);
                self.records[into].append(&mut other);
                self.records[into].push((time, place));
            }
        }
        Ok(())
    }

    fn given(&self, number: usize) -> Given {
        let of = |(_, other): &(&u64, &usize)| **other == self.sessions.key(number);
        let (key, _) = self.keys.iter().find(of).expect("a key");
        let mut records = self.records[number].clone();
        records.sort_unstable();
        (*key, self.sessions.window(number), records)
    }

    fn advance(&mut self, watermark: i64) -> Vec<Given> {
        if let Some(live) = self.sessions.compact() {
            self.compacted += 1;
            // Numbers with gaps, as those of columns have, where null is the first.
            let keys: Vec<_> = (0..live.keys.len()).map(|place| place * 2 + 1).collect();
            let known = std::mem::take(&mut self.keys);
            for (key, number) in known {
                if let Ok(place) = live.keys.binary_search(&number) {
                    self.keys.insert(key, keys[place]);
                }
            }
            self.records = (live.windows.iter())
                .map(|number| std::mem::take(&mut self.records[*number]))
                .collect();
            self.sessions.renumber(&live, &keys);
        }
        self.sessions.advance(watermark);
        let mut given = Vec::new();
        while let Some(number) = self.sessions.complete() {
            given.push(self.given(number));
        }
        given
    }

    fn changed(&mut self) -> Vec<Given> {
        let changed = self.sessions.take_changed();
        changed.into_iter().map(|each| self.given(each)).collect()
    }
}

/// A key, its records that no gap parts, and whether they changed since they were given.
type Group = (u64, Vec<(i64, u64)>, bool);

/// All groups there are.
struct Oracle {
    gap: i64,
    lateness: i64,
    tells_changes: bool,
    watermark: i64,
    groups: Vec<Group>,
}

impl Oracle {
    fn add(&mut self, key: u64, time: i64, place: u64) -> Result<(), Miss> {
        let gap = self.gap;
        let is_near = |group: &Group| {
            group.0 == key && group.1.iter().any(|(other, _)| (time - other).abs() < gap)
        };
        let mut joined = vec![(time, place)];
        let mut found = false;
        self.groups.retain_mut(|group| {
            let near = is_near(group);
            found |= near;
            if near {
                joined.append(&mut group.1);
            }
            !near
        });
        if !found && (time + gap - 1).saturating_add(self.lateness) <= self.watermark {
            return Err(Miss::Late);
        }
        joined.sort_unstable();
        self.groups.push((key, joined, true));
        Ok(())
    }

    fn window(&self, records: &[(i64, u64)]) -> Window {
        let (start, last) = (records[0].0, records[records.len() - 1].0);
        Window {
            start,
            end: last + self.gap,
        }
    }

    fn advance(&mut self, watermark: i64) -> Vec<Given> {
        let before = self.watermark;
        self.watermark = before.max(watermark);
        let mut given = Vec::new();
        for at in 0..self.groups.len() {
            let (key, records, is_changed) = &self.groups[at];
            let window = self.window(records);
            let is_due = window.end - 1 > before && window.end - 1 <= self.watermark;
            let is_gone = self.is_gone(window);
            let is_complete = !self.tells_changes && is_due;
            let comes = is_complete || (*is_changed && (is_due || is_gone));
            if comes {
                given.push((*key, window, records.clone()));
                self.groups[at].2 = false;
            }
        }
        let gone: Vec<_> = (self.groups.iter())
            .map(|(_, records, _)| self.is_gone(self.window(records)))
            .collect();
        let mut gone = gone.into_iter();
        self.groups.retain(|_| !gone.next().expect("one of each"));
        sorted(given)
    }

    fn is_gone(&self, window: Window) -> bool {
        (window.end - 1).saturating_add(self.lateness) <= self.watermark
    }

    fn changed(&mut self) -> Vec<Given> {
        let mut given = Vec::new();
        for at in 0..self.groups.len() {
            let (key, records, is_changed) = &self.groups[at];
            let window = self.window(records);
            if *is_changed && (self.tells_changes || window.end - 1 <= self.watermark) {
                given.push((*key, window, records.clone()));
                self.groups[at].2 = false;
            }
        }
        sorted(given)
    }
}

/// In order of their ends, then of their first records.
fn sorted(mut given: Vec<Given>) -> Vec<Given> {
    given.sort_by_key(|(_, window, records)| {
        let first = records.iter().map(|(_, place)| *place).min();
        (window.end, first)
    });
    given
}

/// One schedule of so many steps; how many records were late, changed what was given, and how often
/// numbers were made anew.
fn run(seed: u64, steps: i64) -> (usize, usize, usize) {
    let mut random = Random(seed);
    let gap = 1 + random.below(30);
    let lateness = [0, 0, 5, 40][random.below(4) as usize];
    let tells_changes = random.below(2) == 0;
    let disorder = 1 + random.below(80);
    let keys = if steps > 1000 { 400 } else { 3 };
    let far = [0, -1_000_000, FARTHEST - 1_000_000, 1_000_000 - FARTHEST][random.below(4) as usize];
    let mut kept = Kept::new(gap, lateness, tells_changes);
    let mut oracle = Oracle {
        gap,
        lateness,
        tells_changes,
        watermark: i64::MIN,
        groups: Vec::new(),
    };
    let (mut now, mut late, mut again) = (far, 0, 0);
    for place in 0..steps {
        now += random.below(12);
        match random.below(12) {
            0 | 1 => {
                let watermark = now - random.below(disorder + 20);
                let (found, expected) = (kept.advance(watermark), oracle.advance(watermark));
                assert_eq!(in_order(found, lateness), in_order(expected, lateness));
            }
            2 => {
                let found = kept.changed();
                again += found.len();
                assert_eq!(found, oracle.changed());
                assert!(!kept.sessions.has_changed());
            }
            _ => {
                let (key, time) = (random.below(keys) as u64, now - random.below(disorder));
                let found = kept.add(key, time, place as u64);
                assert_eq!(found, oracle.add(key, time, place as u64));
                late += usize::from(found.is_err());
            }
        }
        assert_eq!(kept.sessions.len(), oracle.groups.len());
    }
    let (found, expected) = (kept.advance(i64::MAX), oracle.advance(i64::MAX));
    assert_eq!(in_order(found, lateness), in_order(expected, lateness));
    assert!(kept.sessions.is_empty());
    assert_eq!(kept.sessions.keys().count(), 0);
    (late, again, kept.compacted)
}

/// With lateness, changes that were not asked for come when their windows are gone.
fn in_order(given: Vec<Given>, lateness: i64) -> Vec<Given> {
    if lateness > 0 { sorted(given) } else { given }
}

#[test]
fn sessions_are_those_of_one_that_keeps_all_records() {
    let (mut late, mut again) = (0, 0);
    for seed in 0..10_000 {
        let found = std::panic::catch_unwind(|| run(seed, 60));
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
fn sessions_stay_what_they_are_under_other_numbers() {
    let compacted: usize = (0..8).map(|seed| run(seed, 6_000).2).sum();
    assert!(compacted >= 8, "{compacted}");
}

#[test]
fn nothing_is_left_of_many_sessions() {
    let mut sessions = Sessions::new(10, 0, false);
    let (mut began, mut most, mut given) = (0, 0, 0);
    for time in 0..100_000 {
        let placed = sessions.add(began, time * 7).expect("in time");
        assert_eq!(placed, Placement::Begun(began));
        began += 1;
        if let Some(live) = sessions.compact() {
            let keys: Vec<_> = (0..live.keys.len()).collect();
            sessions.renumber(&live, &keys);
            began = keys.len();
        }
        sessions.advance(time * 7 - 50);
        given += std::iter::from_fn(|| sessions.complete()).count();
        most = most.max(began);
    }
    assert!(most < 2_000, "{most} numbers");
    sessions.advance(i64::MAX);
    given += std::iter::from_fn(|| sessions.complete()).count();
    assert_eq!((given, sessions.len()), (100_000, 0));
}

#[test]
fn times_beyond_the_farthest_are_refused() {
    let mut sessions = Sessions::new(10, 0, false);
    for time in [FARTHEST + 1, -FARTHEST - 1, i64::MAX, i64::MIN] {
        assert_eq!(sessions.add(0, time), Err(Miss::Far));
    }
    assert_eq!(sessions.add(0, FARTHEST), Ok(Placement::Begun(0)));
}

/// One schedule of count windows; how often numbers were made anew.
fn count(seed: u64, steps: i64) -> usize {
    let mut random = Random(seed);
    let size = 1 + random.below(7);
    let slide = 1 + random.below(size);
    let tells_changes = random.below(2) == 0;
    let mut counted = Counted::new(size, slide, tells_changes);
    // Of each key all records; by the number of a window its.
    let mut had: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    let mut records: Vec<Vec<i64>> = Vec::new();
    let (mut expected, mut touched, mut compacted) = (Vec::new(), Vec::new(), 0);
    for place in 0..steps {
        let key = random.below(4) as usize;
        for number in counted.of_key(key) {
            records[number].push(place);
        }
        if let Some(number) = counted.begin(key) {
            assert_eq!(number, records.len());
            records.push(vec![place]);
        }
        counted.add(key);
        let own = had.entry(key).or_default();
        own.push(place);
        let (start, end) = (own.len() as i64 - size, own.len() as i64);
        if start >= 0 && start % slide == 0 {
            let window = Window { start, end };
            expected.push((key, window, own[start as usize..].to_vec()));
        }
        touched.retain(|other| *other != key);
        touched.push(key);
        if random.below(5) == 0 {
            let mut found = Vec::new();
            while let Some(number) = counted.complete() {
                let of = (counted.key(number), counted.window(number));
                found.push((of.0, of.1, records[number].clone()));
            }
            assert_eq!(found, std::mem::take(&mut expected));
            if let Some(live) = counted.compact() {
                compacted += 1;
                records = (live.windows.iter())
                    .map(|number| std::mem::take(&mut records[*number]))
                    .collect();
                counted.renumber(&live, &[]);
            }
        }
    }
    let open = |key: usize| {
        let (own, end) = (&had[&key], had[&key].len() as i64);
        let starts = (0..end)
            .step_by(slide as usize)
            .filter(move |at| at + size > end);
        starts.map(move |start| (key, Window { start, end }, own[start as usize..].to_vec()))
    };
    let mut keys: Vec<_> = had.keys().copied().collect();
    if tells_changes {
        assert!(counted.has_changed());
        keys.clone_from(&touched);
    }
    let mut rest: Vec<_> = keys.into_iter().flat_map(open).collect();
    rest.sort();
    expected.sort();
    counted.advance(i64::MAX);
    let mut found = Vec::new();
    while let Some(number) = counted.complete() {
        let of = (counted.key(number), counted.window(number));
        found.push((of.0, of.1, records[number].clone()));
    }
    let ends = found[expected.len()..]
        .iter()
        .map(|(_, window, _)| window.end);
    assert!(ends.is_sorted());
    found.sort();
    expected.append(&mut rest);
    expected.sort();
    assert_eq!(found, expected);
    assert!(counted.is_empty());
    compacted
}

#[test]
fn count_windows_are_those_of_one_that_keeps_all_records() {
    for seed in 0..5_000 {
        let found = std::panic::catch_unwind(|| count(seed, 40));
        found.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    let compacted: usize = (0..8).map(|seed| count(seed, 5_000)).sum();
    assert!(compacted > 0);
}

//! Windows whose values others keep, in thousands of drawn orders, against ones that keep all records.

mod random;

use self::random::Random;
use oka_window::{Assigner, Given, Intake, Miss, Numbered, Numbers, Trial, Windows};
use std::collections::BTreeMap;

/// A key, the start and the end of a window, and the places of its records among all, in order.
type Result = (u32, i128, i128, Vec<u64>);

/// Windows, and their values as others keep them: places of records.
struct Kept {
    windows: Numbered,
    values: Vec<Vec<u64>>,
    /// Names of keys by their numbers.
    keys: Vec<u32>,
    compacted: usize,
}

impl Kept {
    fn new(assigner: Assigner, lateness: u64, tells_changes: bool) -> Self {
        Self {
            windows: Numbered::new(assigner, lateness, tells_changes),
            values: Vec::new(),
            keys: Vec::new(),
            compacted: 0,
        }
    }

    fn add(&mut self, key: u32, time: i128, place: u64) -> std::result::Result<Vec<Result>, Miss> {
        let known = self.keys.iter().position(|known| *known == key);
        let number = known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        let trial = self.windows.trial(number as u32, time);
        let mut taken = Intake::default();
        let added = self.windows.add(number as u32, time, 0, &mut taken);
        let joined = taken.stops.iter().find_map(|stop| stop.joined);
        let seen = added.map(|()| Trial {
            numbers: taken.numbers.clone(),
            joined: joined.map(|(_, from)| from),
        });
        assert_eq!(trial, seen);
        added?;
        for number in &taken.numbers {
            if *number as usize == self.values.len() {
                self.values.push(Vec::new());
            }
            self.values[*number as usize].push(place);
        }
        if let Some((into, from)) = joined {
            let other = std::mem::take(&mut self.values[from as usize]);
            self.values[into as usize].extend(other);
        }
        let again = taken.stops.iter().flat_map(|stop| &stop.given);
        let found = again.chain(&taken.full).map(|each| self.result(each));
        let found = found.collect();
        self.forget();
        Ok(found)
    }

    fn advance(&mut self, watermark: i128) -> Vec<Result> {
        self.windows.advance(watermark);
        let mut found = Vec::new();
        loop {
            let given = self.windows.complete(2);
            if given.is_empty() {
                break;
            }
            found.extend(given.iter().map(|each| self.result(each)));
        }
        self.forget();
        found
    }

    fn changed(&mut self) -> Vec<Result> {
        let given = self.windows.changed();
        given.iter().map(|each| self.result(each)).collect()
    }

    fn result(&self, given: &Given) -> Result {
        let numbers = match &given.numbers {
            Numbers::One(number) => std::slice::from_ref(number),
            Numbers::Several(numbers) => numbers,
        };
        let values = numbers.iter().map(|number| &self.values[*number as usize]);
        let mut places: Vec<_> = values.flatten().copied().collect();
        assert!(!places.is_empty());
        places.sort_unstable();
        let [start, end] = [given.window.start, given.window.end]
            .map(|time| self.windows.base() + i128::from(time));
        (self.keys[given.key as usize], start, end, places)
    }

    fn forget(&mut self) {
        for number in self.windows.take_gone() {
            assert!(!std::mem::take(&mut self.values[number as usize]).is_empty());
        }
        if let Some(live) = self.windows.compact(self.keys.len()) {
            self.compacted += 1;
            let values = live.windows.iter();
            self.values = (values.map(|it| std::mem::take(&mut self.values[*it]))).collect();
            self.keys = live.keys.iter().map(|it| self.keys[*it]).collect();
        }
    }
}

/// Windows of one size with all their records.
struct Oracle {
    size: i128,
    slide: i128,
    offset: i128,
    lateness: i128,
    tells_changes: bool,
    watermark: i128,
    /// By end and key.
    windows: BTreeMap<(i128, u32), (Vec<u64>, bool)>,
}

impl Oracle {
    fn add(&mut self, key: u32, time: i128, place: u64) -> std::result::Result<Vec<Result>, Miss> {
        let starts = (time - self.size + 1)..=time;
        let ends: Vec<_> = starts
            .filter(|start| (start - self.offset).rem_euclid(self.slide) == 0)
            .map(|start| start + self.size)
            .filter(|end| end - 1 + self.lateness > self.watermark)
            .collect();
        if ends.is_empty() {
            return Err(Miss::Late);
        }
        let mut again = Vec::new();
        for end in ends {
            let (places, is_changed) = self.windows.entry((end, key)).or_default();
            places.push(place);
            *is_changed = true;
            if !self.tells_changes && end - 1 <= self.watermark {
                again.push((key, end - self.size, end, places.clone()));
            }
        }
        Ok(again)
    }

    fn advance(&mut self, watermark: i128) -> Vec<Result> {
        let before = self.watermark;
        self.watermark = before.max(watermark);
        let mut found = Vec::new();
        for ((end, key), (places, is_changed)) in &mut self.windows {
            let is_due = end - 1 > before && end - 1 <= self.watermark;
            let is_gone = end - 1 + self.lateness <= self.watermark;
            let comes = if self.tells_changes {
                *is_changed && (is_due || is_gone)
            } else {
                is_due
            };
            if comes {
                *is_changed = false;
                found.push((*key, end - self.size, *end, places.clone()));
            }
        }
        let (lateness, watermark) = (self.lateness, self.watermark);
        (self.windows).retain(|(end, _), _| end - 1 + lateness > watermark);
        found
    }

    fn changed(&mut self) -> Vec<Result> {
        let mut found = Vec::new();
        for ((end, key), (places, is_changed)) in &mut self.windows {
            if std::mem::take(is_changed) {
                found.push((*key, end - self.size, *end, places.clone()));
            }
        }
        found
    }
}

/// Ends are in order; keys of one end may be in any.
fn compare(mut found: Vec<Result>, mut expected: Vec<Result>, told: &str) {
    assert!(found.is_sorted_by_key(|(_, _, end, _)| *end), "{told}");
    let order = |(key, _, end, _): &Result| (*end, *key);
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(found, expected, "{told}");
}

#[test]
fn windows_of_one_size_come_when_they_shall() {
    let (mut late, mut again, mut compacted) = (0, 0, 0);
    for seed in 0..1000 {
        let mut random = Random(seed);
        let (one, other) = (1 + random.below(30), 1 + random.below(30));
        let (size, slide) = (one.max(other), one.min(other));
        let slide = if random.below(3) == 0 { size } else { slide };
        let offset = random.below(50) - 25;
        let lateness = [0, 0, 5, 40][random.below(4) as usize];
        let tells_changes = random.below(2) == 0;
        let windows = Windows::new(size, slide, offset).expect("sizes");
        let mut kept = Kept::new(windows.into(), lateness, tells_changes);
        let mut oracle = Oracle {
            size: size.into(),
            slide: slide.into(),
            offset: offset.into(),
            lateness: lateness.into(),
            tells_changes,
            watermark: i128::from(i64::MIN) * 4000,
            windows: BTreeMap::new(),
        };
        let far = [0, -1_000_000, i128::from(i64::MAX) * 1000][random.below(3) as usize];
        let disorder = 1 + random.below(80);
        let steps = if seed % 100 == 0 { 4000 } else { 60 };
        for step in 0..steps {
            let told = format!("seed {seed}, step {step}");
            let now = far + i128::from(step * 3);
            match random.below(8) {
                0 => {
                    let watermark = now - i128::from(random.below(disorder));
                    compare(kept.advance(watermark), oracle.advance(watermark), &told);
                }
                1 if tells_changes => compare(kept.changed(), oracle.changed(), &told),
                _ => {
                    let key = random.below(3 + step / 20) as u32;
                    let time = now - i128::from(random.below(disorder));
                    let found = kept.add(key, time, step as u64);
                    let expected = oracle.add(key, time, step as u64);
                    late += usize::from(found == Err(Miss::Late));
                    assert_eq!(found.is_ok(), expected.is_ok(), "{told}");
                    if let (Ok(found), Ok(expected)) = (found, expected) {
                        again += found.len();
                        compare(found, expected, &told);
                    }
                }
            }
        }
        compare(
            kept.advance(i128::MAX / 4),
            oracle.advance(i128::MAX / 4),
            "the end",
        );
        assert!(kept.values.is_empty() && kept.keys.is_empty());
        compacted += kept.compacted;
    }
    assert!(late > 100 && again > 100 && compacted > 1000);
}

#[test]
fn sessions_become_one_and_come_again() {
    let mut kept = Kept::new(Assigner::sessions(10).expect("a gap"), 50, false);
    for (place, time) in (0..).zip([100, 115, 107]) {
        assert_eq!(kept.add(7, time, place), Ok(vec![]));
    }
    assert_eq!(kept.advance(130), [(7, 100, 125, vec![0, 1, 2])]);
    assert_eq!(kept.add(7, 90, 3), Ok(vec![(7, 90, 100, vec![3])]));
    assert_eq!(
        kept.add(7, 99, 4),
        Ok(vec![(7, 90, 125, vec![0, 1, 2, 3, 4])])
    );
    assert_eq!(kept.advance(400), []);
    assert_eq!(kept.add(7, 120, 5), Err(Miss::Late));
    assert_eq!(kept.advance(401), []);
    assert!(kept.values.is_empty() && kept.keys.is_empty());
}

#[test]
fn count_windows_are_full_and_their_keys_stay() {
    let mut kept = Kept::new(Assigner::counted(4, 2).expect("sizes"), 0, false);
    let found: Vec<_> = (0..5000)
        .flat_map(|place| kept.add(3, 0, place).expect("in time"))
        .collect();
    assert_eq!(found.len(), 2499);
    assert_eq!(found[1], (3, 2, 6, vec![2, 3, 4, 5]));
    assert!(kept.compacted > 0 && kept.values.len() < 2500);
    assert_eq!(kept.advance(9), []);
    let end = [(3, 4998, 5000, vec![4998, 4999])];
    assert_eq!(kept.advance(i64::MAX.into()), end);
    assert!(kept.values.is_empty() && kept.keys.is_empty());
}

#[test]
fn times_are_near_each_other_and_may_be_far_from_1970() {
    for assigner in [
        Assigner::sessions(1000).expect("a gap"),
        Windows::new(1000, 1000, 7).expect("sizes").into(),
    ] {
        let far = i128::from(i64::MAX) * 1000;
        let mut kept = Kept::new(assigner, 0, false);
        assert_eq!(kept.add(1, far, 0), Ok(vec![]));
        assert_eq!(kept.add(1, 0, 1), Err(Miss::Far));
        let [(1, start, end, _)] = &kept.advance(far + 2000)[..] else {
            panic!("a window");
        };
        assert!((start..end).contains(&&far));
        assert_eq!(kept.add(1, far, 2), Err(Miss::Late));
        assert_eq!(kept.add(1, i128::MAX, 2), Err(Miss::Far));
        assert_eq!(kept.add(1, far + 9000, 2), Ok(vec![]));
    }
}

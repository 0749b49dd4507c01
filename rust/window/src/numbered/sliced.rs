//! Tumbling and sliding windows whose values others keep, one for each slice and key.

use super::keys::Keys;
use super::{Given, Intake, Numbers, Part, Trial};
use crate::compact::{Live, NONE};
use crate::slices::{Miss, Slices, Table};
use crate::windows::{Window, Windows};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::mem;

#[derive(Debug)]
pub(super) struct Sliced {
    slices: Slices<Slice>,
    tells_changes: bool,
    /// By the number of a key, where the slice of its last record begins, and the number of its value there.
    last: Vec<(i64, u32)>,
    /// How many values had numbers.
    all: usize,
    /// How many of them there are still.
    alive: usize,
    /// Of windows by their ends, the keys that changed and were not given since.
    changed: BTreeMap<i64, Keys>,
    /// Whether slices have keys that changed and are not noted for their windows.
    is_touched: bool,
    /// The ends of windows that are to be given.
    due: VecDeque<i64>,
    giving: VecDeque<Given>,
    gone: Vec<u32>,
}

/// What is known of a slice.
#[derive(Debug)]
struct Slice {
    start: i64,
    /// The end of the first window that has it.
    first_end: i64,
    form: u32,
    keys: Keys,
    /// In the order of the keys.
    numbers: Vec<u32>,
    /// Keys that changed, in this order, until that is noted for windows.
    changed: Keys,
}

impl Slice {
    fn new(windows: &Windows, time: i64, form: u32) -> Self {
        let start = windows.slice(time).start;
        Self {
            start,
            first_end: windows.window(windows.first(start)).end,
            form,
            keys: Keys::default(),
            numbers: Vec::new(),
            changed: Keys::default(),
        }
    }

    /// The number of a key's value, which is the next where there is none, and whether it is that.
    #[inline(never)]
    fn place(&mut self, key: u32, next: u32) -> (u32, bool) {
        let place = self.keys.place(key);
        let is_new = place == self.numbers.len();
        if is_new {
            self.numbers.push(next);
        }
        (self.numbers[place], is_new)
    }

    fn number(&self, key: u32) -> Option<u32> {
        self.keys.find(key).map(|place| self.numbers[place])
    }
}

/// Nothing is merged here: whoever keeps the values does that.
impl Table for Slice {
    type Error = Infallible;

    const IS_TAKEN: bool = true;

    fn merge(&mut self, _: &Self) -> Result<(), Infallible> {
        Ok(())
    }

    fn subtract(&mut self, _: &Self) -> bool {
        false
    }
}

impl Sliced {
    pub(super) fn new(windows: Windows, lateness: u64, tells_changes: bool) -> Self {
        Self {
            slices: Slices::new(windows, lateness),
            tells_changes,
            last: Vec::new(),
            all: 0,
            alive: 0,
            changed: BTreeMap::new(),
            is_touched: false,
            due: VecDeque::new(),
            giving: VecDeque::new(),
            gone: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        key: u32,
        time: i64,
        form: u32,
        taken: &mut Intake,
    ) -> Result<(), Miss> {
        if !self.slices.is_current(time) {
            let windows = self.slices.windows();
            (self.slices).table(time, || Slice::new(&windows, time, form))?;
        }
        let watermark = self.slices.watermark().unwrap_or(i64::MIN);
        let slice = self.slices.current();
        let number = match self.last.get(key as usize) {
            Some((start, number)) if *start == slice.start => *number,
            _ => {
                let (number, is_new) = slice.place(key, self.all as u32);
                if is_new {
                    self.all += 1;
                    self.alive += 1;
                }
                if self.last.len() <= key as usize {
                    self.last.resize(key as usize + 1, NOWHERE);
                }
                self.last[key as usize] = (slice.start, number);
                number
            }
        };
        taken.numbers.push(number);
        if self.tells_changes {
            slice.changed.place(key);
            self.is_touched = true;
        } else if slice.first_end - 1 <= watermark {
            let start = slice.start;
            taken.stop(None, self.again(start, key, watermark));
        }
        Ok(())
    }

    pub(super) fn trial(&self, key: u32, time: i64) -> Result<Trial, Miss> {
        let slice = self.slices.find_table(time)?;
        let number = slice.and_then(|slice| slice.number(key));
        Ok(Trial {
            numbers: vec![number.unwrap_or(self.all as u32)],
            joined: None,
        })
    }

    pub(super) fn advance(&mut self, watermark: i64) {
        let before = self.slices.watermark().unwrap_or(i64::MIN);
        self.slices.advance(watermark);
        if !self.tells_changes {
            return;
        }
        self.note_changed(|slices, window| !slices.was_gone(window, before));
        let (slices, windows) = (&self.slices, self.slices.windows());
        let is_due = |end: &i64| {
            let is_gone = slices.is_gone(windows.with_end(*end));
            *end - 1 <= watermark && (*end - 1 > before || is_gone)
        };
        self.due = self.changed.keys().copied().filter(is_due).collect();
    }

    pub(super) fn complete(&mut self, most: usize) -> Vec<Given> {
        while self.giving.len() < most {
            let given = if let Some(end) = self.due.pop_front() {
                self.of_changed(end)
            } else if let Some(window) = self.slices.complete() {
                if self.tells_changes {
                    continue;
                }
                self.whole(window)
            } else {
                break;
            };
            self.giving.extend(given);
        }
        for slice in self.slices.take_gone() {
            self.alive -= slice.numbers.len();
            self.gone.extend(slice.numbers);
        }
        let most = most.min(self.giving.len());
        self.giving.drain(..most).collect()
    }

    pub(super) fn changed(&mut self) -> Vec<Given> {
        self.note_changed(|slices, window| !slices.is_gone(window));
        let ends: Vec<_> = self.changed.keys().copied().collect();
        ends.into_iter()
            .flat_map(|end| self.of_changed(end))
            .collect()
    }

    pub(super) fn has_changed(&self) -> bool {
        self.is_touched || !self.changed.is_empty()
    }

    pub(super) fn take_gone(&mut self) -> Vec<u32> {
        mem::take(&mut self.gone)
    }

    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    pub(super) fn all(&self) -> usize {
        self.all
    }

    pub(super) fn compact(&mut self, keys: usize) -> Live {
        let (mut numbers, mut are_known) = (Vec::new(), vec![false; keys]);
        for slice in self.slices.iter() {
            numbers.extend(slice.table.numbers.iter().map(|number| *number as usize));
            for key in slice.table.keys.order() {
                are_known[*key as usize] = true;
            }
        }
        numbers.sort_unstable();
        let known = (0..keys).filter(|key| are_known[*key]).collect();
        let live = Live {
            keys: known,
            windows: numbers,
        };
        let places = live.places(self.all);
        let mut of_keys = vec![NONE; keys];
        for (place, key) in (0..).zip(&live.keys) {
            of_keys[*key] = place;
        }
        let key = |key: u32| of_keys[key as usize];
        for slice in self.slices.iter_mut().map(|slice| &mut slice.table) {
            slice.keys.renumber(key);
            slice.changed.renumber(key);
            for number in &mut slice.numbers {
                *number = places[*number as usize];
            }
        }
        self.changed
            .values_mut()
            .for_each(|keys| keys.renumber(key));
        self.last.clear();
        self.all = live.windows.len();
        live
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(self.alive);
        for Slice {
            start,
            form,
            keys,
            numbers,
            ..
        } in self.slices.iter().map(|slice| &slice.table)
        {
            let (start, end) = (*start, *start);
            let each = keys.order().iter().zip(numbers);
            parts.extend(each.map(|(key, number)| Part {
                key: *key,
                window: Window { start, end },
                form: *form,
                number: *number,
            }));
        }
        parts
    }

    pub(super) fn restore(&mut self, key: u32, start: i64, form: u32) -> Result<u32, Miss> {
        let mut taken = Intake::default();
        self.add(key, start, form, &mut taken)?;
        Ok(taken.numbers[0])
    }

    pub(super) fn go_on_from(&mut self, watermark: i64) {
        self.slices.go_on_from(watermark);
        self.complete(0);
    }

    /// What a key has come to in the complete windows of a slice that are not gone.
    #[cold]
    fn again(&self, start: i64, key: u32, watermark: i64) -> Vec<Given> {
        let windows = self.slices.windows().of_slice(start);
        let counts = |window: &Window| window.end - 1 <= watermark && !self.slices.is_gone(*window);
        let windows = windows.filter(counts);
        windows
            .filter_map(|window| self.of_key(window, key))
            .collect()
    }

    /// What all keys of a window have come to. They are in the order of their first slices, and there
    /// in that of their first records.
    fn whole(&self, window: Window) -> Vec<Given> {
        let mut slices = self.slices.parts(window).map(|slice| &slice.table);
        let Some(first) = slices.next() else {
            return Vec::new();
        };
        let given = |key: u32, number: u32| Given {
            key,
            window,
            form: first.form,
            numbers: Numbers::One(number),
        };
        let mut found: Vec<_> = (first.keys.order().iter().zip(&first.numbers))
            .map(|(key, number)| given(*key, *number))
            .collect();
        let mut keys = None;
        for slice in slices {
            let keys = keys.get_or_insert_with(|| {
                let mut keys = Keys::default();
                for key in first.keys.order() {
                    keys.place(*key);
                }
                keys
            });
            for (key, number) in slice.keys.order().iter().zip(&slice.numbers) {
                match found.get_mut(keys.place(*key)) {
                    Some(found) => found.numbers.push(*number),
                    None => found.push(given(*key, *number)),
                }
            }
        }
        found
    }

    /// What the keys have come to that changed in the window with this end.
    fn of_changed(&mut self, end: i64) -> Vec<Given> {
        let Some(keys) = self.changed.remove(&end) else {
            return Vec::new();
        };
        let window = self.slices.windows().with_end(end);
        let keys = keys.order().iter();
        keys.filter_map(|key| self.of_key(window, *key)).collect()
    }

    fn of_key(&self, window: Window, key: u32) -> Option<Given> {
        let mut slices = self.slices.parts(window).map(|slice| &slice.table);
        let first = slices.next()?;
        let mut numbers = first.number(key).map(Numbers::One);
        for number in slices.filter_map(|slice| slice.number(key)) {
            match &mut numbers {
                Some(numbers) => numbers.push(number),
                None => numbers = Some(Numbers::One(number)),
            }
        }
        Some(Given {
            key,
            window,
            form: first.form,
            numbers: numbers?,
        })
    }

    /// Notes for windows, if they count, what was noted for slices.
    fn note_changed(&mut self, counts: impl Fn(&Slices<Slice>, Window) -> bool) {
        if !mem::take(&mut self.is_touched) {
            return;
        }
        let windows = self.slices.windows();
        let mut changed = Vec::new();
        for slice in self.slices.iter_mut().map(|slice| &mut slice.table) {
            if !slice.changed.order().is_empty() {
                changed.push((slice.start, mem::take(&mut slice.changed)));
            }
        }
        for (start, keys) in changed {
            for window in windows.of_slice(start) {
                if counts(&self.slices, window) {
                    let noted = self.changed.entry(window.end).or_default();
                    for key in keys.order() {
                        noted.place(*key);
                    }
                }
            }
        }
    }
}

/// No slice begins here.
const NOWHERE: (i64, u32) = (i64::MAX, NONE);

//! Windows of so many records of a key: which are open, and which are full.

use crate::compact::{Live, NONE, is_worth_it, live, set_last};
use crate::spans::Spans;
use crate::windows::Window;
use std::collections::VecDeque;
use std::hint::black_box;
use std::mem;

/// The count windows of keys that have numbers: one begins every `slide` records, and is full with
/// `size`.
///
/// A window has a number, too, under which others keep what its records have come to. It spans the
/// records from one count of its key's to another. Of a key, its count stays.
///
/// ```
/// use oka_window::{Counted, Spans, Window};
///
/// let mut counted = Counted::new(2, 1, false);
/// assert_eq!(counted.begin(0), Some(0));
/// assert_eq!(counted.of_key(0).collect::<Vec<_>>(), [0]);
/// counted.add(0);
/// assert_eq!(counted.begin(0), Some(1));
/// counted.add(0);
/// assert_eq!(counted.complete(), Some(0));
/// assert_eq!(counted.window(0), Window { start: 0, end: 2 });
/// ```
#[derive(Debug)]
pub struct Counted {
    size: i64,
    slide: i64,
    tells_changes: bool,
    /// By the number of the key: how many records it had.
    counts: Vec<i64>,
    /// And its last open window.
    last: Vec<u32>,
    windows: Vec<Counting>,
    /// How many of them there are still.
    alive: usize,
    full: VecDeque<u32>,
    /// The keys that changed, in this order.
    changed: Vec<u32>,
    are_changed: Vec<bool>,
}

#[derive(Debug)]
struct Counting {
    key: u32,
    /// The open window of the same key before this one.
    before: u32,
    start: i64,
    /// Where it ends, once it does.
    end: Option<i64>,
    is_gone: bool,
}

impl Counted {
    /// `slide` is from 1 to `size`.
    pub fn new(size: i64, slide: i64, tells_changes: bool) -> Self {
        Self {
            size,
            slide,
            tells_changes,
            counts: Vec::new(),
            last: Vec::new(),
            windows: Vec::new(),
            alive: 0,
            full: VecDeque::new(),
            changed: Vec::new(),
            are_changed: Vec::new(),
        }
    }

    /// The number of the window, which is the next, that begins with the next record of a key.
    #[inline]
    pub fn begin(&mut self, key: usize) -> Option<usize> {
        let count = self.count(key);
        (count % self.slide == 0).then(|| self.open(key, count))
    }

    /// Counts a record of a key: it is part of all windows that are open.
    #[inline]
    pub fn add(&mut self, key: usize) {
        self.counts[key] += 1;
        let count = self.counts[key];
        if self.tells_changes {
            self.note(key);
        }
        let start = count - self.size;
        if start < 0 || start % self.slide != 0 {
            return;
        }
        let (mut behind, mut at) = (NONE, self.last[key]);
        while self.windows[at as usize].before != NONE {
            (behind, at) = (at, self.windows[at as usize].before);
        }
        match self.windows.get_mut(behind as usize) {
            Some(behind) => behind.before = NONE,
            None => self.last[key] = NONE,
        }
        self.windows[at as usize].end = Some(count);
        self.full.push_back(at);
    }

    /// The keys that had records.
    pub fn keys(&self) -> Vec<usize> {
        (0..self.counts.len())
            .filter(|key| self.counts[*key] > 0)
            .collect()
    }

    /// How many records a key had.
    #[inline]
    pub fn count(&self, key: usize) -> i64 {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// Whether these are the starts of the windows that are open after so many records of a key.
    pub fn are_open(&self, starts: impl IntoIterator<Item = i64>, count: i64) -> bool {
        let first = match count.checked_sub(self.size) {
            Some(over @ 0..) => (over / self.slide + 1) * self.slide,
            _ => 0,
        };
        let starts_of = (first..count).step_by(self.slide as usize);
        count > 0 && starts_of.eq(starts)
    }

    /// Goes on with the count of a key.
    pub fn restore(&mut self, key: usize, count: i64) {
        self.make_room(key);
        self.counts[key] = count;
        if self.tells_changes {
            self.note(key);
        }
    }

    /// A window of a key that begins here, behind those that it has; its number, which is the next.
    pub fn open(&mut self, key: usize, start: i64) -> usize {
        self.make_room(key);
        let number = self.windows.len();
        self.windows.push(Counting {
            key: key as u32,
            before: self.last[key],
            start,
            end: None,
            is_gone: false,
        });
        self.last[key] = u32::try_from(number).expect("fewer than 2^32 fit into memory");
        self.alive += 1;
        number
    }

    /// Those, however many they are.
    pub(crate) fn live(&self) -> Live {
        let are_alive = self.windows.iter().map(|each| !each.is_gone);
        live(are_alive, &[])
    }

    /// The open windows of a key, the first one first.
    fn open_of(&self, key: usize) -> Vec<usize> {
        let mut open: Vec<_> = self.of_key(key).collect();
        open.reverse();
        open
    }

    /// Says that no record follows.
    fn finish(&mut self) {
        let keys = self.keys();
        let mut open: Vec<_> = self.take_changed();
        if !self.tells_changes {
            open = keys.into_iter().flat_map(|key| self.open_of(key)).collect();
        }
        open.sort_by_key(|number| self.window(*number).end);
        for number in &open {
            let end = self.window(*number).end;
            self.windows[*number].end = Some(end);
        }
        self.full.extend(open.iter().map(|number| *number as u32));
        self.alive = self.full.len();
        self.counts.clear();
        self.last.clear();
    }

    fn make_room(&mut self, key: usize) {
        if self.counts.len() <= key {
            self.counts.resize(key + 1, 0);
            set_last(&mut self.last, key, NONE);
        }
    }

    fn note(&mut self, key: usize) {
        if self.are_changed.len() <= key {
            self.are_changed.resize(key + 1, false);
        }
        if !mem::replace(&mut self.are_changed[key], true) {
            self.changed.push(key as u32);
        }
    }
}

impl Spans for Counted {
    const TIMED: bool = false;

    fn watermark(&self) -> Option<i64> {
        None
    }

    fn advance(&mut self, watermark: i64) {
        if watermark == i64::MAX {
            self.finish();
        }
    }

    fn met(&self, key: usize, _: i64) -> impl Iterator<Item = usize> {
        self.of_key(key)
    }

    fn has_key(&self, key: usize) -> bool {
        self.count(key) > 0
    }

    fn of_key(&self, key: usize) -> impl Iterator<Item = usize> {
        let known = |number: u32| (number != NONE).then_some(number as usize);
        let last = known(self.last.get(key).copied().unwrap_or(NONE));
        std::iter::successors(last, move |number| known(self.windows[*number].before))
    }

    fn complete(&mut self) -> Option<usize> {
        let number = self.full.pop_front()? as usize;
        self.windows[number].is_gone = true;
        self.alive -= 1;
        Some(number)
    }

    fn take_changed(&mut self) -> Vec<usize> {
        let changed = mem::take(&mut self.changed);
        self.are_changed.clear();
        let keys = changed.into_iter().map(|key| key as usize);
        keys.flat_map(|key| self.open_of(key)).collect()
    }

    fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn window(&self, number: usize) -> Window {
        let found = &self.windows[number];
        let end = found.end.unwrap_or_else(|| self.count(found.key as usize));
        let start = found.start;
        Window { start, end }
    }

    fn key(&self, number: usize) -> usize {
        self.windows[number].key as usize
    }

    fn last_of(&self, keys: &[u32]) -> Vec<usize> {
        let counts = keys.iter().filter_map(|key| self.counts.get(*key as usize));
        black_box(counts.fold(0, |all, count| all ^ count));
        let last = keys.iter().filter_map(|key| self.last.get(*key as usize));
        let known = last.filter(|number| **number != NONE);
        known.map(|number| *number as usize).collect()
    }

    fn counts(&self) -> &[i64] {
        &self.counts
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let windows = self.windows.iter().enumerate();
        let open = windows.filter(|(_, each)| each.end.is_none() && !each.is_gone);
        open.map(|(number, _)| number)
    }

    fn len(&self) -> usize {
        self.alive
    }

    fn compact(&self) -> Option<Live> {
        is_worth_it(self.alive, self.windows.len()).then(|| self.live())
    }

    fn renumber(&mut self, live: &Live, _: &[usize]) {
        let places = live.places(self.windows.len());
        let place = |number: u32| places.get(number as usize).copied().unwrap_or(NONE);
        self.windows.retain(|each| !each.is_gone);
        for each in &mut self.windows {
            each.before = place(each.before);
        }
        for number in self.last.iter_mut().chain(&mut self.full) {
            *number = place(*number);
        }
    }
}

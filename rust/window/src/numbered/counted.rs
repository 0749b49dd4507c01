//! Count windows whose values others keep.

use super::{Given, Intake, Numbers, Part, Trial};
use crate::compact::Live;
use crate::spans::Spans;
use std::mem;

#[derive(Debug)]
pub(super) struct Counted {
    counts: crate::counted::Counted,
    slide: i64,
    /// How many windows had numbers.
    all: usize,
    gone: Vec<u32>,
    is_over: bool,
}

impl Counted {
    pub(super) fn new(size: i64, slide: i64, tells_changes: bool) -> Self {
        Self {
            counts: crate::counted::Counted::new(size, slide, tells_changes),
            slide,
            all: 0,
            gone: Vec::new(),
            is_over: false,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, key: u32, taken: &mut Intake) {
        let first = taken.numbers.len();
        let open = self.counts.of_key(key as usize);
        taken.numbers.extend(open.map(|number| number as u32));
        taken.numbers[first..].reverse();
        if let Some(number) = self.counts.begin(key as usize) {
            taken.numbers.push(number as u32);
            self.all = number + 1;
        }
        self.counts.add(key as usize);
        while let Some(given) = self.full() {
            taken.full.push(given);
        }
    }

    pub(super) fn trial(&self, key: u32) -> Trial {
        let open = self.counts.of_key(key as usize);
        let mut numbers: Vec<_> = open.map(|number| number as u32).collect();
        numbers.reverse();
        if self.counts.count(key as usize) % self.slide == 0 {
            numbers.push(self.all as u32);
        }
        Trial {
            numbers,
            joined: None,
        }
    }

    pub(super) fn advance(&mut self, watermark: i64) {
        if watermark == i64::MAX && !self.is_over {
            self.is_over = true;
            self.counts.advance(watermark);
        }
    }

    pub(super) fn complete(&mut self, most: usize) -> Vec<Given> {
        std::iter::from_fn(|| self.full()).take(most).collect()
    }

    pub(super) fn changed(&mut self) -> Vec<Given> {
        let changed = self.counts.take_changed().into_iter();
        changed.map(|number| self.given(number)).collect()
    }

    pub(super) fn has_changed(&self) -> bool {
        self.counts.has_changed()
    }

    pub(super) fn take_gone(&mut self) -> Vec<u32> {
        mem::take(&mut self.gone)
    }

    pub(super) fn alive(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Whether counts are kept for as long as keys may come.
    pub(super) fn keeps_keys(&self) -> bool {
        !self.is_over
    }

    pub(super) fn compact(&mut self, keys: usize) -> Live {
        let mut live = self.counts.live();
        if self.is_over {
            live.windows.clear(); // open ones that did not change were not given
        } else {
            live.keys = (0..keys).collect();
        }
        self.counts.renumber(&live, &[]);
        self.all = live.windows.len();
        live
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        let part = |number: usize| Part {
            key: self.counts.key(number) as u32,
            window: self.counts.window(number),
            form: 0,
            number: number as u32,
        };
        self.counts.numbers().map(part).collect()
    }

    pub(super) fn counts(&self) -> &[i64] {
        self.counts.counts()
    }

    pub(super) fn restore(&mut self, key: u32, start: i64) -> u32 {
        let number = self.counts.open(key as usize, start);
        self.all = number + 1;
        number as u32
    }

    pub(super) fn restore_count(&mut self, key: u32, count: i64) {
        self.counts.restore(key as usize, count);
    }

    /// The next window that is full.
    fn full(&mut self) -> Option<Given> {
        let number = self.counts.complete()?;
        self.gone.push(number as u32);
        Some(self.given(number))
    }

    fn given(&self, number: usize) -> Given {
        Given {
            key: self.counts.key(number) as u32,
            window: self.counts.window(number),
            form: 0,
            numbers: Numbers::One(number as u32),
        }
    }
}

//! Count windows: each key has its own, of so many records.

use super::Emit;
use super::copied::Spare;
use super::input::State;
use super::keyed::Keys;
use super::rows::Rows;
use crate::groups::{Encoded, Update, Wanted};
use crate::kept::{Later, integer, kept, kept_window, read_kept};
use crate::problem::Problem;
use oka_window::Window;

/// The count windows of keys. A record is added to each that is open.
#[derive(Debug)]
pub(super) struct Counted {
    counts: oka_window::Counted,
    keys: Keys,
    /// By the number of the window.
    rows: Rows,
    spare: Spare,
    is_over: bool,
}

impl Counted {
    pub(super) fn new(size: i64, slide: i64, emit: Emit) -> Self {
        Self {
            counts: oka_window::Counted::new(size, slide, emit == Emit::Updates),
            keys: Keys::default(),
            rows: Rows::default(),
            spare: Spare::default(),
            is_over: false,
        }
    }

    fn update(&self, number: usize) -> (Window, Update<'_>) {
        let key = self.keys.get(self.counts.key(number));
        (self.counts.window(number), self.rows.update(number, key))
    }
}

impl State for Counted {
    const TIMED: bool = false;

    #[inline]
    fn add<'r>(
        &mut self,
        wanted: &Wanted,
        (key, _): (Encoded, i64),
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<bool, Problem> {
        let key = self.keys.number(key);
        for number in self.counts.of_key(key) {
            self.rows.add(number, wanted, value, &record)?;
        }
        if self.counts.begin(key).is_some() {
            self.rows.begin(wanted, value, record)?;
        }
        self.counts.add(key);
        Ok(true)
    }

    fn check(
        &mut self,
        wanted: &Wanted,
        (key, _): (Encoded, i64),
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let alone = wanted.alone(value, record)?;
        let key = self.keys.number(key);
        self.rows.check(wanted, self.counts.of_key(key), &alone)
    }

    fn is_large(&self) -> bool {
        self.keys.is_large()
    }

    fn read_ahead(&mut self, hashes: &[u64]) {
        let last = self.counts.last_of(self.keys.read_ahead(hashes));
        self.rows.read_ahead(last.into_iter());
    }

    fn len(&self) -> usize {
        self.counts.len()
    }

    fn watermark(&self) -> Option<i64> {
        None
    }

    fn advance(&mut self, watermark: i64) {
        if watermark == i64::MAX && !self.is_over {
            self.is_over = true;
            self.counts.finish();
        }
    }

    fn give<E: From<Problem>>(
        &mut self,
        _: &Wanted,
        most: usize,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E> {
        for given in 0..most {
            let Some(number) = self.counts.full() else {
                if let Some(live) = self.counts.compact() {
                    self.rows.keep(&live.windows);
                    self.counts.renumber(&live);
                }
                return Ok(given);
            };
            let (window, update) = self.update(number);
            visit(window, update)?;
        }
        Ok(most)
    }

    fn changes<E: From<Problem>>(
        &mut self,
        wanted: &Wanted,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        self.give(wanted, usize::MAX, &mut visit)?;
        for number in self.counts.take_changed() {
            let (window, update) = self.update(number);
            visit(window, update)?;
        }
        Ok(())
    }

    fn has_changes(&self) -> bool {
        self.counts.has_changed()
    }

    fn copy_keys(&mut self) {
        self.keys.copy_new();
        let counts = self.counts.counts().len();
        self.spare.make_room(self.len(), counts);
    }

    fn export(&mut self, _: &[u8]) -> Later {
        let (about, counts) = (self.len(), &self.counts);
        let window = |number| (number, counts.key(number), counts.window(number));
        let windows = counts.open_numbers().map(window);
        let values = |numbers: &[u32]| self.rows.copy(numbers);
        let keys = (self.keys.copy(), counts.counts());
        let copied = self.spare.copy(keys, about, windows, values);
        Box::new(move || {
            let mut found = Vec::new();
            copied.by_key(|key, count, windows| {
                let window =
                    |(window, values): &(Window, &[u8])| kept_window(&[window.start], &[values]);
                let windows: Vec<_> = windows.iter().map(window).collect();
                if let Some(1..) = count {
                    found.push((key.to_vec(), kept(count, &windows)));
                }
            });
            Ok(found)
        })
    }

    fn import(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        kept: &[u8],
        _: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let (count, windows) = read_kept(kept)?;
        let key = self.keys.number(key);
        if self.counts.count(key) > 0 {
            return Err(Problem::Twice);
        }
        let count = count.ok_or(Problem::NoWindows)?;
        let starts = windows.iter().map(|[start, _]| integer(start));
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        if !self.counts.are_open(starts.iter().copied(), count) {
            return Err(Problem::NoWindows);
        }
        for (start, [_, values]) in starts.into_iter().zip(windows) {
            self.rows.import(wanted, values)?;
            self.counts.open(key, start);
        }
        self.counts.restore(key, count);
        Ok(())
    }

    fn imported(&mut self, touched: bool) {
        if !touched {
            self.counts.take_changed();
        }
    }
}

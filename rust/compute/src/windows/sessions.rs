//! Session windows: each key has its own, which pauses end.

use super::Emit;
use super::copied::Spare;
use super::input::{State, in_time};
use super::keyed::Keys;
use super::rows::Rows;
use crate::groups::{Encoded, Update, Wanted};
use crate::kept::{Later, integer, kept, kept_window, read_kept};
use crate::problem::Problem;
use oka_window::{Placed, Window};
use std::iter;

/// The sessions of keys. Where a record makes one of two, the values of the earlier come first.
#[derive(Debug)]
pub(super) struct Sessions {
    spans: oka_window::Sessions,
    keys: Keys,
    /// By the number of the session.
    rows: Rows,
    spare: Spare,
}

impl Sessions {
    pub(super) fn new(gap: i64, lateness: u64, emit: Emit) -> Self {
        Self {
            spans: oka_window::Sessions::new(gap, lateness, emit == Emit::Updates),
            keys: Keys::default(),
            rows: Rows::default(),
            spare: Spare::default(),
        }
    }

    fn update(&self, number: usize) -> (Window, Update<'_>) {
        let key = self.keys.get(self.spans.key(number));
        (self.spans.window(number), self.rows.update(number, key))
    }

    /// Forgets what is gone.
    fn compact(&mut self) {
        if let Some(live) = self.spans.compact() {
            let keys = self.keys.keep(&live.keys);
            self.rows.keep(&live.windows);
            self.spans.renumber(&live, &keys);
        }
    }
}

impl State for Sessions {
    #[inline]
    fn add<'r>(
        &mut self,
        wanted: &Wanted,
        (key, time): (Encoded, i64),
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<bool, Problem> {
        let key = self.keys.number(key);
        match in_time(self.spans.add(key, time))? {
            None => return Ok(false),
            Some(Placed::Grown(number)) => self.rows.add(number, wanted, value, record)?,
            Some(Placed::Begun(_)) => self.rows.begin(wanted, value, record)?,
            Some(Placed::Joined { into, from }) => {
                self.rows.add(into, wanted, value, record)?;
                self.rows.merge(wanted, into, from)?;
            }
        }
        Ok(true)
    }

    fn check(
        &mut self,
        wanted: &Wanted,
        (key, time): (Encoded, i64),
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let alone = wanted.alone(value, record)?;
        let key = self.keys.number(key);
        self.rows.check(wanted, self.spans.met(key, time), &alone)
    }

    fn is_large(&self) -> bool {
        self.keys.is_large()
    }

    fn read_ahead(&mut self, hashes: &[u64]) {
        let last = self.spans.last_of(self.keys.read_ahead(hashes));
        self.rows.read_ahead(last.into_iter());
    }

    fn len(&self) -> usize {
        self.spans.len()
    }

    fn watermark(&self) -> Option<i64> {
        self.spans.watermark()
    }

    fn advance(&mut self, watermark: i64) {
        self.compact();
        self.spans.advance(watermark);
    }

    fn give<E: From<Problem>>(
        &mut self,
        _: &Wanted,
        most: usize,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E> {
        let complete = iter::from_fn(|| self.spans.complete());
        let complete: Vec<_> = complete.take(most).collect();
        if self.keys.is_large() {
            self.keys
                .read(complete.iter().map(|it| self.spans.key(*it)));
            self.rows.read_ahead(complete.iter().copied());
        }
        for number in &complete {
            let (window, update) = self.update(*number);
            visit(window, update)?;
        }
        Ok(complete.len())
    }

    fn changes<E: From<Problem>>(
        &mut self,
        _: &Wanted,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in self.spans.take_changed() {
            let (window, update) = self.update(number);
            visit(window, update)?;
        }
        Ok(())
    }

    fn has_changes(&self) -> bool {
        self.spans.has_changed()
    }

    fn copy_keys(&mut self) {
        self.keys.copy_new();
        self.spare.make_room(self.len(), 0);
    }

    fn export(&mut self, form: &[u8]) -> Later {
        let (about, spans) = (self.len(), &self.spans);
        let window = |number| (number, spans.key(number), spans.window(number));
        let windows = spans.numbers().map(window);
        let values = |numbers: &[u32]| self.rows.copy(numbers);
        let keys = (self.keys.copy(), &[][..]);
        let copied = self.spare.copy(keys, about, windows, values);
        let (watermark, form) = (self.spans.watermark(), form.to_vec());
        Box::new(move || {
            let mut found = Vec::new();
            copied.by_key(|key, _, sessions| {
                let session = |(window, values): &(Window, &[u8])| {
                    kept_window(&[window.start, window.end], &[&form, values])
                };
                let sessions: Vec<_> = sessions.iter().map(session).collect();
                if !sessions.is_empty() {
                    found.push((key.to_vec(), kept(watermark, &sessions)));
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
        form: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let (watermark, sessions) = read_kept(kept)?;
        let key = self.keys.number(key);
        if self.spans.of_key(key).next().is_some() {
            return Err(Problem::Twice);
        }
        for [start, end, of_time, values] in sessions {
            let (start, end) = (integer(start)?, integer(end)?);
            if start >= end {
                return Err(Problem::NoWindows);
            }
            self.rows.import(wanted, values)?;
            self.spans.restore(key, Window { start, end }, watermark);
            if form.is_empty() {
                *form = of_time.to_vec();
            }
        }
        if let Some(watermark) = watermark {
            self.spans.advance(watermark);
        }
        Ok(())
    }

    fn imported(&mut self, touched: bool) {
        if !touched {
            self.spans.take_changed();
        }
    }
}

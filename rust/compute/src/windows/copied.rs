//! Copies of windows that each key has of its own.

use crate::copied::{CopiedKeys, Values};
use oka_window::Window;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys and windows by their numbers, at one time.
#[derive(Debug)]
pub(super) struct Copied {
    keys: CopiedKeys,
    spans: Spans,
    /// What the windows have come to, in the order of their spans.
    values: Values,
    spare: Spare,
}

/// Numbers of windows, those of their keys, and where they start and end; and of each key by number how
/// many records it had, where that counts.
#[derive(Debug, Default)]
struct Spans {
    numbers: Vec<u32>,
    of: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    counts: Vec<i64>,
}

/// What a copy that was read leaves to the next: new memory takes longer than what is written to it.
#[derive(Debug)]
pub(super) struct Spare(Arc<Mutex<Option<Spans>>>);

impl Default for Spare {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Spans::default()))))
    }
}

impl Spare {
    /// Makes room for a copy of so many windows and counts, unless one is being read.
    pub(super) fn make_room(&self, windows: usize, counts: usize) {
        if let Some(spans) = &mut *self.alone() {
            spans.write_to(windows, counts);
        }
    }

    /// A copy of about so many windows, each with its number and that of its key, and of `counts`; `values`
    /// are of those with these numbers.
    pub(super) fn copy(
        &self,
        (keys, counts): (CopiedKeys, &[i64]),
        about: usize,
        windows: impl Iterator<Item = (usize, usize, Window)>,
        values: impl FnOnce(&[u32]) -> Values,
    ) -> Copied {
        let mut spans = self.alone().take().unwrap_or_default();
        spans.make_room(about);
        spans.counts.clear();
        spans.counts.extend_from_slice(counts);
        for (number, key, window) in windows {
            spans.numbers.push(number as u32);
            spans.of.push(key as u32);
            spans.starts.push(window.start);
            spans.ends.push(window.end);
        }
        Copied {
            keys,
            values: values(&spans.numbers),
            spans,
            spare: Self(Arc::clone(&self.0)),
        }
    }

    fn alone(&self) -> MutexGuard<'_, Option<Spans>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spans {
    /// Empties it, with room for so many.
    fn make_room(&mut self, windows: usize) {
        for numbers in [&mut self.numbers, &mut self.of] {
            numbers.clear();
            numbers.reserve(windows);
        }
        for times in [&mut self.starts, &mut self.ends] {
            times.clear();
            times.reserve(windows);
        }
    }

    /// Writes to the memory of so many, whatever it is.
    fn write_to(&mut self, windows: usize, counts: usize) {
        for numbers in [&mut self.numbers, &mut self.of] {
            numbers.resize(windows.max(numbers.len()), 0);
        }
        for times in [&mut self.starts, &mut self.ends] {
            times.resize(windows.max(times.len()), 0);
        }
        self.counts.resize(counts.max(self.counts.len()), 0);
    }
}

impl Copied {
    /// Gives each key with its count, if any, and its windows in the order of their starts with their
    /// encoded values.
    pub(super) fn by_key(self, mut visit: impl FnMut(&[u8], Option<i64>, &[(Window, &[u8])])) {
        let Self {
            keys,
            spans,
            values,
            spare,
        } = self;
        let mut order: Vec<_> = (0..spans.of.len()).collect();
        order.sort_unstable_by_key(|at| (spans.of[*at], spans.starts[*at]));
        let values = values.gather(order.iter().copied());
        let mut rest = order.into_iter().zip(values.iter()).peekable();
        let mut of_key = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            of_key.clear();
            while let Some((at, values)) = rest.next_if(|(at, _)| spans.of[*at] as usize == number)
            {
                let (start, end) = (spans.starts[at], spans.ends[at]);
                of_key.push((Window { start, end }, values));
            }
            visit(key, spans.counts.get(number).copied(), &of_key);
        }
        *spare.alone() = Some(spans);
    }
}

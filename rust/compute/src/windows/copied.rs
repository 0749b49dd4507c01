//! Copies of windows that each key has of its own.

use crate::copied::{CopiedKeys, Values};
use oka_window::Window;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys and windows by their numbers, at one time.
#[derive(Debug)]
pub(super) struct Copied {
    keys: CopiedKeys,
    spans: Spans,
    /// What the windows have come to, in the order of their spans.
    values: Values,
    spare: Spare,
}

/// Numbers of windows, those of their keys, and where they start and end.
#[derive(Debug, Default)]
struct Spans {
    numbers: Vec<u32>,
    of: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

/// What a copy that was read leaves to the next: new memory takes longer than what is written to it.
#[derive(Debug, Default)]
pub(super) struct Spare(Arc<Mutex<Spans>>);

impl Spare {
    /// A copy of about so many windows, each with its number and that of its key; `values` are of those
    /// with these numbers.
    pub(super) fn copy(
        &self,
        keys: CopiedKeys,
        about: usize,
        windows: impl Iterator<Item = (usize, usize, Window)>,
        values: impl FnOnce(&[u32]) -> Values,
    ) -> Copied {
        let mut spans = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        spans.make_room(about);
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
}

impl Copied {
    /// Gives each key by number, with its windows in the order of their starts and their encoded values.
    pub(super) fn by_key(self, mut visit: impl FnMut(usize, &[u8], &[(Window, &[u8])])) {
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
            visit(number, key, &of_key);
        }
        *spare.0.lock().unwrap_or_else(PoisonError::into_inner) = spans;
    }
}

//! Copies of windows that each key has of its own.

use super::Row;
use crate::encoded::strings::ByteStrings;
use oka_window::Window;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Windows by their numbers, at one time.
#[derive(Debug)]
pub(super) struct CopiedWindows {
    arrays: Arrays,
    spare: Spare,
}

/// Numbers of windows, those of their keys, and where they start and end; and of each key by number how
/// many records it had, where that counts.
#[derive(Debug, Default)]
struct Arrays {
    numbers: Vec<u32>,
    of: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    counts: Vec<i64>,
}

/// What a copy that was read leaves to the next: new memory takes longer than what is written to it.
#[derive(Debug)]
pub(super) struct Spare(Arc<Mutex<Option<Arrays>>>);

impl Default for Spare {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Arrays::default()))))
    }
}

impl Spare {
    /// Makes room for a copy of so many windows and counts, unless one is being read.
    pub(super) fn make_room(&self, windows: usize, counts: usize) {
        if let Some(arrays) = &mut *self.alone() {
            arrays.write_to(windows, counts);
        }
    }

    /// A copy of `counts` and of about so many windows.
    pub(super) fn copy(
        &self,
        counts: &[i64],
        about: usize,
        windows: impl Iterator<Item = Row>,
    ) -> CopiedWindows {
        let mut arrays = self.alone().take().unwrap_or_default();
        arrays.make_room(about);
        arrays.counts.clear();
        arrays.counts.extend_from_slice(counts);
        for Row {
            number,
            key,
            window,
        } in windows
        {
            arrays.numbers.push(number as u32);
            arrays.of.push(key as u32);
            arrays.starts.push(window.start);
            arrays.ends.push(window.end);
        }
        CopiedWindows {
            arrays,
            spare: Self(Arc::clone(&self.0)),
        }
    }

    fn alone(&self) -> MutexGuard<'_, Option<Arrays>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrays {
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

impl CopiedWindows {
    pub(super) fn numbers(&self) -> &[u32] {
        &self.arrays.numbers
    }

    /// Gives each of these keys with its count, if any, and its windows in the order of their starts with
    /// their encoded values.
    pub(super) fn by_key(
        self,
        keys: &ByteStrings,
        values: &ByteStrings,
        mut visit: impl FnMut(&[u8], Option<i64>, &[(Window, &[u8])]),
    ) {
        let Self { arrays, spare } = self;
        let mut order: Vec<_> = (0..arrays.of.len()).collect();
        order.sort_unstable_by_key(|at| (arrays.of[*at], arrays.starts[*at]));
        let values = values.gather(order.iter().copied());
        let mut rest = order.into_iter().zip(values.iter()).peekable();
        let mut of_key = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            of_key.clear();
            while let Some((at, values)) = rest.next_if(|(at, _)| arrays.of[*at] as usize == number)
            {
                let (start, end) = (arrays.starts[at], arrays.ends[at]);
                of_key.push((Window { start, end }, values));
            }
            visit(key, arrays.counts.get(number).copied(), &of_key);
        }
        *spare.alone() = Some(arrays);
    }
}

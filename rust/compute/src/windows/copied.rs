//! Copies of windows that each key has of its own.

use crate::copied::{CopiedKeys, Values};
use oka_window::Window;

/// Keys and windows by their numbers, at one time.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) keys: CopiedKeys,
    /// Of each window the number of its key, where it starts and ends, and what it has come to.
    pub(super) of: Vec<u32>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) values: Values,
}

impl Copied {
    /// Gives each key by number, with its windows in the order of their starts and their encoded values.
    pub(super) fn by_key(self, mut visit: impl FnMut(usize, &[u8], &[(Window, &[u8])])) {
        let mut order: Vec<_> = (0..self.of.len()).collect();
        order.sort_unstable_by_key(|at| (self.of[*at], self.starts[*at]));
        let values = self.values.gather(order.iter().copied());
        let mut rest = order.into_iter().zip(values.iter()).peekable();
        let mut of_key = Vec::new();
        for (number, key) in self.keys.iter().enumerate() {
            of_key.clear();
            while let Some((at, values)) = rest.next_if(|(at, _)| self.of[*at] as usize == number) {
                let (start, end) = (self.starts[at], self.ends[at]);
                of_key.push((Window { start, end }, values));
            }
            visit(number, key, &of_key);
        }
    }
}

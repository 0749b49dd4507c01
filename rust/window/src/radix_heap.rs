//! Numbers in the order of times.

use std::mem;

/// Numbers with times, which come out in the order of these; those of one time as they came in.
///
/// A radix heap: no time that comes in is before the last one that has come out. So each entry moves
/// through a few lists, from the one whose times differ from that in a high bit down to those of the
/// time itself. With many keys, a binary heap takes several times longer: each step is elsewhere in
/// memory.
#[derive(Debug)]
pub struct RadixHeap {
    last: i64,
    /// By the number of the highest bit in which their times differ from the last, from 1; 0 for none.
    lists: [Vec<(i64, u32)>; 65],
    /// The first time in each list.
    firsts: [i64; 65],
    /// Which lists but the first have entries, a bit each.
    filled: u64,
}

impl Default for RadixHeap {
    fn default() -> Self {
        Self {
            last: i64::MIN,
            lists: [const { Vec::new() }; 65],
            firsts: [i64::MAX; 65],
            filled: 0,
        }
    }
}

impl RadixHeap {
    /// The first time, from this one on, that can come in.
    #[inline]
    pub fn possible(&self, due: i64) -> i64 {
        due.max(self.last)
    }

    /// Takes a number in, with a possible time.
    #[inline]
    pub fn push(&mut self, due: i64, number: u32) {
        let list = 64 - (due ^ self.last).leading_zeros() as usize;
        self.lists[list].push((due, number));
        if list > 0 {
            self.firsts[list] = self.firsts[list].min(due);
            self.filled |= 1 << (list - 1);
        }
    }

    /// Takes the next one out that is due until then.
    #[inline]
    pub fn pop(&mut self, until: i64) -> Option<(i64, u32)> {
        if self.lists[0].is_empty() {
            let list = 1 + self.filled.trailing_zeros() as usize;
            if list > 64 || self.firsts[list] > until {
                return None;
            }
            self.last = mem::replace(&mut self.firsts[list], i64::MAX);
            self.filled ^= 1 << (list - 1);
            let mut entries = mem::take(&mut self.lists[list]);
            for (due, number) in entries.drain(..) {
                self.push(due, number);
            }
            self.lists[0].reverse(); // the first that came in comes out first
            if entries.capacity() <= FEW {
                self.lists[list] = entries;
            }
        }
        self.lists[0].pop()
    }
}

/// Entries for which a list keeps memory.
const FEW: usize = 4096;

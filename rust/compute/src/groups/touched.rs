//! Which keys were touched.

use std::ops::Range;
use std::vec;

/// Which of the keys that have numbers were touched in this round, each once and in the order in which they
/// were touched first. A number may be of no key: one becomes a key when it is touched or seen.
#[derive(Debug)]
pub struct Touched {
    /// By number, the last round that touched the key; 0 of no key.
    rounds: Vec<u64>,
    round: u64,
    numbers: Vec<u32>,
}

impl Touched {
    /// Makes room for so many numbers.
    pub fn resize(&mut self, count: usize) {
        self.rounds.resize(count, 0);
    }

    /// How many were touched.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Some of them.
    #[inline]
    pub fn some(&self, some: Range<usize>) -> &[u32] {
        &self.numbers[some]
    }

    /// Whether this key was touched.
    pub fn has(&self, number: u32) -> bool {
        self.rounds[number as usize] == self.round
    }

    #[inline]
    pub fn touch(&mut self, number: usize) {
        let last = &mut self.rounds[number];
        if *last != self.round {
            *last = self.round;
            self.numbers.push(number as u32);
        }
    }

    /// Touches all of these.
    ///
    /// Without a branch: where a key comes up for the first time cannot be predicted.
    pub fn touch_all(&mut self, numbers: &[u32]) {
        let mut end = self.numbers.len();
        self.numbers.resize(end + numbers.len(), 0);
        for number in numbers {
            let last = &mut self.rounds[*number as usize];
            self.numbers[end] = *number;
            end += usize::from(*last != self.round);
            *last = self.round;
        }
        self.numbers.truncate(end);
    }

    /// Touches those that are of no key so far.
    pub fn touch_new(&mut self, numbers: &[u32]) {
        for number in numbers {
            let last = &mut self.rounds[*number as usize];
            if *last == 0 {
                *last = self.round;
                self.numbers.push(*number);
            }
        }
    }

    /// Touches all keys there are; how many.
    pub fn touch_known(&mut self) -> usize {
        let all = self.rounds.iter().filter(|last| **last > 0).count();
        if self.numbers.len() < all {
            self.numbers = self.known();
            for number in &self.numbers {
                self.rounds[*number as usize] = self.round;
            }
        }
        all
    }

    /// The numbers of all keys there are.
    pub fn known(&self) -> Vec<u32> {
        let rounds = (0..).zip(&self.rounds).filter(|(_, last)| **last > 0);
        rounds.map(|(number, _)| number).collect()
    }

    /// Says that there is this key.
    pub fn see(&mut self, number: usize) {
        let last = &mut self.rounds[number];
        *last = (*last).max(SEEN);
    }

    /// Forgets which were touched.
    pub fn settle(&mut self) {
        drop(self.take());
    }

    /// The same, and gives them.
    #[inline]
    pub fn take(&mut self) -> vec::Drain<'_, u32> {
        self.round += 1;
        self.numbers.drain(..)
    }

    /// Forgets a number that was not touched; the last number has that one from now on.
    pub(crate) fn swap_remove(&mut self, number: usize) {
        self.rounds.swap_remove(number);
    }
}

impl Default for Touched {
    fn default() -> Self {
        Self {
            rounds: Vec::new(),
            round: SEEN + 1,
            numbers: Vec::new(),
        }
    }
}

/// The round of keys that are there and were not touched.
const SEEN: u64 = 1;

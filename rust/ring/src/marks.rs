//! Marks that tell a waiter which of its rings have something new.

use crate::sync::{AtomicU64, Ordering, WORDS};

/// Marks that those who ring leave for the waiter: what there is something new of.
///
/// A waiter with many rings looks at a cache line instead of at all of them.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Marks([AtomicU64; WORDS]);

impl Marks {
    /// Leaves a mark; whether it was not there.
    #[inline]
    pub(crate) fn leave(&self, mark: usize) -> bool {
        let word = &self.0[mark / BITS];
        let bit = 1 << (mark % BITS);
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    /// Takes all marks.
    #[inline]
    pub(crate) fn take(&self) -> TakenMarks {
        let mut marked = TakenMarks([0; WORDS]);
        for (word, taken) in self.0.iter().zip(&mut marked.0) {
            if word.load(Ordering::Relaxed) != 0 {
                *taken = word.swap(0, Ordering::SeqCst);
            }
        }
        marked
    }
}

/// The marks that were taken, in order.
#[derive(Debug, Clone)]
pub struct TakenMarks([u64; WORDS]);

impl Iterator for TakenMarks {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let (index, word) = self
            .0
            .iter_mut()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(index * BITS + bit)
    }
}

/// How many marks there are. Where more rings than that share a bell, some share a mark.
pub const MARKS: usize = WORDS * BITS;

const BITS: usize = u64::BITS as usize;

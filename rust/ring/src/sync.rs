//! What loom has other than the processor, for the check of the algorithm (`rust/ring/loom`).

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Of marks: one cache line.
pub(crate) const WORDS: usize = 8;

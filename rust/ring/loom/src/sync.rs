//! What `rust/ring/src/sync.rs` has, of loom.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Of marks; loom has enough to explore with one.
pub(crate) const WORDS: usize = 1;

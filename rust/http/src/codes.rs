//! How many answers there were of each status.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;

/// Counts each status from 100 to 999.
#[derive(Debug)]
pub(crate) struct Codes(Box<[AtomicU64]>);

impl Codes {
    pub(crate) fn new() -> Self {
        Self((FIRST..=LAST).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn count(&self, status: StatusCode) {
        let at = usize::from(status.as_u16() - FIRST);
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Those that there were, ascending.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        (FIRST..).zip(counts).filter(|(_, count)| *count > 0)
    }
}

const FIRST: u16 = 100;
const LAST: u16 = 999;

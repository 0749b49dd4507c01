//! Snapshots of a table that only grows.

use crate::state::{KeyedEntries, hashes};
use oka_columnar::{Entries, KeyOrder};
use oka_compute::{Aggregate, ByteStrings, NewKeys, Values};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// The keys of a table that only grows, on the side of its snapshots: a snapshot has copies of new keys
/// and of the values, and who reads it puts them in order.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Those that are in no snapshot so far.
    new: NewKeys,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Keys that were copied, and that nobody has put in order yet.
    new: Mutex<Vec<ByteStrings>>,
    /// Held for as long as that takes.
    placed: Mutex<KeyOrder>,
}

impl Snapshots {
    /// Of a table that has begun with these, numbered in their order.
    pub(crate) fn behind(entries: Entries) -> Self {
        Self {
            new: NewKeys::behind(entries.len()),
            shared: Arc::new(Shared {
                new: Mutex::default(),
                placed: KeyOrder::behind(entries).into(),
            }),
        }
    }

    /// Copies the keys that are new.
    pub(crate) fn copy(&mut self, aggregate: &Aggregate) {
        self.new.add(aggregate.keys(self.new.copied()));
    }

    /// Entries of all keys with what they have come to.
    pub(crate) fn take(&mut self, aggregate: &Aggregate) -> KeyedEntries {
        self.copy(aggregate);
        let values = aggregate.values();
        let new = &self.shared.new;
        new.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut self.new.take());
        let shared = Arc::clone(&self.shared);
        KeyedEntries::later(move || shared.entries(&values))
    }
}

impl Shared {
    fn entries(&self, values: &Values) -> PyResult<Entries> {
        let broken = "a snapshot before this one broke while it put its keys in order";
        let placed = self.placed.lock();
        let mut placed = placed.map_err(|_| PyRuntimeError::new_err(broken))?;
        let new = || self.new.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = mem::take(&mut *new());
        if !taken.is_empty() {
            let keys = taken.iter().flat_map(ByteStrings::iter).collect();
            match hashes(&keys) {
                Ok(hashes) => placed.add(&hashes, &keys),
                Err(error) => {
                    new().splice(..0, taken); // for the next snapshot, which is of them, too
                    return Err(error);
                }
            }
        }
        Ok(placed.entries(values))
    }
}

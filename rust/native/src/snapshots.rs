//! Snapshots of a table that only grows.

use crate::state::{KeyedEntries, hashes};
use oka_columnar::{Entries, Placed};
use oka_compute::{Aggregate, ByteStrings, Values};
use pyo3::prelude::*;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// The keys of a table that only grows, on the side of its snapshots: a snapshot has copies of new keys
/// and of the values, and who reads it puts them in order.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// How many keys were copied.
    copied: usize,
    /// Those of them that are in no snapshot so far.
    new: Vec<ByteStrings>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Keys that were copied, and that nobody has put in order yet.
    new: Mutex<Vec<ByteStrings>>,
    /// Held for as long as that takes.
    placed: Mutex<Placed>,
}

impl Snapshots {
    /// Of a table that has begun with these, numbered in their order.
    pub(crate) fn behind(entries: Entries) -> Self {
        Self {
            copied: entries.len(),
            new: Vec::new(),
            shared: Arc::new(Shared {
                new: Mutex::default(),
                placed: Placed::behind(entries).into(),
            }),
        }
    }

    /// Copies the keys that are new.
    pub(crate) fn copy(&mut self, aggregate: &Aggregate) {
        let new = aggregate.len() - self.copied;
        if new == 0 {
            return;
        }
        if self.new.last().is_none_or(|last| last.len() >= TOGETHER) {
            self.new.push(ByteStrings::with_room(TOGETHER.min(new), 0));
        }
        if let Some(last) = self.new.last_mut() {
            aggregate.keys(self.copied).for_each(|key| last.push(key));
        }
        self.copied += new;
    }

    /// Entries of all keys with what they have come to.
    pub(crate) fn take(&mut self, aggregate: &Aggregate) -> KeyedEntries {
        self.copy(aggregate);
        let values = aggregate.values();
        let new = &self.shared.new;
        new.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut self.new);
        let shared = Arc::clone(&self.shared);
        KeyedEntries::later(move || shared.entries(&values))
    }
}

impl Shared {
    fn entries(&self, values: &Values) -> PyResult<Entries> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let new = mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        if !new.is_empty() {
            let keys = new.iter().flat_map(ByteStrings::iter).collect();
            placed.add(&hashes(&keys)?, &keys);
        }
        Ok(placed.entries(values))
    }
}

/// So many keys are copied into one place, which moves as it grows.
const TOGETHER: usize = 1 << 16;

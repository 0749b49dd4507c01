//! What windows have come to that have numbers, and their keys.

use super::input::Record;
use crate::groups::copied::{self, Copied};
use crate::groups::results::{Results, Update};
use crate::groups::wanted::Wanted;
use crate::keys::interner::{Encoded, Interner};
use crate::keys::key;
use crate::problem::Problem;
use crate::windows::{Row, WindowTable};
use std::vec;

/// Keys, and the values of windows by number.
#[derive(Debug, Default)]
pub(super) struct WindowRows {
    pub(super) keys: Interner,
    /// Numbers that the next keys may have.
    ahead: vec::IntoIter<u32>,
    copied: copied::Keys,
    pub(super) results: Results,
}

impl WindowTable for WindowRows {
    type Wanted = Wanted;
    type Error = Problem;
    type Record<'a> = Record<'a>;

    #[inline]
    fn begin(&mut self, _: usize, record: Record) -> Result<(), Problem> {
        (self.results).begin(record.wanted, record.value, record.whole)
    }

    #[expect(
        clippy::inline_always,
        reason = "a call costs a count window a twelfth of its time"
    )]
    #[inline(always)]
    fn add(&mut self, window: usize, record: Record) -> Result<(), Problem> {
        (self.results).add(record.wanted, window, record.value, record.whole)?;
        Ok(())
    }

    fn join(&mut self, into: usize, from: usize, record: Record) -> Result<(), Problem> {
        self.results.join(record.wanted, into, from)
    }

    fn keep_keys(&mut self, keys: &[usize]) -> Result<Vec<usize>, Problem> {
        if !self.keys.keep(keys) {
            return Ok(keys.to_vec());
        }
        self.copied = copied::Keys::default();
        Ok((0..keys.len()).collect())
    }

    fn keep_windows(&mut self, windows: &[usize]) -> Result<(), Problem> {
        self.results.keep(windows);
        Ok(())
    }

    fn copy_keys(&mut self) -> Result<(), Problem> {
        self.copied.copy_new(&self.keys);
        Ok(())
    }

    fn copy(&mut self, windows: &[u32]) -> Result<Copied, Problem> {
        let windows = windows.iter().map(|number| *number as usize);
        let values = self.results.copy(&windows);
        Ok(copied::later(self.copied.copy(&self.keys), values))
    }

    fn import_keys(&mut self, _: &Wanted, keys: &[&[u8]]) -> Result<Vec<usize>, Problem> {
        let mut scratch = Vec::new();
        let number = |key: &&[u8]| {
            let canonical = key::canonical(key, &mut scratch)?;
            Ok(self.keys.number_by_call((key, canonical)))
        };
        keys.iter().map(number).collect()
    }

    fn import(&mut self, wanted: &Wanted, values: &[&[u8]]) -> Result<(), Problem> {
        let mut values = values.iter();
        values.try_for_each(|each| self.results.import(wanted, each))
    }
}

impl WindowRows {
    /// The number of a key; a new one gets the next.
    #[inline]
    pub(super) fn number(&mut self, key: Encoded) -> usize {
        match self.ahead.next() {
            Some(guess) => self.keys.number_near(key, guess),
            None => self.keys.number(key),
        }
    }

    /// Reads at once what [`Self::number`] will of the next keys, which have these hashes. Numbers that
    /// they may have.
    pub(super) fn read_ahead(&mut self, hashes: &[u64]) -> &[u32] {
        self.ahead = self.keys.read_ahead(hashes).into_iter();
        self.ahead.as_slice()
    }

    /// Reads the keys and the values of these rows all at once, where keys are many.
    pub(super) fn read(&self, rows: &[Row]) {
        if self.keys.is_large() {
            self.keys.read(rows.iter().map(|row| row.key));
            self.results.read(rows.iter().map(|row| row.number));
        }
    }

    /// What a key has come to in a window.
    pub(super) fn update(&self, row: Row) -> Update<'_> {
        self.results.update(row.number, self.keys.get(row.key))
    }
}

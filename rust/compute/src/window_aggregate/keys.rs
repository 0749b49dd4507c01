//! Keys that have windows of their own.

use crate::copied::{self, CopiedKeys};
use crate::groups::Encoded;
use crate::table::KeyTable;
use std::hint::black_box;
use std::mem;

/// Keys as they were first encoded, by number.
#[derive(Debug, Default)]
pub(super) struct Keys {
    table: KeyTable,
    /// Those that are encoded otherwise than their canonical bytes.
    forms: Vec<Option<Box<[u8]>>>,
    /// Numbers that the next keys may have.
    ahead: std::vec::IntoIter<u32>,
    copied: copied::Keys,
}

impl Keys {
    /// The number of a key; a new one gets the next.
    #[inline]
    pub(super) fn number(&mut self, (key, canonical): Encoded) -> usize {
        let number = match self.ahead.next() {
            Some(guess) => self.table.number_near(canonical, guess),
            None => self.table.number(canonical),
        };
        if number == self.forms.len() {
            let differs = canonical != key;
            self.forms.push(differs.then(|| key.into()));
        }
        number
    }

    /// The key with this number, encoded.
    pub(super) fn get(&self, number: usize) -> &[u8] {
        let form = self.forms[number].as_deref();
        form.unwrap_or_else(|| self.table.key(number))
    }

    /// Reads the keys with these numbers all at once.
    pub(super) fn read(&self, numbers: impl Iterator<Item = usize>) {
        let bytes = numbers.filter_map(|number| self.get(number).first());
        black_box(bytes.fold(0, |all, byte| all ^ byte));
    }

    /// Copies those that are new: [`Self::copy`] then takes less time.
    pub(super) fn copy_new(&mut self) {
        let mut copied = mem::take(&mut self.copied);
        let new = copied.len()..self.forms.len();
        copied.add(new.map(|number| self.get(number)));
        self.copied = copied;
    }

    /// All of them, in the order of their numbers.
    pub(super) fn copy(&mut self) -> CopiedKeys {
        self.copy_new();
        self.copied.take()
    }

    pub(super) fn is_large(&self) -> bool {
        self.table.is_large()
    }

    /// Reads at once what [`Self::number`] will of the next keys, which have these hashes. Numbers
    /// that they may have.
    pub(super) fn read_ahead(&mut self, hashes: &[u64]) -> &[u32] {
        self.ahead = self.table.read_ahead(hashes).into_iter();
        self.ahead.as_slice()
    }

    /// Forgets all but these, which are in order, if these are few. Their numbers then.
    pub(super) fn keep(&mut self, numbers: &[usize]) -> Vec<usize> {
        if numbers.len() > self.forms.len() / 2 {
            return numbers.to_vec();
        }
        let mut table = KeyTable::with_room(numbers.len());
        for (place, number) in numbers.iter().enumerate() {
            table.number_of(&self.table, *number);
            self.forms.swap(place, *number);
        }
        self.table = table;
        self.copied = copied::Keys::default();
        self.forms.truncate(numbers.len());
        (0..numbers.len()).collect()
    }
}

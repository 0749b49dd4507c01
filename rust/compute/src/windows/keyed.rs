//! Keys that have windows of their own.

use crate::groups::Encoded;
use crate::table::KeyTable;

/// Keys as they were first encoded, by number.
#[derive(Debug, Default)]
pub(super) struct Keys {
    table: KeyTable,
    /// Those that are encoded otherwise than their canonical bytes.
    forms: Vec<Option<Box<[u8]>>>,
}

impl Keys {
    /// The number of a key; a new one gets the next.
    #[inline]
    pub(super) fn number(&mut self, (key, canonical): Encoded) -> usize {
        let number = self.table.number(canonical);
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

    pub(super) fn is_large(&self) -> bool {
        self.table.is_large()
    }

    /// As [`KeyTable::read_ahead`].
    pub(super) fn read_ahead(&self, hashes: &[u64]) -> Vec<usize> {
        self.table.read_ahead(hashes)
    }

    /// Keeps these alone, which are in order. Their numbers then.
    pub(super) fn keep(&mut self, numbers: &[usize]) -> Vec<usize> {
        let mut table = KeyTable::with_room(numbers.len());
        for (place, number) in numbers.iter().enumerate() {
            table.number_of(&self.table, *number);
            self.forms.swap(place, *number);
        }
        self.table = table;
        self.forms.truncate(numbers.len());
        (0..numbers.len()).collect()
    }
}

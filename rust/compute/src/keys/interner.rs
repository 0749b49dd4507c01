//! Keys with numbers, that are given back as they were first encoded.

use crate::keys::table::KeyTable;
use std::hint::black_box;

/// A key as it is encoded, and its canonical bytes.
pub type Encoded<'a> = (&'a [u8], &'a [u8]);

/// Numbers keys densely by their canonical bytes.
#[derive(Debug, Default)]
pub struct Interner {
    table: KeyTable,
    /// The keys that are encoded otherwise than their canonical bytes, behind a thin pointer: most are not.
    forms: Vec<Option<Form>>,
}

type Form = Box<Box<[u8]>>;

impl Interner {
    /// With room for about so many keys, which may be few.
    pub fn with_room(keys: usize) -> Self {
        Self::of(KeyTable::with_room(keys))
    }

    /// For a few keys, where there are many of these.
    pub(crate) fn small() -> Self {
        Self::of(KeyTable::small())
    }

    fn of(table: KeyTable) -> Self {
        Self {
            table,
            forms: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.forms.len()
    }

    /// The number that a key has in any case; of a new one, whose number is [`Self::len`], [`Self::add`] follows.
    #[expect(
        clippy::inline_always,
        reason = "it has few callers, each a loop over records"
    )]
    #[inline(always)]
    pub(crate) fn find_or_begin(&mut self, canonical: &[u8]) -> usize {
        self.table.number(canonical)
    }

    /// Ends what [`Self::find_or_begin`] began.
    pub(crate) fn add(&mut self, (key, canonical): Encoded) {
        let differs = canonical != key;
        self.forms.push(differs.then(|| Box::new(key.into())));
    }

    /// The number of a key; a new one gets the next.
    #[inline]
    pub fn number(&mut self, encoded: Encoded) -> usize {
        let number = self.table.number(encoded.1);
        self.with_form(number, encoded)
    }

    /// As `number`, by a call: where keys do not come by the million.
    pub(crate) fn number_by_call(&mut self, encoded: Encoded) -> usize {
        let number = self.table.number_by_call(encoded.1);
        self.with_form(number, encoded)
    }

    /// As `number`, of a key that may have this one.
    #[inline]
    pub(crate) fn number_near(&mut self, encoded: Encoded, guess: u32) -> usize {
        let number = self.table.number_near(encoded.1, guess);
        self.with_form(number, encoded)
    }

    /// As `number`, of the key with this number in another.
    pub fn number_of(&mut self, other: &Self, number: usize) -> usize {
        let found = self.table.number_of(&other.table, number);
        if found == self.forms.len() {
            self.forms.push(other.forms[number].clone());
        }
        found
    }

    #[inline]
    fn with_form(&mut self, number: usize, encoded: Encoded) -> usize {
        if number == self.forms.len() {
            self.add(encoded);
        }
        number
    }

    /// The number of a key, `None` if it is not here.
    pub(crate) fn find(&self, canonical: &[u8]) -> Option<usize> {
        self.table.find(canonical)
    }

    /// The same of the key with this number in another.
    pub(crate) fn find_of(&self, other: &Self, number: usize) -> Option<usize> {
        self.table.find_of(&other.table, number)
    }

    /// The key with this number, as it was first encoded.
    #[inline]
    pub fn get(&self, number: usize) -> &[u8] {
        match &self.forms[number] {
            Some(form) => form,
            None => self.table.key(number),
        }
    }

    /// Those from this number on.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        (first..self.len()).map(|number| self.get(number))
    }

    /// Forgets the key with this number, which the last key then has.
    pub(crate) fn swap_remove(&mut self, number: usize) {
        self.table.swap_remove(number);
        self.forms.swap_remove(number);
    }

    /// Forgets all but these, which are in order, if these are few: whether it does. Their places are their
    /// numbers then.
    pub(crate) fn keep(&mut self, numbers: &[usize]) -> bool {
        let are_few = numbers.len() <= self.len() / 2;
        if are_few {
            let mut kept = Self::with_room(numbers.len());
            for number in numbers {
                kept.number_of(self, *number);
            }
            *self = kept;
        }
        are_few
    }

    /// Whether there are so many keys that most are in no cache of a processor.
    pub(crate) fn is_large(&self) -> bool {
        self.table.is_large()
    }

    /// Reads at once what [`Self::number`] will of keys with these hashes. Numbers that they may have.
    pub(crate) fn read_ahead(&self, hashes: &[u64]) -> Vec<u32> {
        self.table.read_ahead(hashes)
    }

    /// Reads the keys with these numbers all at once.
    pub(crate) fn read(&self, numbers: impl Iterator<Item = usize>) {
        let bytes = numbers.filter_map(|number| self.get(number).first());
        black_box(bytes.fold(0, |all, byte| all ^ byte));
    }
}

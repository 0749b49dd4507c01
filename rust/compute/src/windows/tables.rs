//! What windows need of tables of keys.

use crate::groups::copied::Copied;
use crate::problem::Problem;
use oka_window::Table;

/// The keys of a slice, with what they have come to, and which were touched.
pub trait SliceTable: Table<Error: From<Problem> + Send + 'static> {
    /// What is computed.
    type Wanted;

    /// With room for about so many keys.
    fn with_room(wanted: &Self::Wanted, keys: usize) -> Self;

    /// Number of keys touched since the last [`Self::settle`].
    fn touched(&self) -> usize;

    /// Forgets which keys were touched.
    fn settle(&mut self);

    /// Gets ready to show all keys, and says how many there are.
    fn all(&mut self) -> usize;

    /// What the keys that were touched in some of these have come to in all of them; these keys are
    /// touched, and no others.
    fn touched_in(wanted: &Self::Wanted, tables: &[&Self]) -> Result<Self, Self::Error>;

    /// Copies keys that are new: [`Self::copy`] then takes less time.
    fn copy_keys(&mut self) -> Result<(), Self::Error>;

    /// Each key with its values.
    fn copy(&mut self) -> Result<Copied<Self::Error>, Self::Error>;

    /// Goes on with these, before the first record; the keys count as touched.
    fn import(
        &mut self,
        wanted: &Self::Wanted,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> Result<(), Self::Error>;

    /// Takes these in behind what is here of the keys, which count as touched.
    fn take_in(
        &mut self,
        wanted: &Self::Wanted,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> Result<(), Self::Error>;
}

/// Keys by their numbers, and what windows have come to by theirs.
pub trait WindowTable: Default {
    type Wanted;
    type Error: From<Problem> + Send + 'static;
    /// A record that is taken in.
    type Record<'a>: Copy;

    /// Begins the window with this number, which is the next, with a record.
    fn begin(&mut self, window: usize, record: Self::Record<'_>) -> Result<(), Self::Error>;

    /// Takes a record into a window.
    fn add(&mut self, window: usize, record: Self::Record<'_>) -> Result<(), Self::Error>;

    /// Takes into a window, to which this record was added, what another has come to, which is of no use any
    /// more.
    fn join(
        &mut self,
        into: usize,
        from: usize,
        record: Self::Record<'_>,
    ) -> Result<(), Self::Error>;

    /// Forgets all keys but these, which are in order, if these are few. Their numbers then.
    fn keep_keys(&mut self, keys: &[usize]) -> Result<Vec<usize>, Self::Error>;

    /// Keeps these windows alone, which are in order, with their places as numbers.
    fn keep_windows(&mut self, windows: &[usize]) -> Result<(), Self::Error>;

    /// Copies keys that are new: [`Self::copy`] then takes less time.
    fn copy_keys(&mut self) -> Result<(), Self::Error>;

    /// All keys in the order of their numbers, and the values of these windows.
    fn copy(&mut self, windows: &[u32]) -> Result<Copied<Self::Error>, Self::Error>;

    /// The numbers of keys that were encoded.
    fn import_keys(
        &mut self,
        wanted: &Self::Wanted,
        keys: &[&[u8]],
    ) -> Result<Vec<usize>, Self::Error>;

    /// Begins the first windows with these values.
    fn import(&mut self, wanted: &Self::Wanted, values: &[&[u8]]) -> Result<(), Self::Error>;
}

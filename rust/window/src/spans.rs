//! What is common to windows that each key has of its own.

use crate::compact::Live;
use crate::windows::Window;

/// Windows that have numbers, of keys that have numbers: [`crate::Sessions`] and [`crate::Counted`].
pub trait Spans {
    /// Whether records have times; else they are counted.
    const TIMED: bool;

    /// How many windows there are.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far event time has come; `None` before the first watermark, and where records are counted.
    fn watermark(&self) -> Option<i64>;

    /// Says that event time has come here; what is lower than before changes nothing. [`i64::MAX`] is the end
    /// of all records: count windows that are open are full then, in the order of their ends; where changes are
    /// told, only those that changed since they were.
    fn advance(&mut self, watermark: i64);

    /// The next window that is complete now and was not before. Sessions come in order of their ends, then of
    /// their first times, and count windows in the order in which they were filled. Where changes are told, only
    /// sessions that changed since they were.
    fn complete(&mut self) -> Option<usize>;

    /// The windows that changed since this was called. Sessions come in order of their ends, then of their first
    /// times, and where changes are not told, only those that are complete; count windows are those that are open.
    fn take_changed(&mut self) -> Vec<usize>;

    /// Whether [`Self::take_changed`] may have some.
    fn has_changed(&self) -> bool;

    /// Where a window begins and ends so far: by times, or by which records of its key it has, the first being 0.
    fn window(&self, number: usize) -> Window;

    /// The number of its key.
    fn key(&self, number: usize) -> usize;

    /// The windows that a key has, the last one first; of count windows, those that are open.
    fn of_key(&self, key: usize) -> impl Iterator<Item = usize>;

    /// Those of them that a record would be taken into.
    fn met(&self, key: usize, time: i64) -> impl Iterator<Item = usize>;

    /// The last windows of keys, all of which are read at once.
    fn last_of(&self, keys: &[u32]) -> Vec<usize>;

    /// The windows that there are, in order; of count windows, those that are open.
    fn numbers(&self) -> impl Iterator<Item = usize>;

    /// By its number, how many records each key had, where they are counted.
    fn counts(&self) -> &[i64];

    /// Whether there is something of a key.
    fn has_key(&self, key: usize) -> bool;

    /// The keys and the windows that there are still, where they are few among those that there were: the others
    /// are worth forgetting. Where records are counted, keys stay.
    fn compact(&self) -> Option<Live>;

    /// Goes on with those alone: the windows have their places as numbers, and the keys of sessions these.
    fn renumber(&mut self, live: &Live, keys: &[usize]);
}

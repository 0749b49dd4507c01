//! Slices of event time, each with a table, and which windows of them are complete.

use crate::windows::{FARTHEST, Window, Windows, is_near};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// What is kept of a slice.
pub trait Table: Sized {
    type Error;

    /// Whether those that are gone are kept for [`Slices::take_gone`].
    const IS_TAKEN: bool = false;

    /// Takes in all that another table has, of a slice behind those taken in so far.
    fn merge(&mut self, other: &Self) -> Result<(), Self::Error>;

    /// Takes out what was taken in; false, and the table is of no use any more, where that would not
    /// be exact.
    fn subtract(&mut self, other: &Self) -> bool;
}

/// A table, and where its slice begins.
#[derive(Debug)]
pub struct Slice<T> {
    pub start: i64,
    pub table: T,
    end: i64,
    /// The watermark with which its last window is gone.
    gone: i64,
}

/// A time that no slice takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// All its windows are gone.
    Late,
    /// It is farther from 1970 than [`FARTHEST`].
    Far,
}

/// The slices that have a window which is not gone, in order.
///
/// A window is complete when the watermark says that no time inside it follows: at its last
/// microsecond, since what follows is later than the watermark. It is gone when it was complete for
/// the allowed lateness. Each complete window is given once.
#[derive(Debug)]
pub struct Slices<T> {
    windows: Windows,
    lateness: i64,
    watermark: i64,
    of_time: VecDeque<Slice<T>>,
    /// Where the slice begins that had the last time, and where in `of_time` it is.
    current: i64,
    at: usize,
    /// The length of that slice; 0 while there is none.
    width: u64,
    /// How many slices a microsecond has where there is no gap.
    per_us: f64,
    /// The start of the first window that was not given.
    next: i64,
    running: Option<Running<T>>,
    gone: Vec<T>,
}

/// The merge of the slices of a span, with which the next window goes on.
#[derive(Debug)]
struct Running<T> {
    span: Window,
    table: T,
}

impl<T: Table> Slices<T> {
    /// `lateness` is for how long complete windows are kept, in microseconds.
    pub fn new(windows: Windows, lateness: u64) -> Self {
        Self {
            windows,
            lateness: i64::try_from(lateness).unwrap_or(i64::MAX),
            watermark: i64::MIN,
            of_time: VecDeque::new(),
            current: 0,
            at: 0,
            width: 0,
            per_us: windows.slices_per_us(),
            next: i64::MIN,
            running: None,
            gone: Vec::new(),
        }
    }

    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// How far event time has come; `None` before the first watermark.
    pub fn watermark(&self) -> Option<i64> {
        (self.watermark > i64::MIN).then_some(self.watermark)
    }

    /// The table of the slice that has this time, made where there is none so far.
    ///
    /// A time in the slice of the last one costs a comparison.
    #[inline]
    pub fn table(&mut self, time: i64, make: impl FnOnce() -> T) -> Result<&mut T, Miss> {
        if !self.is_current(time) {
            self.seek(time, make)?;
        }
        Ok(self.current())
    }

    /// Whether a time is in the slice of the last one.
    #[inline]
    pub(crate) fn is_current(&self, time: i64) -> bool {
        (time.wrapping_sub(self.current) as u64) < self.width
    }

    /// The table of the slice that had the last time.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut T {
        &mut self.of_time[self.at].table
    }

    /// The tables there are, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slice<T>> {
        self.of_time.iter_mut()
    }

    /// The tables there are, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Slice<T>> {
        self.of_time.iter()
    }

    pub fn len(&self) -> usize {
        self.of_time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of_time.is_empty()
    }

    /// Says that event time has come here; what is lower than before changes nothing.
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
    }

    /// Says that event time had come here, and that what was complete then was given.
    pub fn go_on_from(&mut self, watermark: i64) {
        self.advance(watermark);
        while self.complete().is_some() {}
        self.drop_gone();
    }

    /// Forgets all slices; event time stays where it is, and windows that were given count as such.
    pub fn clear(&mut self) {
        self.of_time.clear();
        self.running = None;
        self.width = 0;
    }

    /// The next window that is complete and has a slice, in order of their ends; `None` if no other
    /// is. Slices whose windows are gone, and were given, are dropped.
    pub fn complete(&mut self) -> Option<Window> {
        self.shorten();
        self.drop_gone();
        if let Some(found) = self.of_time.get(self.first_from(self.next)) {
            let start = self.windows.first(found.start).max(self.next);
            let window = self.windows.window(start);
            if window.end - 1 <= self.watermark {
                self.next = self.windows.behind(start);
                return Some(window);
            }
        }
        if self.watermark >= -FARTHEST {
            // Those that had no slice count as given, too.
            let open = self.windows.first(self.watermark.min(FARTHEST) + 1);
            self.next = self.next.max(open);
        }
        None
    }

    /// The merge of the slices of the window that [`Self::complete`] has given.
    ///
    /// Where tables can be subtracted it goes on with that of the window before.
    pub fn merged(&mut self, window: Window, make: impl FnOnce() -> T) -> Result<&mut T, T::Error> {
        let running = self
            .running
            .take()
            .filter(|it| it.span.start == window.start);
        let mut running = running.unwrap_or_else(|| Running {
            span: Window {
                start: window.start,
                end: window.start,
            },
            table: make(),
        });
        let new = self.first_from(running.span.end)..self.first_from(window.end);
        for slice in self.of_time.range(new) {
            running.table.merge(&slice.table)?;
        }
        running.span = window;
        self.width = 0; // a late time is to be looked at
        Ok(&mut self.running.insert(running).table)
    }

    /// The slices of a window, in order.
    pub fn of(&mut self, window: Window) -> impl Iterator<Item = &mut Slice<T>> {
        let slices = self.range(window);
        self.of_time.range_mut(slices)
    }

    /// The same, to look at.
    pub fn parts(&self, window: Window) -> impl Iterator<Item = &Slice<T>> {
        self.of_time.range(self.range(window))
    }

    /// The table of the slice that has this time; `None` where there is none so far.
    pub fn find_table(&self, time: i64) -> Result<Option<&T>, Miss> {
        if !is_near(time) {
            return Err(Miss::Far);
        }
        let found = self.find(time).map(|at| &self.of_time[at]);
        let gone = match found {
            Some(found) => found.gone,
            None => self.gone(self.windows.last_end(self.windows.slice(time).start)),
        };
        if self.watermark >= gone {
            return Err(Miss::Late);
        }
        Ok(found.map(|found| &found.table))
    }

    /// The tables of slices that are gone since this was called, where [`Table::IS_TAKEN`].
    pub fn take_gone(&mut self) -> Vec<T> {
        std::mem::take(&mut self.gone)
    }

    /// Whether a window was given.
    pub fn is_given(&self, window: Window) -> bool {
        window.start < self.next
    }

    /// Whether late times do not count in a window any more.
    pub fn is_gone(&self, window: Window) -> bool {
        self.was_gone(window, self.watermark)
    }

    /// Whether they did not when event time had come here.
    pub fn was_gone(&self, window: Window, watermark: i64) -> bool {
        watermark >= self.gone(window.end)
    }

    /// The slices that have a window which was given, in order.
    pub fn given(&self) -> impl Iterator<Item = &Slice<T>> {
        let given = |slice: &&Slice<T>| self.windows.first(slice.start) < self.next;
        self.of_time.iter().take_while(given)
    }

    /// Where the slices begin whose tables have changed, and the windows of them that are not gone;
    /// with `only_given`, of those that were given.
    pub fn changed(
        &self,
        only_given: bool,
        is_changed: impl Fn(&T) -> bool,
    ) -> (Vec<i64>, BTreeSet<Window>) {
        let are_given = if only_given {
            self.given().count()
        } else {
            self.len()
        };
        let changed = self.of_time.range(..are_given);
        let changed = changed.filter(|slice| is_changed(&slice.table));
        let starts: Vec<_> = changed.map(|slice| slice.start).collect();
        let windows = starts.iter().flat_map(|at| self.windows.of_slice(*at));
        let counts = |it: &Window| !self.is_gone(*it) && (!only_given || self.is_given(*it));
        let windows = windows.filter(counts).collect();
        (starts, windows)
    }

    fn range(&self, window: Window) -> Range<usize> {
        self.first_from(window.start)..self.first_from(window.end)
    }

    /// Where the first slice is that does not begin before this.
    fn first_from(&self, start: i64) -> usize {
        self.of_time.partition_point(|slice| slice.start < start)
    }

    /// The watermark with which a window that ends here is gone.
    fn gone(&self, end: i64) -> i64 {
        (end - 1).saturating_add(self.lateness)
    }

    /// Takes out of the running merge what no window has that is to be given.
    fn shorten(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let (old, kept) = (
            self.first_from(running.span.start),
            self.first_from(self.next),
        );
        let mut old = self.of_time.range(old..kept.max(old));
        if kept < self.first_from(running.span.end)
            && old.all(|slice| running.table.subtract(&slice.table))
        {
            running.span.start = running.span.start.max(self.next);
            self.running = Some(running);
        }
    }

    fn drop_gone(&mut self) {
        while let Some(first) = self.of_time.front()
            && self.windows.last(first.start) < self.next
            && self.watermark >= first.gone
        {
            let gone = self.of_time.pop_front();
            if T::IS_TAKEN {
                self.gone.extend(gone.map(|slice| slice.table));
            }
            self.width = 0;
        }
    }

    /// Makes the slice that has this time the current one.
    #[inline(never)]
    fn seek(&mut self, time: i64, make: impl FnOnce() -> T) -> Result<(), Miss> {
        let at = match self.find(time) {
            Some(at) => at,
            None => self.insert(time, make)?,
        };
        let found = &self.of_time[at];
        if self.watermark >= found.gone {
            return Err(Miss::Late);
        }
        let merged = |it: &Running<T>| it.span.has(found.start);
        if self.running.as_ref().is_some_and(merged) {
            self.running = None;
        }
        self.current = found.start;
        self.width = (found.end - found.start) as u64;
        self.at = at;
        Ok(())
    }

    /// Where the slice is that has this time.
    fn find(&self, time: i64) -> Option<usize> {
        let has = |at: &usize| {
            let found = self.of_time.get(*at);
            found.is_some_and(|found| (found.start..found.end).contains(&time))
        };
        // Where there is no gap, a product tells, which a processor does not have to guess.
        let since = time.wrapping_sub(self.of_time.front()?.start);
        let guess = Some((since as f64 * self.per_us) as usize).filter(has);
        guess.or_else(|| {
            self.first_from(time.saturating_add(1))
                .checked_sub(1)
                .filter(has)
        })
    }

    /// Begins the slice that has this time.
    #[cold]
    fn insert(&mut self, time: i64, make: impl FnOnce() -> T) -> Result<usize, Miss> {
        if !is_near(time) {
            return Err(Miss::Far);
        }
        let Window { start, end } = self.windows.slice(time);
        let gone = self.gone(self.windows.last_end(start));
        if self.watermark >= gone {
            return Err(Miss::Late);
        }
        let at = self.first_from(start);
        let slice = Slice {
            start,
            table: make(),
            end,
            gone,
        };
        self.of_time.insert(at, slice);
        self.width = 0; // others have moved
        Ok(at)
    }
}

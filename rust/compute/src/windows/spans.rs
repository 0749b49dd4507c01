//! Where the windows are that each key has of its own.

use super::WindowTable;
use super::sliced::in_time;
use crate::kept::{integer, kept, kept_window, read_kept};
use crate::problem::Problem;
use oka_window::{Counted, Live, Placed, Sessions, Window};

/// Windows that have numbers, of keys that have numbers.
pub trait Spans {
    /// Whether records have times; else they are counted.
    const TIMED: bool;

    /// Takes a record in. False if it is late.
    fn add<W: WindowTable>(
        &mut self,
        table: &mut W,
        at: (usize, i64),
        record: W::Record<'_>,
    ) -> Result<bool, W::Error>;

    /// The windows that a record would be taken into.
    fn met(&self, key: usize, time: i64) -> impl Iterator<Item = usize>;

    /// The last windows of keys, all of which are read at once.
    fn last_of(&self, keys: &[u32]) -> Vec<usize>;

    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn watermark(&self) -> Option<i64>;

    fn advance(&mut self, watermark: i64);

    /// The next window that is complete.
    fn next_complete(&mut self) -> Option<usize>;

    fn take_changed(&mut self) -> Vec<usize>;

    fn has_changed(&self) -> bool;

    fn compact(&mut self) -> Option<Live>;

    fn renumber(&mut self, live: &Live, keys: &[usize]);

    fn key(&self, number: usize) -> usize;

    fn window(&self, number: usize) -> Window;

    /// The windows that are kept, in order.
    fn numbers(&self) -> impl Iterator<Item = usize>;

    /// By its number, how many records each key had, if that is kept.
    fn counts(&self) -> &[i64];

    fn has_key(&self, key: usize) -> bool;

    /// What is kept of a key, if anything: its windows with their encoded values.
    fn kept(
        head: (Option<i64>, Option<i64>),
        windows: &[(Window, &[u8])],
        form: &[u8],
    ) -> Option<Vec<u8>>;

    /// Goes on with that; appends the values of the windows that it begins.
    fn restore<'a>(
        &mut self,
        key: usize,
        kept: &'a [u8],
        values: &mut Vec<&'a [u8]>,
        form: &mut Vec<u8>,
    ) -> Result<(), Problem>;
}

/// What both do by themselves.
macro_rules! as_it_is {
    () => {
        fn last_of(&self, keys: &[u32]) -> Vec<usize> {
            self.last_of(keys)
        }

        fn len(&self) -> usize {
            self.len()
        }

        fn take_changed(&mut self) -> Vec<usize> {
            self.take_changed()
        }

        fn has_changed(&self) -> bool {
            self.has_changed()
        }

        fn key(&self, number: usize) -> usize {
            self.key(number)
        }

        fn window(&self, number: usize) -> Window {
            self.window(number)
        }
    };
}

impl Spans for Sessions {
    const TIMED: bool = true;

    #[inline]
    fn add<W: WindowTable>(
        &mut self,
        table: &mut W,
        (key, time): (usize, i64),
        record: W::Record<'_>,
    ) -> Result<bool, W::Error> {
        let Some(placed) = in_time(self.add(key, time))? else {
            return Ok(false);
        };
        match placed {
            Placed::Begun(number) => table.begin(number, record)?,
            Placed::Grown(into) | Placed::Joined { into, .. } => table.add(into, record)?,
        }
        if let Placed::Joined { into, from } = placed {
            table.join(into, from, record)?;
        }
        Ok(true)
    }

    fn met(&self, key: usize, time: i64) -> impl Iterator<Item = usize> {
        self.met(key, time)
    }

    as_it_is!();

    fn watermark(&self) -> Option<i64> {
        self.watermark()
    }

    fn advance(&mut self, watermark: i64) {
        self.advance(watermark);
    }

    fn next_complete(&mut self) -> Option<usize> {
        self.complete()
    }

    fn compact(&mut self) -> Option<Live> {
        Self::compact(self)
    }

    fn renumber(&mut self, live: &Live, keys: &[usize]) {
        self.renumber(live, keys);
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        self.numbers()
    }

    fn counts(&self) -> &[i64] {
        &[]
    }

    fn has_key(&self, key: usize) -> bool {
        self.of_key(key).next().is_some()
    }

    fn kept(
        (watermark, _): (Option<i64>, Option<i64>),
        windows: &[(Window, &[u8])],
        form: &[u8],
    ) -> Option<Vec<u8>> {
        let session = |(window, values): &(Window, &[u8])| {
            kept_window(&[window.start, window.end], &[form, values])
        };
        let sessions: Vec<_> = windows.iter().map(session).collect();
        (!sessions.is_empty()).then(|| kept(watermark, &sessions))
    }

    fn restore<'a>(
        &mut self,
        key: usize,
        kept: &'a [u8],
        values: &mut Vec<&'a [u8]>,
        form: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let (watermark, sessions) = read_kept(kept)?;
        for [start, end, of_time, each] in sessions {
            let (start, end) = (integer(start)?, integer(end)?);
            if start >= end {
                return Err(Problem::NoWindows);
            }
            self.restore(key, Window { start, end }, watermark);
            values.push(each);
            if form.is_empty() {
                *form = of_time.to_vec();
            }
        }
        if let Some(watermark) = watermark {
            self.advance(watermark);
        }
        Ok(())
    }
}

impl Spans for Counted {
    const TIMED: bool = false;

    as_it_is!();

    #[inline]
    fn add<W: WindowTable>(
        &mut self,
        table: &mut W,
        (key, _): (usize, i64),
        record: W::Record<'_>,
    ) -> Result<bool, W::Error> {
        for number in self.of_key(key) {
            table.add(number, record)?;
        }
        if let Some(number) = self.begin(key) {
            table.begin(number, record)?;
        }
        self.add(key);
        Ok(true)
    }

    fn met(&self, key: usize, _: i64) -> impl Iterator<Item = usize> {
        self.of_key(key)
    }

    fn watermark(&self) -> Option<i64> {
        None
    }

    fn advance(&mut self, watermark: i64) {
        if watermark == i64::MAX {
            self.finish();
        }
    }

    fn next_complete(&mut self) -> Option<usize> {
        self.full()
    }

    fn compact(&mut self) -> Option<Live> {
        self.compact()
    }

    fn renumber(&mut self, live: &Live, _: &[usize]) {
        self.renumber(live);
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        self.open_numbers()
    }

    fn counts(&self) -> &[i64] {
        self.counts()
    }

    fn has_key(&self, key: usize) -> bool {
        self.count(key) > 0
    }

    fn kept(
        (_, count): (Option<i64>, Option<i64>),
        windows: &[(Window, &[u8])],
        _: &[u8],
    ) -> Option<Vec<u8>> {
        let count = count.filter(|count| *count > 0)?;
        let window = |(window, values): &(Window, &[u8])| kept_window(&[window.start], &[values]);
        let windows: Vec<_> = windows.iter().map(window).collect();
        Some(kept(Some(count), &windows))
    }

    fn restore<'a>(
        &mut self,
        key: usize,
        kept: &'a [u8],
        values: &mut Vec<&'a [u8]>,
        _: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let (count, windows) = read_kept(kept)?;
        let count = count.ok_or(Problem::NoWindows)?;
        let starts = windows.iter().map(|[start, _]| integer(start));
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        if !self.are_open(starts.iter().copied(), count) {
            return Err(Problem::NoWindows);
        }
        for (start, [_, each]) in starts.into_iter().zip(windows) {
            self.open(key, start);
            values.push(each);
        }
        self.restore(key, count);
        Ok(())
    }
}

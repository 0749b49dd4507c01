//! Records on their way into the windows that each key has of its own, and what is kept of these.

use super::WindowTable;
use super::sliced::in_time;
use crate::groups::kept::{integer, kept, kept_window, read_kept};
use crate::problem::Problem;
use oka_window::{Counted, Placement, Sessions, Spans, Window};

/// Windows that each key has of its own, with a table of what they have come to.
pub trait KeyedSpans: Spans {
    /// Takes a record in. False if it is late.
    fn add<W: WindowTable>(
        &mut self,
        table: &mut W,
        at: (usize, i64),
        record: W::Record<'_>,
    ) -> Result<bool, W::Error>;

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

impl KeyedSpans for Sessions {
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
            Placement::Begun(number) => table.begin(number, record)?,
            Placement::Grown(into) | Placement::Joined { into, .. } => table.add(into, record)?,
        }
        if let Placement::Joined { into, from } = placed {
            table.join(into, from, record)?;
        }
        Ok(true)
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

impl KeyedSpans for Counted {
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

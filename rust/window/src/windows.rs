//! Where windows and the slices that they share begin and end.

use crate::calendar::Calendar;
use thiserror::Error;

/// Windows of one size, each a slide after the one before, aligned at an offset from 1970.
///
/// A slice is what lies between a start or end of a window and the next one: two of them make a
/// slide, or one where the size is a multiple of it. Where the slide is longer than the size, windows
/// have gaps between them. Or those of a calendar, each of which begins where the one before ends.
///
/// ```
/// use oka_window::{Window, Windows};
///
/// let windows = Windows::new(10, 4, 0).expect("sizes");
/// assert_eq!(windows.slice(-1), Window { start: -2, end: 0 });
/// let of_slice: Vec<_> = windows.of_slice(8).map(|window| window.start).collect();
/// assert_eq!(of_slice, [0, 4, 8]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    size: i64,
    slide: i64,
    offset: i64,
    /// By how much a size is longer than slides are.
    rest: i64,
    calendar: Option<&'static Calendar>,
}

/// A span of event time, in microseconds; `end` is the first moment after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    pub start: i64,
    pub end: i64,
}

impl Window {
    /// Whether this time lies inside.
    #[inline]
    pub fn has(&self, time: i64) -> bool {
        (self.start..self.end).contains(&time)
    }
}

/// There are no such windows.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WindowsError {
    #[error("a size of {0} us, expected 1 to {LONGEST}")]
    Size(i64),
    #[error("a slide of {0} us, expected 1 to {LONGEST}")]
    Slide(i64),
    #[error("a count that slides by {slide}, expected 1 to the size, {size}")]
    Count { slide: i64, size: i64 },
    #[error("a calendar without a period or offsets in order")]
    Calendar,
}

impl Windows {
    pub fn new(size: i64, slide: i64, offset: i64) -> Result<Self, WindowsError> {
        if !(1..=LONGEST).contains(&size) {
            return Err(WindowsError::Size(size));
        }
        if !(1..=LONGEST).contains(&slide) {
            return Err(WindowsError::Slide(slide));
        }
        Ok(Self {
            size,
            slide,
            offset: offset.rem_euclid(slide),
            rest: size % slide,
            calendar: None,
        })
    }

    /// Whether windows do not overlap, so that each is a slice.
    pub fn are_slices(&self) -> bool {
        self.slide >= self.size
    }

    /// Whether a window has this time; else it lies in a gap between two.
    #[inline]
    pub fn has(&self, time: i64) -> bool {
        self.slide <= self.size || !is_near(time) || time - self.last(time) < self.size
    }

    /// Whether all begin and end at multiples of this.
    pub fn are_whole(&self, unit: i64) -> bool {
        if self.calendar.is_some() {
            return SECOND % unit == 0;
        }
        [self.size, self.slide, self.offset]
            .iter()
            .all(|time| time % unit == 0)
    }

    /// The slice that has this time, which is no farther than [`FARTHEST`].
    pub fn slice(&self, time: i64) -> Window {
        if let Some(calendar) = self.calendar {
            return calendar.window(time);
        }
        let start = self.last(time);
        if time - start < self.rest {
            return Window {
                start,
                end: start + self.rest,
            };
        }
        Window {
            start: start + self.rest,
            end: start + self.slide,
        }
    }

    /// The windows that have the slice which begins here, in order.
    pub fn of_slice(&self, start: i64) -> impl Iterator<Item = Window> + use<> {
        let (slide, windows, first) = (self.slide, *self, self.first(start));
        let count = match self.calendar {
            Some(_) => 1,
            None => (self.last(start) - first) / slide + 1,
        };
        (0..count).map(move |at| windows.window(first + at * slide))
    }

    /// How many slices begin in a microsecond, in the mean.
    pub(crate) fn slices_per_us(&self) -> f64 {
        let slices = if self.rest == 0 { 1.0 } else { 2.0 };
        slices / self.slide as f64
    }

    /// The end of the last window that has the slice which begins here.
    pub(crate) fn last_end(&self, start: i64) -> i64 {
        self.window(self.last(start)).end
    }

    /// The window that begins here.
    pub(crate) fn window(&self, start: i64) -> Window {
        let end = match self.calendar {
            Some(calendar) => calendar.window(start).end,
            None => start + self.size,
        };
        Window { start, end }
    }

    /// The window that ends here.
    pub(crate) fn with_end(&self, end: i64) -> Window {
        let start = match self.calendar {
            Some(_) => self.last(end - 1),
            None => end - self.size,
        };
        Window { start, end }
    }

    /// From the start of one to the start of the next; `None` where that is not always the same.
    pub fn slide(&self) -> Option<i64> {
        self.calendar.is_none().then_some(self.slide)
    }

    /// The start of the window behind the one that begins here.
    pub(crate) fn behind(&self, start: i64) -> i64 {
        match self.calendar {
            Some(calendar) => calendar.window(start).end,
            None => start + self.slide,
        }
    }

    /// The start of the first window that has this time; in a gap, of the one behind it.
    pub(crate) fn first(&self, time: i64) -> i64 {
        let last = self.last(time);
        if self.calendar.is_some() {
            return last;
        }
        last - (last - (time - self.size + 1)).div_euclid(self.slide) * self.slide
    }

    /// The start of the last window that has this time; in a gap, of the one before it.
    pub(crate) fn last(&self, time: i64) -> i64 {
        if let Some(calendar) = self.calendar {
            return calendar.window(time).start;
        }
        time - (time - self.offset).rem_euclid(self.slide)
    }
}

impl From<&'static Calendar> for Windows {
    fn from(calendar: &'static Calendar) -> Self {
        Self {
            size: calendar.length(),
            slide: calendar.length(),
            offset: 0,
            rest: 0,
            calendar: Some(calendar),
        }
    }
}

/// How far from 1970 a time may be: 146,000 years, so that no sum of times and sizes overflows.
pub const FARTHEST: i64 = 1 << 62;

/// Whether a time is no farther than that.
pub fn is_near(time: i64) -> bool {
    (-FARTHEST..=FARTHEST).contains(&time)
}

/// How long a window may be, in microseconds.
pub const LONGEST: i64 = 1 << 60;

const SECOND: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_that_make_no_windows_are_refused() {
        assert_eq!(Windows::new(0, 1, 0), Err(WindowsError::Size(0)));
        assert_eq!(
            Windows::new(i64::MAX, 1, 0),
            Err(WindowsError::Size(i64::MAX))
        );
        for slide in [0, -1, LONGEST + 1] {
            assert_eq!(Windows::new(5, slide, 0), Err(WindowsError::Slide(slide)));
        }
        assert!(Windows::new(5, 5, i64::MIN).is_ok());
    }

    proptest! {
        #[test]
        fn a_slice_lies_in_the_windows_that_have_its_times(
            (size, slide) in (1_i64..50).prop_flat_map(|size| (Just(size), 1..=size)),
            offset in -100_i64..100,
            time in prop_oneof![-200_i64..200, Just(FARTHEST), Just(-FARTHEST)],
        ) {
            let windows = Windows::new(size, slide, offset).expect("sizes");
            let slice = windows.slice(time);
            prop_assert!((slice.start..slice.end).contains(&time));
            prop_assert!(slice.end - slice.start <= slide);
            let (first, last) = (windows.of_slice(slice.start), windows.of_slice(slice.end - 1));
            prop_assert!(first.eq(last));
            let found: Vec<_> = windows.of_slice(slice.start).collect();
            let starts = (-size..=size).map(|back| time + back);
            let aligned = starts.filter(|start| (start - offset).rem_euclid(slide) == 0);
            let holding = aligned.filter(|start| (*start..start + size).contains(&time));
            let expected: Vec<_> = holding.map(|start| Window { start, end: start + size }).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(windows.last_end(slice.start), expected.last().expect("a window").end);
        }

        #[test]
        fn between_windows_lie_gaps(
            (size, gap) in (1_i64..50, 1_i64..50),
            offset in -100_i64..100,
            time in -200_i64..200,
        ) {
            let windows = Windows::new(size, size + gap, offset).expect("sizes");
            let begins = |start: i64| (start - offset).rem_euclid(size + gap) == 0;
            let holding = (time - size + 1..=time).find(|start| begins(*start));
            prop_assert_eq!(windows.has(time), holding.is_some());
            let next = (time..time + size + gap).find(|start| begins(*start)).expect("another");
            prop_assert_eq!(windows.first(time), holding.unwrap_or(next));
            if let Some(start) = holding {
                let window = Window { start, end: start + size };
                prop_assert_eq!(windows.slice(time), window);
                prop_assert!(windows.of_slice(start).eq([window]));
                prop_assert_eq!(windows.last_end(start), window.end);
            }
        }
    }
}

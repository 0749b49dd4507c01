//! What becomes of records in windows, over tables of any kind: when results come, what is late, and what
//! others need to go on. Encoded records and columns bring the tables.

mod copied;
mod keyed;
mod sliced;
mod spans;
mod tables;

pub use self::keyed::Keyed;
pub use self::sliced::Sliced;
pub use self::spans::KeyedSpans;
pub use self::tables::{SliceTable, WindowTable};

use crate::groups::copied::Copied;
use crate::problem::Problem;
use oka_window::{Assigner, Counted, Sessions, Window};
use std::ops::Range;

/// When the values of a window are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// When it is complete, and again with late records that still count.
    Final,
    /// Those that changed, whenever they are asked for.
    Updates,
}

/// Windows of one kind, with what the keys have come to there: in a table for each slice, or in one of all
/// windows where each key has its own.
#[derive(Debug)]
pub enum Windows<T, W> {
    Sliced(Box<Sliced<T>>),
    Sessions(Keyed<Sessions, W>),
    Counted(Keyed<Counted, W>),
}

/// Rows that are to be given.
#[derive(Debug)]
pub enum Rows<'a, T, W> {
    /// Those of a window, of a table: some of the keys that were touched, in that order; or of all.
    Slice {
        window: Window,
        table: &'a mut T,
        some: Range<usize>,
        of_all: bool,
    },
    Windows(&'a mut W, &'a [Row]),
}

/// The values under a number, which are those of a key in a window.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub number: usize,
    pub key: usize,
    pub window: Window,
}

/// Does the same with whatever kind it is.
macro_rules! each {
    ($windows:expr, $kind:ident => $does:expr) => {
        match $windows {
            Windows::Sliced($kind) => $does,
            Windows::Sessions($kind) => $does,
            Windows::Counted($kind) => $does,
        }
    };
}

impl<T: SliceTable, W: WindowTable<Wanted = T::Wanted, Error = T::Error>> Windows<T, W> {
    /// `lateness` is for how long complete windows are kept.
    pub fn new(assigner: Assigner, lateness: u64, emit: Emit) -> Self {
        let tells_changes = emit == Emit::Updates;
        match assigner {
            Assigner::Sliced(windows) => {
                Self::Sliced(Box::new(Sliced::new(windows, lateness, emit)))
            }
            Assigner::Sessions { gap, inclusive } => {
                let sessions = Sessions::new(gap, lateness, tells_changes);
                Self::Sessions(Keyed::new(sessions.inclusive(inclusive)))
            }
            Assigner::Counted { size, slide } => {
                Self::Counted(Keyed::new(Counted::new(size, slide, tells_changes)))
            }
        }
    }

    /// Number of slices of time that there are, or of windows where each key has its own.
    pub fn len(&self) -> usize {
        each!(self, kind => kind.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<i64> {
        each!(self, kind => kind.watermark())
    }

    /// Says that event time has come here: what is complete then comes by [`Self::give`].
    /// [`i64::MAX`] is the end of all records.
    pub fn advance(&mut self, watermark: i64) {
        each!(self, kind => kind.advance(watermark));
    }

    /// Says that event time had come here before the first record.
    pub fn go_on_from(&mut self, watermark: i64) {
        match self {
            Self::Sliced(sliced) => sliced.go_on_from(watermark),
            Self::Sessions(sessions) => sessions.advance(watermark),
            Self::Counted(_) => {}
        }
    }

    /// Forgets all slices of a few keys; event time stays where it is. Windows that each key has of its own stay.
    pub fn clear(&mut self) {
        if let Self::Sliced(sliced) = self {
            sliced.clear();
        }
    }

    /// Shows at most so many rows of windows that are complete; `None` when no further is.
    pub fn give<O, E: From<T::Error>>(
        &mut self,
        wanted: &T::Wanted,
        most: usize,
        show: impl FnMut(Rows<T, W>) -> Result<O, E>,
    ) -> Result<Option<O>, E> {
        match self {
            Self::Sliced(sliced) => sliced.give(wanted, most, show),
            Self::Sessions(sessions) => sessions.give(most, show),
            Self::Counted(counted) => counted.give(most, show),
        }
    }

    /// Shows what the windows that changed since it was called have come to, of each key that did. With
    /// [`Emit::Final`], of those that were given already. Windows of so many records that are full come
    /// first.
    pub fn changes<E: From<T::Error>>(
        &mut self,
        wanted: &T::Wanted,
        show: impl FnMut(Rows<T, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Sliced(sliced) => sliced.changes(wanted, show),
            Self::Sessions(sessions) => sessions.changes(show),
            Self::Counted(counted) => counted.changes(show),
        }
    }

    /// Whether [`Self::changes`] has something to show.
    pub fn has_changes(&self) -> bool {
        each!(self, kind => kind.has_changes())
    }

    /// Copies the keys that are new, and makes room for a copy of windows: [`Self::export`] then takes less
    /// time.
    pub fn copy_keys(&mut self) -> Result<(), T::Error> {
        each!(self, kind => kind.copy_keys())
    }

    /// Each key, encoded, and what is kept of it: the watermark, and for each slice its start, the form of
    /// its times and the values; of a session, its start and end; of windows of so many records, their
    /// number, and of each window its start and the values.
    pub fn export(&mut self, form: &[u8]) -> Result<Copied<T::Error>, T::Error> {
        each!(self, kind => kind.export(form))
    }

    /// Goes on with keys that another has exported, as if their records had come here; before the first
    /// one. `touched` says that [`Self::changes`] shall give them. A `form` that is empty becomes theirs.
    pub fn import(
        &mut self,
        wanted: &T::Wanted,
        entries: &[(&[u8], &[u8])],
        touched: bool,
        form: &mut Vec<u8>,
    ) -> Result<(), T::Error> {
        each!(self, kind => kind.import(wanted, entries, touched, form))
    }

    /// Takes in slices that another has exported, behind what is here. None of them may be late.
    pub fn merge(
        &mut self,
        wanted: &T::Wanted,
        entries: &[(&[u8], &[u8])],
        form: &mut Vec<u8>,
    ) -> Result<(), T::Error> {
        match self {
            Self::Sliced(sliced) => sliced.merge(wanted, entries, form),
            _ => Err(Problem::NoWindows.into()),
        }
    }
}

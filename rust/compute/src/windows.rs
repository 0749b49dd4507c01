//! Aggregates per key and window over encoded records: what [`crate::Aggregate`] computes, for each
//! window.

mod copied;
mod counted;
mod input;
mod keyed;
mod rows;
mod sessions;
mod sliced;

use self::counted::Counted;
use self::input::{Input, Late, State};
use self::sessions::Sessions;
use self::sliced::Sliced;
use crate::accumulator::Aggregation;
use crate::fields::KeyPath;
use crate::groups::{Update, Wanted};
use crate::kept::Later;
use crate::path::Path;
use crate::problem::{AggregateError, Problem};
use crate::time::TimePath;
use oka_window::{Assigner, Window};

pub use self::input::Foreign;

/// The values of all keys and windows that are not gone.
#[derive(Debug)]
pub struct WindowAggregate {
    input: Input,
    wanted: Wanted,
    late: Late,
    kind: Kind,
}

/// When the values of a window are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// When it is complete, and again with late records that still count.
    Final,
    /// Those that changed, whenever they are asked for.
    Updates,
}

#[derive(Debug)]
enum Kind {
    Sliced(Box<Sliced>),
    Sessions(Sessions),
    Counted(Counted),
}

/// Does the same with whatever kind it is.
macro_rules! each {
    ($kind:expr, $state:ident => $does:expr) => {
        match $kind {
            Kind::Sliced($state) => $does,
            Kind::Sessions($state) => $does,
            Kind::Counted($state) => $does,
        }
    };
}

impl WindowAggregate {
    /// `key` and `value` lead from the record to its key and its value; a count needs no value, and
    /// windows of so many records no time. Late records are kept for [`Self::take_late`] where that
    /// is wanted.
    pub fn new(
        (aggregation, value): (Aggregation, Path),
        key: impl Into<KeyPath>,
        time: TimePath,
        (assigner, lateness): (impl Into<Assigner>, u64),
        emit: Emit,
        keeps_late: bool,
    ) -> Self {
        let kind = match assigner.into() {
            Assigner::Sliced(windows) => {
                Kind::Sliced(Box::new(Sliced::new(windows, lateness, emit)))
            }
            Assigner::Sessions { gap } => Kind::Sessions(Sessions::new(gap, lateness, emit)),
            Assigner::Counted { size, slide } => Kind::Counted(Counted::new(size, slide, emit)),
        };
        Self {
            input: Input::new((aggregation, value), key.into(), time),
            wanted: Wanted::new(aggregation),
            late: Late::new(keeps_late),
            kind,
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, aggregation: Aggregation, value: Path) -> Self {
        self.wanted.further.push((aggregation, value));
        self
    }

    /// Has a record that fails leave everything as it was; called before the first record.
    #[must_use]
    pub fn careful(mut self, careful: bool) -> Self {
        self.wanted.careful = careful;
        self
    }

    /// Whether a record has come.
    pub fn has_begun(&self) -> bool {
        self.input.has_begun
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slices of time that there are, or of windows where each key has its own.
    pub fn len(&self) -> usize {
        each!(&self.kind, state => state.len())
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<i64> {
        each!(&self.kind, state => state.watermark())
    }

    /// How many records came when their windows were gone.
    pub fn late(&self) -> u64 {
        self.late.count
    }

    /// Those that came since it was called, encoded, and how many they are.
    pub fn take_late(&mut self) -> (usize, Vec<u8>) {
        self.late.take()
    }

    /// The first time that came, as its record had it; `None` before.
    pub fn form(&self) -> Option<&[u8]> {
        (!self.input.form.is_empty()).then_some(&self.input.form)
    }

    /// Says what to keep for the form of the times.
    pub fn set_form(&mut self, form: Vec<u8>) {
        self.input.form = form;
    }

    /// Takes in the `records` encoded records of `body`, up to one that fails.
    pub fn update(
        &mut self,
        body: &[u8],
        records: usize,
        foreign: Foreign,
    ) -> Result<(), AggregateError> {
        let Self {
            input,
            wanted,
            late,
            kind,
        } = self;
        match kind {
            Kind::Sliced(state) => {
                input.take_in((body, records), foreign, wanted, &mut **state, late)
            }
            Kind::Sessions(state) => input.take_in((body, records), foreign, wanted, state, late),
            Kind::Counted(state) => input.take_in((body, records), foreign, wanted, state, late),
        }
    }

    /// Says that event time has come here: what is complete then comes by [`Self::give`].
    /// [`i64::MAX`] is the end of all records.
    pub fn advance(&mut self, watermark: i64) {
        each!(&mut self.kind, state => state.advance(watermark));
    }

    /// Gives at most so many rows of windows that are complete, and how many they were; 0 when no
    /// further is.
    pub fn give<E: From<Problem>>(
        &mut self,
        most: usize,
        visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E> {
        each!(&mut self.kind, state => state.give(&self.wanted, most, visit))
    }

    /// Gives what the windows that changed since it was called have come to, of each key that did.
    /// With [`Emit::Final`], of those that were given already. Windows of so many records that are
    /// full come first.
    pub fn changes<E: From<Problem>>(
        &mut self,
        visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        each!(&mut self.kind, state => state.changes(&self.wanted, visit))
    }

    /// Whether [`Self::changes`] has something to give.
    pub fn has_changes(&self) -> bool {
        each!(&self.kind, state => state.has_changes())
    }

    /// Copies the keys that are new where each key has windows of its own: [`Self::export`] then takes less
    /// time.
    pub fn copy_keys(&mut self) {
        each!(&mut self.kind, state => state.copy_keys());
    }

    /// Each key, as it was first encoded, and what is kept of it: the watermark, and for each slice
    /// its start, the form of its times and the values; of a session, its start and end; of windows
    /// of so many records, their number, and of each window its start and the values.
    pub fn export(&mut self) -> Later {
        each!(&mut self.kind, state => state.export(&self.input.form))
    }

    /// Goes on with a key that another has exported, as if its records had come here; before the
    /// first one. [`Self::imported`] is to be called behind the last.
    pub fn import(&mut self, key: &[u8], kept: &[u8]) -> Result<(), Problem> {
        let Input { scratch, form, .. } = &mut self.input;
        let key = (key, crate::key::canonical(key, scratch)?);
        each!(&mut self.kind, state => state.import(&self.wanted, key, kept, form))
    }

    /// All keys were imported; `touched` says that [`Self::changes`] shall give them.
    pub fn imported(&mut self, touched: bool) {
        each!(&mut self.kind, state => state.imported(touched));
    }
}

//! Aggregates per key and window over encoded records: what [`crate::Aggregate`] computes, for each
//! window.

pub(crate) mod input;
mod rows;

use self::input::{Input, Late};
use self::rows::WindowRows;
use crate::encoded::fields::KeyPath;
use crate::encoded::time::TimePath;
use crate::groups::Groups;
use crate::groups::copied::Copied;
use crate::groups::results::Update;
use crate::groups::wanted::{Term, Wanted};
use crate::problem::{AggregateError, Problem};
use crate::windows::{Emit, Rows, Windows};
use oka_window::{Assigner, Window};

pub use self::input::Foreign;

/// The values of all keys and windows that are not gone.
#[derive(Debug)]
pub struct WindowAggregate {
    input: Input,
    wanted: Wanted,
    late: Late,
    windows: Windows<Groups, WindowRows>,
}

impl WindowAggregate {
    /// `key` and `time` lead from the record to its key and its time; windows of so many records need no
    /// time. Late records are kept for [`Self::take_late`] where that
    /// is wanted.
    pub fn new(
        first: impl Into<Term>,
        key: impl Into<KeyPath>,
        time: TimePath,
        (assigner, lateness): (impl Into<Assigner>, u64),
        emit: Emit,
        keeps_late: bool,
    ) -> Self {
        let first = first.into();
        Self {
            input: Input::new(&first, key.into(), time),
            wanted: Wanted::new(&first),
            late: Late::new(keeps_late),
            windows: Windows::new(assigner.into(), lateness, emit),
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, further: impl Into<Term>) -> Self {
        self.wanted.further.push(further.into());
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
        self.windows.len()
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<i64> {
        self.windows.watermark()
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
            windows,
        } = self;
        let records = (body, records);
        match windows {
            Windows::Sliced(sliced) => input.take_in(records, foreign, wanted, &mut **sliced, late),
            Windows::Sessions(sessions) => input.take_in(records, foreign, wanted, sessions, late),
            Windows::Counted(counted) => input.take_in(records, foreign, wanted, counted, late),
        }
    }

    /// Says that event time has come here: what is complete then comes by [`Self::give`].
    /// [`i64::MAX`] is the end of all records.
    pub fn advance(&mut self, watermark: i64) {
        self.windows.advance(watermark);
    }

    /// See [`Windows::clear`].
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// Gives at most so many rows of windows that are complete, and how many they were; 0 when no
    /// further is.
    pub fn give<E: From<Problem>>(
        &mut self,
        most: usize,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut given = 0;
        while given < most {
            let show = |rows: Rows<_, _>| show(rows, &mut visit);
            match self.windows.give(&self.wanted, most - given, show)? {
                Some(shown) => given += shown,
                None => break,
            }
        }
        Ok(given)
    }

    /// Gives what the windows that changed since it was called have come to, of each key that did.
    /// With [`Emit::Final`], of those that were given already. Windows of so many records that are
    /// full come first.
    pub fn changes<E: From<Problem>>(
        &mut self,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        let show = |rows: Rows<_, _>| show(rows, &mut visit).map(|_| ());
        self.windows.changes(&self.wanted, show)
    }

    /// Whether [`Self::changes`] has something to give.
    pub fn has_changes(&self) -> bool {
        self.windows.has_changes()
    }

    /// See [`Windows::copy_keys`].
    pub fn copy_keys(&mut self) -> Result<(), Problem> {
        self.windows.copy_keys()
    }

    /// See [`Windows::export`].
    pub fn export(&mut self) -> Copied {
        let exported = self.windows.export(&self.input.form);
        exported.unwrap_or_else(|problem| Box::new(|| Err(problem)))
    }

    /// Goes on with keys that another has exported, as if their records had come here; before the
    /// first one. `touched` says that [`Self::changes`] shall give them.
    pub fn import(&mut self, entries: &[(&[u8], &[u8])], touched: bool) -> Result<(), Problem> {
        let form = &mut self.input.form;
        self.windows.import(&self.wanted, entries, touched, form)
    }

    /// See [`Windows::merge`].
    pub fn merge(&mut self, entries: &[(&[u8], &[u8])]) -> Result<(), Problem> {
        self.input.has_begun = true;
        let form = &mut self.input.form;
        self.windows.merge(&self.wanted, entries, form)
    }
}

/// Shows rows one by one; how many they are.
fn show<E>(
    rows: Rows<Groups, WindowRows>,
    visit: &mut impl FnMut(Window, Update) -> Result<(), E>,
) -> Result<usize, E> {
    match rows {
        Rows::Slice {
            window,
            table,
            some,
            of_all,
        } => {
            let shown = some.len();
            if of_all {
                for number in some {
                    visit(window, table.update(number))?;
                }
            } else {
                (table.updates(some)).try_for_each(|update| visit(window, update))?;
            }
            Ok(shown)
        }
        Rows::Windows(table, rows) => {
            table.read(rows);
            for row in rows {
                visit(row.window, table.update(*row))?;
            }
            Ok(rows.len())
        }
    }
}

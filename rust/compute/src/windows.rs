//! Aggregates per key and window of event time over encoded records.
//!
//! What [`crate::Aggregate`] computes, for each window: records come into the table of their slice,
//! and a window is the merge of its slices in order. So in windows that overlap, the first value and
//! the first of equal ones are those of the earliest slice, and sums of floats add up slice by slice.

use crate::accumulator::Aggregation;
use crate::fields::{Fields, KeyPath, first};
use crate::groups::{Groups, Update, Wanted};
use crate::kept::{Kept, kept, kept_slice, read_kept};
use crate::key;
use crate::path::Path;
use crate::problem::{AggregateError, Problem};
use crate::table::KeyTable;
use crate::time::{Read, TimePath};
use crate::value::Reader;
use oka_window::{Missed, Slices, Window};
use std::mem;

/// The values of all keys and windows that are not gone.
#[derive(Debug)]
pub struct WindowAggregate {
    fields: Fields,
    wanted: Wanted,
    time: TimePath,
    slices: Slices<Groups>,
    emit: Emit,
    giving: Option<Giving>,
    scratch: Vec<u8>,
    /// The first time that came, encoded.
    form: Vec<u8>,
    late: Late,
    /// How many keys the last window had.
    keys: usize,
    /// How far event time had come where state was exported.
    watermark: Option<i64>,
}

/// When the values of a window are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// When it is complete, and again with late records that still count.
    Final,
    /// Those that changed, whenever they are asked for.
    Updates,
}

/// Records whose windows were gone.
#[derive(Debug, Default)]
struct Late {
    count: u64,
    /// Encoded, behind each other, where they are kept.
    kept: Option<Vec<u8>>,
    number: usize,
}

/// A complete window of which some rows were given.
#[derive(Debug)]
struct Giving {
    window: Window,
    /// What it came to, where that is not a table in the slices.
    groups: Option<Groups>,
    rows: usize,
}

/// Reads a time that is no number, encoded: microseconds.
pub type Foreign<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<i64, Problem> + Send);

impl WindowAggregate {
    /// `key` and `value` lead from the record to its key and its value; a count needs no value.
    /// Late records are kept for [`Self::take_late`] where that is wanted.
    pub fn new(
        (aggregation, value): (Aggregation, Path),
        key: impl Into<KeyPath>,
        time: TimePath,
        (windows, lateness): (oka_window::Windows, u64),
        emit: Emit,
        keeps_late: bool,
    ) -> Self {
        Self {
            fields: Fields::new(aggregation, key.into(), value),
            wanted: Wanted::new(aggregation),
            time,
            slices: Slices::new(windows, lateness),
            emit,
            giving: None,
            scratch: Vec::new(),
            form: Vec::new(),
            late: Late {
                kept: keeps_late.then(Vec::new),
                ..Late::default()
            },
            keys: FIRST_KEYS,
            watermark: None,
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, aggregation: Aggregation, value: Path) -> Self {
        self.wanted.further.push((aggregation, value));
        self
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Number of slices there are.
    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<i64> {
        self.slices.watermark()
    }

    /// How many records came when their windows were gone.
    pub fn late(&self) -> u64 {
        self.late.count
    }

    /// Those that came since it was called, encoded, and how many they are.
    pub fn take_late(&mut self) -> (usize, Vec<u8>) {
        let kept = self.late.kept.as_mut().map(mem::take);
        (mem::take(&mut self.late.number), kept.unwrap_or_default())
    }

    /// The first time that came, as its record had it; `None` before.
    pub fn form(&self) -> Option<&[u8]> {
        (!self.form.is_empty()).then_some(&self.form)
    }

    /// Says what to keep for the form of the times.
    pub fn set_form(&mut self, form: Vec<u8>) {
        self.form = form;
    }

    /// Takes in the `records` encoded records of `body`.
    pub fn update(
        &mut self,
        body: &[u8],
        records: usize,
        foreign: Foreign,
    ) -> Result<(), AggregateError> {
        let mut reader = Reader::new(body);
        for record in 0..records {
            let offset = reader.position();
            self.add(&mut reader, &mut *foreign)
                .map_err(|problem| AggregateError {
                    record,
                    offset,
                    problem,
                })?;
        }
        Ok(())
    }

    /// Says that event time has come here: what is complete then comes by [`Self::give`].
    pub fn advance(&mut self, watermark: i64) {
        self.slices.advance(watermark);
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
            if self.giving.is_none() {
                self.giving = self.next_complete()?;
            }
            let Some(giving) = &mut self.giving else {
                break;
            };
            let window = giving.window;
            let groups = match &giving.groups {
                Some(groups) => groups,
                None => whole(&mut self.slices, window, &self.wanted, self.keys)?,
            };
            let rows = giving.rows..groups.len().min(giving.rows + most - given);
            for number in rows.clone() {
                visit(window, groups.update(number))?;
            }
            given += rows.len();
            giving.rows = rows.end;
            if rows.end == groups.len() {
                self.keys = groups.len().max(FEWEST_KEYS);
                self.giving = None;
            }
        }
        Ok(given)
    }

    /// Gives what the windows that changed since it was called have come to, of each key that did.
    /// With [`Emit::Final`], of those that were given already.
    pub fn changes<E: From<Problem>>(
        &mut self,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        let only_given = self.emit == Emit::Final;
        let (starts, changed) = (self.slices).changed(only_given, |groups| groups.touched() > 0);
        for window in changed {
            let groups = touched(&mut self.slices, window, &self.wanted)?;
            groups.all().try_for_each(|update| visit(window, update))?;
        }
        for slice in self.slices.iter_mut() {
            if starts.binary_search(&slice.start).is_ok() {
                slice.table.settle();
            }
        }
        Ok(())
    }

    /// Whether [`Self::changes`] has something to give.
    pub fn has_changes(&self) -> bool {
        self.slices.iter().any(|slice| slice.table.touched() > 0)
    }

    /// Each key, as it was first encoded, and what is kept of it: the watermark, and for each slice
    /// its start, the form of its times and the values.
    pub fn export(&self) -> Result<Kept, Problem> {
        let (mut table, mut keys, mut scratch) = (KeyTable::with_room(0), Vec::new(), Vec::new());
        for slice in self.slices.iter() {
            for update in slice.table.all() {
                let number = table.number_by_call(key::canonical(update.key, &mut scratch)?);
                if number == keys.len() {
                    keys.push((update.key.to_vec(), Vec::new()));
                }
                let mut values = Vec::new();
                update.encode(&mut values);
                let kept = kept_slice(slice.start, &self.form, &values);
                keys[number].1.push(kept);
            }
        }
        let watermark = self.slices.watermark();
        let entry = |(key, slices): (Vec<u8>, Vec<Vec<u8>>)| (key, kept(watermark, &slices));
        Ok(keys.into_iter().map(entry).collect())
    }

    /// Goes on with a key that another has exported, as if its records had come here; before the
    /// first one. [`Self::imported`] is to be called behind the last.
    pub fn import(&mut self, key: &[u8], kept: &[u8]) -> Result<(), Problem> {
        let Self {
            wanted,
            slices,
            scratch,
            ..
        } = self;
        let canonical = key::canonical(key, scratch)?;
        let (watermark, kept) = read_kept(kept)?;
        self.watermark = self.watermark.max(watermark);
        for (start, form, values) in kept {
            if self.form.is_empty() {
                self.form = form.to_vec();
            }
            let groups = slices.table(start, || Groups::new(wanted));
            let groups = groups.map_err(|_| Problem::NoWindows)?;
            groups.import(wanted, (key, canonical), values)?;
        }
        Ok(())
    }

    /// All keys were imported; `touched` says that [`Self::changes`] shall give them.
    pub fn imported(&mut self, touched: bool) {
        if let Some(watermark) = self.watermark.take() {
            self.slices.go_on_from(watermark);
        }
        let given: Vec<_> = self.slices.given().map(|slice| slice.start).collect();
        for slice in self.slices.iter_mut() {
            if !touched || given.contains(&slice.start) {
                slice.table.settle();
            }
        }
    }

    /// Reads one record and takes it in.
    #[inline]
    fn add(&mut self, reader: &mut Reader, foreign: Foreign) -> Result<(), Problem> {
        let start = reader.position();
        let ((key, value), encoded) = self.fields.timed(reader, &self.time)?;
        let time = match self.time.read(encoded)? {
            Read::Microseconds(time) => time,
            Read::Far => return Err(Problem::FarTime),
            Read::Other => foreign(encoded)?,
        };
        let canonical = key::canonical(key, &mut self.scratch)?;
        let Self { wanted, keys, .. } = self;
        match self.slices.table(time, || Groups::with_room(wanted, *keys)) {
            Ok(groups) => {
                let record = || reader.since(start);
                groups.add(wanted, (key, canonical), value, record)?;
            }
            Err(Missed::Far) => return Err(Problem::FarTime),
            Err(Missed::Late) => self.late.add(reader.since(start)),
        }
        if self.form.is_empty() {
            self.form = first(encoded)?.to_vec();
        }
        Ok(())
    }

    /// The next window that is complete, with what is to be given of it.
    fn next_complete(&mut self) -> Result<Option<Giving>, Problem> {
        let Some(window) = self.slices.complete() else {
            return Ok(None);
        };
        let groups = match self.emit {
            Emit::Updates => {
                let groups = touched(&mut self.slices, window, &self.wanted)?;
                if self.slices.windows().are_slices() {
                    let slices = self.slices.of(window);
                    slices.for_each(|slice| slice.table.settle());
                }
                Some(groups)
            }
            Emit::Final => {
                let slices = self.slices.of(window);
                slices.for_each(|slice| slice.table.settle());
                None
            }
        };
        Ok(Some(Giving {
            window,
            groups,
            rows: 0,
        }))
    }
}

impl Late {
    #[cold]
    fn add(&mut self, record: &[u8]) {
        self.count += 1;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(record);
            self.number += 1;
        }
    }
}

/// What a complete window has come to.
fn whole<'a>(
    slices: &'a mut Slices<Groups>,
    window: Window,
    wanted: &Wanted,
    keys: usize,
) -> Result<&'a Groups, Problem> {
    if slices.windows().are_slices() {
        let slice = slices.of(window).next().ok_or(Problem::NoWindows)?;
        return Ok(&slice.table);
    }
    slices.merged(window, || Groups::with_room(wanted, keys))
}

/// What the keys of a window that were touched have come to there.
fn touched(
    slices: &mut Slices<Groups>,
    window: Window,
    wanted: &Wanted,
) -> Result<Groups, Problem> {
    let slices: Vec<_> = slices.of(window).map(|slice| &slice.table).collect();
    let count = slices.iter().map(|groups| groups.touched()).sum();
    let mut keys = KeyTable::with_room(count);
    let touched = slices.iter().flat_map(|groups| groups.touched_keys());
    for key in touched {
        keys.number_by_call(key);
    }
    let mut found = Groups::with_room(wanted, keys.len());
    for groups in slices {
        for number in 0..keys.len() {
            found.merge_key((&keys, number), groups)?;
        }
    }
    Ok(found)
}

/// Room in the first slices, and at least in others.
const FIRST_KEYS: usize = 1024;
const FEWEST_KEYS: usize = 4;

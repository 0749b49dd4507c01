//! Records on their way into windows of any kind.

use crate::accumulator::Aggregation;
use crate::fields::{Fields, KeyPath, TOGETHER, first};
use crate::groups::{Encoded, Update, Wanted};
use crate::kept::Later;
use crate::key;
use crate::path::Path;
use crate::problem::{AggregateError, Problem};
use crate::time::{Read, TimePath};
use crate::value::Reader;
use oka_window::{Missed, Window};
use std::mem;

/// Windows of one kind, and what the records in them have come to.
pub(super) trait State {
    /// Whether records have times.
    const TIMED: bool = true;

    /// Takes in a record's value, and the record itself for what is computed beside. False if it is
    /// late.
    fn add<'r>(
        &mut self,
        wanted: &Wanted,
        at: (Encoded, i64),
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<bool, Problem>;

    /// Fails where [`Self::add`] would, and changes nothing that anyone sees.
    fn check(
        &mut self,
        wanted: &Wanted,
        at: (Encoded, i64),
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem>;

    /// Whether there are so many keys that [`Self::read_ahead`] is worth it: a third more records of
    /// 100,000 keys went into sessions. Where there is a table alone, it is not.
    fn is_large(&self) -> bool {
        false
    }

    /// Reads all at once what records whose keys have these hashes will need.
    fn read_ahead(&mut self, _hashes: &[u64]) {}

    /// How many slices or windows there are.
    fn len(&self) -> usize;

    fn watermark(&self) -> Option<i64>;

    fn advance(&mut self, watermark: i64);

    fn give<E: From<Problem>>(
        &mut self,
        wanted: &Wanted,
        most: usize,
        visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E>;

    fn changes<E: From<Problem>>(
        &mut self,
        wanted: &Wanted,
        visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E>;

    fn has_changes(&self) -> bool;

    /// Copies the keys that are new, and makes room for a copy of windows: [`Self::export`] then takes
    /// less time.
    fn copy_keys(&mut self) {}

    /// A copy of all, with the form of times.
    fn export(&mut self, form: &[u8]) -> Later;

    fn import(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        kept: &[u8],
        form: &mut Vec<u8>,
    ) -> Result<(), Problem>;

    fn imported(&mut self, touched: bool);
}

/// Reads a time that is no number, encoded: microseconds.
pub type Foreign<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<i64, Problem> + Send);

/// Finds key, value and time of records.
#[derive(Debug)]
pub(super) struct Input {
    fields: Fields,
    time: TimePath,
    pub(super) scratch: Vec<u8>,
    /// The first time that came, encoded.
    pub(super) form: Vec<u8>,
    pub(super) has_begun: bool,
}

impl Input {
    pub(super) fn new(
        (aggregation, value): (Aggregation, Path),
        key: KeyPath,
        time: TimePath,
    ) -> Self {
        Self {
            fields: Fields::new(aggregation, key, value),
            time,
            scratch: Vec::new(),
            form: Vec::new(),
            has_begun: false,
        }
    }

    /// Brings encoded records to their windows.
    pub(super) fn take_in<S: State>(
        &mut self,
        (body, records): (&[u8], usize),
        foreign: Foreign,
        wanted: &Wanted,
        state: &mut S,
        late: &mut Late,
    ) -> Result<(), AggregateError> {
        self.has_begun |= records > 0;
        let mut reader = Reader::new(body);
        for record in 0..records {
            if record % TOGETHER == 0 && state.is_large() {
                let next = TOGETHER.min(records - record);
                let hashes = (self.fields).hashes(reader.clone(), next, &mut self.scratch);
                state.read_ahead(&hashes);
            }
            let offset = reader.position();
            self.take(&mut reader, &mut *foreign, wanted, state, late)
                .map_err(|problem| AggregateError {
                    record,
                    offset,
                    problem,
                })?;
        }
        Ok(())
    }

    /// Reads one record and takes it in.
    #[inline]
    fn take<S: State>(
        &mut self,
        reader: &mut Reader,
        foreign: Foreign,
        wanted: &Wanted,
        state: &mut S,
        late: &mut Late,
    ) -> Result<(), Problem> {
        let start = reader.position();
        let ((key, value), encoded) = if S::TIMED {
            self.fields.timed(reader, &self.time)?
        } else {
            (self.fields.of(reader)?, &[][..])
        };
        let time = match self.time.read(encoded) {
            _ if !S::TIMED => 0,
            Ok(Read::Microseconds(time)) => time,
            Ok(Read::Far) => return Err(Problem::FarTime),
            Ok(Read::Other) => foreign(encoded)?,
            Err(error) => return Err(error.into()),
        };
        let canonical = key::canonical(key, &mut self.scratch)?;
        let record = || reader.since(start);
        if wanted.careful {
            state.check(wanted, ((key, canonical), time), value, record())?;
        }
        if !state.add(wanted, ((key, canonical), time), value, record)? {
            late.add(record());
        }
        if S::TIMED && self.form.is_empty() {
            self.form = first(encoded)?.to_vec();
        }
        Ok(())
    }
}

/// Records whose windows were gone.
#[derive(Debug, Default)]
pub(super) struct Late {
    pub(super) count: u64,
    /// Encoded, behind each other, where they are kept.
    kept: Option<Vec<u8>>,
    number: usize,
}

impl Late {
    pub(super) fn new(keeps: bool) -> Self {
        Self {
            kept: keeps.then(Vec::new),
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self) -> (usize, Vec<u8>) {
        let kept = self.kept.as_mut().map(mem::take);
        (mem::take(&mut self.number), kept.unwrap_or_default())
    }

    #[cold]
    fn add(&mut self, record: &[u8]) {
        self.count += 1;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(record);
            self.number += 1;
        }
    }
}

/// Whether a record has a place: false if it is late.
pub(super) fn in_time<T>(found: Result<T, Missed>) -> Result<Option<T>, Problem> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Missed::Late) => Ok(None),
        Err(Missed::Far) => Err(Problem::FarTime),
    }
}

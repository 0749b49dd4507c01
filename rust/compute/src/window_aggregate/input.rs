//! Records on their way into windows of any kind.

use super::rows::WindowRows;
use crate::encoded::fields::{Fields, KeyPath, TOGETHER, first};
use crate::encoded::time::{Read, TimePath};
use crate::encoded::value::Reader;
use crate::groups::Groups;
use crate::groups::wanted::{Term, Wanted};
use crate::keys::interner::Encoded;
use crate::keys::key;
use crate::problem::{AggregateError, Problem};
use crate::windows::{Keyed, KeyedSpans, Sliced};
use std::mem;

/// A record, and what is computed of it.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) value: &'a [u8],
    /// All of it, of which is computed what is computed beside the first value.
    pub(crate) whole: &'a [u8],
}

/// Windows of one kind.
pub(crate) trait TakeIn {
    /// Whether records have times.
    const TIMED: bool = true;

    /// Whether a window has this time; else it lies in a gap between two.
    fn has(&self, _time: i64) -> bool {
        true
    }

    /// Takes in a record. False if it is late.
    fn add(&mut self, at: (Encoded, i64), record: Record) -> Result<bool, Problem>;

    /// Fails where [`Self::add`] would, and changes nothing that anyone sees.
    fn check(&mut self, at: (Encoded, i64), record: Record) -> Result<(), Problem>;

    /// Whether there are so many keys that [`Self::read_ahead`] is worth it: a third more records of
    /// 100,000 keys went into sessions. Where there is a table alone, it is not.
    fn is_large(&self) -> bool {
        false
    }

    /// Reads all at once what records whose keys have these hashes will need.
    fn read_ahead(&mut self, _hashes: &[u64]) {}
}

impl TakeIn for Sliced<Groups> {
    #[inline]
    fn has(&self, time: i64) -> bool {
        self.windows().has(time)
    }

    #[inline]
    fn add(&mut self, (key, time): (Encoded, i64), record: Record) -> Result<bool, Problem> {
        let Some(groups) = self.table(record.wanted, time)? else {
            return Ok(false);
        };
        groups.add(record.wanted, key, record.value, record.whole)?;
        Ok(true)
    }

    fn check(
        &mut self,
        ((_, canonical), time): (Encoded, i64),
        record: Record,
    ) -> Result<(), Problem> {
        match self.table(record.wanted, time)? {
            Some(groups) => groups.check(record.wanted, canonical, record.value, record.whole),
            None => Ok(()),
        }
    }
}

impl<S: KeyedSpans> TakeIn for Keyed<S, WindowRows> {
    const TIMED: bool = S::TIMED;

    #[inline]
    fn add(&mut self, (key, time): (Encoded, i64), record: Record) -> Result<bool, Problem> {
        let key = self.table.number(key);
        Keyed::add(self, key, time, record)
    }

    fn check(&mut self, (key, time): (Encoded, i64), record: Record) -> Result<(), Problem> {
        let alone = record.wanted.alone(record.value, record.whole)?;
        let key = self.table.number(key);
        let met = self.spans.met(key, time);
        self.table.results.check(record.wanted, met, &alone)
    }

    fn is_large(&self) -> bool {
        self.table.keys.is_large()
    }

    fn read_ahead(&mut self, hashes: &[u64]) {
        let last = self.spans.last_of(self.table.read_ahead(hashes));
        self.table.results.read(last.into_iter());
    }
}

/// Reads a time that is no number, encoded: microseconds.
pub type Foreign<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<i64, Problem> + Send);

/// Finds key, value and time of records.
#[derive(Debug)]
pub(crate) struct Input {
    fields: Fields,
    time: TimePath,
    pub(crate) scratch: Vec<u8>,
    /// The first time that came, encoded.
    pub(crate) form: Vec<u8>,
    pub(crate) has_begun: bool,
}

impl Input {
    pub(crate) fn new(first: &Term, key: KeyPath, time: TimePath) -> Self {
        Self {
            fields: Fields::of_term(first, key),
            time,
            scratch: Vec::new(),
            form: Vec::new(),
            has_begun: false,
        }
    }

    /// Brings encoded records to their windows.
    pub(crate) fn take_in<S: TakeIn>(
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
    fn take<S: TakeIn>(
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
        let time = match self.time.integer(encoded) {
            _ if !S::TIMED => 0,
            Some(time) => time,
            None => match self.time.read(encoded)? {
                Read::Microseconds(time) => time,
                Read::Far => return Err(Problem::FarTime),
                Read::Other => foreign(encoded)?,
            },
        };
        if !state.has(time) {
            return Ok(());
        }
        let canonical = key::canonical(key, &mut self.scratch)?;
        let record = Record {
            wanted,
            value,
            whole: reader.since(start),
        };
        if wanted.careful {
            state.check(((key, canonical), time), record)?;
        }
        if !state.add(((key, canonical), time), record)? {
            late.add(record.whole);
        }
        if S::TIMED && self.form.is_empty() {
            self.form = first(encoded)?.to_vec();
        }
        Ok(())
    }
}

/// Records whose windows were gone.
#[derive(Debug, Default)]
pub(crate) struct Late {
    pub(crate) count: u64,
    /// Encoded, behind each other, where they are kept.
    kept: Option<Vec<u8>>,
    number: usize,
}

impl Late {
    pub(crate) fn new(keeps: bool) -> Self {
        Self {
            kept: keeps.then(Vec::new),
            ..Self::default()
        }
    }

    pub(crate) fn take(&mut self) -> (usize, Vec<u8>) {
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

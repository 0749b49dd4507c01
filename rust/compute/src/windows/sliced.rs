//! Windows of one size over encoded records.
//!
//! Records come into the table of their slice, and a window is the merge of its slices in order. So
//! in windows that overlap, the first value and the first of equal ones are those of the earliest
//! slice, and sums of floats add up slice by slice.

use super::Emit;
use super::input::{State, in_time};
use crate::copied::{CopiedKeys, Values};
use crate::groups::{Encoded, Groups, Update, Wanted};
use crate::kept::{Kept, Later, integer, kept, kept_window, read_kept};
use crate::key;
use crate::problem::Problem;
use crate::table::KeyTable;
use oka_window::{Slices, Window, Windows};

/// Tumbling or sliding windows: slices, each with a table of its keys.
#[derive(Debug)]
pub(super) struct Sliced {
    slices: Slices<Groups>,
    emit: Emit,
    giving: Option<Giving>,
    /// How many keys the last window had.
    keys: usize,
    /// How far event time had come where state was exported.
    watermark: Option<i64>,
}

/// A complete window of which some rows were given.
#[derive(Debug)]
struct Giving {
    window: Window,
    /// What it came to, where that is not a table in the slices.
    groups: Option<Groups>,
    rows: usize,
}

impl Sliced {
    pub(super) fn new(windows: Windows, lateness: u64, emit: Emit) -> Self {
        Self {
            slices: Slices::new(windows, lateness),
            emit,
            giving: None,
            keys: FIRST_KEYS,
            watermark: None,
        }
    }

    /// The next window that is complete, with what is to be given of it.
    fn next_complete(&mut self, wanted: &Wanted) -> Result<Option<Giving>, Problem> {
        let Some(window) = self.slices.complete() else {
            return Ok(None);
        };
        let groups = match self.emit {
            Emit::Updates => {
                let groups = touched(&mut self.slices, window, wanted)?;
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

impl State for Sliced {
    #[inline]
    fn add<'r>(
        &mut self,
        wanted: &Wanted,
        (key, time): (Encoded, i64),
        value: &[u8],
        record: impl Fn() -> &'r [u8],
    ) -> Result<bool, Problem> {
        let keys = self.keys;
        let found = (self.slices).table(time, || Groups::with_room(wanted, keys));
        let Some(groups) = in_time(found)? else {
            return Ok(false);
        };
        groups.add(wanted, key, value, record)?;
        Ok(true)
    }

    fn check(
        &mut self,
        wanted: &Wanted,
        ((_, canonical), time): (Encoded, i64),
        value: &[u8],
        record: &[u8],
    ) -> Result<(), Problem> {
        let keys = self.keys;
        let found = (self.slices).table(time, || Groups::with_room(wanted, keys));
        match in_time(found)? {
            Some(groups) => groups.check(wanted, canonical, value, record),
            None => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.slices.len()
    }

    fn watermark(&self) -> Option<i64> {
        self.slices.watermark()
    }

    fn advance(&mut self, watermark: i64) {
        self.slices.advance(watermark);
    }

    fn give<E: From<Problem>>(
        &mut self,
        wanted: &Wanted,
        most: usize,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut given = 0;
        while given < most {
            if self.giving.is_none() {
                self.giving = self.next_complete(wanted)?;
            }
            let Some(giving) = &mut self.giving else {
                break;
            };
            let window = giving.window;
            let groups = match &giving.groups {
                Some(groups) => groups,
                None => whole(&mut self.slices, window, wanted, self.keys)?,
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

    fn changes<E: From<Problem>>(
        &mut self,
        wanted: &Wanted,
        mut visit: impl FnMut(Window, Update) -> Result<(), E>,
    ) -> Result<(), E> {
        let only_given = self.emit == Emit::Final;
        let (starts, changed) = (self.slices).changed(only_given, |groups| groups.touched() > 0);
        for window in changed {
            let groups = touched(&mut self.slices, window, wanted)?;
            groups.all().try_for_each(|update| visit(window, update))?;
        }
        for slice in self.slices.iter_mut() {
            if starts.binary_search(&slice.start).is_ok() {
                slice.table.settle();
            }
        }
        Ok(())
    }

    fn has_changes(&self) -> bool {
        self.slices.iter().any(|slice| slice.table.touched() > 0)
    }

    fn export(&mut self, form: &[u8]) -> Later {
        let slices = self.slices.iter_mut();
        let slices: Vec<_> = slices.map(|it| (it.start, it.table.copy())).collect();
        let (watermark, form) = (self.slices.watermark(), form.to_vec());
        Box::new(move || entries(watermark, &form, &slices))
    }

    fn import(
        &mut self,
        wanted: &Wanted,
        key: Encoded,
        kept: &[u8],
        form: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let (watermark, kept) = read_kept(kept)?;
        self.watermark = self.watermark.max(watermark);
        for [start, of_time, values] in kept {
            if form.is_empty() {
                *form = of_time.to_vec();
            }
            let groups = self.slices.table(integer(start)?, || Groups::new(wanted));
            let groups = groups.map_err(|_| Problem::NoWindows)?;
            groups.import(wanted, key, values, true)?;
        }
        Ok(())
    }

    fn imported(&mut self, touched: bool) {
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
}

/// Each key with what is kept of it in these slices, of which this is the start.
fn entries(
    watermark: Option<i64>,
    form: &[u8],
    slices: &[(i64, (CopiedKeys, Values))],
) -> Result<Kept, Problem> {
    let (mut table, mut keys, mut scratch) = (KeyTable::with_room(0), Vec::new(), Vec::new());
    for (start, (of_slice, values)) in slices {
        let values = values.gather(0..values.len());
        for (key, values) in of_slice.iter().zip(values.iter()) {
            let number = table.number_by_call(key::canonical(key, &mut scratch)?);
            if number == keys.len() {
                keys.push((key.to_vec(), Vec::new()));
            }
            keys[number].1.push(kept_window(&[*start], &[form, values]));
        }
    }
    let entry = |(key, slices): (Vec<u8>, Vec<Vec<u8>>)| (key, kept(watermark, &slices));
    Ok(keys.into_iter().map(entry).collect())
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

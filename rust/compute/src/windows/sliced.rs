//! Windows of one size.
//!
//! Records come into the table of their slice, and a window is the merge of its slices in order. So
//! in windows that overlap, the first value and the first of equal ones are those of the earliest
//! slice, and sums of floats add up slice by slice.

use super::{Emit, Rows, SliceTable};
use crate::encoded::strings::ByteStrings;
use crate::groups::copied::Copied;
use crate::groups::kept::{integer, kept, kept_window, read_kept};
use crate::keys::interner::Interner;
use crate::keys::key;
use crate::problem::Problem;
use oka_window::{Miss, Slices, Window};
use std::collections::BTreeMap;
use std::ops::Range;

/// Tumbling or sliding windows: slices, each with a table of its keys.
#[derive(Debug)]
pub struct Sliced<T> {
    slices: Slices<T>,
    emit: Emit,
    giving: Option<Giving<T>>,
    /// How many rows the last window had.
    keys: usize,
}

/// A complete window.
#[derive(Debug)]
struct Giving<T> {
    window: Window,
    /// Its keys that changed, where it is several slices and these alone are given.
    changed: Option<T>,
    /// Those that are not given yet.
    rows: Range<usize>,
}

impl<T: SliceTable> Sliced<T> {
    pub fn new(windows: oka_window::Windows, lateness: u64, emit: Emit) -> Self {
        Self {
            slices: Slices::new(windows, lateness),
            emit,
            giving: None,
            keys: FIRST_KEYS,
        }
    }

    pub fn windows(&self) -> oka_window::Windows {
        self.slices.windows()
    }

    /// The table of the slice that has this time; `None` if it is late.
    #[inline]
    pub fn table(&mut self, wanted: &T::Wanted, time: i64) -> Result<Option<&mut T>, Problem> {
        let keys = self.keys;
        in_time((self.slices).table(time, move || T::with_room(wanted, keys)))
    }

    pub fn len(&self) -> usize {
        self.slices.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub fn watermark(&self) -> Option<i64> {
        self.slices.watermark()
    }

    pub fn advance(&mut self, watermark: i64) {
        self.slices.advance(watermark);
    }

    pub fn go_on_from(&mut self, watermark: i64) {
        self.slices.go_on_from(watermark);
    }

    /// Forgets all slices of a few keys; event time stays where it is.
    pub fn clear(&mut self) {
        self.slices.clear();
        self.giving = None;
        self.keys = FEWEST_KEYS;
    }

    /// Some rows of the next window that is complete and has some.
    pub fn give<W, O, E: From<T::Error>>(
        &mut self,
        wanted: &T::Wanted,
        most: usize,
        mut show: impl FnMut(Rows<T, W>) -> Result<O, E>,
    ) -> Result<Option<O>, E> {
        loop {
            let giving = match self.giving.take() {
                None => self.next_complete(wanted)?,
                giving => giving,
            };
            let Some(mut giving) = giving else {
                return Ok(None);
            };
            let Giving { window, rows, .. } = &mut giving;
            let (window, end) = (*window, rows.end);
            let some = rows.start..end.min(rows.start.saturating_add(most));
            rows.start = some.end;
            let given = if some.is_empty() {
                None
            } else {
                let table = match &mut giving.changed {
                    Some(changed) => changed,
                    None => whole(&mut self.slices, window, wanted, self.keys)?,
                };
                Some(show(Rows::Slice {
                    window,
                    table,
                    some,
                    of_all: self.emit == Emit::Final,
                })?)
            };
            if giving.rows.is_empty() {
                self.keys = end.max(FEWEST_KEYS);
                // Slices that windows share go on to have changes while one of these is open.
                if self.emit == Emit::Final || self.windows().are_slices() {
                    let slices = self.slices.of(window);
                    slices.for_each(|slice| slice.table.settle());
                }
            } else {
                self.giving = Some(giving);
            }
            if given.is_some() {
                return Ok(given);
            }
        }
    }

    fn next_complete(&mut self, wanted: &T::Wanted) -> Result<Option<Giving<T>>, T::Error> {
        let Some(window) = self.slices.complete() else {
            return Ok(None);
        };
        let (mut changed, mut rows) = (None, 0);
        if self.emit == Emit::Final {
            rows = whole(&mut self.slices, window, wanted, self.keys)?.all();
        } else {
            changed_in(&mut self.slices, window, wanted, &mut changed, |table| {
                rows = table.touched();
                Ok::<_, T::Error>(())
            })?;
        }
        Ok(Some(Giving {
            window,
            changed,
            rows: 0..rows,
        }))
    }

    pub fn changes<W, E: From<T::Error>>(
        &mut self,
        wanted: &T::Wanted,
        mut show: impl FnMut(Rows<T, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        let only_given = self.emit == Emit::Final;
        let (starts, changed) = (self.slices).changed(only_given, |table| table.touched() > 0);
        for window in changed {
            changed_in(&mut self.slices, window, wanted, &mut None, |table| {
                let some = 0..table.touched();
                show(Rows::Slice {
                    window,
                    table,
                    some,
                    of_all: false,
                })
            })?;
        }
        for slice in self.slices.iter_mut() {
            if starts.binary_search(&slice.start).is_ok() {
                slice.table.settle();
            }
        }
        Ok(())
    }

    pub fn has_changes(&self) -> bool {
        self.slices.iter().any(|slice| slice.table.touched() > 0)
    }

    pub fn copy_keys(&mut self) -> Result<(), T::Error> {
        (self.slices.iter_mut()).try_for_each(|slice| slice.table.copy_keys())
    }

    pub fn export(&mut self, form: &[u8]) -> Result<Copied<T::Error>, T::Error> {
        let slices = self.slices.iter_mut();
        let slices = slices.map(|slice| Ok((slice.start, slice.table.copy()?)));
        let slices = slices.collect::<Result<Vec<_>, T::Error>>()?;
        let (watermark, form) = (self.slices.watermark(), form.to_vec());
        Ok(Box::new(move || entries(watermark, &form, slices)))
    }

    /// Takes in what another has exported, behind what is here. No slice of it may be late.
    pub fn merge(
        &mut self,
        wanted: &T::Wanted,
        entries: &[(&[u8], &[u8])],
        form: &mut Vec<u8>,
    ) -> Result<(), T::Error> {
        for (start, (keys, values)) in by_slice(entries, form)?.1 {
            let table = self.table(wanted, start)?.ok_or(Problem::NoWindows)?;
            table.take_in(wanted, &keys, &values)?;
        }
        Ok(())
    }

    pub fn import(
        &mut self,
        wanted: &T::Wanted,
        entries: &[(&[u8], &[u8])],
        touched: bool,
        form: &mut Vec<u8>,
    ) -> Result<(), T::Error> {
        let (last, slices) = by_slice(entries, form)?;
        for (start, (keys, values)) in slices {
            let make = || T::with_room(wanted, keys.len());
            let table = self.slices.table(start, make);
            let table = table.map_err(|_| Problem::NoWindows)?;
            table.import(wanted, &keys, &values)?;
        }
        if let Some(watermark) = last {
            self.slices.go_on_from(watermark);
        }
        let given: Vec<_> = self.slices.given().map(|slice| slice.start).collect();
        for slice in self.slices.iter_mut() {
            let is_given = given.binary_search(&slice.start).is_ok();
            if is_given || (self.emit == Emit::Updates && !touched) {
                slice.table.settle();
            }
        }
        Ok(())
    }
}

/// Of slices, by their starts, the keys and what is kept of each.
type BySlice<'a> = BTreeMap<i64, (Vec<&'a [u8]>, Vec<&'a [u8]>)>;

/// How far event time had come, and what was exported. A `form` that is empty becomes that of the times.
fn by_slice<'a>(
    entries: &[(&'a [u8], &'a [u8])],
    form: &mut Vec<u8>,
) -> Result<(Option<i64>, BySlice<'a>), Problem> {
    let (mut last, mut slices) = (None, BySlice::new());
    for (key, kept) in entries {
        let (watermark, kept) = read_kept(kept)?;
        last = last.max(watermark);
        for [start, of_time, values] in kept {
            if form.is_empty() {
                *form = of_time.to_vec();
            }
            let (keys, each) = slices.entry(integer(start)?).or_default();
            keys.push(*key);
            each.push(values);
        }
    }
    Ok((last, slices))
}

/// What a complete window has come to.
fn whole<'a, T: SliceTable>(
    slices: &'a mut Slices<T>,
    window: Window,
    wanted: &T::Wanted,
    keys: usize,
) -> Result<&'a mut T, T::Error> {
    if slices.windows().are_slices() {
        let slice = slices.of(window).next().ok_or(Problem::NoWindows)?;
        return Ok(&mut slice.table);
    }
    slices.merged(window, || T::with_room(wanted, keys))
}

/// Looks at the keys of a window that were touched, with what they have come to there, which is put into
/// `changed` if that is no slice's table.
fn changed_in<T: SliceTable, O, E: From<T::Error>>(
    slices: &mut Slices<T>,
    window: Window,
    wanted: &T::Wanted,
    changed: &mut Option<T>,
    look: impl FnOnce(&mut T) -> Result<O, E>,
) -> Result<O, E> {
    if slices.windows().are_slices() {
        let slice = slices.of(window).next();
        let slice = slice.ok_or_else(|| T::Error::from(Problem::NoWindows))?;
        return look(&mut slice.table);
    }
    let tables: Vec<_> = slices.parts(window).map(|slice| &slice.table).collect();
    look(changed.insert(T::touched_in(wanted, &tables)?))
}

/// Each key with what is kept of it in these slices, of which this is the start.
fn entries<E: From<Problem>>(
    watermark: Option<i64>,
    form: &[u8],
    slices: Vec<(i64, Copied<E>)>,
) -> Result<(ByteStrings, ByteStrings), E> {
    let (mut keys, mut windows, mut scratch) = (Interner::small(), Vec::new(), Vec::new());
    for (start, copied) in slices {
        let (of_slice, values) = copied()?;
        for (key, values) in of_slice.iter().zip(values.iter()) {
            let canonical = key::canonical(key, &mut scratch).unwrap_or(key);
            let number = keys.number_by_call((key, canonical));
            windows.resize_with(keys.len(), Vec::new);
            windows[number].push(kept_window(&[start], &[form, values]));
        }
    }
    let kept = windows.iter().map(|slices| kept(watermark, slices));
    Ok((keys.from(0).collect(), kept.collect()))
}

/// Whether a record has a place: `None` if it is late.
pub(super) fn in_time<O>(found: Result<O, Miss>) -> Result<Option<O>, Problem> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Miss::Late) => Ok(None),
        Err(Miss::Far) => Err(Problem::FarTime),
    }
}

/// Room in the first slices, and at least in others.
const FIRST_KEYS: usize = 1024;
const FEWEST_KEYS: usize = 4;

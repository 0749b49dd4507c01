//! Windows that each key has of its own: sessions and count windows.

use super::copied::Spare;
use super::spans::KeyedSpans;
use super::{Row, Rows, WindowTable};
use crate::encoded::strings::ByteStrings;
use crate::groups::copied::Copied;
use crate::problem::Problem;
use std::iter;

/// The windows of keys. Where a record makes one of two, the values of the earlier come first.
#[derive(Debug)]
pub struct Keyed<S, W> {
    pub spans: S,
    pub table: W,
    spare: Spare,
}

impl<S: KeyedSpans, W: WindowTable> Keyed<S, W> {
    pub fn new(spans: S) -> Self {
        Self {
            spans,
            table: W::default(),
            spare: Spare::default(),
        }
    }

    /// Takes in a record of the key with this number. False if it is late.
    #[inline]
    pub fn add(&mut self, key: usize, time: i64, record: W::Record<'_>) -> Result<bool, W::Error> {
        self.spans.add(&mut self.table, (key, time), record)
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn watermark(&self) -> Option<i64> {
        self.spans.watermark()
    }

    pub fn advance(&mut self, watermark: i64) {
        self.spans.advance(watermark);
    }

    pub fn give<T, O, E: From<W::Error>>(
        &mut self,
        most: usize,
        show: impl FnOnce(Rows<T, W>) -> Result<O, E>,
    ) -> Result<Option<O>, E> {
        self.compact()?;
        let complete = iter::from_fn(|| self.spans.complete());
        let complete: Vec<_> = complete.take(most).collect();
        self.show(&complete, show)
    }

    pub fn changes<T, E: From<W::Error>>(
        &mut self,
        mut show: impl FnMut(Rows<T, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !S::TIMED {
            self.give(usize::MAX, &mut show)?;
        }
        let changed = self.spans.take_changed();
        self.show(&changed, show)?;
        Ok(())
    }

    pub fn has_changes(&self) -> bool {
        self.spans.has_changed()
    }

    pub fn copy_keys(&mut self) -> Result<(), W::Error> {
        self.spare.make_room(self.len(), self.spans.counts().len());
        self.table.copy_keys()
    }

    pub fn export(&mut self, form: &[u8]) -> Result<Copied<W::Error>, W::Error> {
        let spans = &self.spans;
        let window = |number| Row {
            number,
            key: spans.key(number),
            window: spans.window(number),
        };
        let copied = (self.spare).copy(spans.counts(), self.len(), spans.numbers().map(window));
        let table = self.table.copy(copied.numbers())?;
        let (watermark, form) = (self.watermark(), form.to_vec());
        Ok(Box::new(move || {
            let (keys, values) = table()?;
            let (mut found, mut kept) = (ByteStrings::default(), ByteStrings::default());
            copied.by_key(&keys, &values, |key, count, windows| {
                if let Some(it) = S::kept((watermark, count), windows, &form) {
                    found.push(key);
                    kept.push(&it);
                }
            });
            Ok((found, kept))
        }))
    }

    pub fn import(
        &mut self,
        wanted: &W::Wanted,
        entries: &[(&[u8], &[u8])],
        touched: bool,
        form: &mut Vec<u8>,
    ) -> Result<(), W::Error> {
        let keys: Vec<_> = entries.iter().map(|(key, _)| *key).collect();
        let (keys, mut values) = (self.table.import_keys(wanted, &keys)?, Vec::new());
        for (key, (_, kept)) in keys.into_iter().zip(entries) {
            if self.spans.has_key(key) {
                return Err(Problem::Twice.into());
            }
            self.spans.restore(key, kept, &mut values, form)?;
        }
        self.table.import(wanted, &values)?;
        if !touched {
            self.spans.take_changed();
        }
        Ok(())
    }

    /// Shows these windows, if there are some.
    fn show<T, O, E>(
        &mut self,
        numbers: &[usize],
        show: impl FnOnce(Rows<T, W>) -> Result<O, E>,
    ) -> Result<Option<O>, E> {
        if numbers.is_empty() {
            return Ok(None);
        }
        let row = |number: &usize| Row {
            number: *number,
            key: self.spans.key(*number),
            window: self.spans.window(*number),
        };
        let rows: Vec<_> = numbers.iter().map(row).collect();
        show(Rows::Windows(&mut self.table, &rows)).map(Some)
    }

    /// Forgets what is gone.
    fn compact(&mut self) -> Result<(), W::Error> {
        if let Some(live) = self.spans.compact() {
            let keys = if S::TIMED {
                self.table.keep_keys(&live.keys)?
            } else {
                Vec::new() // counts of keys are kept
            };
            self.table.keep_windows(&live.windows)?;
            self.spans.renumber(&live, &keys);
        }
        Ok(())
    }
}

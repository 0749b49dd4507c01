//! Session windows over columns: each key has its own, which pauses end.

use arrow_array::RecordBatch;
use oka_compute::kept::{integer, kept, kept_window, read_kept};
use oka_compute::{Emit, Problem};
use oka_window::{Missed, Placed, Window};

use super::rows::Rows;
use super::state::{Found, NIL, State};
use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::copied::Exported;
use crate::shape::Places;

/// The sessions of keys. Where a row makes one of two, the values of the earlier come first.
#[derive(Debug)]
pub(super) struct Sessions {
    spans: oka_window::Sessions,
    rows: Rows,
}

impl Sessions {
    pub(super) fn new(gap: i64, lateness: u64, emit: Emit) -> Self {
        Self {
            spans: oka_window::Sessions::new(gap, lateness, emit == Emit::Updates),
            rows: Rows::default(),
        }
    }

    /// The rows of these sessions.
    fn found(&mut self, numbers: &[usize]) -> Found {
        let Self { spans, rows } = self;
        rows.found(numbers, |it| (spans.key(it), spans.window(it)))
    }
}

impl State for Sessions {
    fn add_rows(
        &mut self,
        template: &Aggregate,
        rows: (&Places, &RecordBatch),
        times: &[i64],
        late: &mut dyn FnMut(u32),
    ) -> Result<(), AggregateError> {
        let keys = self.rows.numbers(template, rows)?;
        for (row, (key, time)) in (0..).zip(keys.iter().zip(times)) {
            match self.spans.add(*key as usize, *time) {
                Ok(Placed::Begun(number) | Placed::Grown(number)) => self.rows.push(row, number),
                Ok(Placed::Joined { into, from }) => {
                    self.rows.push(row, into);
                    self.rows.flush(rows)?;
                    self.rows.join(into, from)?;
                }
                Err(Missed::Late) => late(row),
                Err(Missed::Far) => return Err(Problem::FarTime.into()),
            }
        }
        self.rows.flush(rows)
    }

    fn len(&self) -> usize {
        self.spans.len()
    }

    fn advance(&mut self, watermark: i64) -> Result<(), AggregateError> {
        if let Some(live) = self.spans.compact() {
            let keys = self.rows.keep(&live)?;
            self.spans.renumber(&live, &keys);
        }
        self.spans.advance(watermark);
        Ok(())
    }

    fn go_on_from(&mut self, watermark: i64) {
        self.spans.advance(watermark);
    }

    fn give(&mut self, _: &Aggregate, most: usize) -> Found {
        let complete = std::iter::from_fn(|| self.spans.complete());
        let complete: Vec<_> = complete.take(most).collect();
        self.found(&complete)
    }

    fn changes(&mut self, _: &Aggregate) -> Found {
        let changed = self.spans.take_changed();
        self.found(&changed)
    }

    fn has_changes(&self) -> bool {
        self.spans.has_changed()
    }

    fn export(&mut self) -> Result<Exported, AggregateError> {
        let watermark = self.spans.watermark();
        // Keys, and how many sessions each has; sessions of all keys behind each other, of a key the last first.
        let [mut keys, mut counts, mut numbers] = [(); 3].map(|()| Vec::with_capacity(self.len()));
        let mut windows = Vec::with_capacity(self.len());
        for key in self.spans.keys() {
            let before = numbers.len();
            for number in self.spans.of_key(key) {
                numbers.push(number as u32);
                windows.push(self.spans.window(number));
            }
            keys.push(key as u32);
            counts.push((numbers.len() - before) as u32);
        }
        let (layout, copied) = self.rows.copy(&keys, &numbers)?;
        Ok(Exported::later(layout, move || {
            let values = copied.values()?;
            let session = |(window, values): (&Window, &Vec<u8>)| {
                kept_window(&[window.start, window.end], &[&NIL, values])
            };
            let mut sessions = windows.iter().zip(&values).map(session);
            let entry = |(key, count)| {
                let mut found: Vec<_> = sessions.by_ref().take(count as usize).collect();
                found.reverse();
                (key, kept(watermark, &found))
            };
            Ok(copied.keys()?.into_iter().zip(counts).map(entry).collect())
        }))
    }

    fn import(
        &mut self,
        template: &Aggregate,
        _: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError> {
        let keys: Vec<_> = entries.iter().map(|(key, _)| *key).collect();
        let keys = self.rows.import_keys(template, &keys)?;
        let mut all = Vec::new();
        for (key, (_, kept)) in keys.into_iter().zip(entries) {
            let (watermark, sessions) = read_kept(kept)?;
            for [start, end, _, values] in sessions {
                let (start, end) = (integer(start)?, integer(end)?);
                if start >= end {
                    return Err(Problem::NoWindows.into());
                }
                self.spans.restore(key, Window { start, end }, watermark);
                all.push(values);
            }
            if let Some(watermark) = watermark {
                self.spans.advance(watermark);
            }
        }
        self.rows.import(&all)?;
        if !touched {
            self.spans.take_changed();
        }
        Ok(())
    }
}

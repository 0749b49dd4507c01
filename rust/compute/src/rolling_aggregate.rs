//! Aggregates of encoded records within spans that end at each of them.

use crate::accumulator::Accumulated;
use crate::encoded::encode;
use crate::encoded::fields::KeyPath;
use crate::encoded::strings::ByteStrings;
use crate::encoded::time::TimePath;
use crate::groups::copied::Copied;
use crate::groups::kept::items;
use crate::groups::wanted::{Term, Wanted};
use crate::keys::interner::{Encoded, Interner};
use crate::keys::key;
use crate::problem::{AggregateError, Problem};
use crate::rolling::{Rolled, Rolling, Span};
use crate::window_aggregate::Foreign;
use crate::window_aggregate::input::{Input, Late, Record, TakeIn};
use std::borrow::Cow;
use std::sync::Arc;
use std::{iter, vec};

/// For each record what those of its key within each span come to; see [`Rolling`].
#[derive(Debug)]
pub struct RollingAggregate {
    input: Input,
    wanted: Wanted,
    spans: Box<[Span]>,
    /// The shares of quantiles, or how many values are wanted, of each aggregation.
    parameters: Vec<Arc<[f64]>>,
    late: Late,
    state: State,
}

#[derive(Debug)]
struct State {
    keys: Interner,
    rolled: Box<[Rolled]>,
    /// Numbers that the next keys may have.
    ahead: vec::IntoIter<u32>,
    rolling: Rolling,
    /// Records that wait, by number.
    records: Vec<Vec<u8>>,
    values: Vec<Option<Accumulated>>,
}

impl RollingAggregate {
    /// `key`, `value` and `time` lead from the record to its key, its value and its time. Late records are
    /// kept for [`Self::take_late`] where that is wanted.
    pub fn new(
        first: impl Into<Term>,
        key: impl Into<KeyPath>,
        time: TimePath,
        spans: impl Into<Box<[Span]>>,
        keeps_late: bool,
    ) -> Self {
        let first = first.into();
        let (wanted, spans) = (Wanted::new(&first), spans.into());
        Self {
            input: Input::new(&first, key.into(), time),
            late: Late::new(keeps_late),
            state: State::new(&wanted, &spans, &[]),
            parameters: Vec::new(),
            wanted,
            spans,
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, further: impl Into<Term>) -> Self {
        self.wanted.further.push(further.into());
        self.state = State::new(&self.wanted, &self.spans, &self.parameters);
        self
    }

    /// The shares of quantiles, or how many values are wanted, of each aggregation; called behind [`Self::and`].
    #[must_use]
    pub fn with(mut self, parameters: Vec<Arc<[f64]>>) -> Self {
        self.parameters = parameters;
        self.state = State::new(&self.wanted, &self.spans, &self.parameters);
        self
    }

    /// Has a record that fails leave everything as it was; called before the first record.
    #[must_use]
    pub fn careful(mut self, careful: bool) -> Self {
        self.wanted.careful = careful;
        self
    }

    /// Has results come at once; see [`Rolling::at_once`]. Called before the first record.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.state.rolling = self.state.rolling.at_once();
        self
    }

    /// Whether a record has come.
    pub fn has_begun(&self) -> bool {
        self.input.has_begun
    }

    /// How many keys have records that wait or that a span may have.
    pub fn len(&self) -> usize {
        self.state.rolling.len()
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<i64> {
        self.state.rolling.watermark()
    }

    /// How many records came when the watermark was at their time or behind it.
    pub fn late(&self) -> u64 {
        self.late.count
    }

    /// Those that came since it was called, encoded, and how many they are.
    pub fn take_late(&mut self) -> (usize, Vec<u8>) {
        self.late.take()
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
            state,
            ..
        } = self;
        input.take_in((body, records), foreign, wanted, state, late)
    }

    /// Says that event time has come here: what is due then comes by [`Self::give`]. [`i64::MAX`] is the
    /// end of all records.
    pub fn advance(&mut self, watermark: i64) {
        self.state.rolling.advance(watermark);
    }

    /// Gives about so many records that are due, in the order of their times, and for each span the values
    /// of all aggregations. How many they were; 0 when no further is due.
    pub fn give<E: From<Problem>>(
        &mut self,
        most: usize,
        mut visit: impl FnMut(&[u8], &[Option<Accumulated>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let State {
            rolling, records, ..
        } = &mut self.state;
        let given = rolling.give(most, |number, values| {
            visit(&records[number as usize], values)
        })?;
        if given == 0 {
            self.state.compact();
        }
        Ok(given)
    }

    /// Each key, encoded, and what is kept of it: what [`Rolling`] keeps, and the records that wait.
    pub fn export(&mut self) -> Copied {
        let State {
            keys,
            rolling,
            records,
            ..
        } = &self.state;
        let copied = rolling.copy();
        let keys: ByteStrings = copied.keys().map(|key| keys.get(key)).collect();
        let waiting = copied.waiting();
        let waiting: ByteStrings = waiting.map(|number| &records[number as usize]).collect();
        Box::new(move || {
            let mut kept = ByteStrings::with_room(keys.len(), 0);
            copied.each(|of_key, own| {
                kept.push_with(|out| {
                    encode::array(out, 2);
                    out.extend_from_slice(of_key);
                    encode::array(out, own.len());
                    own.for_each(|number| out.extend_from_slice(waiting.get(number)));
                });
                Ok::<_, Problem>(())
            })?;
            Ok((keys, kept))
        })
    }

    /// Goes on with keys that another has exported, as if their records had come here; before the first
    /// one.
    pub fn import(&mut self, entries: &[(&[u8], &[u8])], foreign: Foreign) -> Result<(), Problem> {
        let (mut watermark, mut scratch) = (None, Vec::new());
        for (key, kept) in entries {
            let [of_key, waiting] = items(kept)?[..] else {
                return Err(Problem::Parts(2));
            };
            let canonical = key::canonical(key, &mut scratch)?;
            let number = self.state.keys.number_by_call((key, canonical));
            watermark = watermark.max(self.state.rolling.import(number, of_key)?);
            let waiting = items(waiting)?;
            let came = self.update(&waiting.concat(), waiting.len(), &mut *foreign);
            came.map_err(|error| error.problem)?;
        }
        if let Some(watermark) = watermark {
            self.advance(watermark);
        }
        Ok(())
    }
}

impl State {
    fn new(wanted: &Wanted, spans: &[Span], parameters: &[Arc<[f64]>]) -> Self {
        let each = wanted.all().zip(wanted.are_filtered()).enumerate();
        let each = each.map(|(at, (aggregation, is_filtered))| Rolled {
            aggregation,
            parameters: parameters.get(at).cloned().unwrap_or_default(),
            is_filtered,
        });
        let rolled: Box<[Rolled]> = each.collect();
        Self {
            keys: Interner::default(),
            ahead: Vec::new().into_iter(),
            rolling: Rolling::new(rolled.clone(), spans),
            rolled,
            records: Vec::new(),
            values: Vec::new(),
        }
    }

    /// What the record comes to by itself.
    fn read(&mut self, record: Record) -> Result<(), Problem> {
        self.values.clear();
        let first = match &record.wanted.first {
            None => Some(Cow::Borrowed(record.value)),
            Some(term) => term.find(record.whole)?,
        };
        let further = record.wanted.further.iter();
        let further = further.map(|term| term.find(record.whole));
        let values = iter::once(Ok(first)).chain(further);
        for (rolled, value) in self.rolled.iter().zip(values) {
            self.values.push(match value? {
                Some(value) => rolled.alone(&value)?,
                None => None,
            });
        }
        Ok(())
    }

    /// The number of a key; a new one gets the next.
    #[inline]
    fn number(&mut self, key: Encoded) -> usize {
        match self.ahead.next() {
            Some(guess) => self.keys.number_near(key, guess),
            None => self.keys.number(key),
        }
    }

    /// Forgets keys that have nothing any more, where these are most.
    fn compact(&mut self) {
        let Some(live) = self.rolling.live(self.keys.len()) else {
            return;
        };
        if self.keys.keep(&live) {
            let numbers: Vec<_> = (0..live.len()).collect();
            self.rolling.renumber(&live, &numbers);
        }
    }
}

impl TakeIn for State {
    #[inline]
    fn add(&mut self, (key, time): (Encoded, i64), record: Record) -> Result<bool, Problem> {
        let key = self.number(key);
        if self.rolling.is_late(time) {
            return Ok(false);
        }
        self.read(record)?;
        let number = self.rolling.add(key, time, &mut self.values)? as usize;
        if self.records.len() <= number {
            self.records.resize_with(number + 1, Vec::new);
        }
        let kept = &mut self.records[number];
        kept.clear();
        kept.extend_from_slice(record.whole);
        Ok(true)
    }

    fn check(
        &mut self,
        ((_, canonical), time): (Encoded, i64),
        record: Record,
    ) -> Result<(), Problem> {
        if self.rolling.is_late(time) {
            return Ok(());
        }
        self.read(record)?;
        match self.keys.find(canonical) {
            Some(key) => self.rolling.check(key, &self.values),
            None => Ok(()),
        }
    }

    fn is_large(&self) -> bool {
        self.keys.is_large()
    }

    fn read_ahead(&mut self, hashes: &[u64]) {
        let ahead = self.keys.read_ahead(hashes);
        for key in &ahead {
            self.rolling.prefetch(*key as usize);
        }
        self.ahead = ahead.into_iter();
    }
}

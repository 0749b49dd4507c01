//! A join in one task: which rows it keeps, and what each batch and each watermark makes of them.

use crate::key::{Keys, NEVER, Row};
use crate::unbounded::{Gives, Index, Kind};
use oka_window::{RadixHeap, Windows};

/// The number of no row.
pub const NO_ROW: u32 = 0;

/// A row of the left and one of the right, or [`NO_ROW`] for a missing one.
pub type Pair = (u32, u32);

/// Which rows are partners.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// One of the left at t with those of the right in [t + low, t + high].
    Interval { low: i64, high: i64 },
    /// One of the left at t with the newest of the right up to t, when the watermark is there.
    Temporal,
    /// Each with all of the other side that are in a window with it, when that is complete.
    Windows(Windows),
    /// The same of sessions, which a pause of at most [`oka_window::LONGEST`] ends.
    Sessions { gap: i64 },
    /// Each with all of the other side, at once. A row is kept until the watermark is so far behind its
    /// time: `i64::MAX` is for ever.
    Unbounded { keep: i64, gives: Gives },
}

/// A join of rows of the left (0) and of the right (1); see [`Rule`].
///
/// ```
/// use oka_join::{Join, NO_ROW, Rule};
///
/// let mut join = Join::new(Rule::Interval { low: 0, high: 5 }, [true, false]);
/// let lefts = join.add(0, &[7, 8], &[10, 10]).rows.clone();
/// let step = join.add(1, &[7], &[15]);
/// assert_eq!(step.pairs, [(lefts[0], step.rows[0])]);
/// assert_eq!(join.close(15, 100).pairs, [(lefts[1], NO_ROW)]);
/// ```
#[derive(Debug)]
pub struct Join {
    pub(crate) rule: Rule,
    /// Of which side rows come without a partner, too.
    pub(crate) outer: [bool; 2],
    /// Of which side an unbounded join tells which rows expire without having had a partner.
    pub(crate) aside: [bool; 2],
    /// [`BEFORE`] the first.
    pub(crate) watermark: i64,
    /// The start of the first window that is not complete.
    pub(crate) first_open: i64,
    pub(crate) keys: Keys,
    /// When there is something to do for a key; each rule has its use of the two.
    pub(crate) due: [RadixHeap; 2],
    pub(crate) step: Step,
    /// How many rows of the left have been given of the window that comes next.
    pub(crate) given: usize,
    numbers: [Numbers; 2],
    pub(crate) indexes: [Index; 2],
}

/// What a batch or a watermark has come to.
#[derive(Debug, Default)]
pub struct Step {
    /// The places in the batch of rows that came too late.
    pub late: Vec<u32>,
    /// The number of each row of the batch; [`NO_ROW`] of the late ones.
    pub rows: Vec<u32>,
    pub pairs: Vec<Pair>,
    /// Of an unbounded join, what each pair is that a batch has given.
    pub kinds: Vec<Kind>,
    /// Those that are not kept any more, by side. The next step may give their numbers to others.
    pub gone: [Vec<u32>; 2],
}

/// The rows that are kept of one side: those of a key are behind each other, in the order of time.
#[derive(Debug, Default)]
pub struct Kept {
    pub keys: Vec<i64>,
    pub times: Vec<i64>,
    pub rows: Vec<u32>,
    /// Whether each has had a partner, where rows of this side come without one.
    pub are_joined: Vec<bool>,
    /// To restore rows that may go: their identities, see [`crate::Changes`].
    pub identities: Vec<i64>,
}

/// The numbers of the rows of one side.
#[derive(Debug, Default)]
struct Numbers {
    last: u32,
    free: Vec<u32>,
}

impl Join {
    pub fn new(rule: Rule, outer: [bool; 2]) -> Self {
        Self {
            rule,
            outer,
            aside: [false; 2],
            watermark: BEFORE,
            first_open: BEFORE,
            keys: Keys::default(),
            due: Default::default(),
            step: Step::default(),
            given: 0,
            numbers: Default::default(),
            indexes: Default::default(),
        }
    }

    /// Of which side an unbounded join tells, when rows expire, which had no partner.
    #[must_use]
    pub fn aside(mut self, aside: [bool; 2]) -> Self {
        self.aside = aside;
        self
    }

    /// Takes the rows of a batch in, of which `keys` are the numbers of their keys.
    pub fn add(&mut self, side: usize, keys: &[i64], times: &[i64]) -> &Step {
        self.begin();
        if let Rule::Unbounded { .. } = self.rule {
            for (place, row) in keys.iter().copied().zip(times.iter().copied()).enumerate() {
                self.come(side, place, row, None);
            }
            return &self.step;
        }
        for (place, (key, time)) in (0..).zip(keys.iter().zip(times)) {
            if self.is_late(side, *key, *time) {
                self.step.late.push(place);
                self.step.rows.push(NO_ROW);
                continue;
            }
            let number = self.number(side);
            let row = Row {
                time: *time,
                number,
                is_joined: false,
            };
            match self.rule {
                Rule::Interval { low, high } => self.add_near(side, *key, row, (low, high)),
                _ => self.keep(side, *key, row),
            }
        }
        &self.step
    }

    /// Says that all rows that follow are later than this, but for those that are late. A step of `most`
    /// pairs or more is not the last one: call it again before anything else.
    pub fn close(&mut self, watermark: i64, most: usize) -> &Step {
        self.begin();
        self.advance(watermark);
        if self.watermark != BEFORE {
            match self.rule {
                Rule::Interval { low, high } => self.close_near((low, high)),
                Rule::Temporal => self.close_versions(),
                Rule::Windows(windows) => self.close_windows(&windows, most),
                Rule::Sessions { gap } => self.close_sessions(gap, most),
                Rule::Unbounded { .. } => self.close_unbounded(most),
            }
        }
        &self.step
    }

    /// Goes on with rows that another has kept; `watermark` was that of all.
    pub fn restore(&mut self, side: usize, kept: &Kept, watermark: Option<i64>) -> &Step {
        self.begin();
        self.advance(watermark.unwrap_or(BEFORE));
        let rows = kept.keys.iter().zip(&kept.times).zip(&kept.are_joined);
        for (place, ((key, time), is_joined)) in rows.enumerate() {
            let number = self.number(side);
            let row = Row {
                time: *time,
                number,
                is_joined: *is_joined,
            };
            self.index(side, &row, kept.identities.get(place).copied());
            self.keep(side, *key, row);
        }
        &self.step
    }

    /// What is kept of a side.
    pub fn kept(&self, side: usize) -> Kept {
        let mut kept = Kept::default();
        for key in self.keys.with_rows() {
            for row in &key.rows[side] {
                kept.keys.push(key.number);
                kept.times.push(row.time);
                kept.rows.push(row.number);
                kept.are_joined.push(row.is_joined);
            }
        }
        kept
    }

    /// The numbers of all keys of which rows are kept.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = i64> {
        self.keys.numbers()
    }

    /// How many rows of a side are kept.
    pub fn size(&self, side: usize) -> usize {
        self.numbers[side].last as usize
            - self.numbers[side].free.len()
            - self.step.gone[side].len()
    }

    /// How far event time has come; `None` before the first watermark.
    pub fn watermark(&self) -> Option<i64> {
        (self.watermark != BEFORE).then_some(self.watermark)
    }

    fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
        if let Rule::Windows(windows) = self.rule {
            self.first_open = self.first_open(&windows);
        }
    }

    pub(crate) fn is_late(&self, side: usize, key: i64, time: i64) -> bool {
        match self.rule {
            Rule::Interval { .. } => self.has_come(time),
            Rule::Temporal => side == 0 && self.has_come(time),
            Rule::Windows(_) => time < self.first_open,
            Rule::Sessions { gap } => self.is_behind_sessions(key, time, gap),
            Rule::Unbounded { keep, .. } => self.has_come(time.saturating_add(keep)),
        }
    }

    /// Keeps a row without looking for partners.
    fn keep(&mut self, side: usize, key: i64, row: Row) {
        match self.rule {
            Rule::Interval { low, high } => {
                let slot = self.keys.slot(key);
                self.keep_near(side, slot, row, (low, high));
            }
            Rule::Temporal => self.keep_version(side, key, row),
            Rule::Windows(windows) => self.keep_in_windows(side, key, row, &windows),
            Rule::Sessions { gap } => self.keep_in_sessions(side, key, row, gap),
            Rule::Unbounded { .. } => {
                let slot = self.keys.slot(key);
                self.keep_unbounded(side, slot, row);
            }
        }
    }

    /// Whether the watermark is here or farther.
    #[inline]
    pub(crate) fn has_come(&self, time: i64) -> bool {
        time <= self.watermark && self.watermark != BEFORE
    }

    /// Takes a key's next time to do something, unless that is known to be earlier.
    #[inline]
    pub(crate) fn wait(&mut self, queue: usize, slot: u32, due: i64) {
        let due = self.due[queue].possible(due.min(NEVER - 1));
        let of = &mut self.keys[slot];
        if due < of.due[queue] {
            of.due[queue] = due;
            self.due[queue].push(due, slot);
        }
    }

    /// The next key for which there is something to do, which is not due then, and since when.
    pub(crate) fn next_due(&mut self, queue: usize) -> Option<(u32, i64)> {
        while let Some((due, slot)) = self.due[queue].pop(self.watermark) {
            let of = &mut self.keys[slot];
            if of.due[queue] == due {
                of.due[queue] = NEVER;
                return Some((slot, due));
            }
        }
        None
    }

    pub(crate) fn begin(&mut self) {
        self.step.late.clear();
        self.step.rows.clear();
        self.step.pairs.clear();
        self.step.kinds.clear();
        for (numbers, gone) in self.numbers.iter_mut().zip(&mut self.step.gone) {
            numbers.free.append(gone);
        }
    }

    /// The number of a row of the batch.
    pub(crate) fn number(&mut self, side: usize) -> u32 {
        let numbers = &mut self.numbers[side];
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.last = numbers.last.checked_add(1).expect("fewer than 2^32 rows");
            numbers.last
        });
        self.step.rows.push(number);
        number
    }
}

impl Step {
    pub(crate) fn pair(&mut self, side: usize, own: u32, other: u32) {
        self.pairs.push(if side == 0 {
            (own, other)
        } else {
            (other, own)
        });
    }
}

/// The watermark before the first.
const BEFORE: i64 = i64::MIN;

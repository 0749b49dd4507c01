//! Aggregates of the records of a key within spans that end at each record.

mod counted;
mod due;
mod fold;
mod of_key;
mod plan;
mod ring;
mod sorted;
mod stacks;
mod waiting;

use self::of_key::OfKey;
use self::plan::Plan;
pub use self::plan::Rolled;
pub use self::waiting::CopiedRolling;
use self::waiting::{NOT_WAITING, Waiting};
use crate::accumulator::numeric::precedes;
use crate::accumulator::{Accumulated, Aggregation};
use crate::groups::kept::items;
use crate::problem::Problem;
use oka_window::RadixHeap;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which records of its key a record is seen with: itself and those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Those whose times are no more than so many microseconds before its own, and all of its own time.
    Time(i64),
    /// So many in the order of time, those of one time in the order in which they came.
    Rows(u64),
}

/// For each record what the records of its key within each span come to: SQL's `OVER`.
///
/// A record waits until the watermark has come to its time. Then all that lie within its spans are here,
/// in whatever order they came. Keys are numbers, and so are records while they wait: others keep
/// keys and records by them. What is kept of a record then is its time and its values, for as long as a span
/// may have it.
///
/// ```
/// use oka_compute::Aggregation::Sum;
/// use oka_compute::{Accumulated, Rolling, Span};
///
/// let mut rolling = Rolling::new([Sum], [Span::Time(10)]);
/// for (time, number) in [(20, 1), (5, 2), (11, 4)] {
///     let value = Some(Accumulated::Integer(number));
///     rolling.add(0, time, &mut [value]).expect("a number");
/// }
/// rolling.advance(15);
/// let mut found = Vec::new();
/// rolling.give(9, |number, values| {
///     found.push((number, values[0].clone()));
///     Ok::<_, oka_compute::Problem>(())
/// }).expect("sums");
/// let integer = |number| Some(Accumulated::Integer(number));
/// assert_eq!(found, [(1, integer(2)), (2, integer(6))]);
/// ```
#[derive(Debug)]
pub struct Rolling {
    plan: Arc<Plan>,
    /// By number; those that have nothing are empty.
    keys: Vec<OfKey>,
    waiting: Waiting,
    /// Keys by when all of their records may be out of all spans.
    due: RadixHeap,
    /// The longest span; `None` if one counts records, which keep a key for good.
    longest: Option<i64>,
    watermark: Option<i64>,
    /// How many keys have something.
    alive: usize,
    /// Whether results come at once.
    is_eager: bool,
    /// Records whose results wait to be given, and these.
    ready: VecDeque<u32>,
    results: VecDeque<Option<Accumulated>>,
    /// Of which aggregations values have come that are no plain numbers.
    are_mixed: Box<[bool]>,
    /// Records that are due with their times, and their places among those of their keys.
    batch: Vec<(i64, u32)>,
    places: Vec<u64>,
    values: Vec<Option<Accumulated>>,
}

impl Rolling {
    pub fn new<R: Into<Rolled>>(
        rolled: impl IntoIterator<Item = R>,
        spans: impl Into<Box<[Span]>>,
    ) -> Self {
        let plan = Plan::new(rolled.into_iter().map(Into::into).collect(), spans.into());
        let length = |span: &Span| match span {
            Span::Time(length) => Some(*length),
            Span::Rows(_) => None,
        };
        let lengths: Option<Vec<_>> = plan.spans.iter().map(length).collect();
        Self {
            are_mixed: vec![false; plan.rolled.len()].into(),
            longest: lengths.and_then(|all| all.into_iter().max()),
            plan: Arc::new(plan),
            keys: Vec::new(),
            waiting: Waiting::default(),
            due: RadixHeap::default(),
            watermark: None,
            alive: 0,
            is_eager: false,
            ready: VecDeque::new(),
            results: VecDeque::new(),
            batch: Vec::new(),
            places: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Has results be those of what has come when a record comes, which does not wait. One that comes out of
    /// order costs as much as its span has records.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.is_eager = true;
        self
    }

    /// How many keys have records that wait or that a span may have.
    pub fn len(&self) -> usize {
        self.alive
    }

    pub fn is_empty(&self) -> bool {
        self.alive == 0
    }

    /// How far event time has come; `None` before the first watermark.
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Whether results have been given that may have needed a record of this time.
    #[inline]
    pub fn is_late(&self, time: i64) -> bool {
        self.watermark.is_some_and(|watermark| time <= watermark)
    }

    /// Fails where [`Self::add`] would.
    pub fn check(&self, key: usize, values: &[Option<Accumulated>]) -> Result<(), Problem> {
        for (at, (rolled, value)) in self.plan.rolled.iter().zip(values).enumerate() {
            let Some(value) = value else {
                continue;
            };
            if (self.are_mixed[at] || !is_plain(value)) && rolled.aggregation.compares() {
                self.check_kind(key, (at, rolled.aggregation), value)?;
            }
        }
        Ok(())
    }

    /// Takes in a record that is not late, with what it comes to by itself for each aggregation (a mean as its
    /// sum), `None` for null: its number, under which it waits. Fails if a value is of another kind than
    /// those of its key before it.
    pub fn add(
        &mut self,
        key: usize,
        time: i64,
        values: &mut [Option<Accumulated>],
    ) -> Result<u32, Problem> {
        self.check(key, values)?;
        for (is_mixed, value) in self.are_mixed.iter_mut().zip(values.iter()) {
            *is_mixed |= value.as_ref().is_some_and(|value| !is_plain(value));
        }
        if self.keys.len() <= key {
            self.keys.resize_with(key + 1, OfKey::default);
        }
        let number = self.waiting.add(key as u32, values);
        let of = &mut self.keys[key];
        if of.waiting == 0 && of.is_empty() {
            self.alive += 1;
        }
        if self.is_eager {
            self.see(key, time, number)?;
            return Ok(number);
        }
        of.waiting += 1;
        of.came_last = number;
        self.waiting.due.push(time, number);
        Ok(number)
    }

    /// Has a record that has just come see what has come.
    fn see(&mut self, key: usize, time: i64, number: u32) -> Result<(), Problem> {
        let width = self.plan.rolled.len();
        let values = &mut self.waiting.values[number as usize * width..][..width];
        let (of, plan) = (&mut self.keys[key], &*self.plan);
        self.values.clear();
        if of.newest(plan).is_some_and(|newest| time < newest) {
            of.insert(plan, time, values, &mut self.values)?;
        } else {
            let place = of.push(plan, time, values);
            of.values(plan, place, &mut self.values)?;
        }
        if let Some(watermark) = self.watermark {
            of.forget(plan, watermark);
        }
        self.expire_later(key as u32, time);
        self.waiting.orders[number as usize] = NOT_WAITING;
        self.ready.push_back(number);
        self.results.extend(self.values.drain(..));
        Ok(())
    }

    /// Has a key looked at when all of its records may be out of all spans.
    #[inline]
    fn expire_later(&mut self, key: u32, time: i64) {
        let of = &mut self.keys[key as usize];
        if let (false, Some(longest)) = (of.is_due, self.longest) {
            of.is_due = true;
            let end = self.due.possible(time.saturating_add(longest));
            self.due.push(end, key);
        }
    }

    /// Says that event time has come here: what is due then comes by [`Self::give`].
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(Some(watermark));
    }

    /// The numbers of keys that have something, in order, if they are few among so many: others are to
    /// forget the rest then, and to tell [`Self::renumber`] the new numbers.
    pub fn live(&self, keys: usize) -> Option<Vec<usize>> {
        if keys <= 2 * self.alive + FEW {
            return None;
        }
        let is_live = |key: &usize| self.keys.get(*key).is_some_and(OfKey::has_something);
        Some((0..keys).filter(is_live).collect())
    }

    /// Those of [`Self::live`] have these numbers from now on.
    pub fn renumber(&mut self, live: &[usize], numbers: &[usize]) {
        let mut keys = std::mem::take(&mut self.keys);
        let mut places = vec![NONE; keys.len()];
        for (before, number) in live.iter().zip(numbers) {
            places[*before] = *number as u32;
            if self.keys.len() <= *number {
                self.keys.resize_with(number + 1, OfKey::default);
            }
            self.keys[*number] = std::mem::take(&mut keys[*before]);
        }
        for key in &mut self.waiting.keys {
            *key = places.get(*key as usize).copied().unwrap_or(NONE);
        }
        self.due = RadixHeap::default();
        if let Some(longest) = self.longest {
            for (key, of) in (0..).zip(&self.keys).filter(|(_, of)| of.is_due) {
                let newest = of.newest(&self.plan).unwrap_or(i64::MIN);
                self.due.push(newest.saturating_add(longest), key);
            }
        }
    }

    /// What is kept of all keys.
    pub fn copy(&self) -> CopiedRolling {
        let keys = (0..).zip(&self.keys);
        let keys = keys.filter(|(_, of)| of.has_something());
        CopiedRolling {
            watermark: self.watermark,
            plan: Arc::clone(&self.plan),
            keys: keys.map(|(key, of)| (key, of.copy())).collect(),
            waiting: self.waiting.by_key(),
        }
    }

    /// Goes on with what was kept of a key, but for the records that wait, which are to come again: as
    /// [`CopiedRolling::each`] gave it. Before the first record; [`Self::advance`] follows, to the
    /// watermark of that time, which it gives.
    pub fn import(&mut self, key: usize, kept: &[u8]) -> Result<Option<i64>, Problem> {
        let [watermark, of] = items(kept)?[..] else {
            return Err(Problem::Parts(2));
        };
        if self.keys.len() <= key {
            self.keys.resize_with(key + 1, OfKey::default);
        }
        if !self.keys[key].is_empty() {
            return Err(Problem::Twice);
        }
        let mut of = OfKey::restore(&self.plan, of)?;
        if let (Some(newest), Some(longest)) = (of.newest(&self.plan), self.longest) {
            of.is_due = true;
            self.due.push(newest.saturating_add(longest), key as u32);
        }
        self.alive += usize::from(!of.is_empty());
        for at in 0..self.plan.rolled.len() {
            self.are_mixed[at] |= of
                .last(&self.plan, at)
                .is_some_and(|value| !is_plain(&value));
        }
        self.keys[key] = of;
        match watermark {
            [0xc0] => Ok(None),
            watermark => crate::groups::kept::integer(watermark).map(Some),
        }
    }

    /// Fails if a value does not go with the one of its key that came before it.
    #[cold]
    fn check_kind(
        &self,
        key: usize,
        (at, aggregation): (usize, Aggregation),
        value: &Accumulated,
    ) -> Result<(), Problem> {
        let Some(of) = self.keys.get(key) else {
            return Ok(());
        };
        let last = of.came_last as usize;
        let waits = of.waiting > 0
            && self.waiting.keys.get(last) == Some(&(key as u32))
            && self.waiting.orders[last] != NOT_WAITING;
        let before = if waits {
            self.waiting.values[last * self.plan.rolled.len() + at].clone()
        } else {
            of.last(&self.plan, at)
        };
        match (before, aggregation) {
            (Some(before), Aggregation::Min) => precedes(value, &before, Ordering::Less).map(drop),
            (Some(before), Aggregation::Max) => {
                precedes(value, &before, Ordering::Greater).map(drop)
            }
            (Some(before), Aggregation::Sum | Aggregation::Mean) => {
                before.check(Aggregation::Sum, value)
            }
            _ => Ok(()),
        }
    }
}

impl Aggregation {
    /// Whether it fails where values are of different kinds.
    fn compares(self) -> bool {
        matches!(self, Self::Sum | Self::Mean | Self::Min | Self::Max)
    }
}

/// Whether values of this kind go with each other.
#[inline]
fn is_plain(value: &Accumulated) -> bool {
    matches!(value, Accumulated::Integer(_) | Accumulated::Float(_))
}

const NONE: u32 = u32::MAX;
/// So many keys may have nothing.
const FEW: usize = 1024;

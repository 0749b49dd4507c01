//! Which numbers are due, of many that wait for a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;

/// Numbers that wait, each with the time at which it is due and its place among others of that time.
///
/// Time is cut into spans. Those of spans that have begun are in a heap, which is small and stays in a
/// processor's cache; all others lie in no order in the list of their span. So one that is due later
/// than was said is found once in the time that one waits, and beside all others of its span.
#[derive(Debug)]
pub(crate) struct Due {
    /// A span is so many bits of a time long.
    bits: u32,
    /// The first span that has not begun.
    first: i64,
    near: BinaryHeap<Reverse<(i64, u64, u32)>>,
    /// By their last bits, the lists of the next spans.
    next: Vec<Vec<u32>>,
    /// Those of later ones.
    far: BTreeMap<i64, Vec<u32>>,
}

impl Due {
    /// Most wait for about `length`.
    pub(crate) fn new(length: i64) -> Self {
        Self {
            bits: (length.max(1) as u64 / (SPANS as u64 / 2)).max(2).ilog2(),
            first: i64::MIN,
            near: BinaryHeap::new(),
            next: vec![Vec::new(); SPANS],
            far: BTreeMap::new(),
        }
    }

    /// The span of a time.
    pub(crate) fn span(&self, due: i64) -> i64 {
        due >> self.bits
    }

    #[inline]
    pub(crate) fn push(&mut self, due: i64, place: u64, number: u32) {
        let span = self.span(due);
        if span < self.first {
            self.near.push(Reverse((due, place, number)));
        } else if span - SPANS as i64 >= self.first {
            self.far.entry(span).or_default().push(number);
        } else {
            self.next[slot(span)].push(number);
        }
    }

    /// The next that is due at `now`, of spans that have begun, and when it was said to be.
    pub(crate) fn pop(&mut self, now: i64) -> Option<(i64, u32)> {
        let Reverse((due, _, number)) = *self.near.peek()?;
        (due <= now).then(|| {
            self.near.pop();
            (due, number)
        })
    }

    /// Begins the next span that has come `now`: its numbers, of which those that still wait are to
    /// be pushed again.
    pub(crate) fn begin(&mut self, now: i64) -> Option<(i64, Vec<u32>)> {
        let now = self.span(now);
        let next = self.first
            ..self
                .first
                .saturating_add(SPANS as i64)
                .min(now.saturating_add(1));
        let next = next
            .into_iter()
            .find(|span| !self.next[slot(*span)].is_empty());
        let far = self.far.keys().next().copied();
        let span = next.into_iter().chain(far).min();
        let Some(span) = span.filter(|span| *span <= now) else {
            self.first = self.first.max(now.saturating_add(1));
            return None;
        };
        self.first = span + 1;
        let mut numbers = self.far.remove(&span).unwrap_or_default();
        if next == Some(span) {
            numbers.append(&mut self.next[slot(span)]);
        }
        Some((span, numbers))
    }

    /// Gives each its new number, or none any more.
    pub(crate) fn renumber(&mut self, place: impl Fn(u32) -> Option<u32>) {
        let near = mem::take(&mut self.near).into_iter();
        let near = near.filter_map(|Reverse((due, order, number))| {
            place(number).map(|number| Reverse((due, order, number)))
        });
        self.near = near.collect();
        for list in self.far.values_mut().chain(&mut self.next) {
            list.retain_mut(|number| place(*number).map(|new| *number = new).is_some());
        }
    }
}

fn slot(span: i64) -> usize {
    span as usize % SPANS
}

/// So many spans are twice as long as one waits.
const SPANS: usize = 128;

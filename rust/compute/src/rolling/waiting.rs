//! Records that wait for their time, and what is kept of all.

use super::of_key::CopiedKey;
use super::plan::Plan;
use crate::accumulator::Accumulated;
use crate::encoded::encode;
use oka_window::RadixHeap;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Records whose time has not come, by number.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) due: Due,
    pub(super) keys: Vec<u32>,
    /// How many had come before each; [`NOT_WAITING`] of a number that is free.
    pub(super) orders: Vec<u64>,
    /// Those of all aggregations behind each other.
    pub(super) values: Vec<Option<Accumulated>>,
    free: Vec<u32>,
    came: u64,
}

/// Numbers by their times. Those that come in this order need no heap.
#[derive(Debug, Default)]
pub(super) struct Due {
    in_order: VecDeque<(i64, u32)>,
    /// Each came behind one of those that is later.
    others: RadixHeap,
}

impl Due {
    #[inline]
    pub(super) fn push(&mut self, time: i64, number: u32) {
        match self.in_order.back() {
            Some((last, _)) if *last > time => self.others.push(time, number),
            _ => self.in_order.push_back((time, number)),
        }
    }

    /// Takes the next one out that is due until then; of one time, the first that came.
    #[inline]
    pub(super) fn pop(&mut self, until: i64) -> Option<(i64, u32)> {
        match self.in_order.front() {
            Some((time, _)) if *time <= until => {
                let before = time.checked_sub(1);
                let earlier = before.and_then(|before| self.others.pop(before));
                earlier.or_else(|| self.in_order.pop_front())
            }
            _ => self.others.pop(until),
        }
    }
}

/// What is kept of keys, at one time.
#[derive(Debug)]
pub struct CopiedRolling {
    pub(super) plan: Arc<Plan>,
    pub(super) watermark: Option<i64>,
    /// Ascending.
    pub(super) keys: Vec<(u32, CopiedKey)>,
    /// Records that wait, with the numbers of their keys: those of a key behind each other, in the order
    /// in which they came.
    pub(super) waiting: Vec<(u32, u32)>,
}

impl Waiting {
    pub(super) fn add(&mut self, key: u32, values: &mut [Option<Accumulated>]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.keys.push(0);
            self.orders.push(NOT_WAITING);
            self.values.extend(values.iter().map(|_| None));
            self.keys.len() as u32 - 1
        });
        let at = number as usize;
        self.keys[at] = key;
        self.orders[at] = self.came;
        self.came += 1;
        let own = &mut self.values[at * values.len()..][..values.len()];
        for (own, value) in own.iter_mut().zip(values) {
            *own = value.take();
        }
        number
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.orders[number as usize] = NOT_WAITING;
        self.free.push(number);
    }

    pub(super) fn by_key(&self) -> Vec<(u32, u32)> {
        let waits = |number: &u32| self.orders[*number as usize] != NOT_WAITING;
        let mut numbers: Vec<_> = (0..self.keys.len() as u32).filter(waits).collect();
        let order = |number: &u32| (self.keys[*number as usize], self.orders[*number as usize]);
        numbers.sort_unstable_by_key(order);
        let of = |number| (self.keys[number as usize], number);
        numbers.into_iter().map(of).collect()
    }
}

impl CopiedRolling {
    /// The numbers of its keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = usize> {
        self.keys.iter().map(|(key, _)| *key as usize)
    }

    /// The numbers of the records that wait, in the order in which [`Self::each`] gives them.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = u32> {
        self.waiting.iter().map(|(_, number)| *number)
    }

    /// Gives of each key what is kept, encoded, and which of [`Self::waiting`] are its own.
    pub fn each<E>(
        self,
        mut visit: impl FnMut(&[u8], Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut first, mut out) = (0, Vec::new());
        for (key, of) in self.keys {
            let own = self.waiting[first..].iter();
            let end = first + own.take_while(|(other, _)| *other == key).count();
            out.clear();
            encode::array(&mut out, 2);
            match self.watermark {
                Some(watermark) => encode::int(&mut out, watermark),
                None => encode::nil(&mut out),
            }
            of.encode(&self.plan, &mut out);
            visit(&out, first..end)?;
            first = end;
        }
        Ok(())
    }
}

pub(super) const NOT_WAITING: u64 = u64::MAX;

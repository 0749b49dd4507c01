//! The records of a key that spans have: times and values, in the order of time.

use super::plan::Plan;
use crate::accumulator::Accumulated;
use std::collections::VecDeque;

/// Rows of a time and of values, `None` for null, in one piece of memory: what a record needs is together.
///
/// A time takes 8 bytes, and so does each value of a slot whose values are all integers of 64 bits, or all floats, or
/// null; others take 32, and what they point to.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    words: Box<[u64]>,
    /// In rows.
    capacity: u32,
    start: u32,
    len: u32,
    /// What the words of each slot are, two bits each.
    kinds: u32,
    /// By slot, those that are no such numbers.
    others: Option<Box<[VecDeque<Option<Accumulated>>]>>,
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Where the first row is, and where the next one will be.
    pub(super) fn ends(&self, width: usize) -> [*const u64; 2] {
        let at = |index: usize| self.words.as_ptr().wrapping_add(self.row(width, index));
        [at(0), at(self.len())]
    }

    #[inline]
    pub(super) fn time(&self, width: usize, index: usize) -> i64 {
        self.words[self.row(width, index)] as i64
    }

    /// The time of the last row.
    pub(super) fn newest(&self, width: usize) -> Option<i64> {
        let last = self.len().checked_sub(1)?;
        Some(self.time(width, last))
    }

    /// How many rows, from the first on, have such times.
    pub(super) fn until(&self, width: usize, is_before: impl Fn(i64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.time(width, middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    pub(super) fn get(&self, width: usize, index: usize, slot: usize) -> Option<Accumulated> {
        let word = || self.words[self.row(width, index) + 1 + slot];
        match self.kind(slot) {
            OTHERS => self.other(slot, index).cloned(),
            _ if word() == NULL => None,
            INTEGERS => Some(Accumulated::Integer((word() as i64).into())),
            _ => Some(Accumulated::Float(f64::from_bits(word()))),
        }
    }

    /// Visits a value where it is, if it is no null.
    #[inline]
    pub(super) fn visit<T>(
        &self,
        width: usize,
        (index, slot): (usize, usize),
        visit: impl FnOnce(&Accumulated) -> T,
    ) -> Option<T> {
        match self.kind(slot) {
            OTHERS => self.other(slot, index).map(visit),
            _ => self.get(width, index, slot).as_ref().map(visit),
        }
    }

    #[inline]
    pub(super) fn is_null(&self, width: usize, index: usize, slot: usize) -> bool {
        match self.kind(slot) {
            OTHERS => self.other(slot, index).is_none(),
            _ => self.words[self.row(width, index) + 1 + slot] == NULL,
        }
    }

    /// Takes in a row; the values are those of all aggregations.
    #[inline]
    pub(super) fn push(&mut self, plan: &Plan, time: i64, values: &mut [Option<Accumulated>]) {
        if self.len == self.capacity {
            let more = (self.capacity / 2).max(self.capacity.clamp(FEWEST, 2 * FEWEST));
            self.resize(plan.width, self.capacity + more);
        }
        let row = self.row(plan.width, self.len());
        self.words[row] = time as u64;
        for (slot, value) in plan.slots.iter().zip(values) {
            if let Some(slot) = slot {
                self.put(plan.width, row, *slot, value.take());
            }
        }
        self.len += 1;
    }

    /// The same in front of another row.
    pub(super) fn insert(
        &mut self,
        plan: &Plan,
        index: usize,
        time: i64,
        values: &mut [Option<Accumulated>],
    ) {
        self.push(plan, time, values);
        let stride = plan.width + 1;
        for later in (index + 1..self.len()).rev() {
            let (to, from) = (self.row(plan.width, later), self.row(plan.width, later - 1));
            for word in 0..stride {
                self.words.swap(to + word, from + word);
            }
        }
        for others in self.others.iter_mut().flatten() {
            if !others.is_empty() {
                others.make_contiguous()[index..].rotate_right(1);
            }
        }
    }

    /// Lets go of so many rows, the first ones, and of memory that is not needed any more.
    #[inline]
    pub(super) fn forget(&mut self, width: usize, count: usize) {
        self.start = self.start_of(count);
        self.len -= count as u32;
        if let Some(others) = &mut self.others {
            for others in others.iter_mut().filter(|others| !others.is_empty()) {
                others.drain(..count);
            }
        }
        if self.capacity > MANY && self.len < self.capacity / 8 {
            self.resize(width, self.len * 2);
        }
    }

    /// Lets go of all rows.
    pub(super) fn clear(&mut self) {
        (self.start, self.len, self.kinds, self.others) = (0, 0, 0, None);
    }

    #[inline]
    fn row(&self, width: usize, index: usize) -> usize {
        self.start_of(index) as usize * (width + 1)
    }

    #[inline]
    fn start_of(&self, index: usize) -> u32 {
        let at = self.start + index as u32;
        if at >= self.capacity {
            at - self.capacity
        } else {
            at
        }
    }

    #[inline]
    fn kind(&self, slot: usize) -> u32 {
        if slot < SLOTS {
            self.kinds >> (2 * slot) & 3
        } else {
            OTHERS
        }
    }

    fn other(&self, slot: usize, index: usize) -> Option<&Accumulated> {
        self.others.as_ref()?[slot].get(index)?.as_ref()
    }

    #[inline]
    fn put(&mut self, width: usize, row: usize, slot: usize, value: Option<Accumulated>) {
        let word = match (self.kind(slot), &value) {
            (INTEGERS, Some(Accumulated::Integer(number))) => {
                i64::try_from(*number).ok().map(|number| number as u64)
            }
            (FLOATS, Some(Accumulated::Float(number))) => Some(number.to_bits()),
            (INTEGERS | FLOATS, None) => {
                self.words[row + 1 + slot] = NULL;
                return;
            }
            (INTEGERS, Some(Accumulated::Float(number))) if self.has_nulls_alone(width, slot) => {
                self.kinds |= FLOATS << (2 * slot);
                Some(number.to_bits())
            }
            _ => None,
        };
        match word {
            Some(word) if word != NULL => self.words[row + 1 + slot] = word,
            _ => self.put_other(width, slot, value),
        }
    }

    fn has_nulls_alone(&self, width: usize, slot: usize) -> bool {
        (0..self.len()).all(|index| self.is_null(width, index, slot))
    }

    #[inline(never)]
    fn put_other(&mut self, width: usize, slot: usize, value: Option<Accumulated>) {
        if self.kind(slot) != OTHERS {
            let so_far: VecDeque<_> = (0..self.len())
                .map(|at| self.get(width, at, slot))
                .collect();
            self.others_of(width)[slot] = so_far;
            self.kinds &= !(3 << (2 * slot));
            self.kinds |= OTHERS << (2 * slot);
        }
        self.others_of(width)[slot].push_back(value);
    }

    fn others_of(&mut self, width: usize) -> &mut [VecDeque<Option<Accumulated>>] {
        let none = || vec![VecDeque::new(); width].into();
        self.others.get_or_insert_with(none)
    }

    #[cold]
    fn resize(&mut self, width: usize, capacity: u32) {
        let mut words = Vec::with_capacity(capacity as usize * (width + 1));
        let stride = width + 1;
        for index in 0..self.len() {
            let row = self.row(width, index);
            words.extend_from_slice(&self.words[row..row + stride]);
        }
        words.resize(capacity as usize * stride, 0);
        self.words = words.into();
        (self.capacity, self.start) = (capacity, 0);
    }
}

const INTEGERS: u32 = 0;
const FLOATS: u32 = 1;
const OTHERS: u32 = 2;
/// The word of a null, which is a NaN that no computation gives. A number that looks like it is among the others.
const NULL: u64 = 0x7ff8_6e75_6c6c_0000;
/// Slots of which there are kinds; the values of further ones are others.
const SLOTS: usize = 16;
/// Rows that there is room for at least: memory for more is seldom asked for.
const FEWEST: u32 = 4;
/// Rows from which on memory is given back.
const MANY: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accumulator::Aggregation::{First, Sum};
    use Accumulated::{Float, Integer};

    #[test]
    fn nulls_take_no_more_than_numbers_and_are_no_numbers() {
        let plan = Plan::new([Sum.into(), First.into()].into(), [].into());
        let like_null = f64::from_bits(NULL);
        let rows = [
            [None, None],
            [Some(Integer(3)), Some(Float(1.5))],
            [None, None],
            [Some(Integer(i64::MIN.into())), Some(Float(f64::NAN))],
        ];
        let mut ring = Ring::default();
        for (time, row) in (0..).zip(&rows) {
            ring.push(&plan, time, &mut row.clone());
        }
        assert_eq!((ring.kind(0), ring.kind(1)), (INTEGERS, FLOATS));
        let found = |ring: &Ring, row| [0, 1].map(|slot| ring.get(2, row, slot));
        for (at, row) in rows[..3].iter().enumerate() {
            assert_eq!(found(&ring, at), *row);
            let nulls = [0, 1].map(|slot| ring.is_null(2, at, slot));
            assert_eq!(nulls, row.each_ref().map(Option::is_none));
        }
        let last = [Some(Integer(NULL.into())), Some(Float(like_null))];
        ring.push(&plan, 4, &mut last.clone());
        assert_eq!((ring.kind(0), ring.kind(1)), (OTHERS, OTHERS));
        assert_eq!(found(&ring, 1), rows[1]);
        assert_eq!(found(&ring, 2), rows[2]);
        assert_eq!(found(&ring, 3)[0], rows[3][0]);
        assert_eq!(found(&ring, 4)[0], last[0]);
        assert!(matches!(found(&ring, 4)[1], Some(Float(number)) if number.is_nan()));
    }
}

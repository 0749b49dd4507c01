//! Records whose time has come, and keys that no span has any more: many at a time, so that none waits for memory.

use super::Rolling;
use super::of_key::OfKey;
use crate::accumulator::Accumulated;
use crate::encoded::ahead::prefetch;
use crate::problem::Problem;
use std::iter;
use std::ops::Range;

impl Rolling {
    /// Gives about so many records that are due, in the order of time (or of arrival, if they do not wait): their numbers, which others may get
    /// then, and for each span the values of all aggregations. How many they were; 0 when no further is due.
    pub fn give<E: From<Problem>>(
        &mut self,
        most: usize,
        mut visit: impl FnMut(u32, &mut [Option<Accumulated>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let (mut given, width) = (0, self.plan.rolled.len());
        while given < most
            && let Some(number) = self.ready.pop_front()
        {
            self.values.clear();
            let own = width * self.plan.spans.len();
            self.values.extend(self.results.drain(..own));
            visit(number, &mut self.values)?;
            self.waiting.remove(number);
            given += 1;
        }
        let Some(watermark) = self.watermark else {
            return Ok(given);
        };
        while given < most && self.find_due(watermark, most - given) {
            given += self.batch.len();
            self.read_first();
            let mut first = 0;
            while first < self.batch.len() {
                let time = self.batch[first].0;
                let own = self.batch[first..].iter();
                let end = first + own.take_while(|(other, _)| *other == time).count();
                self.push(first..end);
                let are_many = end - first > AHEAD / 2; // so that memory may have gone again
                for at in first..end {
                    if are_many {
                        self.read_ahead(at);
                    }
                    let number = self.batch[at].1;
                    let key = self.waiting.keys[number as usize];
                    let of = &mut self.keys[key as usize];
                    self.values.clear();
                    of.values(&self.plan, self.places[at], &mut self.values)?;
                    of.forget_all_before(&self.plan);
                    of.waiting -= 1;
                    visit(number, &mut self.values)?;
                    self.expire_later(key, time);
                    self.waiting.remove(number);
                }
                first = end;
            }
        }
        if given == 0 {
            self.forget(watermark);
        }
        Ok(given)
    }

    /// Takes the next records that are due, about so many, and all of the time of the last of them.
    fn find_due(&mut self, watermark: i64, most: usize) -> bool {
        self.batch.clear();
        self.places.clear();
        while self.batch.len() < most.min(MOST) {
            let Some(next) = self.waiting.due.pop(watermark) else {
                break;
            };
            self.batch.push(next);
        }
        if let Some((time, _)) = self.batch.last().copied() {
            while let Some(next) = self.waiting.due.pop(time) {
                self.batch.push(next);
            }
        }
        !self.batch.is_empty()
    }

    /// Has keys take in these of the records that are due, which are of one time: they see each other.
    fn push(&mut self, range: Range<usize>) {
        let width = self.plan.rolled.len();
        for at in range {
            self.read_ahead(at);
            let (time, number) = self.batch[at];
            let of = &mut self.keys[self.waiting.keys[number as usize] as usize];
            let values = &mut self.waiting.values[number as usize * width..][..width];
            self.places.push(of.push(&self.plan, time, values));
        }
    }

    /// Asks for the memory of the keys of the first records.
    fn read_first(&self) {
        let first = &self.batch[..self.batch.len().min(AHEAD)];
        let keys = first
            .iter()
            .map(|(_, number)| self.waiting.keys[*number as usize] as usize);
        keys.clone().for_each(|key| self.prefetch(key));
        keys.take(AHEAD / 2)
            .for_each(|key| self.keys[key].prefetch(&self.plan));
    }

    /// Asks for the memory of keys whose records follow the one at this place.
    #[inline]
    fn read_ahead(&self, at: usize) {
        let key = |at: usize| {
            let (_, number) = self.batch.get(at)?;
            Some(self.waiting.keys[*number as usize] as usize)
        };
        if let Some(key) = key(at + AHEAD) {
            self.prefetch(key);
        }
        if let Some(key) = key(at + AHEAD / 2) {
            self.keys[key].prefetch(&self.plan);
        }
    }

    /// Asks for memory that [`Self::add`] needs of a key.
    #[inline]
    pub fn prefetch(&self, key: usize) {
        if let Some(of) = self.keys.get(key) {
            let lines: *const OfKey = of;
            prefetch(lines);
            prefetch(lines.wrapping_byte_add(size_of::<OfKey>() - 1));
        }
    }

    /// Forgets keys of which no span has a record any more.
    fn forget(&mut self, watermark: i64) {
        let Some(longest) = self.longest else {
            return;
        };
        loop {
            let due = &mut self.due;
            self.places.clear();
            self.places.extend(
                iter::from_fn(|| due.pop(watermark))
                    .take(MOST)
                    .map(|(_, key)| u64::from(key)),
            );
            if self.places.is_empty() {
                return;
            }
            for at in 0..self.places.len() {
                if let Some(key) = self.places.get(at + AHEAD) {
                    self.prefetch(*key as usize);
                }
                if let Some(key) = self.places.get(at + AHEAD / 2) {
                    self.keys[*key as usize].prefetch(&self.plan);
                }
                let key = self.places[at] as u32;
                let of = &mut self.keys[key as usize];
                let newest = of.newest(&self.plan).unwrap_or(i64::MIN);
                let end = newest.saturating_add(longest);
                if end > watermark {
                    let end = self.due.possible(end);
                    self.due.push(end, key);
                    continue;
                }
                of.clear(&self.plan);
                self.alive -= usize::from(of.waiting == 0);
            }
        }
    }
}

/// So many records take as long as memory does.
const AHEAD: usize = 32;
/// Records that are taken together.
const MOST: usize = 1024;

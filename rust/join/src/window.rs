//! Window joins: each row of the left with each of the right of its key and window.
//!
//! A window gives all its pairs when the watermark has come to its last microsecond, and a row is kept
//! until the last of its windows is complete. One whose windows all are is late. The first queue says
//! when the first window of a key is complete.

use crate::join::{Join, NO_ROW};
use crate::key::{Key, NEVER, Row};
use oka_window::{FARTHEST, LONGEST, Window, Windows};

impl Join {
    pub(crate) fn keep_in_windows(&mut self, side: usize, key: i64, row: Row, windows: &Windows) {
        let window = open(windows, row.time, self.first_open);
        let slot = self.keys.slot(key);
        self.keys[slot].insert(side, row);
        self.wait(0, slot, window.end - 1);
    }

    /// Gives the windows that are complete, in the order of their ends, until there are so many pairs.
    pub(crate) fn close_windows(&mut self, windows: &Windows, most: usize) {
        while self.step.pairs.len() < most
            && let Some((slot, due)) = self.next_due(0)
        {
            let next = first(windows, due + 1).start;
            if !self.give_all(slot, due + 1, next, most) {
                self.wait(0, slot, due);
            } else if let Some(time) = self.keys[slot].first_time() {
                self.wait(0, slot, open(windows, time, next).end - 1);
            } else {
                self.keys.remove(slot);
            }
        }
    }

    /// The start of the first window that is not complete.
    pub(crate) fn first_open(&self, windows: &Windows) -> i64 {
        match self.watermark() {
            None => i64::MIN,
            Some(NEVER) => NEVER,
            Some(now) => first(windows, now.clamp(-FARTHEST, FARTHEST + LONGEST) + 1).start,
        }
    }

    /// Whether a session of this time alone would be complete, and there is none that it is in.
    pub(crate) fn is_behind_sessions(&self, key: i64, time: i64, gap: i64) -> bool {
        let is_near = |of: &Key| {
            of.rows.iter().any(|rows| {
                let next = rows.partition_point(|row| row.time <= time - gap);
                rows.get(next).is_some_and(|row| row.time < time + gap)
            })
        };
        self.has_come(time + gap - 1)
            && !self
                .keys
                .get(key)
                .is_some_and(|slot| is_near(&self.keys[slot]))
    }

    pub(crate) fn keep_in_sessions(&mut self, side: usize, key: i64, row: Row, gap: i64) {
        let slot = self.keys.slot(key);
        let of = &mut self.keys[slot];
        let end = row.time + gap;
        let is_first = of.first_time().is_none_or(|first| end <= first);
        of.insert(side, row);
        if is_first {
            of.reached = i64::MIN;
            self.wait(0, slot, end - 1);
        }
    }

    pub(crate) fn close_sessions(&mut self, gap: i64, most: usize) {
        while self.step.pairs.len() < most
            && let Some((slot, due)) = self.next_due(0)
        {
            let end = self.keys[slot].first_end(gap).expect("a key with rows");
            if !self.has_come(end - 1) {
                self.wait(0, slot, end - 1);
            } else if !self.give_all(slot, end, end, most) {
                self.wait(0, slot, due);
            } else if let Some(time) = self.keys[slot].first_time() {
                self.wait(0, slot, time + gap - 1);
            } else {
                self.keys.remove(slot);
            }
        }
    }

    /// Gives the pairs of all rows before the end of a window, and rows that have none there, and drops
    /// the rows before `next`, which are in no other window. False where there are so many pairs that
    /// the rest comes in the next step.
    fn give_all(&mut self, slot: u32, end: i64, next: i64, most: usize) -> bool {
        let of = &mut self.keys[slot];
        let before = |side: usize, time: i64| of.rows[side].partition_point(|row| row.time < time);
        let counts = [before(0, end), before(1, end)];
        if counts[0] > 0 && counts[1] > 0 {
            for left in of.rows[0].range(self.given..counts[0]) {
                if self.step.pairs.len() >= most {
                    return false;
                }
                let rights = of.rows[1].range(..counts[1]);
                let pairs = rights.map(|right| (left.number, right.number));
                self.step.pairs.extend(pairs);
                self.given += 1;
            }
        } else {
            for (side, rows) in of
                .rows
                .iter()
                .enumerate()
                .filter(|(side, _)| self.outer[*side])
            {
                let rows = rows.range(..counts[side]);
                rows.for_each(|row| self.step.pair(side, row.number, NO_ROW));
            }
        }
        self.given = 0;
        of.reached = i64::MIN;
        let gone = [before(0, next), before(1, next)];
        for (side, count) in gone.into_iter().enumerate() {
            let rows = of.rows[side].drain(..count);
            self.step.gone[side].extend(rows.map(|row| row.number));
        }
        true
    }
}

/// The first window that has this time.
fn first(windows: &Windows, time: i64) -> Window {
    let mut all = windows.of_slice(windows.slice(time).start);
    all.next().expect("a window of each time")
}

/// The first window that has this time and does not begin before `from`.
fn open(windows: &Windows, time: i64, from: i64) -> Window {
    let Window { start, end } = first(windows, time);
    let later = from.saturating_sub(start).max(0);
    Window {
        start: start.saturating_add(later),
        end: end.saturating_add(later),
    }
}

impl Key {
    fn first_time(&self) -> Option<i64> {
        let firsts = self.rows.iter().filter_map(|rows| rows.front());
        firsts.map(|row| row.time).min()
    }

    /// The end of the first session.
    fn first_end(&mut self, gap: i64) -> Option<i64> {
        let mut end = self.first_time()?.max(self.reached) + gap;
        let mut next =
            [0, 1].map(|side: usize| self.rows[side].partition_point(|row| row.time < end - gap));
        loop {
            let before = end;
            for (rows, next) in self.rows.iter().zip(&mut next) {
                while let Some(row) = rows.get(*next).filter(|row| row.time < end) {
                    end = end.max(row.time + gap);
                    *next += 1;
                }
            }
            if end == before {
                self.reached = end - gap;
                return Some(end);
            }
        }
    }
}

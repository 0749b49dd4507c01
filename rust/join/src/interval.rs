//! Interval joins: each row with those of the other side that are near it in time.
//!
//! A row is late at the watermark or behind it: partners of it may be gone. One is kept until the
//! watermark has come to the last time that a partner can have. The queue of each side says when the
//! first row of a key can go.

use crate::join::{Join, NO_ROW};
use crate::key::Row;

type Bounds = (i64, i64);

impl Join {
    pub(crate) fn add_near(&mut self, side: usize, key: i64, mut row: Row, bounds: Bounds) {
        let (low, high) = span(side, bounds);
        let (first, last) = (later(row.time, low), later(row.time, high));
        let slot = self.keys.slot(key);
        let others = &mut self.keys[slot].rows[1 - side];
        let begin = others.partition_point(|other| other.time < first);
        for other in others.range_mut(begin..) {
            if other.time > last {
                break;
            }
            other.is_joined = true;
            row.is_joined = true;
            self.step.pair(side, row.number, other.number);
        }
        if !self.has_come(last) {
            self.keep_near(side, slot, row, bounds);
            return;
        }
        // No partner can follow.
        self.let_go(side, &row);
        if self.keys[slot].is_empty() {
            self.keys.remove(slot);
        }
    }

    pub(crate) fn keep_near(&mut self, side: usize, slot: u32, row: Row, bounds: Bounds) {
        let due = later(row.time, span(side, bounds).1);
        self.keys[slot].insert(side, row);
        self.wait(side, slot, due);
    }

    pub(crate) fn close_near(&mut self, bounds: Bounds) {
        for side in [0, 1] {
            let high = span(side, bounds).1;
            while let Some((slot, _)) = self.next_due(side) {
                let watermark = self.watermark;
                let of = |join: &mut Self| {
                    let rows = &mut join.keys[slot].rows[side];
                    rows.pop_front_if(|row| later(row.time, high) <= watermark)
                };
                while let Some(row) = of(self) {
                    self.let_go(side, &row);
                }
                let of = &self.keys[slot];
                if let Some(first) = of.rows[side].front() {
                    let due = later(first.time, high);
                    self.wait(side, slot, due);
                } else if of.is_empty() {
                    self.keys.remove(slot);
                }
            }
        }
    }

    /// A row that gets no partner any more.
    fn let_go(&mut self, side: usize, row: &Row) {
        if self.outer[side] && !row.is_joined {
            self.step.pair(side, row.number, NO_ROW);
        }
        self.step.gone[side].push(row.number);
    }
}

/// Where partners of a row of this side are: from, and to, behind its own time.
fn span(side: usize, (low, high): Bounds) -> Bounds {
    if side == 0 {
        (low, high)
    } else {
        (-high, -low)
    }
}

/// A time by so much later; what cannot be larger is without end.
#[inline]
fn later(time: i64, by: i64) -> i64 {
    match by {
        i64::MAX => i64::MAX,
        _ if by == -i64::MAX => i64::MIN,
        _ => time.saturating_add(by),
    }
}

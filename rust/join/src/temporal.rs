//! Temporal joins: each row of the left with the version of the right that was there at its time.
//!
//! A row waits until no version can follow that is not newer. One that is at the watermark or behind it
//! is late: versions of then may be gone. Of those up to the watermark, the newest of each key is kept;
//! a version that comes late is the table's from then on, if none is newer. The first queue says
//! when there is something to do for a key.

use crate::join::{Join, NO_ROW};
use crate::key::{Key, Row};
use std::mem;

impl Join {
    pub(crate) fn keep_version(&mut self, side: usize, key: i64, row: Row) {
        let time = row.time;
        let slot = self.keys.slot(key);
        self.keys[slot].insert(side, row);
        if self.has_come(time) {
            self.drop_old(slot);
        } else {
            self.wait(0, slot, time);
        }
    }

    pub(crate) fn close_versions(&mut self) {
        while let Some((slot, _)) = self.next_due(0) {
            let [waiting, versions] = &mut self.keys[slot].rows;
            while let Some(row) = waiting.pop_front_if(|row| row.time <= self.watermark) {
                let behind = versions.partition_point(|version| version.time <= row.time);
                if behind > 0 {
                    self.step.pair(0, row.number, versions[behind - 1].number);
                } else if self.outer[0] {
                    self.step.pair(0, row.number, NO_ROW);
                }
                self.step.gone[0].push(row.number);
            }
            self.drop_old(slot);
            if let Some(due) = next_time(&self.keys[slot], self.watermark) {
                self.wait(0, slot, due);
            } else if self.keys[slot].is_empty() {
                self.keys.remove(slot);
            }
        }
        if self.watermark == AT_THE_END {
            let rows = mem::take(&mut self.keys).into_rows();
            self.step.gone[1].extend(rows.map(|row| row.number));
        }
    }

    /// Lets go of versions in front of the newest that the watermark has come to.
    fn drop_old(&mut self, slot: u32) {
        let versions = &mut self.keys[slot].rows[1];
        let come = versions.partition_point(|version| version.time <= self.watermark);
        let old = versions.drain(..come.saturating_sub(1));
        self.step.gone[1].extend(old.map(|version| version.number));
    }
}

/// The time behind the watermark at which a row is due, or a version gets old.
fn next_time(of: &Key, watermark: i64) -> Option<i64> {
    let [waiting, versions] = &of.rows;
    let next = versions.partition_point(|version| version.time <= watermark);
    let times = [waiting.front(), versions.get(next)];
    times.into_iter().flatten().map(|row| row.time).min()
}

/// The watermark behind the last row.
const AT_THE_END: i64 = i64::MAX;

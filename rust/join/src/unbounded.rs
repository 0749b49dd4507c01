//! Joins without a bound in time: each row with all of the other side that are kept, at once.
//!
//! Rows come and go: a result says whether it is there from now on, or not any more ([`Kind`]). Rows of
//! a key are all partners of each other, so one is without a partner as long as the other side has no
//! row, unless it had one that has expired: what that gave stays. A row expires when the watermark is
//! `keep` behind its time. The first queue says when the first row of a key expires.

use crate::join::{Join, NO_ROW, Rule, Step};
use crate::key::{Mixed, NEVER, Row};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// What a change of a row, or of a result, is: Flink's `RowKind`, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Insert = 0,
    UpdateBefore = 1,
    UpdateAfter = 2,
    Delete = 3,
}

/// What a join without a bound gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Pairs,
    /// Rows of the left with a partner, each once.
    Semi,
    /// Rows of the left without one.
    Anti,
}

/// Rows of a batch that come and go. A row that goes is the last one kept of its identity.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    pub kinds: &'a [Kind],
    /// A number for each row that only equal rows of the side share.
    pub identities: &'a [i64],
}

/// Where rows of one side are, by their identities. It is empty where rows only come.
#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: HashMap<i64, Vec<(i64, u32)>, BuildHasherDefault<Mixed>>,
    /// By the number of a row.
    identities: Vec<i64>,
}

impl Kind {
    /// The kind of this number.
    pub fn numbered(number: u8) -> Option<Self> {
        let all = [
            Self::Insert,
            Self::UpdateBefore,
            Self::UpdateAfter,
            Self::Delete,
        ];
        all.into_iter().find(|each| *each as u8 == number)
    }

    fn adds(self) -> bool {
        matches!(self, Self::Insert | Self::UpdateAfter)
    }
}

impl Join {
    /// As [`Join::add`] of an unbounded join, of rows that come and go. A row that is not there cannot
    /// go, and counts as late. An update whose two rows are behind each other is one step.
    pub fn change(&mut self, side: usize, keys: &[i64], times: &[i64], of: Changes<'_>) -> &Step {
        self.begin();
        let mut place = 0;
        while let Some((key, kind)) = keys.get(place).zip(of.kinds.get(place)) {
            let next = place + 1;
            if kind.adds() {
                self.come(
                    side,
                    place,
                    (*key, times[place]),
                    Some(of.identities[place]),
                );
            } else {
                let is_update = *kind == Kind::UpdateBefore
                    && keys.get(next) == Some(key)
                    && of.kinds[next] == Kind::UpdateAfter
                    && !self.is_late(side, *key, times[next]);
                self.step.rows.push(NO_ROW);
                match self.take_out(side, *key, of.identities[place]) {
                    Some(old) if is_update => {
                        let new = self.new_row(side, times[next]);
                        self.index(side, &new, Some(of.identities[next]));
                        self.replace(side, *key, &old, new);
                        place = next;
                    }
                    Some(old) => self.remove(side, *key, &old),
                    None => self.step.late.push(place as u32),
                }
            }
            place += 1;
        }
        &self.step
    }

    /// The identities of the rows that are kept of a side, where rows go.
    pub fn identities(&self, side: usize) -> impl ExactSizeIterator<Item = i64> {
        self.indexes[side].rows.keys().copied()
    }

    /// Takes in a row that comes, unless it is late.
    pub(crate) fn come(
        &mut self,
        side: usize,
        place: usize,
        (key, time): (i64, i64),
        identity: Option<i64>,
    ) {
        if self.is_late(side, key, time) {
            self.step.late.push(place as u32);
            self.step.rows.push(NO_ROW);
            return;
        }
        let row = self.new_row(side, time);
        self.index(side, &row, identity);
        self.insert(side, key, row, identity.is_some());
    }

    pub(crate) fn keep_unbounded(&mut self, side: usize, slot: u32, row: Row) {
        let due = row.time.saturating_add(self.rule.keep());
        self.keys[slot].insert(side, row);
        if self.rule.keep() != i64::MAX {
            self.wait(0, slot, due);
        }
    }

    /// Lets go of rows that expire. Its pairs are those of which [`Join::aside`] is told: rows that had
    /// no partner.
    pub(crate) fn close_unbounded(&mut self, most: usize) {
        let keep = self.rule.keep();
        let needs_joined = [0, 1].map(|side| self.needs_joined(side));
        if self.watermark == i64::MAX {
            for slot in self.keys.slots() {
                self.wait(0, slot, NEVER - 1);
            }
        }
        while self.step.pairs.len() < most
            && let Some((slot, _)) = self.next_due(0)
        {
            let watermark = self.watermark;
            let of = &mut self.keys[slot];
            let had = [0, 1].map(|side: usize| !of.rows[side].is_empty());
            for side in [0, 1] {
                let gone =
                    of.rows[side].partition_point(|row| row.time.saturating_add(keep) <= watermark);
                for row in of.rows[side].drain(..gone) {
                    self.indexes[side].forget(&row);
                    if self.aside[side] && !row.is_joined && !had[1 - side] {
                        self.step.pair(side, row.number, NO_ROW);
                    }
                    self.step.gone[side].push(row.number);
                }
                if gone > 0 && needs_joined[1 - side] {
                    of.rows[1 - side]
                        .iter_mut()
                        .for_each(|row| row.is_joined = true);
                }
            }
            let firsts = of.rows.iter().filter_map(|rows| rows.front());
            if let Some(first) = firsts.map(|row| row.time).min() {
                self.wait(0, slot, first.saturating_add(keep));
            } else {
                self.keys.remove(slot);
            }
        }
    }

    /// Notes where a row is, if rows of its side go.
    pub(crate) fn index(&mut self, side: usize, row: &Row, identity: Option<i64>) {
        if let Some(identity) = identity {
            let Index { rows, identities } = &mut self.indexes[side];
            rows.entry(identity)
                .or_default()
                .push((row.time, row.number));
            if identities.len() <= row.number as usize {
                identities.resize(row.number as usize + 1, 0);
            }
            identities[row.number as usize] = identity;
        }
    }

    fn insert(&mut self, side: usize, key: i64, row: Row, can_go: bool) {
        let slot = self.keys.slot(key);
        let [own, others] = self.keys[slot].sides(side);
        let (is_first, is_alone) = (own.is_empty(), others.is_empty());
        match (self.rule.gives(), side) {
            (Gives::Pairs, _) => {
                if is_alone && self.outer[side] {
                    self.step.give(Kind::Insert, side, row.number, NO_ROW);
                }
                let step = &mut self.step;
                for other in &*others {
                    if is_first && self.outer[1 - side] && !other.is_joined {
                        step.give(Kind::UpdateBefore, 1 - side, other.number, NO_ROW);
                        step.give(Kind::UpdateAfter, side, row.number, other.number);
                    } else {
                        step.give(Kind::Insert, side, row.number, other.number);
                    }
                }
            }
            (gives, 0) => {
                if is_alone == (gives == Gives::Anti) {
                    self.step.give(Kind::Insert, 0, row.number, NO_ROW);
                }
            }
            _ => {
                if is_first {
                    self.turn(slot, true);
                }
                if !can_go {
                    self.keep_longest(slot, row);
                    return;
                }
            }
        }
        self.keep_unbounded(side, slot, row);
    }

    /// Takes a row, which has left its key, out of what was given.
    fn remove(&mut self, side: usize, key: i64, row: &Row) {
        self.step.gone[side].push(row.number);
        let slot = self.keys.slot(key);
        let [own, others] = self.keys[slot].sides(side);
        let was_last = own.is_empty();
        match (self.rule.gives(), side) {
            (Gives::Pairs, _) => {
                if others.is_empty() && self.outer[side] && !row.is_joined {
                    self.step.give(Kind::Delete, side, row.number, NO_ROW);
                }
                for other in &*others {
                    if was_last && self.outer[1 - side] && !other.is_joined {
                        let step = &mut self.step;
                        step.give(Kind::UpdateBefore, side, row.number, other.number);
                        step.give(Kind::UpdateAfter, 1 - side, other.number, NO_ROW);
                    } else {
                        self.step.give(Kind::Delete, side, row.number, other.number);
                    }
                }
            }
            (gives, 0) if (others.is_empty() && !row.is_joined) == (gives == Gives::Anti) => {
                self.step.give(Kind::Delete, 0, row.number, NO_ROW);
            }
            (_, 1) if was_last => self.turn(slot, false),
            _ => {}
        }
        if self.keys[slot].is_empty() {
            self.keys.remove(slot);
        }
    }

    /// Puts a row in the place of one that has left the key.
    fn replace(&mut self, side: usize, key: i64, old: &Row, new: Row) {
        self.step.gone[side].push(old.number);
        let slot = self.keys.slot(key);
        let [_, others] = self.keys[slot].sides(side);
        let (is_alone, step) = (others.is_empty(), &mut self.step);
        let (is_shown, was_shown) = match (self.rule.gives(), side) {
            (Gives::Pairs, _) if is_alone => (self.outer[side], self.outer[side] && !old.is_joined),
            (Gives::Pairs, _) => {
                for other in &*others {
                    step.give(Kind::UpdateBefore, side, old.number, other.number);
                    step.give(Kind::UpdateAfter, side, new.number, other.number);
                }
                (false, false)
            }
            (Gives::Semi, 0) => (!is_alone, !is_alone || old.is_joined),
            (Gives::Anti, 0) => (is_alone, is_alone && !old.is_joined),
            _ => (false, false),
        };
        let is_update = is_shown && was_shown;
        if was_shown {
            let kind = if is_update {
                Kind::UpdateBefore
            } else {
                Kind::Delete
            };
            step.give(kind, side, old.number, NO_ROW);
        }
        if is_shown {
            let kind = if is_update {
                Kind::UpdateAfter
            } else {
                Kind::Insert
            };
            step.give(kind, side, new.number, NO_ROW);
        }
        self.keep_unbounded(side, slot, new);
    }

    /// Gives the rows of the left, or takes them back, when the right gets its first row or loses its
    /// last one.
    fn turn(&mut self, slot: u32, has_come: bool) {
        let kind = if has_come == (self.rule.gives() == Gives::Semi) {
            Kind::Insert
        } else {
            Kind::Delete
        };
        for row in self.keys[slot].rows[0].iter().filter(|row| !row.is_joined) {
            self.step.give(kind, 0, row.number, NO_ROW);
        }
    }

    /// Keeps the row of the right that stays longest, where one only has to be there.
    fn keep_longest(&mut self, slot: u32, row: Row) {
        let kept = &mut self.keys[slot].rows[1];
        let stays = self.rule.keep() != i64::MAX;
        if kept
            .back()
            .is_some_and(|last| !stays || row.time <= last.time)
        {
            self.step.gone[1].push(row.number);
            return;
        }
        let gone = kept.pop_back().map(|last| last.number);
        self.step.gone[1].extend(gone);
        self.keep_unbounded(1, slot, row);
    }

    /// The row of this identity, which leaves its key.
    fn take_out(&mut self, side: usize, key: i64, identity: i64) -> Option<Row> {
        let (time, number) = self.indexes[side].pop(identity)?;
        let slot = self.keys.get(key)?;
        let rows = &mut self.keys[slot].rows[side];
        let first = rows.partition_point(|row| row.time < time);
        let place = (first..rows.len()).find(|place| rows[*place].number == number)?;
        rows.remove(place)
    }

    fn new_row(&mut self, side: usize, time: i64) -> Row {
        Row {
            time,
            number: self.number(side),
            is_joined: false,
        }
    }

    /// Whether rows of this side have to know that they had a partner.
    fn needs_joined(&self, side: usize) -> bool {
        self.outer[side] || self.aside[side] || self.rule.gives() != Gives::Pairs
    }
}

impl Rule {
    fn gives(&self) -> Gives {
        match self {
            Self::Unbounded { gives, .. } => *gives,
            _ => Gives::Pairs,
        }
    }

    /// How far behind the watermark the time of a row is when it expires; `i64::MAX` is never.
    pub(crate) fn keep(&self) -> i64 {
        match self {
            Self::Unbounded { keep, .. } => *keep,
            _ => i64::MAX,
        }
    }
}

impl Index {
    /// Where the last row of this identity is, which is let go of.
    fn pop(&mut self, identity: i64) -> Option<(i64, u32)> {
        let rows = self.rows.get_mut(&identity)?;
        let last = rows.pop();
        if rows.is_empty() {
            self.rows.remove(&identity);
        }
        last
    }

    fn forget(&mut self, row: &Row) {
        if let Some(identity) = self.identities.get(row.number as usize)
            && let Some(rows) = self.rows.get_mut(identity)
        {
            rows.retain(|(_, number)| *number != row.number);
            if rows.is_empty() {
                self.rows.remove(identity);
            }
        }
    }
}

impl Step {
    fn give(&mut self, kind: Kind, side: usize, own: u32, other: u32) {
        self.kinds.push(kind);
        self.pair(side, own, other);
    }
}

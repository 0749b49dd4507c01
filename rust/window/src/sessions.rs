//! Sessions of keys: where each begins and ends, which are one now, and which are complete.

mod session;

use crate::compact::{Live, NONE, is_worth_it, live, set_last};
use crate::due::Due;
use crate::slices::Miss;
use crate::spans::Spans;
use crate::windows::{Window, is_near};
use session::{DEAD, Session};
use std::hint::black_box;
use std::mem;

pub use session::{Ended, Placement};

/// The sessions of keys that have numbers: a pause of a gap ends one.
///
/// A session has a number, too, under which others keep what its times have come to. It is complete
/// when the watermark is at its last microsecond, and gone when it was complete for the allowed
/// lateness. It waits for that, and a session that grows waits on as it did: when the time comes, it
/// is seen that it is due later.
///
/// ```
/// use oka_window::{Placement, Sessions, Spans, Window};
///
/// let mut sessions = Sessions::new(10, 0, false);
/// assert_eq!(sessions.add(0, 100), Ok(Placement::Begun(0)));
/// assert_eq!(sessions.add(0, 115), Ok(Placement::Begun(1)));
/// assert_eq!(sessions.add(0, 107), Ok(Placement::Joined { into: 0, from: 1 }));
/// sessions.advance(200);
/// assert_eq!(sessions.complete(), Some(0));
/// assert_eq!(sessions.window(0), Window { start: 100, end: 125 });
/// ```
#[derive(Debug)]
pub struct Sessions {
    /// From its last time to the end of a session inside here.
    gap: i64,
    /// By how much that end is behind the one that others see.
    beyond: i64,
    lateness: i64,
    /// Whether all changes are told; else those of sessions that are complete.
    tells_changes: bool,
    watermark: i64,
    /// By the number of the key, its last session; `NONE` where there is no other.
    last: Vec<u32>,
    of_number: Vec<Session>,
    /// How many of them there are still.
    alive: usize,
    /// When a session is complete or gone, in order of that and of their places.
    due: Due,
    changed: Vec<u32>,
    begun: u64,
}

impl Sessions {
    /// `gap` is from 1 us to [`crate::LONGEST`]; `lateness` is for how long complete sessions are
    /// kept.
    pub fn new(gap: i64, lateness: u64, tells_changes: bool) -> Self {
        Self {
            gap,
            beyond: 0,
            lateness: i64::try_from(lateness).unwrap_or(i64::MAX),
            tells_changes,
            watermark: i64::MIN,
            last: Vec::new(),
            of_number: Vec::new(),
            alive: 0,
            due: Due::new(gap),
            changed: Vec::new(),
            begun: 0,
        }
    }

    /// Whether times that are a gap apart are in one session, too. It ends as the others do, and is
    /// complete when the watermark is at its end. Before the first time.
    #[must_use]
    pub fn inclusive(mut self, inclusive: bool) -> Self {
        self.beyond = i64::from(inclusive);
        self.gap += self.beyond;
        self.due = Due::new(self.gap);
        self
    }

    /// Takes in a time of the key with this number.
    #[inline]
    pub fn add(&mut self, key: usize, time: i64) -> Result<Placement, Miss> {
        let last = self.last.get(key).copied().unwrap_or(NONE);
        if let Some(found) = self.of_number.get_mut(last as usize)
            && found.span.has(time)
            && !found.is_complete
        {
            found.span.end = found.span.end.max(time + self.gap);
            if self.tells_changes {
                self.note(last);
            }
            return Ok(Placement::Grown(last as usize));
        }
        self.place(key, time)
    }

    /// The next session that is complete or gone now: [`Self::complete`] is those of them that are given.
    pub fn next_ended(&mut self) -> Option<Ended> {
        let now = self.watermark.saturating_add(1);
        loop {
            let Some((due, number)) = self.due.pop(now) else {
                self.begin_span(now)?;
                continue;
            };
            let found = &mut self.of_number[number as usize];
            if found.waits != due {
                continue; // it waits elsewhere, or not at all
            }
            if found.due(self.lateness) > due {
                self.wait(number);
                continue;
            }
            let was_changed = mem::take(&mut found.is_changed);
            let is_given = was_changed || !(self.tells_changes || found.is_complete);
            let is_gone = found.is_complete || self.lateness == 0;
            if is_gone {
                self.remove(number);
            } else {
                found.is_complete = true;
                self.wait(number);
            }
            return Some(Ended {
                number: number as usize,
                is_given,
                is_gone,
            });
        }
    }

    /// Looks when those are due that wait for a time in the next span.
    fn begin_span(&mut self, now: i64) -> Option<()> {
        let (span, numbers) = self.due.begin(now)?;
        // All are read at once.
        let waits = numbers.iter().map(|it| self.of_number[*it as usize].waits);
        black_box(waits.fold(0, |all, waits| all ^ waits));
        for number in numbers {
            if self.due.span(self.of_number[number as usize].waits) == span {
                self.wait(number);
            }
        }
        Some(())
    }

    /// Whether it is complete, and not gone.
    pub fn is_complete(&self, number: usize) -> bool {
        self.of_number[number].is_complete
    }

    /// Why a time is none that could begin a session, if so.
    pub fn check(&self, time: i64) -> Result<(), Miss> {
        if !is_near(time) {
            return Err(Miss::Far);
        }
        let last = time + self.gap - 1;
        if last <= self.watermark && last.saturating_add(self.lateness) <= self.watermark {
            return Err(Miss::Late);
        }
        Ok(())
    }

    /// The keys that have sessions.
    pub fn keys(&self) -> impl Iterator<Item = usize> {
        let last = self.last.iter().enumerate();
        last.filter(|(_, last)| **last != NONE).map(|(key, _)| key)
    }

    /// Goes on with a session of a key behind those that it has; `watermark` is how far event time
    /// had come. The session's number, which is the next.
    pub fn restore(&mut self, key: usize, span: Window, watermark: Option<i64>) -> usize {
        let before = self.last.get(key).copied().unwrap_or(NONE);
        let (start, end) = (span.start, span.end + self.beyond);
        let span = Window { start, end };
        let is_complete = watermark.is_some_and(|watermark| span.end - 1 <= watermark);
        let number = self.begin(key, span, (before, NONE), is_complete);
        if self.tells_changes {
            self.note(number);
        }
        number as usize
    }

    /// Those, however many they are.
    pub(crate) fn live(&self) -> Live {
        let are_alive = self.of_number.iter().map(|each| each.waits != DEAD);
        live(are_alive, &self.last)
    }

    /// As [`Self::add`], wherever the time lies.
    #[inline(never)]
    fn place(&mut self, key: usize, time: i64) -> Result<Placement, Miss> {
        if !is_near(time) {
            return Err(Miss::Far);
        }
        let end = time + self.gap;
        let (mut behind, mut at) = (NONE, self.last.get(key).copied().unwrap_or(NONE));
        while at != NONE && self.of_number[at as usize].span.start >= end {
            (behind, at) = (at, self.of_number[at as usize].before);
        }
        let touches = |number: u32| {
            let found = self.of_number.get(number as usize);
            found.is_some_and(|found| time < found.span.end)
        };
        if !touches(at) {
            self.check(time)?;
            let is_complete = end - 1 <= self.watermark;
            let span = Window { start: time, end };
            let number = self.begin(key, span, (at, behind), is_complete);
            if is_complete || self.tells_changes {
                self.note(number);
            }
            return Ok(Placement::Begun(number as usize));
        }
        let before = self.of_number[at as usize].before;
        let joins = touches(before); // at most one more: each is as long as the gap
        let into = if joins { before } else { at };
        let (mut last, mut place) = (end, u64::MAX);
        if joins {
            let from = &mut self.of_number[at as usize];
            (last, place) = (end.max(from.span.end), from.place);
            from.waits = DEAD;
            self.alive -= 1;
            match self.of_number.get_mut(behind as usize) {
                Some(behind) => behind.before = into,
                None => self.last[key] = into,
            }
        }
        let found = &mut self.of_number[into as usize];
        found.span.start = found.span.start.min(time);
        found.span.end = found.span.end.max(last);
        found.place = found.place.min(place);
        let was_complete = found.is_complete;
        found.is_complete &= found.span.end - 1 <= self.watermark;
        let is_complete = found.is_complete;
        if is_complete || self.tells_changes {
            self.note(into);
        }
        if joins || was_complete != is_complete {
            self.wait(into);
        }
        let (into, from) = (into as usize, at as usize);
        Ok(if joins {
            Placement::Joined { into, from }
        } else {
            Placement::Grown(into)
        })
    }

    /// A session of this key between two others.
    fn begin(
        &mut self,
        key: usize,
        span: Window,
        (before, behind): (u32, u32),
        is_complete: bool,
    ) -> u32 {
        let number = u32::try_from(self.of_number.len()).expect("fewer than 2^32 fit into memory");
        self.of_number.push(Session {
            span,
            key: key as u32,
            before,
            place: self.begun,
            waits: 0,
            is_complete,
            is_changed: false,
        });
        self.begun += 1;
        self.alive += 1;
        self.wait(number);
        match self.of_number.get_mut(behind as usize) {
            Some(behind) => behind.before = number,
            None => set_last(&mut self.last, key, number),
        }
        number
    }

    /// Has it wait until it is complete or gone; what it waited for before is void.
    fn wait(&mut self, number: u32) {
        let found = &mut self.of_number[number as usize];
        found.waits = found.due(self.lateness);
        self.due.push(found.waits, found.place, number);
    }

    fn note(&mut self, number: u32) {
        let found = &mut self.of_number[number as usize];
        if !mem::replace(&mut found.is_changed, true) {
            self.changed.push(number);
        }
    }

    fn remove(&mut self, number: u32) {
        let found = &mut self.of_number[number as usize];
        found.waits = DEAD;
        let (key, before) = (found.key as usize, found.before);
        self.alive -= 1;
        let mut at = self.last[key];
        if at == number {
            self.last[key] = before;
            return;
        }
        while self.of_number[at as usize].before != number {
            at = self.of_number[at as usize].before;
        }
        self.of_number[at as usize].before = before;
    }
}

impl Spans for Sessions {
    const TIMED: bool = true;

    fn counts(&self) -> &[i64] {
        &[]
    }

    fn has_key(&self, key: usize) -> bool {
        self.of_key(key).next().is_some()
    }

    fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
    }

    fn watermark(&self) -> Option<i64> {
        (self.watermark > i64::MIN).then_some(self.watermark)
    }

    fn complete(&mut self) -> Option<usize> {
        loop {
            let ended = self.next_ended()?;
            if ended.is_given {
                return Some(ended.number);
            }
        }
    }

    fn take_changed(&mut self) -> Vec<usize> {
        let mut changed = mem::take(&mut self.changed);
        changed.retain(|number| {
            let found = &mut self.of_number[*number as usize];
            let counts = self.tells_changes || found.is_complete;
            mem::take(&mut found.is_changed) && found.waits != DEAD && counts
        });
        changed.sort_unstable_by_key(|number| {
            let found = &self.of_number[*number as usize];
            (found.span.end, found.place)
        });
        changed.into_iter().map(|number| number as usize).collect()
    }

    fn has_changed(&self) -> bool {
        let is_changed = |number: &u32| {
            let found = &self.of_number[*number as usize];
            found.is_changed && found.waits != DEAD
        };
        self.changed.iter().any(is_changed)
    }

    fn window(&self, number: usize) -> Window {
        let span = self.of_number[number].span;
        Window {
            start: span.start,
            end: span.end - self.beyond,
        }
    }

    fn key(&self, number: usize) -> usize {
        self.of_number[number].key as usize
    }

    fn of_key(&self, key: usize) -> impl Iterator<Item = usize> {
        let known = |number: u32| (number != NONE).then_some(number as usize);
        let last = known(self.last.get(key).copied().unwrap_or(NONE));
        std::iter::successors(last, move |number| known(self.of_number[*number].before))
    }

    fn met(&self, key: usize, time: i64) -> impl Iterator<Item = usize> {
        let end = time.saturating_add(self.gap);
        self.of_key(key).filter(move |number| {
            let span = self.of_number[*number].span;
            time < span.end && span.start < end
        })
    }

    fn last_of(&self, keys: &[u32]) -> Vec<usize> {
        let last: Vec<_> = keys
            .iter()
            .filter_map(|key| self.last.get(*key as usize))
            .collect();
        let has = |number: &&u32| self.of_number.get(**number as usize).is_some();
        let last = last.into_iter().filter(has).map(|number| *number as usize);
        let last: Vec<_> = last.collect();
        let ends = last.iter().map(|number| self.of_number[*number].span.end);
        black_box(ends.fold(0, |all, end| all ^ end));
        last
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let sessions = self.of_number.iter().enumerate();
        sessions
            .filter(|(_, each)| each.waits != DEAD)
            .map(|(number, _)| number)
    }

    fn len(&self) -> usize {
        self.alive
    }

    fn compact(&self) -> Option<Live> {
        is_worth_it(self.alive, self.of_number.len()).then(|| self.live())
    }

    fn renumber(&mut self, live: &Live, keys: &[usize]) {
        let places = live.places(self.of_number.len());
        let place = |number: u32| places.get(number as usize).copied().unwrap_or(NONE);
        let before = mem::take(&mut self.last);
        for (key, known) in keys.iter().zip(&live.keys) {
            set_last(&mut self.last, *key, place(before[*known]));
        }
        self.of_number.retain(|each| each.waits != DEAD);
        for each in &mut self.of_number {
            each.before = place(each.before);
        }
        let changed: &[usize] = if *keys == live.keys { &[] } else { keys };
        for key in changed {
            let mut at = self.last[*key];
            while at != NONE {
                let found = &mut self.of_number[at as usize];
                found.key = *key as u32;
                at = found.before;
            }
        }
        (self.due).renumber(|number| Some(place(number)).filter(|number| *number != NONE));
        let changed = mem::take(&mut self.changed).into_iter().map(place);
        self.changed = changed.filter(|number| *number != NONE).collect();
    }
}

//! One session, and what is said of it.

use crate::windows::Window;

/// A session, as all of its key and all that wait know it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) span: Window,
    pub(super) key: u32,
    /// The session of the same key before this one.
    pub(super) before: u32,
    /// The place of its first time among those of all sessions.
    pub(super) place: u64,
    /// For which time it waits; what is said of another is void. [`DEAD`] when it is gone, or part
    /// of another.
    pub(super) waits: i64,
    pub(super) is_complete: bool,
    pub(super) is_changed: bool,
}

/// A session that is complete or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub number: usize,
    /// Whether what it has come to is to be given.
    pub is_given: bool,
    /// Whether it is there no longer.
    pub is_gone: bool,
}

/// What became of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The session with this number, which is the next, began.
    Begun(usize),
    /// It is part of this one.
    Grown(usize),
    /// It is part of one, of which another is part from now on.
    Joined { into: usize, from: usize },
}

impl Session {
    /// When there is something to do with it: it is complete, or gone.
    pub(super) fn due(&self, lateness: i64) -> i64 {
        if self.is_complete {
            self.span.end.saturating_add(lateness)
        } else {
            self.span.end
        }
    }
}

/// What a session waits for that is gone, or part of another.
pub(super) const DEAD: i64 = i64::MIN;

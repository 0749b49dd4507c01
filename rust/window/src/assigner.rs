//! Which windows there are.

use crate::windows::{LONGEST, Windows, WindowsError};

/// Says which windows a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigner {
    /// Windows of one size, wherever the records are.
    Sliced(Windows),
    /// Those of a key that a pause of so many microseconds ends, or a longer one where times that are so
    /// far apart are in one.
    Sessions { gap: i64, inclusive: bool },
    /// Those of so many records of a key, one beginning every `slide` records.
    Counted { size: i64, slide: i64 },
}

impl Assigner {
    pub fn sessions(gap: i64) -> Result<Self, WindowsError> {
        if !(1..=LONGEST).contains(&gap) {
            return Err(WindowsError::Size(gap));
        }
        let inclusive = false;
        Ok(Self::Sessions { gap, inclusive })
    }

    /// Sessions of which one goes on with a time that is a gap behind its last.
    #[must_use]
    pub fn inclusive(self) -> Self {
        match self {
            Self::Sessions { gap, .. } => Self::Sessions {
                gap,
                inclusive: true,
            },
            other => other,
        }
    }

    pub fn counted(size: i64, slide: i64) -> Result<Self, WindowsError> {
        if !(1..=LONGEST).contains(&size) {
            return Err(WindowsError::Size(size));
        }
        if !(1..=size).contains(&slide) {
            return Err(WindowsError::Count { slide, size });
        }
        Ok(Self::Counted { size, slide })
    }
}

impl From<Windows> for Assigner {
    fn from(windows: Windows) -> Self {
        Self::Sliced(windows)
    }
}

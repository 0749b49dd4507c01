//! Which windows there are.

use crate::windows::{LONGEST, Windows, WindowsError};

/// Says which windows a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigner {
    /// Windows of one size, wherever the records are.
    Sliced(Windows),
    /// Those of a key that a pause of so many microseconds ends.
    Sessions { gap: i64 },
    /// Those of so many records of a key, one beginning every `slide` records.
    Counted { size: i64, slide: i64 },
}

impl Assigner {
    pub fn sessions(gap: i64) -> Result<Self, WindowsError> {
        if !(1..=LONGEST).contains(&gap) {
            return Err(WindowsError::Size(gap));
        }
        Ok(Self::Sessions { gap })
    }

    pub fn counted(size: i64, slide: i64) -> Result<Self, WindowsError> {
        // As windows that microseconds make.
        Windows::new(size, slide, 0).map(|_| Self::Counted { size, slide })
    }
}

impl From<Windows> for Assigner {
    fn from(windows: Windows) -> Self {
        Self::Sliced(windows)
    }
}

//! The values of a key's records, in the order of time.

use crate::accumulator::Accumulated;
use std::collections::VecDeque;

/// Values, `None` for null. Those that all are integers of 64 bits, or all floats, take 8 bytes each.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    Integers(VecDeque<i64>),
    Floats(VecDeque<f64>),
    Others(VecDeque<Option<Accumulated>>),
}

impl Default for Cells {
    fn default() -> Self {
        Self::Integers(VecDeque::new())
    }
}

impl Cells {
    #[inline]
    pub(super) fn push(&mut self, value: Option<Accumulated>) {
        match (&mut *self, &value) {
            (Self::Integers(cells), Some(Accumulated::Integer(number))) => {
                if let Ok(number) = i64::try_from(*number) {
                    return cells.push_back(number);
                }
            }
            (Self::Floats(cells), Some(Accumulated::Float(number))) => {
                return cells.push_back(*number);
            }
            (Self::Others(cells), _) => return cells.push_back(value),
            (Self::Integers(cells), Some(Accumulated::Float(number))) if cells.is_empty() => {
                *self = Self::Floats(VecDeque::from([*number]));
                return;
            }
            _ => {}
        }
        self.widen();
        self.push(value);
    }

    /// Puts one in front of another, or at the end.
    pub(super) fn insert(&mut self, index: usize, value: Option<Accumulated>) {
        self.push(value); // which has it be of its kind
        match self {
            Self::Integers(cells) => cells.make_contiguous()[index..].rotate_right(1),
            Self::Floats(cells) => cells.make_contiguous()[index..].rotate_right(1),
            Self::Others(cells) => cells.make_contiguous()[index..].rotate_right(1),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Accumulated> {
        match self {
            Self::Integers(cells) => cells
                .get(index)
                .map(|it| Accumulated::Integer((*it).into())),
            Self::Floats(cells) => cells.get(index).copied().map(Accumulated::Float),
            Self::Others(cells) => cells.get(index).cloned().flatten(),
        }
    }

    #[inline]
    pub(super) fn is_null(&self, index: usize) -> bool {
        matches!(self, Self::Others(cells) if matches!(cells.get(index), Some(None)))
    }

    /// Lets go of so many, the first ones.
    #[inline]
    pub(super) fn forget(&mut self, count: usize) {
        match self {
            Self::Integers(cells) => drop(cells.drain(..count)),
            Self::Floats(cells) => drop(cells.drain(..count)),
            Self::Others(cells) => drop(cells.drain(..count)),
        }
    }

    /// Lets go of all.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Integers(cells) => cells.clear(),
            Self::Floats(cells) => cells.clear(),
            Self::Others(_) => *self = Self::default(),
        }
    }

    /// Lets go of the last one.
    #[inline]
    pub(super) fn pop(&mut self) {
        match self {
            Self::Integers(cells) => drop(cells.pop_back()),
            Self::Floats(cells) => drop(cells.pop_back()),
            Self::Others(cells) => drop(cells.pop_back()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Integers(cells) => cells.len(),
            Self::Floats(cells) => cells.len(),
            Self::Others(cells) => cells.len(),
        }
    }

    /// The last one.
    pub(super) fn last(&self) -> Option<Accumulated> {
        self.get(self.len().checked_sub(1)?)
    }

    #[cold]
    fn widen(&mut self) {
        *self = Self::Others((0..self.len()).map(|index| self.get(index)).collect());
    }
}

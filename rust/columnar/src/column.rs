use std::fmt;

use arrow_schema::Schema;
use thiserror::Error;

/// Which column of a batch is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The column with this name.
    Name(String),
    /// The column with this index; negative counts from the end.
    Index(isize),
}

impl Selector {
    /// The index of the column in batches of this schema.
    pub fn find(&self, schema: &Schema) -> Result<usize, ColumnError> {
        let count = schema.fields().len();
        let missing = || ColumnError {
            selector: self.clone(),
            columns: schema.fields().iter().map(|f| f.name().clone()).collect(),
        };
        match self {
            Self::Name(name) => schema.index_of(name).map_err(|_| missing()),
            Self::Index(index) => {
                let index = if *index < 0 {
                    index + count as isize
                } else {
                    *index
                };
                usize::try_from(index)
                    .ok()
                    .filter(|index| *index < count)
                    .ok_or_else(missing)
            }
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, "{name:?}"),
            Self::Index(index) => write!(formatter, "{index}"),
        }
    }
}

/// A batch has no such column.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no column {selector}; the columns are {}", .columns.join(", "))]
pub struct ColumnError {
    /// What was asked for.
    pub selector: Selector,
    /// The names of the columns there are.
    pub columns: Vec<String>,
}

//! Selecting a column of a batch by its name or its index.

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
        let names = || schema.fields().iter().map(|field| field.name());
        let missing = || ColumnError {
            selector: self.clone(),
            columns: names().cloned().collect(),
        };
        match self {
            Self::Name(name) => {
                let mut found = (0..).zip(names()).filter(|(_, other)| *other == name);
                match (found.next(), found.next()) {
                    (Some((index, _)), None) => Ok(index),
                    _ => Err(missing()),
                }
            }
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

/// A batch has no such column, or several.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is {} column {selector}; the columns are {}", self.how_many(), .columns.join(", "))]
pub struct ColumnError {
    /// What was asked for.
    pub selector: Selector,
    /// The names of the columns there are.
    pub columns: Vec<String>,
}

impl ColumnError {
    fn how_many(&self) -> &'static str {
        match &self.selector {
            Selector::Name(name) if self.columns.contains(name) => "more than one",
            _ => "no",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    #[test]
    fn a_name_that_several_columns_have_names_none() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Schema::new(vec![field("a"), field("b"), field("a")]);
        let find = |name: &str| Selector::Name(name.to_owned()).find(&schema);
        assert_eq!(find("b"), Ok(1));
        let told = |name| find(name).unwrap_err().to_string();
        let expected = "there is more than one column \"a\"; the columns are a, b, a";
        assert_eq!(told("a"), expected);
        assert_eq!(
            told("c"),
            "there is no column \"c\"; the columns are a, b, a"
        );
        assert_eq!(Selector::Index(-1).find(&schema), Ok(2));
    }
}

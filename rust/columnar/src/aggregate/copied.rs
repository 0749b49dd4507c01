//! Copies of what is kept, taken while the table goes on, and encoded by who reads them.

use arrow_array::ArrayRef;
use oka_compute::{Accumulated, ByteStrings, Copied};

use crate::AggregateError;
use crate::aggregate::distinct::CopiedDistinct;
use crate::aggregate::lists::CopiedLists;
use crate::columns::cells::{cells, encoded, joined};

/// Columns of some keys, in parts, and of some values: not always as many.
#[derive(Debug, Default)]
pub(crate) struct CopiedRows {
    pub(crate) keys: Vec<Vec<ArrayRef>>,
    pub(crate) values: Vec<CopiedValues>,
}

impl CopiedRows {
    /// Keys and values, each encoded: a value, or an array of several.
    pub(crate) fn later(self) -> Copied<AggregateError> {
        Box::new(move || {
            let mut keys = Vec::new();
            for part in &self.keys {
                let columns = part.iter().map(encoded);
                keys.push(joined(columns.collect::<Result<_, _>>()?));
            }
            Ok((
                keys.iter().flat_map(ByteStrings::iter).collect(),
                self.values()?,
            ))
        })
    }

    /// The values, encoded.
    pub(crate) fn values(&self) -> Result<ByteStrings, AggregateError> {
        let values = self.values.iter().map(CopiedValues::encode);
        Ok(joined(values.collect::<Result<_, _>>()?))
    }
}

/// What one aggregation has come to, in the order of some numbers.
#[derive(Debug)]
pub(crate) enum CopiedValues {
    Column(ArrayRef),
    Integers(Vec<Option<i128>>),
    /// Counts and sums.
    IntegerMeans(Vec<(u64, i128)>),
    FloatMeans(Vec<(u64, f64)>),
    Folded(Vec<Option<Accumulated>>),
    Distinct(CopiedDistinct),
    Lists(CopiedLists),
}

impl CopiedValues {
    fn encode(&self) -> Result<ByteStrings, AggregateError> {
        Ok(match self {
            Self::Column(column) => encoded(column)?,
            Self::Integers(values) => cells(values, |value| value.map(Accumulated::Integer)),
            Self::IntegerMeans(values) => cells(values, |&(count, sum)| {
                Some(Accumulated::IntegerMean { count, sum })
            }),
            Self::FloatMeans(values) => cells(values, |&(count, sum)| {
                Some(Accumulated::FloatMean { count, sum })
            }),
            Self::Folded(values) => cells(values, Clone::clone),
            Self::Distinct(values) => values.encode(),
            Self::Lists(values) => values.encode()?,
        })
    }
}

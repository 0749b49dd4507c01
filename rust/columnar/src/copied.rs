//! Copies of what is kept, taken while the table goes on, and encoded by who reads them.

use std::fmt;

use arrow_array::ArrayRef;
use oka_compute::kept::{Kept, Later};
use oka_compute::{Accumulated, windows};

use crate::AggregateError;
use crate::cells::{cell, encoded, joined};
use crate::distinct::CopiedDistinct;

/// What an aggregate, or one of windows, keeps at one time. Who takes it keeps rows waiting: it is flat
/// arrays, of which [`Self::encode`] makes keys and values in whichever thread.
pub struct Exported {
    layout: Vec<u8>,
    encode: Later<AggregateError>,
}

impl Exported {
    /// With a frame of no rows, and of keys and values as `encode` gives them.
    pub(crate) fn later(layout: Vec<u8>, encode: Later<AggregateError>) -> Self {
        Self { layout, encode }
    }

    /// A frame of no rows, of the schema of the first one; no bytes if there was none.
    pub fn layout(&self) -> &[u8] {
        &self.layout
    }

    /// Encoded keys with what is kept of them.
    pub fn encode(self) -> Result<Kept, AggregateError> {
        (self.encode)()
    }
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// Columns of some keys, in parts, and of some values: not always as many.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    pub(crate) keys: Vec<Vec<ArrayRef>>,
    pub(crate) values: Vec<CopiedValues>,
}

impl Copied {
    /// The keys, encoded: a value, or an array of several.
    pub(crate) fn keys(&self) -> Result<Vec<Vec<u8>>, AggregateError> {
        let mut keys = Vec::new();
        for part in &self.keys {
            let columns = part.iter().map(encoded);
            keys.append(&mut joined(columns.collect::<Result<_, _>>()?));
        }
        Ok(keys)
    }

    /// Keys and values, which who calls it encodes.
    pub(crate) fn later(self) -> windows::Copied<AggregateError> {
        Box::new(move || {
            let (keys, values) = (self.keys()?, self.values()?);
            Ok((keys.iter().collect(), values.iter().collect()))
        })
    }

    /// The values, encoded: one, or an array of several.
    pub(crate) fn values(&self) -> Result<Vec<Vec<u8>>, AggregateError> {
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
    Numbers(Vec<Option<Accumulated>>),
    Distinct(CopiedDistinct),
}

impl CopiedValues {
    fn encode(&self) -> Result<Vec<Vec<u8>>, AggregateError> {
        Ok(match self {
            Self::Column(column) => encoded(column)?,
            Self::Integers(values) => values
                .iter()
                .map(|value| cell(value.map(Accumulated::Integer).as_ref()))
                .collect(),
            Self::IntegerMeans(values) => values
                .iter()
                .map(|&(count, sum)| cell(Some(&Accumulated::IntegerMean { count, sum })))
                .collect(),
            Self::FloatMeans(values) => values
                .iter()
                .map(|&(count, sum)| cell(Some(&Accumulated::FloatMean { count, sum })))
                .collect(),
            Self::Numbers(values) => values.iter().map(|value| cell(value.as_ref())).collect(),
            Self::Distinct(values) => values.encode(),
        })
    }
}

//! What is computed of each key's records.

use crate::accumulator::{Accumulated, Aggregation};
use crate::encoded::path::Path;
use crate::problem::Problem;
use std::iter;

/// One aggregation, and others beside it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) aggregation: Aggregation,
    /// With the way from the record to the value.
    pub(crate) further: Vec<(Aggregation, Path)>,
    /// Whether a record that fails leaves everything as it was.
    pub(crate) careful: bool,
}

impl Wanted {
    pub(crate) fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            further: Vec::new(),
            careful: false,
        }
    }

    /// Each of the aggregations.
    pub(crate) fn all(&self) -> impl Iterator<Item = Aggregation> {
        let further = self.further.iter().map(|(aggregation, _)| *aggregation);
        iter::once(self.aggregation).chain(further)
    }

    /// What a record comes to by itself.
    pub(crate) fn alone(&self, value: &[u8], record: &[u8]) -> Result<Vec<Accumulated>, Problem> {
        let first = Accumulated::first(self.aggregation, value);
        let further = self.further.iter().map(|further| {
            let value = further_value(further, record)?;
            Accumulated::first(further.0, value)
        });
        iter::once(first).chain(further).collect()
    }
}

/// The value of a record that is computed beside the first.
pub(crate) fn further_value<'r>(
    (aggregation, path): &(Aggregation, Path),
    record: &'r [u8],
) -> Result<&'r [u8], Problem> {
    match aggregation {
        Aggregation::Count => Ok(record),
        _ => path.find(record).map_err(Problem::NoValue),
    }
}

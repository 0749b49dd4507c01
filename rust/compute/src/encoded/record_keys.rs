//! The keys of records that come one after the other.

use crate::accumulator::Aggregation;
use crate::encoded::fields::{Fields, KeyPath};
use crate::encoded::path::Path;
use crate::encoded::value::Reader;
use crate::groups::wanted::Term;
use crate::keys::key;
use crate::problem::Problem;

/// Finds the keys of encoded records.
#[derive(Debug)]
pub struct RecordKeys {
    fields: Fields,
    scratch: Vec<u8>,
}

impl RecordKeys {
    pub fn by(key: KeyPath) -> Self {
        Self {
            fields: Fields::of_term(&Term::new(Aggregation::Count, Path::default()), key),
            scratch: Vec::new(),
        }
    }

    /// Passes over a record: its key as it is encoded, and the canonical bytes of that.
    #[inline]
    pub fn next<'f, 'r: 'f>(
        &'f mut self,
        reader: &mut Reader<'r>,
    ) -> Result<(&'f [u8], &'f [u8]), Problem> {
        let (key, _) = self.fields.of(reader)?;
        Ok((key, key::canonical(key, &mut self.scratch)?))
    }
}

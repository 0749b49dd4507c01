//! All values of a key.

use crate::accumulator::Accumulated;
use crate::encoded::encode;
use crate::encoded::fields::first;
use crate::groups::kept::items;
use crate::problem::Problem;

/// Values in the order in which they came, encoded one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    count: usize,
    encoded: Vec<u8>,
}

impl Gathered {
    /// The values, and how many they are.
    pub fn values(&self) -> (usize, &[u8]) {
        (self.count, &self.encoded)
    }

    /// Takes in the value that begins here.
    pub(crate) fn add(&mut self, encoded: &[u8]) -> Result<(), Problem> {
        self.encoded.extend_from_slice(first(encoded)?);
        self.count += 1;
        Ok(())
    }

    /// Takes in a value that is the one of a record.
    pub(crate) fn push(&mut self, value: &Accumulated) {
        value.encode(&mut self.encoded);
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.encoded.extend_from_slice(&other.encoded);
        self.count += other.count;
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::array(out, self.count);
        out.extend_from_slice(&self.encoded);
    }

    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Problem> {
        let items = items(encoded)?;
        Ok(Self {
            count: items.len(),
            encoded: items.concat(),
        })
    }
}

//! Records and containers of somebody else, such as Python's own objects, read where they are.

use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value};
use bumpalo::Bump;

/// Records one after the other.
pub trait Records {
    /// Puts the next record straight where it is wanted: a value that goes through memory as a whole waits there until
    /// it is written. Who asks knows how many there are.
    fn next<'a>(&mut self, record: &mut Value<'a>, arena: &'a Bump) -> Result<(), Unusual>
    where
        Self: 'a;
}

/// A tuple, a list, a dict, or something that is only passed on.
///
/// It stays as it is for as long as it is borrowed.
pub trait Foreign<'a> {
    fn kind(&self) -> Kind;

    /// The number of items or entries, of a container.
    fn count(&self) -> usize;

    /// The item of a tuple or a list.
    fn item(&self, index: usize, arena: &'a Bump) -> Computed<'a>;

    /// The value under the name with this number ([`crate::Program::names`]), of a dict: None where it has none.
    fn field(&self, name: usize, arena: &'a Bump) -> Result<Option<Value<'a>>, Unusual>;

    /// The entries of a dict, in order.
    fn entries(&self, arena: &'a Bump) -> Result<&'a [(Value<'a>, Value<'a>)], Unusual>;

    /// Appends the encoding; so many containers are around it.
    fn write(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Unusual>;
}

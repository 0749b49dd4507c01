//! What Python knows of values that are no plain ones, such as a Decimal or a datetime: what they equal,
//! how they add up and compare.
//!
//! This crate calls no Python. Who does registers it, once per process; without it such values are refused.

use crate::keys::key::KeyError;
use crate::problem::Problem;
use std::sync::OnceLock;

/// What is asked of it. All values are encoded; what cannot be done is told in words.
pub trait Objects: Send + Sync {
    /// A plain value, or a tuple, that is the same for equal keys and for no others of its kind.
    fn plain_key(&self, key: &[u8]) -> Result<Vec<u8>, String>;

    /// The value as a term of a sum; `None` if it is no number.
    fn number(&self, value: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// The sum of two such terms.
    fn plus(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, String>;

    /// Whether one value is less than another.
    fn is_less(&self, left: &[u8], right: &[u8]) -> Result<bool, String>;

    /// Such a term as a float.
    fn float(&self, value: &[u8]) -> Result<f64, String>;
}

/// Registers it; false, and nothing changes, where that was done before.
pub fn register(objects: Box<dyn Objects>) -> bool {
    OBJECTS.set(objects).is_ok()
}

/// The registered one; without it, the problem is this.
pub(crate) fn registered(otherwise: Problem) -> Result<&'static dyn Objects, Problem> {
    OBJECTS.get().map(AsRef::as_ref).ok_or(otherwise)
}

#[cold]
pub(crate) fn plain_key(key: &[u8]) -> Result<Vec<u8>, KeyError> {
    let objects = OBJECTS.get().ok_or(KeyError::Unsupported)?;
    objects.plain_key(key).map_err(KeyError::Told)
}

static OBJECTS: OnceLock<Box<dyn Objects>> = OnceLock::new();

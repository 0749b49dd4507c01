//! Records as they are encoded: reading and writing values, and where key, value and time of a record lie.
//!
//! - [`value`]: a total reader of encoded values; [`encode`]: the writer of the same format; [`strings`]: many
//!   byte strings in one buffer.
//! - [`path`]: finds the value that a key selector names inside a record; [`fields`]: key and value of a
//!   record; [`record_keys`]: its key alone; [`time`]: its time.
//! - [`classes`]: the names of the fields of objects; [`objects`]: what others know of values that are not
//!   read here.
//! - [`trust`]: what of encoded values runs or imports code where they are decoded.
//! - [`ahead`]: asks for memory before it is read.

pub mod ahead;
pub mod classes;
pub mod encode;
pub mod fields;
pub mod objects;
pub mod path;
pub mod record_keys;
pub(crate) mod strings;
pub mod time;
pub mod trust;
pub mod value;

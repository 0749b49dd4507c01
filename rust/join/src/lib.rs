//! Joins of two keyed streams, in event time or without a bound, over rows of any kind.
//!
//! No Python, no columns, no I/O, no clock. A row has a side, the number of its key and a time in
//! microseconds; what else it is, the caller keeps under the number that the row gets here. A [`Join`]
//! decides which rows are partners, which come without one, and which are late or gone. What all joins
//! keep is in `join`; each kind of join has a file of its own with its rules.

mod interval;
mod join;
mod key;
mod temporal;
mod unbounded;
mod window;

pub use join::{Join, Kept, NO_ROW, Pair, Rule, Step};
pub use unbounded::{Changes, Gives, Kind};

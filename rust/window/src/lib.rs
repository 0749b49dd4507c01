//! Windows of event time over tables of any kind.
//!
//! No Python, no I/O, no clock: times and watermarks are arguments, in microseconds. Windows that
//! overlap share slices: a record is taken in once, and a window is the merge of its slices.
//!
//! - [`Windows`] says where windows and slices begin.
//! - [`Slices`] keeps a table for each slice, and tells which windows are complete.

mod slices;
mod windows;

pub use slices::{Missed, Slice, Slices, Table};
pub use windows::{FARTHEST, Window, Windows, WindowsError};

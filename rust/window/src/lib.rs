//! Windows of event time over tables of any kind.
//!
//! No Python, no I/O, no clock: times and watermarks are arguments, in microseconds. Windows that
//! overlap share slices: a record is taken in once, and a window is the merge of its slices.
//!
//! - [`Windows`] says where windows and slices begin, and [`Calendar`] where days and months do.
//! - [`Assigner`] says which windows there are, of these kinds or others.
//! - [`Slices`] keeps a table for each slice, and tells which windows are complete.
//! - [`Sessions`] and [`Counted`] say the same of windows that each key has of its own: those that
//!   pauses end, and those of so many records. What is kept of them is kept by their numbers.
//! - [`Numbered`] is any of them without tables: others keep values of any kind by the numbers that it
//!   gives, and it decides when results come.
//! - [`RadixHeap`] gives numbers in the order of times.

mod assigner;
mod calendar;
mod compact;
mod counted;
mod due;
mod numbered;
mod radix_heap;
mod sessions;
mod slices;
mod spans;
mod windows;

pub use assigner::Assigner;
pub use calendar::{Calendar, Period};
pub use compact::Live;
pub use counted::Counted;
pub use numbered::{Given, Intake, Numbered, Numbers, Part, Stop, Trial};
pub use radix_heap::RadixHeap;
pub use sessions::{Ended, Placement, Sessions};
pub use slices::{Miss, Slice, Slices, Table};
pub use spans::Spans;
pub use windows::{FARTHEST, LONGEST, Window, Windows, WindowsError, is_near};

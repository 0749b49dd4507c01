//! The algorithm of `rust/ring`, compiled with loom's atomics, in memory on the heap.
//!
//! A crate of its own, which needs neither shared memory nor encryption: a feature of `oka-ring` had
//! all that the ring needs compiled once more.
#![cfg(test)]

#[path = "../../src/doorbell.rs"]
mod doorbell;
mod heap;
mod interleavings;
#[path = "../../src/marks.rs"]
mod marks;
#[path = "../../src/ring.rs"]
mod ring;
#[path = "../../src/storage.rs"]
mod storage;
mod sync;

pub use doorbell::{Bell, Doorbell};
pub use marks::MARKS;
pub use ring::{Reader, Ring, Writer};

//! Functions of users, lifted to expressions, run over records in place: with exactly the results of Python, or
//! none.
//!
//! No Python, no I/O, no threads. Layers, each using the ones before it:
//!
//! - [`tree`]: what a function computes, as it is given.
//! - [`value`]: the values of a record, of which containers are read where they lie ([`view`], [`foreign`]).
//! - `operations`: those of values, each with the facts of Python that it meets.
//! - `calls`: the names of builtins and methods; `code`: instructions; `build`: the tree as those; `run`: their
//!   interpreter.
//! - `parts`: what is looked for in encoded records; `emit`: results that are never made; `write`: values as they are
//!   encoded.
//! - [`program`]: functions one after the other, over the records of a batch; [`fold`]: a function of two records over
//!   those of each key;
//!   [`single`]: a function of one record.
//!
//! What is not known exactly is [`Unusual`]: then the functions themselves are called, with the whole batch.

#![allow(
    clippy::float_cmp,
    clippy::similar_names,
    reason = "Python compares floats exactly, and slices have start, stop and step"
)]

mod build;
mod calls;
mod code;
mod emit;
pub mod fold;
pub mod foreign;
mod operations;
mod parts;
pub mod program;
mod run;
pub mod single;
pub mod tree;
mod unusual;
pub mod value;
pub mod view;
mod write;

pub use build::Unknown;
pub use bumpalo::Bump as Arena;
pub use fold::Folding;
pub use program::{Program, Stage};
pub use single::Single;
pub use unusual::Unusual;
pub use value::Value;

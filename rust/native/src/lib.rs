//! Python bindings of the Rust core, importable as `engine._native`.
use pyo3::prelude::*;

#[pymodule]
mod _native {}

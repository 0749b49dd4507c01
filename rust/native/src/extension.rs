//! What Python registers for the values that Rust does not encode itself.

use oka_codec::Extensions;
use pyo3::prelude::*;

/// Registers the functions for values that Rust does not encode itself; once per process.
///
/// `travel(class)` gives an `engine.record.Shape`, or raises TypeError; `find_class(reference)` gives
/// the class that a shape's reference stands for; `decode(code, payload)` gives a value whose
/// payload a shape gave; `plain_key(value)` gives None, a bool, int, float, str, bytes or a tuple
/// of them that is equal for equal values, or raises TypeError; `canonical_key(value)` gives one that
/// is equal for no others of its kind; `number(value)` gives what stands for it in a sum, or None if it
/// is no number; `pickle(value)` gives the payload of a value of any class, or raises TypeError.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "all are functions of one module, and it is called once"
)]
pub(crate) fn register_extensions(
    py: Python<'_>,
    travel: Py<PyAny>,
    find_class: Py<PyAny>,
    decode: Py<PyAny>,
    plain_key: Py<PyAny>,
    canonical_key: Py<PyAny>,
    number: Py<PyAny>,
    pickle: Py<PyAny>,
) -> PyResult<()> {
    let functions = Extensions {
        travel,
        find_class,
        decode,
        plain_key,
        canonical_key,
        number,
        pickle,
    };
    oka_codec::register(py, functions)
}

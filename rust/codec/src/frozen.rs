//! Copies of dicts that stay as they are.

use crate::ahead::look_ahead;
use crate::encode;
use crate::extension::Pickling;
use oka_compute::ByteStrings;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::iter;
use std::ptr;

/// What a value has been encoded as: whoever encodes it has no more to do.
#[pyclass(frozen, module = "engine._native")]
pub struct Frozen(Box<[u8]>);

impl Frozen {
    /// Of a value that is encoded so.
    pub fn new(encoded: &[u8]) -> Self {
        Self(encoded.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A copy of a dict that is as the dict was, whatever becomes of its values: those that are no numbers,
/// texts, bytes, None or tuples of such have been encoded, and take part in what is encoded later.
#[pyclass(frozen, module = "engine._native")]
pub struct FrozenDict {
    /// Nobody else has it, so nothing in it changes.
    copy: Py<PyDict>,
    /// The places of the values that have been encoded, in order.
    places: Vec<usize>,
    encoded: ByteStrings,
}

#[pymethods]
impl FrozenDict {
    /// Of this dict; None where a key can change. Raises EncodeError naming key and value; `pickle` is
    /// that of `keyed_entries`.
    #[staticmethod]
    #[pyo3(signature = (
        values: "dict[Any, Any]",
        pickle: "bool" = false,
    ) -> "FrozenDict | None")]
    fn of(values: &Bound<'_, PyDict>, pickle: bool) -> PyResult<Option<Self>> {
        let py = values.py();
        let copy = values.copy()?;
        let _pickling = Pickling::allow(pickle);
        let (mut places, mut encoded) = (Vec::new(), ByteStrings::default());
        // SAFETY: the GIL is held; keys and values live for as long as the copy, which nobody changes.
        unsafe {
            let mut at = 0;
            let pairs: Vec<_> = iter::from_fn(|| next(&copy, &mut at)).collect();
            for (place, &(key, value)) in pairs.iter().enumerate() {
                look_ahead(&pairs[place..]);
                if !is_plain(key, DEEPEST) {
                    return Ok(None);
                }
                if !is_plain(value, DEEPEST) {
                    places.push(place);
                    let encode = |out: &mut Vec<u8>| encode::append(py, out, value, LEVELS_ABOVE);
                    if let Err(refused) = encoded.push_with(encode) {
                        let pair = [key, value].map(|part| Bound::from_borrowed_ptr(py, part));
                        let pair = PyTuple::new(py, pair)?;
                        return Err(encode::refusal(place, pair.as_any(), *refused));
                    }
                }
            }
        }
        Ok(Some(Self {
            copy: copy.unbind(),
            places,
            encoded,
        }))
    }

    /// Its keys and values; in place of values that have been encoded, what stands for them.
    #[pyo3(signature = () -> "Any")]
    fn items(slf: Py<Self>) -> FrozenItems {
        FrozenItems {
            of: slf,
            passed: Passed::default(),
        }
    }
}

/// Goes through a `FrozenDict`.
#[pyclass(module = "engine._native")]
struct FrozenItems {
    of: Py<FrozenDict>,
    passed: Passed,
}

#[derive(Default)]
struct Passed {
    /// Where Python is in the dict.
    at: ffi::Py_ssize_t,
    items: usize,
    encoded: usize,
}

#[pymethods]
impl FrozenItems {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let passed = &mut self.passed;
        let FrozenDict {
            copy,
            places,
            encoded,
        } = self.of.get();
        // SAFETY: the GIL is held, and the copy has what it gives.
        let found = unsafe {
            next(copy.bind(py), &mut passed.at).map(|(key, value)| {
                let owned = |part| Bound::from_borrowed_ptr(py, part);
                (owned(key), owned(value))
            })
        };
        let Some((key, value)) = found else {
            return Ok(None);
        };
        let is_encoded = places.get(passed.encoded) == Some(&passed.items);
        passed.items += 1;
        if !is_encoded {
            return Ok(Some((key, value)));
        }
        let bytes = encoded.get(passed.encoded).into();
        passed.encoded += 1;
        Ok(Some((key, Bound::new(py, Frozen(bytes))?.into_any())))
    }
}

/// The next key and value of a dict, which are the dict's.
///
/// # Safety
/// The GIL is held, and the dict is as it was when `at` was 0.
unsafe fn next(dict: &Bound<'_, PyDict>, at: &mut ffi::Py_ssize_t) -> Option<Pair> {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: as above.
    let is_there =
        unsafe { ffi::PyDict_Next(dict.as_ptr(), at, &raw mut key, &raw mut value) } != 0;
    is_there.then_some((key, value))
}

type Pair = (*mut ffi::PyObject, *mut ffi::PyObject);

/// Whether it can never be another than it is now; false where it nests deeper than this.
///
/// # Safety
/// The GIL is held and `value` is valid.
unsafe fn is_plain(value: *mut ffi::PyObject, deepest: usize) -> bool {
    // SAFETY: a tuple keeps its items.
    unsafe {
        let kind = ffi::Py_TYPE(value);
        if kind == &raw mut ffi::PyTuple_Type {
            let mut items = 0..ffi::PyTuple_GET_SIZE(value);
            return deepest > 0
                && items.all(|item| is_plain(ffi::PyTuple_GET_ITEM(value, item), deepest - 1));
        }
        kind == &raw mut ffi::PyUnicode_Type
            || kind == &raw mut ffi::PyLong_Type
            || kind == &raw mut ffi::PyFloat_Type
            || kind == &raw mut ffi::PyBytes_Type
            || kind == &raw mut ffi::PyBool_Type
            || value == ffi::Py_None()
    }
}

/// What nests deeper takes as long to look at as to encode.
const DEEPEST: usize = 8;
/// Of the lists and tuples that operators put around a value: it must not be too deep inside of them.
const LEVELS_ABOVE: usize = 3;

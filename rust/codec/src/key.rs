//! From a record to the hash of its key.

use crate::encode::sign_and_magnitude;
use crate::error::{KeyExtractError, Raised, shortened, type_name};
use crate::extension::Extensions;
use crate::shape::Shape;
use crate::text;
use oka_compute::value::extension;
use oka_protocol::partition::{
    combine, hash_big_int, hash_bytes, hash_float, hash_int, hash_none, hash_str, hash_unsigned,
};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple};
use std::slice;

/// Which part of a record is its key.
#[derive(Debug)]
pub enum Key {
    Record,
    /// An item of a tuple or list; negative counts from the end.
    Item(isize),
    /// The value of a dict under this key.
    Field(Py<PyString>),
    /// Several of them, which make a tuple.
    Tuple(Vec<Key>),
}

impl Key {
    /// `None`, an int or a str, or a tuple of those.
    pub fn new(key: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(key) = key else {
            return Ok(Self::Record);
        };
        if let Ok(field) = key.cast_exact::<PyString>() {
            return Ok(Self::Field(field.clone().unbind()));
        }
        if let Ok(items) = key.cast_exact::<PyTuple>() {
            let keys = items.iter().map(|item| Self::new(Some(&item)));
            return Ok(Self::Tuple(keys.collect::<PyResult<_>>()?));
        }
        key.extract().map(Self::Item).map_err(|_| {
            PyTypeError::new_err(format!(
                "key {} is a {}, expected None, int or str",
                shortened(key),
                type_name(key)
            ))
        })
    }

    /// The hash of the key of the record with this index in its batch.
    #[inline]
    pub fn hash(&self, index: usize, record: &Bound<'_, PyAny>) -> PyResult<u64> {
        if let Self::Tuple(keys) = self {
            return Self::hash_tuple(keys, index, record);
        }
        // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
        unsafe {
            let hash = match self.find(record) {
                Ok(key) => hash(record.py(), key, 0).map_err(Missing::from),
                Err(missing) => self.hash_attribute(record, missing),
            };
            hash.map_err(|missing| self.raise(index, record, missing))
        }
    }

    /// The hash of the field of an object, where a record has no such item for this reason.
    #[inline(never)]
    fn hash_attribute(&self, record: &Bound<'_, PyAny>, missing: Missing) -> Result<u64, Missing> {
        let found = self.attribute(record, missing)?;
        // SAFETY: there is a `Bound`, so the GIL is held and the key is valid.
        unsafe { hash(record.py(), found.as_ptr(), 0).map_err(Missing::from) }
    }

    /// The field of an object; what is missing where there is none.
    fn attribute<'py>(
        &self,
        record: &Bound<'py, PyAny>,
        missing: Missing,
    ) -> Result<Bound<'py, PyAny>, Missing> {
        match (self, &missing) {
            (Self::Field(field), Missing::Kind(_)) if has_fields(record) => {
                match record.getattr_opt(field)? {
                    Some(found) => Ok(found),
                    None => Err(Missing::Field),
                }
            }
            _ => Err(missing),
        }
    }

    /// The key of a record.
    pub fn of<'py>(&self, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Self::Tuple(keys) = self {
            let keys = keys.iter().map(|key| key.of(record));
            let keys = PyTuple::new(record.py(), keys.collect::<PyResult<Vec<_>>>()?)?;
            return Ok(keys.into_any());
        }
        // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
        let found = unsafe {
            self.find(record)
                .map(|key| Bound::from_borrowed_ptr(record.py(), key))
        };
        found
            .or_else(|missing| self.attribute(record, missing))
            .map_err(|missing| match (missing, self) {
                (Missing::Absent, Self::Field(field)) => {
                    PyKeyError::new_err(field.clone_ref(record.py()))
                }
                (Missing::Absent, _) => PyIndexError::new_err(format!(
                    "{} index out of range",
                    if record.is_instance_of::<PyList>() {
                        "list"
                    } else {
                        "tuple"
                    }
                )),
                (Missing::Raised(raised), _) => PyErr::from(raised),
                (Missing::Field, Self::Field(field)) => PyTypeError::new_err(format!(
                    "the record is a {} without the field {}",
                    type_name(record),
                    shortened(field.bind(record.py()).as_any())
                )),
                (missing, _) => PyTypeError::new_err(missing.told(record)),
            })
    }

    /// The hash of the tuple of these keys of the record.
    fn hash_tuple(keys: &[Self], index: usize, record: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut failed = None;
        let hashes = keys.iter().map_while(|key| {
            let hash = key.hash(index, record);
            hash.map_err(|error| failed = Some(error)).ok()
        });
        let hash = combine(hashes);
        failed.map_or(Ok(hash), Err)
    }

    /// The key inside the record, borrowed from it.
    #[inline]
    pub(crate) unsafe fn find(
        &self,
        record: &Bound<'_, PyAny>,
    ) -> Result<*mut ffi::PyObject, Missing> {
        let (py, pointer) = (record.py(), record.as_ptr());
        // SAFETY: the index is checked against the length; the types are exact.
        unsafe {
            match self {
                Self::Record | Self::Tuple(_) => Ok(pointer),
                // Named tuples, too; other subclasses are refused when they are encoded.
                Self::Item(item) if ffi::PyTuple_Check(pointer) != 0 => {
                    let index = position(*item, ffi::PyTuple_GET_SIZE(pointer))?;
                    Ok(ffi::PyTuple_GET_ITEM(pointer, index))
                }
                Self::Item(item) if ffi::PyList_CheckExact(pointer) != 0 => {
                    let index = position(*item, ffi::PyList_GET_SIZE(pointer))?;
                    Ok(ffi::PyList_GET_ITEM(pointer, index))
                }
                Self::Item(_) => Err(Missing::Kind("a tuple or list")),
                Self::Field(field) if record.is_exact_instance_of::<PyDict>() => {
                    let found = ffi::PyDict_GetItemWithError(pointer, field.as_ptr());
                    if !found.is_null() {
                        return Ok(found);
                    }
                    Err(PyErr::take(py).map_or(Missing::Absent, Missing::from))
                }
                Self::Field(_) => Err(Missing::Kind("a dict or an object with fields")),
            }
        }
    }

    #[cold]
    fn raise(&self, index: usize, record: &Bound<'_, PyAny>, missing: Missing) -> PyErr {
        let py = record.py();
        let key = match self {
            Self::Record | Self::Tuple(_) => String::new(),
            Self::Item(item) => format!(", key {item}"),
            Self::Field(field) => format!(", key {}", shortened(field.bind(py).as_any())),
        };
        let (reason, cause) = match missing {
            Missing::Absent => (
                "the record has no such key\n\nhint: filter such records out before key_by"
                    .to_owned(),
                None,
            ),
            Missing::Kind(_) | Missing::Field => (
                format!(
                    "{}\n\nhint: key_by takes a function of the record, too",
                    missing.told(record)
                ),
                None,
            ),
            Missing::Raised(raised) => {
                let error = PyErr::from(raised);
                if !error.is_instance_of::<PyTypeError>(py) {
                    return error;
                }
                (error.value(py).to_string(), Some(error))
            }
        };
        let record = shortened(record);
        let error = KeyExtractError::new_err(format!(
            "record {index} of the batch, {record}{key}: {reason}"
        ));
        error.set_cause(py, cause);
        error
    }
}

/// Why there is no hash.
pub(crate) enum Missing {
    Absent,
    /// The record is of another kind than this, which has such keys.
    Kind(&'static str),
    /// It is an object without this field.
    Field,
    Raised(Raised),
}

impl Missing {
    /// In words, but for what was raised.
    fn told(&self, record: &Bound<'_, PyAny>) -> String {
        let kind = type_name(record);
        match self {
            Self::Kind(expected) => format!("the record is a {kind}, expected {expected}"),
            _ => format!("the record is a {kind}, which has no such field"),
        }
    }
}

/// Whether it is an object of a class that has a `class` statement: others have no fields.
fn has_fields(record: &Bound<'_, PyAny>) -> bool {
    // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
    let flags = unsafe { ffi::PyType_GetFlags(ffi::Py_TYPE(record.as_ptr())) };
    flags & ffi::Py_TPFLAGS_HEAPTYPE != 0
}

impl From<PyErr> for Missing {
    fn from(error: PyErr) -> Self {
        Self::Raised(error.into())
    }
}

impl From<Raised> for Missing {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

#[inline]
fn position(item: isize, count: isize) -> Result<isize, Missing> {
    let index = if item < 0 { item + count } else { item };
    if index < 0 || index >= count {
        return Err(Missing::Absent);
    }
    Ok(index)
}

/// The hash of a key, for which equal keys are equal.
///
/// # Safety
/// The GIL is held and `key` is valid.
#[inline]
unsafe fn hash(py: Python<'_>, key: *mut ffi::PyObject, depth: usize) -> Result<u64, Raised> {
    // SAFETY: each call suits the exact type that was just established.
    unsafe {
        let kind = ffi::Py_TYPE(key);
        if kind == &raw mut ffi::PyUnicode_Type {
            if let Some(utf8) = text::utf8(key) {
                return Ok(hash_str(std::str::from_utf8_unchecked(utf8)));
            }
        } else if kind == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(key, &raw mut overflow);
            if overflow == 0 {
                return Ok(hash_int(number));
            }
        } else if kind == &raw mut ffi::PyFloat_Type {
            return Ok(hash_float(ffi::PyFloat_AS_DOUBLE(key)));
        } else if kind == &raw mut ffi::PyBytes_Type {
            let data = ffi::PyBytes_AS_STRING(key).cast();
            let length = ffi::Py_SIZE(key) as usize;
            return Ok(hash_bytes(slice::from_raw_parts(data, length)));
        } else if kind == &raw mut ffi::PyTuple_Type {
            return hash_tuple(py, key, depth);
        }
        hash_other(&Bound::from_borrowed_ptr(py, key), depth)
    }
}

unsafe fn hash_tuple(
    py: Python<'_>,
    tuple: *mut ffi::PyObject,
    depth: usize,
) -> Result<u64, Raised> {
    check_depth(depth)?;
    let mut failed = None;
    // SAFETY: `tuple` is a tuple, and keeps its items alive.
    let hashes = unsafe {
        (0..ffi::PyTuple_GET_SIZE(tuple)).map_while(|index| {
            hash(py, ffi::PyTuple_GET_ITEM(tuple, index), depth + 1)
                .map_err(|error| failed = Some(error))
                .ok()
        })
    };
    let hash = combine(hashes);
    failed.map_or(Ok(hash), Err)
}

#[cold]
fn hash_other(key: &Bound<'_, PyAny>, depth: usize) -> Result<u64, Raised> {
    let py = key.py();
    check_depth(depth)?;
    if key.is_none() {
        return Ok(hash_none());
    }
    if let Ok(truth) = key.extract::<bool>() {
        return Ok(hash_int(i64::from(truth)));
    }
    if let Ok(number) = key.cast_exact::<PyInt>() {
        if let Ok(number) = number.extract() {
            return Ok(hash_unsigned(number));
        }
        let (negative, magnitude) = sign_and_magnitude(number)?;
        return Ok(hash_big_int(negative, &magnitude));
    }
    if let Ok(set) = key.cast_exact::<PyFrozenSet>() {
        let mut hashes = Vec::with_capacity(set.len());
        for element in set {
            // SAFETY: there is a `Bound`, so the GIL is held and the element is valid.
            hashes.push(unsafe { hash(py, element.as_ptr(), depth + 1)? });
        }
        hashes.sort_unstable();
        hashes.dedup(); // several NaN are one
        let sum = hashes.into_iter().fold(0, u64::wrapping_add);
        return Ok(combine([hash_str("frozenset"), hash_unsigned(sum)]));
    }
    if key.is_exact_instance_of::<PyList>()
        || key.is_exact_instance_of::<PyDict>()
        || key.is_exact_instance_of::<PySet>()
        || key.is_exact_instance_of::<PyByteArray>()
    {
        return Err(PyTypeError::new_err(format!(
            "a {} cannot be a key: it is not hashable\n\nhint: make it a tuple or a frozenset",
            type_name(key)
        ))
        .into());
    }
    if key.is_instance_of::<PyTuple>() {
        // SAFETY: there is a `Bound`, so the GIL is held and the key is valid.
        unsafe {
            let shape = Shape::of(py, ffi::Py_TYPE(key.as_ptr()))?;
            if shape.code == extension::NAMED_TUPLE {
                return hash_tuple(py, key.as_ptr(), depth);
            }
        }
    }
    let plain = Extensions::of(py)?.plain_key(key)?;
    // SAFETY: there is a `Bound`, so the GIL is held and the key is valid.
    unsafe { hash(py, plain.as_ptr(), depth + 1) }
}

fn check_depth(depth: usize) -> Result<(), Raised> {
    if depth > oka_compute::key::MAX_DEPTH {
        return Err(
            PyTypeError::new_err("the key nests too deeply\n\nhint: use a flat key").into(),
        );
    }
    Ok(())
}

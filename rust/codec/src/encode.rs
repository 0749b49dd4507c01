//! Python objects to encoded records.
//!
//! Exact types only: a subclass would come out as its base. Values of classes have a [`Shape`]. A
//! value that fails may leave bytes behind it: the caller truncates.

use crate::error::{EncodeError, shortened};
use crate::extension::{Extensions, Pickling};
use crate::frozen::Frozen;
use crate::names;
use crate::shape::{Form, Shape, lock};
use crate::text;
use oka_compute::encode;
use oka_compute::value::extension;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyInt, PyList, PySet, PyTuple};
use std::slice;

/// Why a value was not encoded.
pub enum Refusal {
    TooDeep,
    TooLarge,
    /// A dict or list changed its size meanwhile.
    Changed,
    /// It takes more than a frame may.
    Oversized {
        bytes: usize,
        limit: usize,
    },
    Raised(PyErr),
}

/// An encoding, or why not; boxed so that success is one word.
pub type Encoded = Result<(), Box<Refusal>>;

/// Appends `value` to `out`.
///
/// # Safety
/// The GIL is held and `value` is valid. Python code may run: the caller owns a reference.
#[inline]
pub unsafe fn append(
    py: Python<'_>,
    out: &mut Vec<u8>,
    value: *mut ffi::PyObject,
    depth: usize,
) -> Encoded {
    // SAFETY: each call suits the exact type that was just established; see `append` for the rest.
    unsafe {
        let kind = ffi::Py_TYPE(value);
        if kind == &raw mut ffi::PyUnicode_Type {
            if let Some(utf8) = text::utf8(value) {
                check_length(utf8.len())?;
                encode::text(out, utf8);
                return Ok(());
            }
        } else if kind == &raw mut ffi::PyTuple_Type {
            return append_tuple(py, out, value, depth);
        } else if kind == &raw mut ffi::PyLong_Type {
            return append_int(py, out, value);
        } else if kind == &raw mut ffi::PyFloat_Type {
            encode::float(out, ffi::PyFloat_AS_DOUBLE(value));
            return Ok(());
        }
        append_other(py, out, value, depth)
    }
}

/// The exception for a record that was refused.
pub fn refusal(index: usize, record: &Bound<'_, PyAny>, refused: Refusal) -> PyErr {
    let py = record.py();
    let (reason, cause) = match refused {
        Refusal::TooDeep => (
            format!("it nests deeper than {MAX_DEPTH} levels\n\nhint: does it contain itself?"),
            None,
        ),
        Refusal::TooLarge => (
            "it holds 4 GiB or more in one value\n\nhint: split it".to_owned(),
            None,
        ),
        Refusal::Changed => (
            "it changed while it was encoded\n\nhint: emit a copy of what other threads change"
                .to_owned(),
            None,
        ),
        Refusal::Oversized { bytes, limit } => (
            format!(
                "it takes {bytes} bytes, expected at most {limit}\n\nhint: raise \
                 max_record_bytes, or split it"
            ),
            None,
        ),
        Refusal::Raised(error) if error.is_instance_of::<PyTypeError>(py) => {
            (error.value(py).to_string(), Some(error))
        }
        Refusal::Raised(error) => return error,
    };
    let record = shortened(record);
    let error = EncodeError::new_err(format!("record {index} of the batch, {record}: {reason}"));
    error.set_cause(py, cause);
    error
}

/// How deep values may nest.
pub(crate) const MAX_DEPTH: usize = 200;

#[inline]
pub(crate) fn check_length(length: usize) -> Encoded {
    if length > u32::MAX as usize {
        return Err(Box::new(Refusal::TooLarge));
    }
    Ok(())
}

pub(crate) fn check_depth(depth: usize) -> Encoded {
    if depth >= MAX_DEPTH {
        return Err(Box::new(Refusal::TooDeep));
    }
    Ok(())
}

impl From<PyErr> for Box<Refusal> {
    fn from(error: PyErr) -> Self {
        Box::new(Refusal::Raised(error))
    }
}

unsafe fn append_tuple(
    py: Python<'_>,
    out: &mut Vec<u8>,
    value: *mut ffi::PyObject,
    depth: usize,
) -> Encoded {
    // SAFETY: `value` is a tuple: it never changes, and keeps its items alive.
    unsafe {
        let count = ffi::PyTuple_GET_SIZE(value);
        check_depth(depth)?;
        check_length(count as usize)?;
        encode::array(out, count as usize);
        for index in 0..count {
            append(py, out, ffi::PyTuple_GET_ITEM(value, index), depth + 1)?;
        }
    }
    Ok(())
}

#[inline]
unsafe fn append_int(py: Python<'_>, out: &mut Vec<u8>, value: *mut ffi::PyObject) -> Encoded {
    let mut overflow = 0;
    // SAFETY: `value` is an int.
    unsafe {
        let number = ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow);
        if overflow == 0 {
            encode::int(out, number);
            return Ok(());
        }
        let value = Bound::from_borrowed_ptr(py, value);
        append_big_int(out, value.cast_unchecked())
    }
}

#[cold]
fn append_big_int(out: &mut Vec<u8>, value: &Bound<'_, PyInt>) -> Encoded {
    let (negative, magnitude) = sign_and_magnitude(value)?;
    check_length(magnitude.len() + 1)?;
    encode::integer(out, negative, &magnitude);
    Ok(())
}

/// Whether an integer is negative, and its absolute value, least significant byte first.
pub(crate) fn sign_and_magnitude(value: &Bound<'_, PyInt>) -> PyResult<(bool, Vec<u8>)> {
    let bits: usize = value.call_method0("bit_length")?.extract()?;
    let bytes = value
        .call_method0("__abs__")?
        .call_method1("to_bytes", (bits.div_ceil(8), "little"))?;
    Ok((value.lt(0)?, bytes.extract()?))
}

#[inline(never)]
unsafe fn append_other(
    py: Python<'_>,
    out: &mut Vec<u8>,
    value: *mut ffi::PyObject,
    depth: usize,
) -> Encoded {
    // SAFETY: as in `append`.
    unsafe {
        if let Some(shape) = Shape::recent(ffi::Py_TYPE(value)) {
            check_depth(depth)?;
            let value = Bound::from_borrowed_ptr(py, value);
            return append_object(out, &value, shape, depth + 1);
        }
        if value == ffi::Py_None() {
            encode::nil(out);
        } else if value == ffi::Py_True() {
            encode::boolean(out, true);
        } else if value == ffi::Py_False() {
            encode::boolean(out, false);
        } else if ffi::PyBytes_CheckExact(value) != 0 {
            let data = ffi::PyBytes_AS_STRING(value).cast();
            let data = slice::from_raw_parts(data, ffi::Py_SIZE(value) as usize);
            check_length(data.len())?;
            encode::bytes(out, data);
        } else {
            check_depth(depth)?;
            let value = Bound::from_borrowed_ptr(py, value);
            return append_container(out, &value, depth + 1);
        }
    }
    Ok(())
}

fn append_container(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: usize) -> Encoded {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        append_dict(out, dict, depth)
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        let count = list.len();
        append_elements(out, extension::LIST, count, list.iter(), depth)
    } else if let Ok(set) = value.cast_exact::<PySet>() {
        append_set(out, extension::SET, set.iter().collect(), depth)
    } else if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
        append_set(out, extension::FROZENSET, set.iter().collect(), depth)
    } else if let Ok(frozen) = value.cast_exact::<Frozen>() {
        out.extend_from_slice(frozen.get().bytes());
        Ok(())
    } else {
        // SAFETY: the GIL is held and `value` is valid.
        match unsafe { Shape::of(value.py(), ffi::Py_TYPE(value.as_ptr())) } {
            Ok(shape) => append_object(out, value, shape, depth),
            Err(refused) => append_pickle(out, value, refused),
        }
    }
}

/// Appends what its class says: mostly a reference to it, and what the value consists of.
fn append_object(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    shape: &Shape,
    depth: usize,
) -> Encoded {
    let py = value.py();
    match &shape.form {
        Form::Payload { take } => {
            let payload = take.bind(py).call1((value,));
            match payload.and_then(|payload| Ok(payload.cast_into::<PyBytes>()?)) {
                Ok(payload) => append_payload(out, shape.code, &payload),
                Err(refused) => append_pickle(out, value, refused),
            }
        }
        Form::Fields {
            attributes, take, ..
        } => {
            let start = open_alike(out, shape, attributes.len());
            // SAFETY: the GIL is held, and `value` is of the shape's class; `part` has an owner.
            let complete =
                unsafe { attributes.each(value, |part| append(py, out, part.as_ptr(), depth))? };
            if complete {
                return close(out, start);
            }
            out.truncate(start);
            let state = take.bind(py).call1((value,))?;
            let start = open_object(out, shape, extension::STATE, 1);
            // SAFETY: the GIL is held, and `state` owns a reference.
            unsafe { append(py, out, state.as_ptr(), depth)? };
            close(out, start)
        }
        Form::Items(count) => {
            let start = open_alike(out, shape, *count);
            let items = value.as_ptr();
            // SAFETY: a named tuple never changes, and keeps its items alive; the GIL is held.
            unsafe {
                for index in 0..ffi::PyTuple_GET_SIZE(items) {
                    append(py, out, ffi::PyTuple_GET_ITEM(items, index), depth)?;
                }
            }
            close(out, start)
        }
        Form::Parts { take, .. } => append_taken(out, shape, take, value, depth),
        Form::Members { take, members, .. } => {
            if let Some(payload) = lock(members).payload(value) {
                encode::extension(out, shape.code, payload);
                return Ok(());
            }
            let mut encoded = Vec::new();
            append_taken(&mut encoded, shape, take, value, depth)?;
            let payload = &encoded[encode::OPENED_BYTES..];
            encode::extension(out, shape.code, payload);
            lock(members).keep_payload(value, payload);
            Ok(())
        }
    }
}

/// Appends a pickle of what was refused, where that is allowed.
#[cold]
fn append_pickle(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, refused: PyErr) -> Encoded {
    let py = value.py();
    if !Pickling::is_allowed() || !refused.is_instance_of::<PyTypeError>(py) {
        return Err(refused.into());
    }
    let payload = Extensions::of(py)?.pickle(value)?;
    append_payload(out, extension::PICKLED, &payload)
}

fn append_payload(out: &mut Vec<u8>, code: i8, payload: &Bound<'_, PyBytes>) -> Encoded {
    check_length(payload.as_bytes().len())?;
    encode::extension(out, code, payload.as_bytes());
    Ok(())
}

fn append_taken(
    out: &mut Vec<u8>,
    shape: &Shape,
    take: &Py<PyAny>,
    value: &Bound<'_, PyAny>,
    depth: usize,
) -> Encoded {
    let py = value.py();
    let parts = take.bind(py).call1((value,))?;
    let parts = parts.cast_into::<PyTuple>().map_err(PyErr::from)?;
    let start = open_object(out, shape, shape.code, parts.len());
    for part in parts {
        // SAFETY: the GIL is held, and `part` owns a reference.
        unsafe { append(py, out, part.as_ptr(), depth)? };
    }
    close(out, start)
}

/// As [`open_object`], of a class whose objects all have so many parts.
#[inline]
fn open_alike(out: &mut Vec<u8>, shape: &Shape, parts: usize) -> usize {
    match &shape.opening {
        Some(opening) => opening.append(out),
        None => open_object(out, shape, shape.code, parts),
    }
}

/// Starts an extension with the class and so many parts, which the caller appends.
#[inline]
fn open_object(out: &mut Vec<u8>, shape: &Shape, code: i8, parts: usize) -> usize {
    let start = encode::open_extension(out, code);
    encode::array(out, parts + 1);
    out.extend_from_slice(&shape.reference);
    start
}

/// Takes the elements collected: a set must not change while it is walked.
fn append_set(out: &mut Vec<u8>, code: i8, elements: Vec<Bound<PyAny>>, depth: usize) -> Encoded {
    append_elements(out, code, elements.len(), elements.into_iter(), depth)
}

fn append_elements<'py>(
    out: &mut Vec<u8>,
    code: i8,
    count: usize,
    elements: impl Iterator<Item = Bound<'py, PyAny>>,
    depth: usize,
) -> Encoded {
    check_length(count)?;
    let start = encode::open_extension(out, code);
    encode::array(out, count);
    let mut appended = 0;
    for element in elements {
        // SAFETY: the GIL is held, and `element` owns a reference.
        unsafe { append(element.py(), out, element.as_ptr(), depth)? };
        appended += 1;
    }
    if appended != count {
        return Err(Box::new(Refusal::Changed));
    }
    close(out, start)
}

fn append_dict(out: &mut Vec<u8>, dict: &Bound<'_, PyDict>, depth: usize) -> Encoded {
    let (py, count) = (dict.py(), dict.len());
    check_length(count)?;
    encode::map(out, count);
    let mut position = 0;
    let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut appended = 0;
    // SAFETY: `PyDict_Next` lends key and value; each gets an owner before Python code can run.
    unsafe {
        while ffi::PyDict_Next(
            dict.as_ptr(),
            &raw mut position,
            &raw mut key,
            &raw mut value,
        ) != 0
        {
            if names::append(out, key) {
                let kind = ffi::Py_TYPE(value);
                if kind == &raw mut ffi::PyUnicode_Type || kind == &raw mut ffi::PyFloat_Type {
                    append(py, out, value, depth)?; // which runs no Python code
                    appended += 1;
                    continue;
                }
                let value = Bound::from_borrowed_ptr(py, value);
                append(py, out, value.as_ptr(), depth)?;
            } else {
                let key = Bound::from_borrowed_ptr(py, key);
                let value = Bound::from_borrowed_ptr(py, value);
                append(py, out, key.as_ptr(), depth)?;
                append(py, out, value.as_ptr(), depth)?;
            }
            appended += 1;
        }
    }
    if appended != count {
        return Err(Box::new(Refusal::Changed));
    }
    Ok(())
}

fn close(out: &mut [u8], start: usize) -> Encoded {
    if encode::close_extension(out, start) {
        return Ok(());
    }
    Err(Box::new(Refusal::TooLarge))
}

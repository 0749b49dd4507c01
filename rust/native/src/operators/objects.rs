//! Python's objects as values of programs, read where they are.
//!
//! No Python code runs meanwhile: nothing is compared but texts, and what is not of an exact built-in type is not
//! touched. So what is borrowed from a list of records stays as it is.

use oka_codec::utf8;
use oka_compute::encode;
use oka_compute::value::extension;
use oka_expression::foreign::{Foreign, Records};
use oka_expression::value::{Computed, Kind};
use oka_expression::{Arena, Unusual, Value};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::cell::Cell;
use std::slice;

/// A name of fields, as Python has it.
pub(crate) struct Name {
    object: Py<PyString>,
    /// Where a dict had it last.
    guess: Cell<isize>,
}

impl Name {
    pub(crate) fn new(py: Python<'_>, name: &str) -> Self {
        Self {
            object: PyString::intern(py, name).unbind(),
            guess: Cell::new(0),
        }
    }
}

/// The value that an object is.
///
/// # Safety
/// The GIL is held, no Python code runs for `'a`, and the object lives as long.
#[inline]
pub(crate) unsafe fn value<'a>(
    object: *mut ffi::PyObject,
    names: &'a [Name],
    arena: &'a Arena,
) -> Computed<'a> {
    // SAFETY: each call suits the exact type that was just established.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        if kind == &raw mut ffi::PyUnicode_Type {
            return utf8(object).map(Value::Text).ok_or(Unusual::NotPlain);
        }
        if kind == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow);
            return match overflow {
                0 => Ok(Value::Int(number)),
                _ => Err(Unusual::NotPlain),
            };
        }
        if kind == &raw mut ffi::PyFloat_Type {
            return Ok(Value::Float(ffi::PyFloat_AS_DOUBLE(object)));
        }
        let kind = if kind == &raw mut ffi::PyDict_Type {
            Kind::Dict
        } else if kind == &raw mut ffi::PyTuple_Type {
            Kind::Tuple
        } else if kind == &raw mut ffi::PyList_Type {
            Kind::List
        } else if object == ffi::Py_None() {
            return Ok(Value::None);
        } else if object == ffi::Py_True() || object == ffi::Py_False() {
            return Ok(Value::Bool(object == ffi::Py_True()));
        } else if ffi::PyBytes_CheckExact(object) != 0 {
            let data = ffi::PyBytes_AS_STRING(object).cast();
            let length = ffi::Py_SIZE(object) as usize;
            return Ok(Value::Bytes(slice::from_raw_parts(data, length)));
        } else {
            return Err(Unusual::NotPlain);
        };
        Ok(Value::Foreign(arena.alloc(Object {
            kind,
            pointer: object,
            names,
        })))
    }
}

/// A tuple, a list or a dict.
struct Object<'a> {
    kind: Kind,
    pointer: *mut ffi::PyObject,
    names: &'a [Name],
}

impl Object<'_> {
    /// The entry at a place of a dict, and the next place.
    #[inline]
    fn entry(&self, mut place: isize) -> Option<(*mut ffi::PyObject, *mut ffi::PyObject, isize)> {
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: it is a dict, and any place is looked up.
        let found =
            unsafe { ffi::PyDict_Next(self.pointer, &raw mut place, &raw mut key, &raw mut value) };
        (found != 0).then_some((key, value, place))
    }
}

impl<'a> Foreign<'a> for Object<'a> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn count(&self) -> usize {
        // SAFETY: it is of this kind.
        unsafe {
            match self.kind {
                Kind::Dict => ffi::PyDict_Size(self.pointer) as usize,
                _ => ffi::Py_SIZE(self.pointer) as usize,
            }
        }
    }

    fn item(&self, index: usize, arena: &'a Arena) -> Computed<'a> {
        if index >= self.count() {
            return Err(Unusual::NoItem);
        }
        // SAFETY: it is of this kind and has such an item, which lives as long as it.
        unsafe {
            let item = match self.kind {
                Kind::Tuple => ffi::PyTuple_GET_ITEM(self.pointer, index as isize),
                _ => ffi::PyList_GET_ITEM(self.pointer, index as isize),
            };
            value(item, self.names, arena)
        }
    }

    fn field(&self, name: usize, arena: &'a Arena) -> Result<Option<Value<'a>>, Unusual> {
        let name = &self.names[name];
        let object = name.object.as_ptr();
        // SAFETY: what the dict has lives as long as it.
        unsafe {
            if let Some((key, found, _)) = self.entry(name.guess.get())
                && key == object
            {
                return value(found, self.names, arena).map(Some);
            }
            let mut place = 0;
            while let Some((key, found, next)) = self.entry(place) {
                if key == object || is_text(key, object)? {
                    name.guess.set(place);
                    return value(found, self.names, arena).map(Some);
                }
                place = next;
            }
        }
        Ok(None)
    }

    fn entries(&self, arena: &'a Arena) -> Result<&'a [(Value<'a>, Value<'a>)], Unusual> {
        let mut entries = Vec::with_capacity(self.count());
        let mut place = 0;
        while let Some((key, found, next)) = self.entry(place) {
            // SAFETY: what the dict has lives as long as it.
            unsafe {
                let key = value(key, self.names, arena)?;
                entries.push((key, value(found, self.names, arena)?));
            }
            place = next;
        }
        Ok(arena.alloc_slice_copy(&entries))
    }

    fn write(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Unusual> {
        // SAFETY: it is valid for as long as this is.
        unsafe { append(out, self.pointer, depth) }
    }
}

/// Appends the encoding of an object that is read here: what the gate appends.
///
/// # Safety
/// The GIL is held and the object is valid.
unsafe fn append(
    out: &mut Vec<u8>,
    object: *mut ffi::PyObject,
    depth: usize,
) -> Result<(), Unusual> {
    let check = |count: isize| {
        if depth >= MOST_DEPTH {
            return Err(Unusual::TooDeep);
        }
        u32::try_from(count)
            .map(|count| count as usize)
            .map_err(|_| Unusual::TooLarge)
    };
    // SAFETY: each call suits the exact type that was just established; containers keep what they have alive.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        if kind == &raw mut ffi::PyUnicode_Type {
            let utf8 = utf8(object).ok_or(Unusual::NotPlain)?;
            u32::try_from(utf8.len()).map_err(|_| Unusual::TooLarge)?;
            encode::text(out, utf8);
        } else if kind == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow);
            if overflow != 0 {
                return Err(Unusual::NotPlain);
            }
            encode::int(out, number);
        } else if kind == &raw mut ffi::PyFloat_Type {
            encode::float(out, ffi::PyFloat_AS_DOUBLE(object));
        } else if kind == &raw mut ffi::PyTuple_Type {
            let count = check(ffi::PyTuple_GET_SIZE(object))?;
            encode::array(out, count);
            for index in 0..count {
                append(
                    out,
                    ffi::PyTuple_GET_ITEM(object, index as isize),
                    depth + 1,
                )?;
            }
        } else if kind == &raw mut ffi::PyDict_Type {
            encode::map(out, check(ffi::PyDict_Size(object))?);
            let mut place = 0;
            let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
            while ffi::PyDict_Next(object, &raw mut place, &raw mut key, &raw mut value) != 0 {
                append(out, key, depth + 1)?;
                append(out, value, depth + 1)?;
            }
        } else if kind == &raw mut ffi::PyList_Type {
            let count = check(ffi::PyList_GET_SIZE(object))?;
            let start = encode::open_extension(out, extension::LIST);
            encode::array(out, count);
            for index in 0..count {
                append(out, ffi::PyList_GET_ITEM(object, index as isize), depth + 1)?;
            }
            if !encode::close_extension(out, start) {
                return Err(Unusual::TooLarge);
            }
        } else if object == ffi::Py_None() {
            encode::nil(out);
        } else if object == ffi::Py_True() || object == ffi::Py_False() {
            encode::boolean(out, object == ffi::Py_True());
        } else if ffi::PyBytes_CheckExact(object) != 0 {
            let data = ffi::PyBytes_AS_STRING(object).cast();
            let length = ffi::Py_SIZE(object) as usize;
            u32::try_from(length).map_err(|_| Unusual::TooLarge)?;
            encode::bytes(out, slice::from_raw_parts(data, length));
        } else {
            return Err(Unusual::NotPlain);
        }
    }
    Ok(())
}

/// The records of a list.
pub(crate) struct Objects<'n> {
    list: *mut ffi::PyObject,
    index: isize,
    names: &'n [Name],
}

impl<'n> Objects<'n> {
    /// They are read while the list has an owner and no Python code runs.
    pub(crate) fn of(list: &'n Bound<'_, PyList>, names: &'n [Name]) -> Self {
        Self {
            list: list.as_ptr(),
            index: 0,
            names,
        }
    }
}

impl Records for Objects<'_> {
    #[inline]
    fn next<'a>(&mut self, into: &mut Value<'a>, arena: &'a Arena) -> Result<(), Unusual>
    where
        Self: 'a,
    {
        // SAFETY: the `Bound` that this borrows keeps the list and holds the GIL; no Python code runs until it is
        // given back, so the list keeps its items. The index is below its length, or there is no item.
        unsafe {
            if self.index >= ffi::PyList_GET_SIZE(self.list) {
                return Err(Unusual::NoItem);
            }
            let record = ffi::PyList_GET_ITEM(self.list, self.index);
            self.index += 1;
            if ffi::Py_TYPE(record) == &raw mut ffi::PyUnicode_Type {
                *into = Value::Text(utf8(record).ok_or(Unusual::NotPlain)?);
            } else {
                *into = value(record, self.names, arena)?;
            }
        }
        Ok(())
    }
}

/// How deep a record may nest.
const MOST_DEPTH: usize = 200;

/// Whether a key is this text. One of another type may be equal, too.
unsafe fn is_text(key: *mut ffi::PyObject, text: *mut ffi::PyObject) -> Result<bool, Unusual> {
    // SAFETY: both are texts where they are read.
    unsafe {
        if ffi::Py_TYPE(key) == &raw mut ffi::PyUnicode_Type {
            return Ok(utf8(key) == utf8(text));
        }
        let kind = ffi::Py_TYPE(key);
        let is_plain = kind == &raw mut ffi::PyLong_Type
            || kind == &raw mut ffi::PyTuple_Type
            || key == ffi::Py_None();
        if is_plain {
            return Ok(false);
        }
        Err(Unusual::NotPlain)
    }
}

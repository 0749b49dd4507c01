//! Encoded records to Python objects.
//!
//! Total: bytes that are no records raise `DecodeError`, and no count in them is believed further
//! than there are bytes to back it.

mod failure;
mod objects;

pub use failure::unreadable;

use crate::error::Raised;
use crate::extension::Extensions;
use crate::record_cache::{self, RecordCache};
use crate::shape::References;
use crate::text::TextCache;
use failure::{because, check_count, check_depth, malformed, raised, unsuitable};
use oka_compute::value::{Reader, Value, extension};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyFrozenSet, PyList, PySet};
use std::sync::Mutex;

/// Turns encoded values into Python objects.
pub struct Decoder<'py> {
    py: Python<'py>,
    /// The caches of the process, or empty ones while another decoder has those.
    cache: TextCache,
    records: RecordCache,
    references: References,
    has_cache: bool,
    nan: *mut ffi::PyObject,
}

impl<'py> Decoder<'py> {
    pub fn new(py: Python<'py>) -> Self {
        let nan = NAN.get_or_init(py, || PyFloat::new(py, f64::NAN).unbind());
        let mut decoder = Self {
            py,
            cache: TextCache::new(),
            records: RecordCache::new(),
            references: References::new(),
            has_cache: false,
            nan: nan.as_ptr(),
        };
        decoder.take_cache();
        decoder
    }

    /// The values in `bodies`, each with the number of values that are all there is in it.
    pub fn list<'a>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'a [u8])> + Clone,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut total = 0;
        for (count, body) in bodies.clone() {
            check_count(count, &Reader::new(body))?;
            total += count;
        }
        let list = self.empty_list(total)?;
        let mut filled = 0;
        for (count, body) in bodies {
            // What a peer shares could change between the two rounds.
            if count > total - filled {
                break;
            }
            let reader = Reader::new(body);
            if self.records.is_open() {
                self.fill(&list, filled, reader, count, Self::record)?;
            } else {
                self.fill(&list, filled, reader, count, |s, reader| s.value(reader, 0))?;
            }
            filled += count;
        }
        if filled < total {
            return Err(malformed("a frame that changed while it was read").into());
        }
        Ok(list)
    }

    /// The value at the start of `bytes`.
    pub fn first(&mut self, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `value` gives a new reference.
        unsafe {
            let value = self.value(&mut Reader::new(bytes), 0)?;
            Ok(Bound::from_owned_ptr(self.py, value))
        }
    }

    /// A new reference to a `str` of these bytes, the one of the cache if it is there; null, with an
    /// exception set, when they are no UTF-8 or there is no memory.
    #[inline]
    pub fn text(&mut self, utf8: &[u8]) -> *mut ffi::PyObject {
        // SAFETY: the GIL is held: there is a `Python`.
        unsafe { self.cache.text(utf8) }
    }

    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// A new reference to the next record, the one of the cache if it is there.
    #[inline]
    fn record(&mut self, reader: &mut Reader) -> Decoded {
        let rest = reader.rest();
        if !matches!(rest.first(), Some(0x91..=0x9f)) {
            return self.value(reader, 0);
        }
        let mut behind = reader.clone();
        let encoding = match behind.skip() {
            Ok(()) => &rest[..rest.len() - behind.rest().len()],
            Err(_) => rest,
        };
        if encoding.len() > record_cache::LONGEST {
            return self.value(reader, 0);
        }
        // SAFETY: the GIL is held; an array is decoded to a tuple.
        unsafe {
            let cached = self.records.get(encoding);
            if !cached.is_null() {
                *reader = behind;
                return Ok(cached);
            }
            let record = self.value(reader, 0)?;
            self.records.put(encoding, record);
            Ok(record)
        }
    }

    /// A new reference to the next value.
    #[inline]
    fn value(&mut self, reader: &mut Reader, depth: usize) -> Decoded {
        // SAFETY: the GIL is held (there is a `Python`); each call gives a new reference or null
        // with an exception set.
        let object = unsafe {
            match reader.read().map_err(unreadable)? {
                Value::Str(utf8) => self.cache.text(utf8),
                Value::Array(count) => return self.tuple(reader, count, depth),
                Value::Int(number) => ffi::PyLong_FromLongLong(number),
                Value::Float(number) if number.is_nan() => {
                    ffi::Py_INCREF(self.nan);
                    self.nan
                }
                Value::Float(number) => ffi::PyFloat_FromDouble(number),
                Value::Nil => ffi::Py_NewRef(ffi::Py_None()),
                Value::Bool(true) => ffi::Py_NewRef(ffi::Py_True()),
                Value::Bool(false) => ffi::Py_NewRef(ffi::Py_False()),
                Value::Unsigned(number) => ffi::PyLong_FromUnsignedLongLong(number),
                Value::Bytes(data) => ffi::PyBytes_FromStringAndSize(
                    data.as_ptr().cast(),
                    data.len() as ffi::Py_ssize_t,
                ),
                Value::Map(count) => return self.dict(reader, count, depth),
                Value::Extension(code, payload) => return self.extension(code, payload, depth),
            }
        };
        self.or_raised(object)
    }

    #[inline]
    fn tuple(&mut self, reader: &mut Reader, count: usize, depth: usize) -> Decoded {
        check_depth(depth)?;
        check_count(count, reader)?;
        let mut atomic = true;
        // SAFETY: the GIL is held; every index below `count` is set once, and a tuple with empty
        // places may be freed.
        unsafe {
            let tuple = self.or_raised(ffi::PyTuple_New(count as ffi::Py_ssize_t))?;
            for index in 0..count {
                match self.value(reader, depth + 1) {
                    Ok(item) => {
                        atomic &= ffi::PyType_IS_GC(ffi::Py_TYPE(item)) == 0;
                        ffi::PyTuple_SET_ITEM(tuple, index as ffi::Py_ssize_t, item);
                    }
                    Err(error) => {
                        ffi::Py_DECREF(tuple);
                        return Err(error);
                    }
                }
            }
            // What cannot be part of a cycle is nothing to the garbage collector. It would find
            // that out by itself, but only in a collection that thousands of tuples bring about.
            if atomic && count > 0 {
                ffi::PyObject_GC_UnTrack(tuple.cast());
            }
            Ok(tuple)
        }
    }

    #[inline(never)]
    fn dict(&mut self, reader: &mut Reader, count: usize, depth: usize) -> Decoded {
        check_depth(depth)?;
        let dict = PyDict::new(self.py);
        for _ in 0..count {
            let key = self.owned(reader, depth)?;
            let value = self.owned(reader, depth)?;
            dict.set_item(key, value)
                .map_err(|error| unsuitable(&error))?;
        }
        Ok(dict.into_ptr())
    }

    #[inline(never)]
    fn extension(&mut self, code: i8, payload: &[u8], depth: usize) -> Decoded {
        check_depth(depth)?;
        let py = self.py;
        match code {
            extension::LIST => Ok(self.elements(payload, depth)?.into_ptr()),
            extension::SET => {
                let elements = self.elements(payload, depth)?;
                Ok(PySet::new(py, elements)
                    .map_err(|error| unsuitable(&error))?
                    .into_ptr())
            }
            extension::FROZENSET => {
                let elements = self.elements(payload, depth)?;
                Ok(PyFrozenSet::new(py, elements)
                    .map_err(|error| unsuitable(&error))?
                    .into_ptr())
            }
            extension::BIG_INT => Ok(big_int(py, payload)?),
            extension::NAMED_TUPLE
            | extension::VALUE_ENUM
            | extension::EQUAL_BY_PARTS
            | extension::OBJECT
            | extension::STATE => self.object(code, payload, depth + 1),
            _ => self.in_python(|py| {
                let value = Extensions::of(py)?.decode(py, code, payload);
                let value = value.map_err(|error| because(py, error, &format!("extension {code}")));
                Ok(value?.into_ptr())
            }),
        }
    }

    /// Runs Python code, which may decode in turn.
    fn in_python(&mut self, run: impl FnOnce(Python<'py>) -> Decoded) -> Decoded {
        self.return_cache();
        let value = run(self.py);
        self.take_cache();
        value
    }

    /// The elements of a list or a set.
    fn elements(&mut self, payload: &[u8], depth: usize) -> Result<Bound<'py, PyList>, Raised> {
        let mut reader = Reader::new(payload);
        let Value::Array(count) = reader.read().map_err(unreadable)? else {
            return Err(malformed("a list without an array"));
        };
        self.whole_list(reader, count, depth + 1)
    }

    /// The next `count` values, which must be all there are.
    fn whole_list(
        &mut self,
        reader: Reader,
        count: usize,
        depth: usize,
    ) -> Result<Bound<'py, PyList>, Raised> {
        check_count(count, &reader)?;
        let list = self.empty_list(count)?;
        self.fill(&list, 0, reader, count, |s, reader| s.value(reader, depth))?;
        Ok(list)
    }

    /// A list with `count` empty places, for `fill`.
    fn empty_list(&self, count: usize) -> PyResult<Bound<'py, PyList>> {
        // SAFETY: the GIL is held; a list with empty places may be freed.
        unsafe {
            let list = ffi::PyList_New(count as ffi::Py_ssize_t);
            Ok(Bound::from_owned_ptr_or_err(self.py, list)?.cast_into_unchecked())
        }
    }

    /// Puts the next `count` values, which must be all there are, into empty places of the list.
    #[inline]
    fn fill(
        &mut self,
        list: &Bound<'py, PyList>,
        first: usize,
        mut reader: Reader,
        count: usize,
        next: impl Fn(&mut Self, &mut Reader) -> Decoded,
    ) -> Result<(), Raised> {
        for index in first..first + count {
            let value = next(self, &mut reader)?;
            // SAFETY: the GIL is held, the place is below the list's length and empty.
            unsafe { ffi::PyList_SET_ITEM(list.as_ptr(), index as ffi::Py_ssize_t, value) };
        }
        if !reader.is_at_end() {
            let rest = reader.rest().len();
            return Err(malformed(&format!("{rest} bytes follow the last value")));
        }
        Ok(())
    }

    fn owned(&mut self, reader: &mut Reader, depth: usize) -> Result<Bound<'py, PyAny>, Raised> {
        let value = self.value(reader, depth + 1)?;
        // SAFETY: `value` is a new reference.
        Ok(unsafe { Bound::from_owned_ptr(self.py, value) })
    }

    fn take_cache(&mut self) {
        if let Some(cache) = CACHE.try_lock().ok().and_then(|mut cache| cache.take()) {
            (self.cache, self.records, self.references) = cache;
            self.cache.prepare();
            self.records.prepare();
            self.references.prepare();
            self.has_cache = true;
        }
    }

    fn return_cache(&mut self) {
        if self.has_cache
            && let Ok(mut cache) = CACHE.lock()
        {
            let texts = std::mem::replace(&mut self.cache, TextCache::new());
            let records = std::mem::replace(&mut self.records, RecordCache::new());
            let references = std::mem::replace(&mut self.references, References::new());
            *cache = Some((texts, records, references));
            self.has_cache = false;
        }
    }

    #[inline]
    fn or_raised(&self, object: *mut ffi::PyObject) -> Decoded {
        if object.is_null() {
            return Err(raised(self.py));
        }
        Ok(object)
    }
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        self.return_cache();
    }
}

/// A new reference.
type Decoded = Result<*mut ffi::PyObject, Raised>;

fn big_int(py: Python<'_>, payload: &[u8]) -> PyResult<*mut ffi::PyObject> {
    let Some((sign, magnitude)) = payload.split_first() else {
        return Err(malformed("an integer without a sign").into());
    };
    let number = py
        .get_type::<pyo3::types::PyInt>()
        .call_method1("from_bytes", (PyBytes::new(py, magnitude), "little"))?;
    match sign {
        0 => Ok(number.into_ptr()),
        _ => Ok(number.neg()?.into_ptr()),
    }
}

/// The cache of the process; None while a decoder has it. Locked only to take it or put it back.
static CACHE: Mutex<Option<(TextCache, RecordCache, References)>> = Mutex::new(Some((
    TextCache::new(),
    RecordCache::new(),
    References::new(),
)));
/// Every NaN decodes to this object, so that all NaN are one key of a dict.
static NAN: PyOnceLock<Py<PyFloat>> = PyOnceLock::new();

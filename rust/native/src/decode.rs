//! Encoded records to Python objects.
//!
//! Total: bytes that are no records raise `DecodeError`, and no count in them is believed further
//! than there are bytes to back it.

use crate::attributes::Attributes;
use crate::encode::MAX_DEPTH;
use crate::error::{DecodeError, Raised, type_name};
use crate::extension::Extensions;
use crate::record_cache::{self, RecordCache};
use crate::shape::{self, Form, References, Shape};
use crate::text::TextCache;
use oka_compute::value::{ReadError, Reader, Value, extension};
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyFrozenSet, PyList, PySet, PyTuple};
use std::ptr;
use std::sync::Mutex;

/// Turns encoded values into Python objects.
pub(crate) struct Decoder<'py> {
    py: Python<'py>,
    /// The caches of the process, or empty ones while another decoder has those.
    cache: TextCache,
    records: RecordCache,
    references: References,
    has_cache: bool,
    nan: *mut ffi::PyObject,
}

impl<'py> Decoder<'py> {
    pub(crate) fn new(py: Python<'py>) -> Self {
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
    pub(crate) fn list<'a>(
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
    pub(crate) fn first(&mut self, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `value` gives a new reference.
        unsafe {
            let value = self.value(&mut Reader::new(bytes), 0)?;
            Ok(Bound::from_owned_ptr(self.py, value))
        }
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

    /// An object of a class of Python's.
    #[inline(never)]
    fn object(&mut self, code: i8, payload: &[u8], depth: usize) -> Decoded {
        let (shape, count, mut reader) = match self.references.opened(code, payload) {
            Some(found) => found,
            None => self.class(payload)?,
        };
        if let Form::Members { members, .. } = &shape.form
            && code == shape.code
            && let Some(member) = shape::lock(members).object(payload)
        {
            return Ok(member.clone_ref(self.py).into_ptr());
        }
        let object = match &shape.form {
            Form::Fields { attributes, .. } if code == shape.code && count == attributes.len() => {
                self.with_fields(shape, attributes, &mut reader, depth)?
            }
            Form::Items(items) if code == shape.code && count == *items => {
                self.with_items(shape, count, &mut reader, depth)?
            }
            Form::Parts { build, .. } | Form::Members { build, .. } if code == shape.code => {
                self.built(build, count, &mut reader, depth)?
            }
            Form::Fields { build, .. } if code == extension::STATE => {
                self.built(build, count, &mut reader, depth)?
            }
            _ => return Err(self.unlike(shape, code, count)),
        };
        if !reader.is_at_end() {
            let rest = reader.rest().len();
            return Err(malformed(&format!("{rest} bytes follow the last part")));
        }
        if let Form::Members { members, .. } = &shape.form {
            shape::lock(members).keep_object(payload, &object);
        }
        Ok(object.into_ptr())
    }

    /// The class of an object, the number of its parts, and those.
    #[inline]
    fn class<'a>(
        &mut self,
        payload: &'a [u8],
    ) -> Result<(&'static Shape, usize, Reader<'a>), Raised> {
        let mut reader = Reader::new(payload);
        let Value::Array(count @ 1..) = reader.read().map_err(unreadable)? else {
            return Err(malformed("an object without a class"));
        };
        check_count(count, &reader)?;
        let start = reader.position();
        reader.skip().map_err(unreadable)?;
        let reference = reader.since(start);
        let shape = match self.references.get(reference) {
            Some(shape) => shape,
            None => self.find_class(reference)?,
        };
        Ok((shape, count - 1, reader))
    }

    /// The object with the next values as its attributes. Nothing of its class is called.
    #[inline]
    fn with_fields(
        &mut self,
        shape: &Shape,
        attributes: &Attributes,
        reader: &mut Reader,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Raised> {
        let py = self.py;
        let empty = EMPTY.get_or_init(py, new_empty).as_ptr();
        // SAFETY: the GIL is held, and the class was found fit for this; an object that lacks
        // attributes may be freed.
        unsafe {
            let make = ffi::PyBaseObject_Type.tp_new;
            let object = make.map_or(ptr::null_mut(), |make| {
                make(shape.kind(), empty, ptr::null_mut())
            });
            let object = Bound::from_owned_ptr(py, self.or_raised(object)?);
            for index in 0..attributes.len() {
                let part = self.value(reader, depth)?;
                if !attributes.set(&object, index, part) {
                    return Err(raised(py));
                }
            }
            Ok(object)
        }
    }

    /// The named tuple of the next values. Nothing of its class is called.
    #[inline]
    fn with_items(
        &mut self,
        shape: &Shape,
        count: usize,
        reader: &mut Reader,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Raised> {
        let kind = shape.kind();
        // SAFETY: as in `tuple`; the class adds nothing to a tuple's layout.
        unsafe {
            let make = (*kind).tp_alloc;
            let tuple = make.map_or(ptr::null_mut(), |make| make(kind, count as isize));
            let tuple = Bound::from_owned_ptr(self.py, self.or_raised(tuple)?);
            let mut atomic = count > 0;
            for index in 0..count {
                let item = self.value(reader, depth)?;
                atomic &= ffi::PyType_IS_GC(ffi::Py_TYPE(item)) == 0;
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as isize, item);
            }
            if atomic {
                ffi::PyObject_GC_UnTrack(tuple.as_ptr().cast());
            }
            Ok(tuple)
        }
    }

    /// What the function makes of the next values.
    fn built(
        &mut self,
        build: &Py<PyAny>,
        count: usize,
        reader: &mut Reader,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Raised> {
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let part = self.value(reader, depth)?;
            // SAFETY: `part` is a new reference.
            parts.push(unsafe { Bound::from_owned_ptr(self.py, part) });
        }
        let parts = PyTuple::new(self.py, parts)?;
        let made = self.in_python(|py| {
            let object = build.bind(py).call1(parts);
            let object = object.map_err(|error| because(py, error, "an object"));
            Ok(object?.into_ptr())
        })?;
        // SAFETY: `made` is a new reference.
        Ok(unsafe { Bound::from_owned_ptr(self.py, made) })
    }

    #[cold]
    fn unlike(&self, shape: &Shape, code: i8, parts: usize) -> Raised {
        // SAFETY: a type object is an object; the GIL is held.
        let class = unsafe { Bound::from_borrowed_ptr(self.py, shape.kind().cast()) };
        let class = type_name(&class);
        malformed(&format!(
            "{parts} parts of code {code}, which {class} does not have"
        ))
    }

    #[cold]
    fn find_class(&mut self, reference: &[u8]) -> Result<&'static Shape, Raised> {
        let mut found = Err(malformed("a class without a name"));
        self.in_python(|py| {
            found = shape::find_class(py, reference).map_err(|error| unknown_class(py, error));
            Ok(ptr::null_mut())
        })?;
        let shape = found?;
        self.references.put(shape);
        Ok(shape)
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

#[inline]
fn check_count(count: usize, reader: &Reader) -> Result<(), Raised> {
    if count > reader.rest().len() {
        return Err(malformed(&format!(
            "{count} values in {} bytes",
            reader.rest().len()
        )));
    }
    Ok(())
}

#[inline]
fn check_depth(depth: usize) -> Result<(), Raised> {
    if depth > MAX_DEPTH {
        return Err(malformed("a value nested too deeply"));
    }
    Ok(())
}

#[cold]
fn malformed(reason: &str) -> Raised {
    DecodeError::new_err(format!(
        "these are no encoded records: {reason}\n\nhint: do all tasks run the same version of oka?"
    ))
    .into()
}

#[cold]
pub(crate) fn unreadable(error: ReadError) -> Raised {
    malformed(&error.to_string())
}

/// Keys and elements that Python cannot hash.
#[cold]
fn unsuitable(error: &PyErr) -> Raised {
    malformed(&error.to_string())
}

/// An error of the Python function that was to make a value of the bytes.
#[cold]
fn because(py: Python<'_>, error: PyErr, what: &str) -> Raised {
    if error.is_instance_of::<DecodeError>(py) || !error.is_instance_of::<PyException>(py) {
        return error.into();
    }
    let raised = PyErr::from(malformed(&format!("{what}: {error}")));
    raised.set_cause(py, Some(error));
    raised.into()
}

/// An error of the function that was to find a class, which has a hint of its own.
#[cold]
fn unknown_class(py: Python<'_>, error: PyErr) -> Raised {
    if !error.is_instance_of::<PyException>(py) {
        return error.into();
    }
    let raised = DecodeError::new_err(error.value(py).to_string());
    raised.set_cause(py, Some(error));
    raised.into()
}

fn new_empty() -> Py<PyTuple> {
    Python::attach(|py| PyTuple::empty(py).unbind())
}

/// The exception that is set; text that is no UTF-8 is the sender's fault.
#[cold]
fn raised(py: Python<'_>) -> Raised {
    let error = PyErr::fetch(py);
    if error.is_instance_of::<pyo3::exceptions::PyUnicodeDecodeError>(py) {
        return unsuitable(&error);
    }
    error.into()
}

/// The cache of the process; None while a decoder has it. Locked only to take it or put it back.
static CACHE: Mutex<Option<(TextCache, RecordCache, References)>> = Mutex::new(Some((
    TextCache::new(),
    RecordCache::new(),
    References::new(),
)));
/// The arguments of a constructor that takes none.
static EMPTY: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
/// Every NaN decodes to this object, so that all NaN are one key of a dict.
static NAN: PyOnceLock<Py<PyFloat>> = PyOnceLock::new();

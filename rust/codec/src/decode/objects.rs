//! Objects of Python's classes: which class, and how one is made of its parts.

use super::failure::{because, check_count, malformed, raised, unknown_class, unreadable};
use super::{Decoded, Decoder};
use crate::attributes::Attributes;
use crate::error::{Raised, type_name};
use crate::shape::{self, Form, Shape};
use oka_compute::value::{Reader, Value, extension};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::ptr;

impl<'py> Decoder<'py> {
    /// An object of a class of Python's.
    #[inline(never)]
    pub(super) fn object(&mut self, code: i8, payload: &[u8], depth: usize) -> Decoded {
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
    ///
    /// To encode and decode a dataclass of three fields takes 183 ns, and its tuple 90
    /// (`python -m benchmarks.steps.codec`; CPython 3.11, 2 cores of a shared VM, 2026-11-26); with a
    /// class that the job has numbered 1.9 times its tuple on 3.11, and 1.5 times on 3.13. Equal tuples
    /// are decoded once and cost 45 ns; objects may be changed, so each is made. Of the difference on
    /// 3.11, 30 ns are the garbage collector's, which walks each object: a tuple of texts and numbers
    /// can be part of no cycle, an object can once somebody sets an attribute. The rest is mostly the
    /// array that holds its values, apart from the object before 3.13.
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
}

fn new_empty() -> Py<PyTuple> {
    Python::attach(|py| PyTuple::empty(py).unbind())
}

/// The arguments of a constructor that takes none.
static EMPTY: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();

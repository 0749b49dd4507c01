//! How values of Python classes travel: as `engine/record/__init__.py` tells, once per class.
//!
//! A shape is kept for the life of the process, and its class with it: there are few, and records
//! of them come by the million.

use crate::attributes::Attributes;
use crate::extension::Extensions;
use oka_compute::{Reader, Value, encode, short};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// How values of exactly one class travel.
pub(crate) struct Shape {
    kind: *mut ffi::PyTypeObject,
    /// The extension code.
    pub(crate) code: i8,
    /// The encoded reference to the class, the first part of each value; empty for [`Form::Payload`].
    pub(crate) reference: Box<[u8]>,
    /// How each value's encoding begins, where all of them begin alike.
    pub(crate) opening: Option<Opening>,
    pub(crate) form: Form,
    /// Those of the fields, in the order of the parts; none where parts have no names.
    names: Box<[Box<[u8]>]>,
}

/// The beginning of an encoded object, as far as the first of its parts; its length is left out.
pub(crate) struct Opening {
    parts: usize,
    bytes: [u8; 16],
    length: usize,
    /// The first eight bytes of the payload, as far as they are given.
    head: u64,
    mask: u64,
}

/// What is between the value and its bytes.
pub(crate) enum Form {
    /// `take(value)` gives the payload, bytes.
    Payload { take: Py<PyAny> },
    /// `take(value)` gives a tuple of parts, `build(*parts)` the value.
    Parts { take: Py<PyAny>, build: Py<PyAny> },
    /// As parts, of the few members of a class, each of which is one object.
    Members {
        take: Py<PyAny>,
        build: Py<PyAny>,
        members: Mutex<Members>,
    },
    /// The items of a named tuple: so many.
    Items(usize),
    /// The attributes of its fields. Where a value has others, or not all of them, `take(value)`
    /// gives a dict of those it has, of which `build(dict)` makes the value.
    Fields {
        attributes: Attributes,
        take: Py<PyAny>,
        build: Py<PyAny>,
    },
}

impl Opening {
    /// Of objects with so many parts; `None` where the reference to their class is a long one.
    fn of(code: i8, parts: usize, reference: &[u8]) -> Option<Self> {
        let mut opened = Vec::new();
        let payload = encode::open_extension(&mut opened, code) + encode::OPENED_BYTES;
        encode::array(&mut opened, parts + 1);
        opened.extend_from_slice(reference);
        let (mut bytes, mut head, mut mask) = ([0; 16], [0; 8], [0; 8]);
        bytes.get_mut(..opened.len())?.copy_from_slice(&opened);
        let given = &opened[payload..];
        head.get_mut(..given.len())?.copy_from_slice(given);
        mask[..given.len()].fill(0xff);
        Some(Self {
            parts,
            bytes,
            length: opened.len(),
            head: u64::from_le_bytes(head),
            mask: u64::from_le_bytes(mask),
        })
    }

    /// Appends it; where it begins.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&self.bytes); // so many that no length has to be looked at
        out.truncate(start + self.length);
        start
    }

    /// What follows it in this payload; `None` if that begins otherwise, or is a short one.
    #[inline]
    pub(crate) fn strip<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let first = u64::from_le_bytes(*payload.first_chunk()?);
        (first & self.mask == self.head).then(|| &payload[self.length - encode::OPENED_BYTES..])
    }
}

impl Shape {
    /// The shape of values of this class; TypeError, with a hint, if they cannot travel.
    ///
    /// # Safety
    /// The GIL is held and `kind` is valid.
    #[inline]
    pub(crate) unsafe fn of(
        py: Python<'_>,
        kind: *mut ffi::PyTypeObject,
    ) -> PyResult<&'static Self> {
        match Self::recent(kind) {
            Some(shape) => Ok(shape),
            // SAFETY: the GIL is held and `kind` is valid.
            None => unsafe { Self::find(py, kind) },
        }
    }

    /// The shape, if it was asked for of late; none of Python's own types has one.
    #[inline]
    pub(crate) fn recent(kind: *mut ffi::PyTypeObject) -> Option<&'static Self> {
        let recent = RECENT[kind as usize / ALIGNMENT % RECENT.len()].load(Ordering::Acquire);
        // SAFETY: what is stored there lives for ever.
        unsafe { recent.as_ref() }.filter(|shape| shape.kind == kind)
    }

    /// The class; a value of it must not be made but as its form says.
    pub(crate) fn kind(&self) -> *mut ffi::PyTypeObject {
        self.kind
    }

    #[cold]
    unsafe fn find(py: Python<'_>, kind: *mut ffi::PyTypeObject) -> PyResult<&'static Self> {
        let known = lock(&SHAPES).get(&(kind as usize)).copied();
        let shape = if let Some(shape) = known {
            shape
        } else {
            // SAFETY: a type object is an object; the GIL is held.
            let class = unsafe { Bound::from_borrowed_ptr(py, kind.cast()).cast_into_unchecked() };
            let shape = Self::described(&class)?;
            *lock(&SHAPES).entry(kind as usize).or_insert(shape)
        };
        let slot = &RECENT[kind as usize / ALIGNMENT % RECENT.len()];
        slot.store(ptr::from_ref(shape).cast_mut(), Ordering::Release);
        Ok(shape)
    }

    /// Asks Python.
    fn described(class: &Bound<'_, PyType>) -> PyResult<&'static Self> {
        let py = class.py();
        let described: Description = Extensions::of(py)?.travel(class)?.extract()?;
        let mut reference = Vec::new();
        if let Some(class) = described
            .reference
            .filter(|reference| !reference.is_none(py))
        {
            match class.bind(py).cast_exact::<PyString>() {
                Ok(name) => encode::text(&mut reference, name.to_str()?.as_bytes()),
                Err(_) => encode::int(&mut reference, class.extract(py)?),
            }
        }
        let form = match described.form.as_str() {
            "payload" => Form::Payload {
                take: described.take,
            },
            "parts" => Form::Parts {
                take: described.take,
                build: described.build,
            },
            "members" => Form::Members {
                take: described.take,
                build: described.build,
                members: Mutex::default(),
            },
            "items" => Form::Items(described.names.len()),
            "fields" => Form::Fields {
                attributes: Attributes::of(class, &described.names)?,
                take: described.take,
                build: described.build,
            },
            other => return Err(PyValueError::new_err(format!("form {other:?}"))),
        };
        let opening = match &form {
            Form::Fields { attributes, .. } => {
                Opening::of(described.code, attributes.len(), &reference)
            }
            Form::Items(count) => Opening::of(described.code, *count, &reference),
            _ => None,
        };
        DESCRIBED.fetch_add(1, Ordering::Release);
        oka_compute::classes::forget();
        let names = described.names.iter().map(|name| name.as_bytes().into());
        Ok(Box::leak(Box::new(Self {
            kind: class.clone().unbind().into_ptr().cast(),
            code: described.code,
            opening,
            reference: reference.into(),
            form,
            names: names.collect(),
        })))
    }
}

// SAFETY: the pointer owns a reference to the class and is followed with the GIL held; what Python
// owns is only touched so, too.
unsafe impl Send for Shape {}
unsafe impl Sync for Shape {}

/// `engine.record.Shape`.
#[derive(FromPyObject)]
struct Description {
    form: String,
    code: i8,
    reference: Option<Py<PyAny>>,
    names: Vec<String>,
    take: Py<PyAny>,
    build: Py<PyAny>,
}

/// The members that have travelled; bounded.
///
/// What was encoded and what was decoded are apart: a member may come in other bytes than it goes.
#[derive(Default)]
pub(crate) struct Members {
    /// By the address of the member, which keeps it while it is here.
    payloads: HashMap<usize, (Py<PyAny>, Box<[u8]>)>,
    objects: HashMap<Box<[u8]>, Py<PyAny>>,
}

impl Members {
    pub(crate) fn payload(&self, member: &Bound<'_, PyAny>) -> Option<&[u8]> {
        let found = self.payloads.get(&(member.as_ptr() as usize));
        found.map(|(_, payload)| payload.as_ref())
    }

    pub(crate) fn keep_payload(&mut self, member: &Bound<'_, PyAny>, payload: &[u8]) {
        if self.payloads.len() < MOST_MEMBERS {
            let kept = (member.clone().unbind(), payload.into());
            self.payloads.insert(member.as_ptr() as usize, kept);
        }
    }

    pub(crate) fn object(&self, payload: &[u8]) -> Option<&Py<PyAny>> {
        self.objects.get(payload)
    }

    pub(crate) fn keep_object(&mut self, payload: &[u8], member: &Bound<'_, PyAny>) {
        if self.objects.len() < MOST_MEMBERS {
            self.objects.insert(payload.into(), member.clone().unbind());
        }
    }
}

/// The classes that references stand for, as the last batches had them.
pub(crate) struct References {
    recent: Vec<Option<&'static Shape>>,
    last: Option<&'static Shape>,
    /// How many shapes there were: a new class may have the name of an old one.
    shapes: usize,
}

impl References {
    pub(crate) const fn new() -> Self {
        Self {
            recent: Vec::new(),
            last: None,
            shapes: 0,
        }
    }

    /// Begins a batch: gives it its memory, or forgets what may be out of date.
    pub(crate) fn prepare(&mut self) {
        let shapes = DESCRIBED.load(Ordering::Acquire);
        if self.shapes != shapes {
            self.shapes = shapes;
            self.recent.clear();
            self.last = None;
        }
        self.recent.resize(RECENT_REFERENCES, None);
    }

    /// The shape of the class that an encoded reference stands for; `None` if [`find_class`] is to
    /// be asked.
    #[inline]
    pub(crate) fn get(&mut self, reference: &[u8]) -> Option<&'static Shape> {
        let shape = (*self.recent.get(slot(reference))?)?;
        let found = (*shape.reference == *reference).then_some(shape);
        self.last = found.or(self.last);
        found
    }

    /// The shape that was found last, if an object of it is in this payload, with the number of its
    /// parts, and those.
    #[inline]
    pub(crate) fn opened<'a>(
        &self,
        code: i8,
        payload: &'a [u8],
    ) -> Option<(&'static Shape, usize, Reader<'a>)> {
        let shape = self.last.filter(|shape| shape.code == code)?;
        let opening = shape.opening.as_ref()?;
        let parts = opening.strip(payload)?;
        Some((shape, opening.parts, Reader::new(parts)))
    }

    /// Keeps the answer.
    pub(crate) fn put(&mut self, shape: &'static Shape) {
        if let Some(place) = self.recent.get_mut(slot(&shape.reference)) {
            *place = Some(shape);
        }
    }
}

/// Asks Python for the class that an encoded reference stands for.
pub(crate) fn find_class(py: Python<'_>, reference: &[u8]) -> PyResult<&'static Shape> {
    let extensions = Extensions::of(py)?;
    let class = match Reader::new(reference).read() {
        Ok(Value::Int(number)) => extensions.find_class(py, number)?,
        Ok(Value::Str(name)) => extensions.find_class(py, PyString::from_bytes(py, name)?)?,
        _ => return Err(PyValueError::new_err("a class without a name")),
    };
    // SAFETY: the GIL is held, and the class is valid.
    unsafe { Shape::of(py, class.as_ptr().cast()) }
}

/// The names of the fields of the class that an encoded reference stands for. Takes the GIL.
pub(crate) fn names_of(reference: &[u8]) -> Option<oka_compute::classes::Names> {
    Python::attach(|py| find_class(py, reference).ok().map(|shape| &*shape.names))
}

fn slot(reference: &[u8]) -> usize {
    short::hash(reference) as usize % RECENT_REFERENCES
}

/// What a mutex guards: nothing here is left half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All shapes, by the address of their class.
static SHAPES: LazyLock<Mutex<HashMap<usize, &'static Shape>>> = LazyLock::new(Mutex::default);
/// How many there have been.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);
/// Those in use, found without a lock.
static RECENT: [AtomicPtr<Shape>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];
/// Type objects lie at multiples of this.
const ALIGNMENT: usize = 16;
const RECENT_REFERENCES: usize = 64;
const MOST_MEMBERS: usize = 4096;

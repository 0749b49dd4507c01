//! Attributes of objects that have no dict yet, read where CPython 3.11 keeps them.
//!
//! Nothing documented reads them without making a dict for each object, which costs more than all
//! of a record's encoding and stays with the user's object. So this knows the layout of that one
//! version (`Include/internal/pycore_dict.h` and `pycore_object.h`): the values are in an array,
//! their names in the class, in the order in which any object got them first. All other versions
//! go by the dict.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::ffi::c_void;

/// Whether objects of the class may have such an array.
pub(crate) fn are_in(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    let version = py.version_info();
    let known = (version.major, version.minor) == (3, 11) && cfg!(target_pointer_width = "64");
    // SAFETY: the type is alive, and a heap type has such a struct.
    known
        && unsafe {
            let class = class.as_type_ptr();
            let managed = ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) != 0
                && ffi::PyType_HasFeature(class, MANAGED_DICT) != 0;
            managed && !keys_of(class).is_null()
        }
}

/// The object's values, if it has these attributes and no others, and the class names them first
/// and in this order. None says nothing: the dict knows.
///
/// # Safety
/// The object is of a class which they are in; the GIL is held.
#[inline]
pub(crate) unsafe fn of(object: &Bound<'_, PyAny>, names: &[Py<PyString>]) -> Option<Values> {
    // SAFETY: such an object has the pointer; an array has a place for each entry of its class's
    // keys, which are as the header says.
    unsafe {
        let place = values_of(object);
        let values = *place;
        let keys = &*keys_of(ffi::Py_TYPE(object.as_ptr()));
        let count = keys.nentries as usize;
        if values.is_null() || keys.kind != SPLIT || count < names.len() {
            return None;
        }
        let indices = keys.indices.as_ptr();
        let entries = indices
            .byte_add(1 << keys.log2_index_bytes)
            .cast::<KeyEntry>();
        for index in 0..count {
            let fits = match names.get(index) {
                Some(name) => {
                    (*entries.add(index)).key == name.as_ptr() && !(*values.add(index)).is_null()
                }
                None => (*values.add(index)).is_null(),
            };
            if !fits {
                return None;
            }
        }
        Some(Values { values })
    }
}

/// The array of one object.
pub(crate) struct Values {
    values: *mut *mut ffi::PyObject,
}

impl Values {
    /// A value of the object that `of` got; None if it has been taken from it since.
    ///
    /// # Safety
    /// The object is the same, and `index` is below the number of names.
    #[inline]
    pub(crate) unsafe fn get<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        index: usize,
    ) -> Option<Bound<'py, PyAny>> {
        // SAFETY: an object has its array until it has a dict, and then never again.
        unsafe {
            if *values_of(object) != self.values {
                return None;
            }
            Bound::from_borrowed_ptr_or_opt(object.py(), *self.values.add(index))
        }
    }
}

/// `PyDictKeysObject`.
#[repr(C)]
struct Keys {
    refcnt: ffi::Py_ssize_t,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: ffi::Py_ssize_t,
    nentries: ffi::Py_ssize_t,
    indices: [usize; 0],
}

/// `PyDictUnicodeEntry`.
#[repr(C)]
struct KeyEntry {
    key: *mut ffi::PyObject,
    value: *mut c_void,
}

/// `DICT_KEYS_SPLIT`: keys that objects share.
const SPLIT: u8 = 2;

/// `Py_TPFLAGS_MANAGED_DICT`.
const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;

/// `ht_cached_keys`.
unsafe fn keys_of(class: *mut ffi::PyTypeObject) -> *const Keys {
    // SAFETY: the class is a heap type.
    unsafe {
        (*class.cast::<ffi::PyHeapTypeObject>())
            .ht_cached_keys
            .cast()
    }
}

/// `_PyObject_ValuesPointer`.
unsafe fn values_of(object: &Bound<'_, PyAny>) -> *mut *mut *mut ffi::PyObject {
    // SAFETY: objects with a managed dict have four words in front of them.
    unsafe { object.as_ptr().cast::<*mut *mut ffi::PyObject>().sub(4) }
}

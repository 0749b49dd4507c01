//! The attributes of objects, read and set without a call of anything of their class.

use crate::inline_values::InlineValues;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::ptr;

/// Where the objects of a class have the attributes of its fields, in the order of the fields.
pub(crate) enum Attributes {
    /// By these names, in the dict of each object, which may not have been made yet.
    Dict {
        names: Box<[Py<PyString>]>,
        inline: Option<InlineValues>,
    },
    /// So many bytes behind the object's beginning.
    Slots(Box<[usize]>),
}

impl Attributes {
    /// Of a class whose objects keep all fields in a dict, or all of them in slots.
    pub(crate) fn of(class: &Bound<'_, PyType>, names: &[String]) -> PyResult<Self> {
        let py = class.py();
        if class.getattr("__dictoffset__")?.is_truthy()? {
            let names = names.iter().map(|name| PyString::intern(py, name).unbind());
            return Ok(Self::Dict {
                names: names.collect(),
                inline: InlineValues::in_objects_of(class),
            });
        }
        let offsets = names.iter().map(|name| offset(&class.getattr(name)?));
        Ok(Self::Slots(offsets.collect::<PyResult<_>>()?))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Dict { names, .. } => names.len(),
            Self::Slots(offsets) => offsets.len(),
        }
    }

    /// Gives each attribute of the object to `take`, in order; false if it has others, or not all
    /// of them. Then some may have been given.
    ///
    /// # Safety
    /// The object is of the class.
    #[inline]
    pub(crate) unsafe fn each<E: From<PyErr>>(
        &self,
        object: &Bound<'_, PyAny>,
        mut take: impl FnMut(&Bound<'_, PyAny>) -> Result<(), E>,
    ) -> Result<bool, E> {
        match self {
            // SAFETY: objects of the class have a dict, or values in place of it.
            Self::Dict { names, inline } => unsafe {
                if let Some(inline) = inline
                    && let Some(values) = inline.of(object, names)
                {
                    for index in 0..names.len() {
                        let Some(found) = values.get(object, index) else {
                            return Ok(false); // `take` ran code that removed it
                        };
                        take(&found)?;
                    }
                    return Ok(true);
                }
                each_of_dict(object, names, take)
            },
            Self::Slots(offsets) => {
                for offset in offsets {
                    // SAFETY: objects of the class have a pointer there. `take` may run Python code,
                    // which may set the slot: so what was in it gets an owner.
                    let found = unsafe {
                        Bound::from_borrowed_ptr_or_opt(object.py(), *slot(object, *offset))
                    };
                    let Some(found) = found else {
                        return Ok(false); // it was never set
                    };
                    take(&found)?;
                }
                Ok(true)
            }
        }
    }

    /// Sets the attribute of the field at `index`; false with an exception set.
    ///
    /// # Safety
    /// The object is new and of the class, `index` is below `len`, and comes once; `value` is a new
    /// reference, which this takes over.
    #[inline]
    pub(crate) unsafe fn set(
        &self,
        object: &Bound<'_, PyAny>,
        index: usize,
        value: *mut ffi::PyObject,
    ) -> bool {
        // SAFETY: as above; the slot of a new object is empty.
        unsafe {
            match self {
                Self::Dict { names, inline } => {
                    if let Some(inline) = inline
                        && inline.set(object, names, index, value)
                    {
                        return true;
                    }
                    let name = names[index].as_ptr();
                    let failed = ffi::PyObject_GenericSetAttr(object.as_ptr(), name, value);
                    ffi::Py_DECREF(value);
                    failed == 0
                }
                Self::Slots(offsets) => {
                    *slot(object, offsets[index]) = value;
                    true
                }
            }
        }
    }
}

#[inline]
unsafe fn each_of_dict<E: From<PyErr>>(
    object: &Bound<'_, PyAny>,
    names: &[Py<PyString>],
    mut take: impl FnMut(&Bound<'_, PyAny>) -> Result<(), E>,
) -> Result<bool, E> {
    let py = object.py();
    // SAFETY: the GIL is held; what is borrowed of the dict gets an owner before Python code can
    // run, and the dict may change then.
    unsafe {
        let dict = ffi::PyObject_GenericGetDict(object.as_ptr(), ptr::null_mut());
        let dict = Bound::from_owned_ptr_or_err(py, dict)?;
        if ffi::PyDict_Size(dict.as_ptr()) != names.len() as isize {
            return Ok(false);
        }
        let mut position = 0;
        let (mut key, mut found) = (ptr::null_mut(), ptr::null_mut());
        for name in names {
            let next = ffi::PyDict_Next(
                dict.as_ptr(),
                &raw mut position,
                &raw mut key,
                &raw mut found,
            );
            // Attributes are mostly in the order of the fields; where they are not, by name.
            if next == 0 || key != name.as_ptr() {
                found = ffi::PyDict_GetItemWithError(dict.as_ptr(), name.as_ptr());
                if found.is_null() {
                    return PyErr::take(py).map_or(Ok(false), |error| Err(error.into()));
                }
            }
            take(&Bound::from_borrowed_ptr(py, found))?;
        }
    }
    Ok(true)
}

/// How many bytes behind the object's beginning the slot is that the class has.
fn offset(of_class: &Bound<'_, PyAny>) -> PyResult<usize> {
    let found = of_class.as_ptr();
    // SAFETY: a member descriptor has a member, which lives as long as the class.
    unsafe {
        if ffi::Py_TYPE(found) == &raw mut ffi::PyMemberDescr_Type {
            let member = (*found.cast::<ffi::PyMemberDescrObject>()).d_member;
            let member = &*member.cast::<ffi::PyMemberDef>();
            if member.type_code == ffi::Py_T_OBJECT_EX {
                return Ok(member.offset as usize);
            }
        }
    }
    Err(PyValueError::new_err("a field that is no slot"))
}

#[inline]
unsafe fn slot(object: &Bound<'_, PyAny>, offset: usize) -> *mut *mut ffi::PyObject {
    // SAFETY: the offset is the one of a pointer in objects of the class.
    unsafe { object.as_ptr().byte_add(offset).cast() }
}

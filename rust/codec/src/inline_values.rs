//! Attributes of objects that have no dict yet, where CPython 3.11 to 3.13 keep them.
//!
//! Nothing documented reads them without making a dict for each object, which costs more than all
//! of a record's encoding and stays with the user's object; nor sets one without a search for its
//! name along the classes. So this knows the layouts of these versions
//! (`Include/internal/pycore_dict.h` and `pycore_object.h`): the values are in an array, their names
//! in the class, in the order in which any object got them first. What the interpreter itself does
//! for `object.name = value` once it knows the place is done here, and no more. All other versions,
//! builds without the GIL, and an interpreter whose objects look different go by the dict.

mod layout;

use layout::{Keys, Layout};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where objects of a class, which stays alive, may have the values of their fields.
pub(crate) struct InlineValues {
    layout: Layout,
    keys: *const Keys,
    /// Whether the class names the fields first and in order. Names are only ever added to a class,
    /// at the end: so this is true for ever once it is.
    in_order: AtomicBool,
}

impl InlineValues {
    /// None where objects of the class have none, or none that is known.
    pub(crate) fn in_objects_of(class: &Bound<'_, PyType>) -> Option<Self> {
        Self::by(known_layout(class.py())?, class)
    }

    fn by(layout: Layout, class: &Bound<'_, PyType>) -> Option<Self> {
        let keys = layout.keys(class)?;
        let in_order = AtomicBool::new(false);
        Some(Self {
            layout,
            keys,
            in_order,
        })
    }

    /// The object's values, if it has these attributes and no others, and the class names them first
    /// and in this order. None says nothing: the dict knows.
    ///
    /// # Safety
    /// The object is of the class, and the names are always the same; the GIL is held.
    #[inline]
    pub(crate) unsafe fn of(
        &self,
        object: &Bound<'_, PyAny>,
        names: &[Py<PyString>],
    ) -> Option<Values> {
        // SAFETY: the object is of the class.
        unsafe {
            let values = self.layout.values(object)?;
            let fits = self.layout.count(values) == names.len() && self.are_in_order(names);
            fits.then_some(Values {
                layout: self.layout,
                values,
            })
        }
    }

    /// Makes `value` an attribute, by the name at `index`, of an object that has none of this name;
    /// false where it did nothing.
    ///
    /// # Safety
    /// As of `of`, and `index` is that of a name. Where it is true, the object owns the value.
    #[inline]
    pub(crate) unsafe fn set(
        &self,
        object: &Bound<'_, PyAny>,
        names: &[Py<PyString>],
        index: usize,
        value: *mut ffi::PyObject,
    ) -> bool {
        // SAFETY: an array has a place for each name of the class.
        unsafe {
            let Some(values) = self.layout.values(object) else {
                return false;
            };
            let place = values.add(index);
            if !self.are_in_order(names) || !(*place).is_null() || !self.layout.push(values, index)
            {
                return false;
            }
            *place = value;
            true
        }
    }

    #[inline]
    fn are_in_order(&self, names: &[Py<PyString>]) -> bool {
        self.in_order.load(Ordering::Relaxed) || self.look(names)
    }

    #[cold]
    fn look(&self, names: &[Py<PyString>]) -> bool {
        // SAFETY: a class has its keys for as long as it lives.
        let in_order = unsafe { (*self.keys).begin_with(names) };
        self.in_order.store(in_order, Ordering::Relaxed);
        in_order
    }
}

// SAFETY: the pointer is only followed with the GIL held.
unsafe impl Send for InlineValues {}
unsafe impl Sync for InlineValues {}

/// The array of one object.
pub(crate) struct Values {
    layout: Layout,
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
            if self.layout.values(object) != Some(self.values) {
                return None;
            }
            Bound::from_borrowed_ptr_or_opt(object.py(), *self.values.add(index))
        }
    }
}

/// The layout of this interpreter's objects, which a probe has found to be as assumed.
fn known_layout(py: Python<'_>) -> Option<Layout> {
    let sound = |layout: &Layout| probe(py, *layout).unwrap_or(false);
    *PROBED.get_or_init(py, || Layout::of_version(py).filter(sound))
}

/// Whether objects of a class of its own are laid out like that: first what Python has set is read,
/// then Python reads what has been set here.
fn probe(py: Python<'_>, layout: Layout) -> PyResult<bool> {
    let class = py
        .get_type::<PyType>()
        .call1(("Probe", (), PyDict::new(py)))?
        .cast_into::<PyType>()?;
    let Some(inline) = InlineValues::by(layout, &class) else {
        return Ok(false);
    };
    let names = ["first", "second", "third"].map(|name| PyString::intern(py, name).unbind());
    let [by_python, ours, partial] = [class.call0()?, class.call0()?, class.call0()?];
    for name in &names {
        by_python.setattr(name, name)?;
    }
    partial.setattr(&names[0], &names[0])?;
    // SAFETY: the objects are of the class; the names are its, and stay the same.
    unsafe {
        let Some(values) = inline.of(&by_python, &names) else {
            return Ok(false);
        };
        let read = (0..names.len()).all(|index| {
            let found = values.get(&by_python, index);
            found.is_some_and(|found| found.is(&names[index]))
        });
        let sound = read
            && layout.order(values.values, names.len()) == [0, 1, 2]
            && inline.of(&partial, &names).is_none();
        if !sound {
            return Ok(false);
        }
        for (index, name) in names.iter().enumerate() {
            let value = name.clone_ref(py).into_ptr();
            if !inline.set(&ours, &names, index, value) {
                ffi::Py_DECREF(value);
                return Ok(false);
            }
        }
    }
    let dict = ours.getattr("__dict__")?.cast_into::<PyDict>()?;
    let found = dict.iter().zip(&names);
    Ok(dict.len() == names.len()
        && found
            .into_iter()
            .all(|((name, value), expected)| name.is(expected) && value.is(expected)))
}

/// Found when the first class asks.
static PROBED: PyOnceLock<Option<Layout>> = PyOnceLock::new();

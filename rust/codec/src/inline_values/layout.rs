//! Where each version has the array of values, the number of them and their order, and the names.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::ffi::c_void;
use std::slice;

/// The layout of objects of one version.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// 3.11: a pointer in front of the object leads to its values.
    Pointed,
    /// 3.12: as in 3.11, but the place of the pointer is that of the dict, and its lowest bit tells.
    Tagged,
    /// 3.13: they are behind the object's header.
    Embedded,
}

impl Layout {
    /// What the headers of this version say; None where that is not known.
    pub(super) fn of_version(py: Python<'_>) -> Option<Self> {
        // Without the GIL, the header of objects is a longer one.
        let usual = size_of::<ffi::PyObject>() == 2 * size_of::<usize>()
            && cfg!(target_pointer_width = "64")
            && cfg!(target_endian = "little");
        let version = py.version_info();
        match (version.major, version.minor) {
            (3, 11) if usual => Some(Self::Pointed),
            (3, 12) if usual => Some(Self::Tagged),
            (3, 13) if usual => Some(Self::Embedded),
            _ => None,
        }
    }

    /// The names of the attributes of a class, where its objects have such an array.
    pub(super) fn keys(self, class: &Bound<'_, PyType>) -> Option<*const Keys> {
        let class = class.as_type_ptr();
        // SAFETY: the type is alive; a heap type has such a struct.
        unsafe {
            let has = |feature| ffi::PyType_HasFeature(class, feature) != 0;
            let embedded = has(INLINE_VALUES) && (*class).tp_basicsize == HEADER;
            let fit = has(ffi::Py_TPFLAGS_HEAPTYPE)
                && has(MANAGED_DICT)
                && (embedded || !matches!(self, Self::Embedded));
            let keys = fit.then(|| (*class.cast::<ffi::PyHeapTypeObject>()).ht_cached_keys)?;
            let keys = keys.cast::<Keys>().cast_const();
            keys.as_ref().filter(|keys| keys.kind == SPLIT)?;
            Some(keys)
        }
    }

    /// Where the values are; None for an object that has a dict.
    ///
    /// # Safety
    /// The object is of a class that has `keys`.
    #[inline]
    pub(super) unsafe fn values(
        self,
        object: &Bound<'_, PyAny>,
    ) -> Option<*mut *mut ffi::PyObject> {
        let words = object.as_ptr().cast::<*mut *mut ffi::PyObject>();
        // SAFETY: there are four words in front of such an object. The first is the pointer to the
        // values in 3.11; the second that to the dict, in 3.12 that of either. In 3.13
        // `PyDictValues` follows the header: four bytes (capacity, size, embedded, valid), padding,
        // the values. A dict may share those of its object: it is the dict that knows them then.
        unsafe {
            match self {
                Self::Pointed => Some(*words.sub(4)).filter(|values| !values.is_null()),
                Self::Tagged => {
                    let either = *words.sub(3);
                    (either.addr() & 1 == 1).then(|| either.byte_add(1))
                }
                Self::Embedded => {
                    let behind = words.byte_offset(HEADER);
                    let valid = *behind.cast::<u8>().add(3) == 1;
                    (valid && (*words.sub(3)).is_null()).then(|| behind.add(1).cast())
                }
            }
        }
    }

    /// How many values are set.
    ///
    /// # Safety
    /// They are those of an object.
    #[inline]
    pub(super) unsafe fn count(self, values: *mut *mut ffi::PyObject) -> usize {
        // SAFETY: the number is there.
        usize::from(unsafe { *self.size(values) })
    }

    /// Notes that the value at `index` is set last; false if there is no place for it.
    /// (`_PyDictValues_AddToInsertionOrder`)
    ///
    /// # Safety
    /// They are those of an object, and it is not set.
    #[inline]
    pub(super) unsafe fn push(self, values: *mut *mut ffi::PyObject, index: usize) -> bool {
        // SAFETY: the bytes of the order are where `order` reads them, and end before the capacity
        // does, which in 3.11 and 3.12 is that of these bytes with the size and itself.
        unsafe {
            let count = self.count(values);
            let (place, room) = match self {
                Self::Pointed | Self::Tagged => {
                    let capacity = usize::from(*values.cast::<u8>().sub(1));
                    (values.cast::<u8>().sub(3 + count), count + 2 < capacity)
                }
                Self::Embedded => {
                    let capacity = usize::from(*values.cast::<u8>().sub(8));
                    let order = values.add(capacity).cast::<u8>();
                    (order.add(count), index < capacity && count < capacity)
                }
            };
            if room {
                *place = index as u8;
                *self.size(values) = count as u8 + 1;
            }
            room
        }
    }

    /// The indices of the first `count` values, in the order in which they were set.
    ///
    /// # Safety
    /// They are those of an object, and so many are set.
    pub(super) unsafe fn order(self, values: *mut *mut ffi::PyObject, count: usize) -> Vec<u8> {
        // SAFETY: there is a byte for each: in front of the size, backwards, or behind the values.
        unsafe {
            let bytes = values.cast::<u8>();
            match self {
                Self::Pointed | Self::Tagged => {
                    let order = slice::from_raw_parts(bytes.sub(2 + count), count);
                    order.iter().rev().copied().collect()
                }
                Self::Embedded => {
                    let behind = values.add(usize::from(*bytes.sub(8)));
                    slice::from_raw_parts(behind.cast(), count).to_vec()
                }
            }
        }
    }

    #[inline]
    unsafe fn size(self, values: *mut *mut ffi::PyObject) -> *mut u8 {
        let back = match self {
            Self::Pointed | Self::Tagged => 2,
            Self::Embedded => 7,
        };
        // SAFETY: it is in front of the values.
        unsafe { values.cast::<u8>().sub(back) }
    }
}

/// `PyDictKeysObject`.
#[repr(C)]
pub(super) struct Keys {
    refcnt: ffi::Py_ssize_t,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: ffi::Py_ssize_t,
    nentries: ffi::Py_ssize_t,
    indices: [usize; 0],
}

impl Keys {
    /// Whether these names are the first ones.
    ///
    /// # Safety
    /// They are those of a class.
    pub(super) unsafe fn begin_with(&self, names: &[Py<PyString>]) -> bool {
        let enough = usize::try_from(self.nentries).is_ok_and(|count| count >= names.len());
        // SAFETY: as many entries as it says follow the indices.
        enough
            && unsafe {
                let entries = self.indices.as_ptr().byte_add(1 << self.log2_index_bytes);
                let entries = slice::from_raw_parts(entries.cast::<KeyEntry>(), names.len());
                let mut each = entries.iter().zip(names);
                each.all(|(entry, name)| entry.key == name.as_ptr())
            }
    }
}

/// `PyDictUnicodeEntry`.
#[repr(C)]
struct KeyEntry {
    key: *mut ffi::PyObject,
    value: *mut c_void,
}

/// `DICT_KEYS_SPLIT`: keys that objects share.
const SPLIT: u8 = 2;

/// `Py_TPFLAGS_INLINE_VALUES` (3.13) and `Py_TPFLAGS_MANAGED_DICT`.
const INLINE_VALUES: std::ffi::c_ulong = 1 << 2;
const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;

/// Bytes of an object that has no fields of its own.
const HEADER: isize = size_of::<ffi::PyObject>() as isize;

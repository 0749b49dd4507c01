//! Keys that are Python objects, and the numbers that they have.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString};
use std::hint::black_box;
use std::ptr;

/// Keys as a dict tells them apart, each with a number: the next where there is no equal one.
///
/// It is no dict: in one of many keys, the entry, the key and the number would each be read from
/// elsewhere in memory.
pub(crate) struct Interned {
    /// Open addressing, a power of two long and at most three quarters full.
    slots: Vec<Slot>,
    /// By their numbers, with their hashes.
    keys: Vec<(isize, Py<PyAny>)>,
    /// Of a key that is new, each makes one that can be found, or raises why it can be no key. The next is
    /// asked where comparing that one raises TypeError.
    forms: Vec<Py<PyAny>>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Of `keys`, or null.
    key: *mut ffi::PyObject,
    /// Bits of the hash.
    hash: u32,
    number: u32,
}

// SAFETY: a slot's key is one of `keys`, and is only read where the GIL is held.
unsafe impl Send for Slot {}

const EMPTY: Slot = Slot {
    key: ptr::null_mut(),
    hash: 0,
    number: 0,
};

impl Interned {
    pub(crate) fn new(forms: Vec<Py<PyAny>>) -> Self {
        Self {
            slots: vec![EMPTY; FEWEST],
            keys: Vec::new(),
            forms,
        }
    }

    /// The numbers of keys. `at` is the place of the first, and then of the one for which this raises.
    pub(crate) fn numbers(
        &mut self,
        keys: &[Bound<'_, PyAny>],
        at: &mut usize,
    ) -> PyResult<Vec<u32>> {
        if self.keys.len() > FEW {
            self.read(keys);
        }
        let first = *at;
        let number = |(place, key)| {
            *at = place;
            self.number(key)
        };
        (first..).zip(keys).map(number).collect()
    }

    /// The number of a key.
    #[inline]
    pub(crate) fn number(&mut self, key: &Bound<'_, PyAny>) -> PyResult<u32> {
        match self.find(key) {
            Ok((_, Some(number))) => Ok(number),
            Ok((hash, None)) if is_found_again(key) => Ok(self.push(key.clone(), hash)),
            Ok(_) => self.number_in_form(key),
            Err(error) if error.is_instance_of::<PyTypeError>(key.py()) => self.number_in_form(key),
            Err(error) => Err(error),
        }
    }

    /// The key of a number.
    pub(crate) fn get<'py>(&self, py: Python<'py>, number: u32) -> Bound<'py, PyAny> {
        self.keys[number as usize].1.bind(py).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of each key.
    pub(crate) fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let numbers = PyDict::new(py);
        for (number, (_, key)) in self.keys.iter().enumerate() {
            numbers.set_item(key, number)?;
        }
        Ok(numbers)
    }

    /// Forgets all but the keys of these numbers, whose places are their numbers from now on.
    pub(crate) fn keep(&mut self, py: Python<'_>, numbers: &[usize]) {
        let kept = numbers.iter().map(|number| &self.keys[*number]);
        let kept = kept.map(|(hash, key)| (*hash, key.clone_ref(py)));
        self.keys = kept.collect();
        self.place(FEWEST.max(self.keys.len() * 2).next_power_of_two());
    }

    /// The hash of a key, and its number if it has one. Raises what hashing and comparing raise.
    #[inline]
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<(isize, Option<u32>)> {
        // SAFETY: there is a `Bound`, so the GIL is held; keys are alive.
        unsafe {
            let hash = ffi::PyObject_Hash(key.as_ptr());
            if hash == -1 {
                return Err(PyErr::fetch(key.py()));
            }
            let (mut at, bits) = self.slot_of(hash);
            loop {
                let slot = self.slots[at];
                if slot.key.is_null() {
                    return Ok((hash, None));
                }
                if slot.key == key.as_ptr() {
                    return Ok((hash, Some(slot.number)));
                }
                if slot.hash == bits && self.keys[slot.number as usize].0 == hash {
                    match ffi::PyObject_RichCompareBool(slot.key, key.as_ptr(), ffi::Py_EQ) {
                        0 => {}
                        1 => return Ok((hash, Some(slot.number))),
                        _ => return Err(PyErr::fetch(key.py())),
                    }
                }
                at = (at + 1) & (self.slots.len() - 1);
            }
        }
    }

    #[cold]
    fn number_in_form(&mut self, key: &Bound<'_, PyAny>) -> PyResult<u32> {
        let py = key.py();
        let mut key = key.clone();
        for at in 0..self.forms.len() {
            key = self.forms[at].bind(py).call1((key,))?;
            match self.find(&key) {
                Ok((_, Some(number))) => return Ok(number),
                Ok((hash, None)) => return Ok(self.push(key, hash)),
                Err(error) if error.is_instance_of::<PyTypeError>(py) => {}
                Err(error) => return Err(error),
            }
        }
        Err(PyTypeError::new_err("no form of the key can be found"))
    }

    fn push(&mut self, key: Bound<'_, PyAny>, hash: isize) -> u32 {
        let number = u32::try_from(self.keys.len()).expect("fewer than 2^32 fit into memory");
        self.keys.push((hash, key.unbind()));
        if self.keys.len() * 4 > self.slots.len() * 3 {
            self.place(self.slots.len() * 2);
        } else {
            self.fill(number);
        }
        number
    }

    /// Makes so many slots anew.
    fn place(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, EMPTY);
        for number in 0..self.keys.len() as u32 {
            self.fill(number);
        }
    }

    fn fill(&mut self, number: u32) {
        let (hash, key) = &self.keys[number as usize];
        let (mut at, bits) = self.slot_of(*hash);
        while !self.slots[at].key.is_null() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot {
            key: key.as_ptr(),
            hash: bits,
            number,
        };
    }

    /// Where a key of this hash is looked for first, and the bits that its slot has.
    #[inline]
    fn slot_of(&self, hash: isize) -> (usize, u32) {
        let spread = (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (spread >> 32) as usize & (self.slots.len() - 1);
        (at, spread as u32)
    }

    /// Reads what keys that are texts are looked for by, all at once: the look-ups would wait for each.
    fn read(&self, keys: &[Bound<'_, PyAny>]) {
        let texts = keys
            .iter()
            .filter(|key| key.is_exact_instance_of::<PyString>());
        // SAFETY: there are `Bound`s, so the GIL is held; a text has a hash, and keys are alive.
        let found = unsafe {
            let slot = |key: &Bound<'_, PyAny>| {
                self.slots[self.slot_of(ffi::PyObject_Hash(key.as_ptr())).0].key
            };
            let found: Vec<_> = texts.map(slot).filter(|key| !key.is_null()).collect();
            let counts = found.into_iter().map(|key| ffi::Py_REFCNT(key));
            counts.fold(0, |all, count| all ^ count)
        };
        black_box(found);
    }
}

/// Whether a dict finds each key of this kind again without help.
fn is_found_again(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>()
        || key.is_exact_instance_of::<PyInt>()
        || key.is_exact_instance_of::<PyBytes>()
        || key.is_exact_instance_of::<PyBool>()
}

const FEWEST: usize = 8;
/// So many keys are in a processor's cache.
const FEW: usize = 4096;

//! Keys with their values, which are Python objects or encoded.

use crate::operators::interned::Interned;
use crate::state::{KeyedEntries, encoded_entries};
use oka_codec::{Decoder, Key, Pickling, encode};
use oka_compute::ByteStrings;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// What the records of a key come to.
#[derive(Default)]
pub(in crate::operators) enum Value {
    /// Its first record is about to come.
    #[default]
    None,
    Object(Py<PyAny>),
    Encoded(Vec<u8>),
}

impl Value {
    #[inline]
    pub(in crate::operators) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Encoded(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As an object.
    #[inline]
    pub(in crate::operators) fn object<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Self::Object(object) => Ok(Some(object.bind(py).clone())),
            Self::None => Ok(None),
            Self::Encoded(bytes) => Decoder::new(py).first(bytes).map(Some),
        }
    }

    /// Has it be encoded; false where that cannot be.
    #[inline]
    pub(in crate::operators) fn encode(&mut self, py: Python<'_>) -> bool {
        let Self::Object(object) = self else {
            return true;
        };
        let mut bytes = Vec::new();
        // SAFETY: the GIL is held, and the object is valid.
        let encoded = unsafe { encode::append(py, &mut bytes, object.as_ptr(), 0) };
        if encoded.is_ok() {
            *self = Self::Encoded(bytes);
        }
        encoded.is_ok()
    }

    #[inline]
    pub(in crate::operators) fn set_bytes(&mut self, encoded: &[u8]) {
        match self {
            Self::Encoded(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(encoded);
            }
            other => *other = Self::Encoded(encoded.to_vec()),
        }
    }
}

pub(super) struct Keyed {
    key: Key,
    /// Whether records come behind their keys.
    paired: bool,
    keys: Interned,
    /// By the numbers of the keys.
    values: Vec<Value>,
}

impl Keyed {
    pub(super) fn new(key: Key, paired: bool, keys: Interned) -> Self {
        Self {
            key,
            paired,
            keys,
            values: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The number of the key, and the record, of what came. Raises what looking for the key does.
    #[inline]
    pub(super) fn find<'py>(
        &mut self,
        element: &Bound<'py, PyAny>,
    ) -> PyResult<(usize, Bound<'py, PyAny>)> {
        if !self.paired {
            let key = self.key.item(element)?;
            return Ok((self.number(&key)?, element.clone()));
        }
        let (key, record) = match element.cast_exact::<PyTuple>() {
            Ok(pair) => (pair.get_item(0)?, pair.get_item(1)?),
            Err(_) => (element.get_item(0)?, element.get_item(1)?),
        };
        Ok((self.number(&key)?, record))
    }

    /// The number of a key.
    #[inline]
    pub(super) fn number(&mut self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let number = self.keys.number(key)? as usize;
        if number == self.values.len() {
            self.values.push(Value::None);
        }
        Ok(number)
    }

    /// The value of a key as an object, which it is from now on.
    #[inline]
    pub(super) fn object<'py>(
        &mut self,
        py: Python<'py>,
        number: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.values[number].object(py)
    }

    /// Has the value of a key be encoded; false where that cannot be.
    #[inline]
    pub(super) fn encode(&mut self, py: Python<'_>, number: usize) -> bool {
        self.values[number].encode(py)
    }

    /// By the numbers of the keys.
    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    #[inline]
    pub(super) fn set(&mut self, number: usize, value: Value) {
        self.values[number] = value;
    }

    #[inline]
    pub(super) fn set_bytes(&mut self, number: usize, encoded: &[u8]) {
        self.values[number].set_bytes(encoded);
    }

    pub(super) fn put(&mut self, key: &Bound<'_, PyAny>, value: Value) -> PyResult<()> {
        let number = self.number(key)?;
        self.values[number] = value;
        Ok(())
    }

    pub(super) fn some<'py>(
        &mut self,
        py: Python<'py>,
        first: usize,
        most: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let end = first.saturating_add(most).min(self.len());
        let mut some = Vec::new();
        for number in first..end {
            some.extend(self.object(py, number)?);
        }
        PyList::new(py, some)
    }

    pub(super) fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let objects = PyDict::new(py);
        for (number, value) in self.values.iter().enumerate() {
            if let Value::Object(object) = value {
                objects.set_item(self.keys.get(py, number as u32), object)?;
            }
        }
        Ok(objects)
    }

    pub(super) fn entries(&self, py: Python<'_>, pickle: bool) -> PyResult<Option<KeyedEntries>> {
        let _pickling = Pickling::allow(pickle);
        let (mut keys, mut values) = (Vec::new(), ByteStrings::default());
        for (number, value) in self.values.iter().enumerate() {
            if let Value::Encoded(bytes) = value {
                keys.push(self.keys.get(py, number as u32));
                values.push(bytes);
            }
        }
        if keys.is_empty() {
            return Ok(None);
        }
        encoded_entries(&keys, values).map(Some)
    }
}

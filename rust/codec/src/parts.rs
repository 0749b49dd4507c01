//! One value's encoding in parts, of which large byte strings are the caller's own objects.

use crate::encode::{Encoded, Refusal, append, check_depth, check_length};
use oka_compute::encode;
use oka_compute::value::extension;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// Bytes of an encoding.
pub enum Part<'py> {
    Written(Vec<u8>),
    /// A byte string of the value, not copied.
    Lent(Bound<'py, PyBytes>),
}

/// An encoding that grows: one behind the other, its parts are what [`append`] would write.
///
/// Large byte strings are parts of their own, if nothing but tuples, lists and dicts is around them.
#[derive(Default)]
pub struct Parts<'py> {
    done: Vec<Part<'py>>,
    /// The last part.
    open: Vec<u8>,
    /// The bytes of all but the last.
    size: usize,
}

impl<'py> Parts<'py> {
    /// Appends a value that `depth` containers are around.
    pub fn append(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> Encoded {
        if let Ok(bytes) = value.cast_exact::<PyBytes>()
            && bytes.as_bytes().len() >= LARGE
        {
            check_length(bytes.as_bytes().len())?;
            encode::bytes_head(&mut self.open, bytes.as_bytes().len());
            self.lend(bytes);
            Ok(())
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            check_depth(depth)?;
            check_length(tuple.len())?;
            encode::array(&mut self.open, tuple.len());
            self.append_all(tuple.iter(), depth)
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            check_depth(depth)?;
            self.append_list(&list.to_tuple(), depth)
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            check_depth(depth)?;
            check_length(dict.len())?;
            let pairs = dict.items();
            encode::map(&mut self.open, pairs.len());
            for pair in pairs {
                let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair.extract()?;
                self.append_all([key, value].into_iter(), depth)?;
            }
            Ok(())
        } else {
            // SAFETY: there is a `Bound`, so the GIL is held and the value is valid.
            unsafe { append(value.py(), &mut self.open, value.as_ptr(), depth) }
        }
    }

    /// The parts, none of which is empty.
    pub fn finish(mut self) -> Vec<Part<'py>> {
        self.close();
        self.done
    }

    fn append_all(
        &mut self,
        mut values: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) -> Encoded {
        values.try_for_each(|value| self.append(&value, depth + 1))
    }

    /// A list is an extension, whose length is in front: it is known behind the elements.
    fn append_list(&mut self, elements: &Bound<'py, PyTuple>, depth: usize) -> Encoded {
        check_length(elements.len())?;
        let part = self.done.len();
        let start = encode::open_extension(&mut self.open, extension::LIST);
        let behind = self.size + self.open.len();
        encode::array(&mut self.open, elements.len());
        self.append_all(elements.iter(), depth)?;
        let length = self.size + self.open.len() - behind;
        let head = match self.done.get_mut(part) {
            Some(Part::Written(bytes)) => bytes,
            _ => &mut self.open,
        };
        if encode::set_length(head, start, length) {
            return Ok(());
        }
        Err(Box::new(Refusal::TooLarge))
    }

    fn lend(&mut self, bytes: &Bound<'py, PyBytes>) {
        self.close();
        self.size += bytes.as_bytes().len();
        self.done.push(Part::Lent(bytes.clone()));
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.size += self.open.len();
            self.done
                .push(Part::Written(std::mem::take(&mut self.open)));
        }
    }
}

/// Copies of fewer bytes cost less than a part does.
const LARGE: usize = 1 << 16;

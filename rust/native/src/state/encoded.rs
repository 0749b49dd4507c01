//! Pairs of a key and a value on their way into entries.

use oka_codec::{Key, Pickling, encode};
use oka_columnar::Entries;
use oka_compute::ByteStrings;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::thread;
use std::time::Duration;

/// Pairs of a key and a value, encoded.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) hashes: Vec<u64>,
    pub(super) keys: ByteStrings,
    pub(super) values: ByteStrings,
}

impl Encoded {
    /// Of these pairs. Where others wait for the GIL, as a task does, it is given up now and then.
    pub(super) fn of(
        pairs: Bound<'_, PyIterator>,
        pickle: bool,
        gives_way: bool,
    ) -> PyResult<Self> {
        let _pickling = Pickling::allow(pickle);
        let py = pairs.py();
        let mut encoded = Self::default();
        for (index, pair) in pairs.enumerate() {
            if gives_way && index > 0 && index % AT_ONCE == 0 {
                py.detach(|| thread::sleep(GIVING_WAY));
            }
            encoded.push(index, &pair?)?;
        }
        Ok(encoded)
    }

    fn push(&mut self, index: usize, pair: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        self.push_key(index, pair, &key)?;
        self.values
            .push_with(|out| append(index, pair, &value, out))
    }

    /// The key of this pair.
    pub(super) fn push_key(
        &mut self,
        index: usize,
        pair: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.hashes.push(Key::Record.hash(index, key)?);
        self.keys.push_with(|out| append(index, pair, key, out))
    }

    pub(super) fn entries(&self) -> Entries {
        Entries::new(&self.hashes, &self.keys, &self.values)
    }
}

/// Appends a part of the pair.
fn append(
    index: usize,
    pair: &Bound<'_, PyAny>,
    part: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    // SAFETY: there is a `Bound`, so the GIL is held and the part is valid.
    unsafe { encode::append(part.py(), out, part.as_ptr(), 0) }
        .map_err(|refused| encode::refusal(index, pair, *refused))
}

/// Pairs that are encoded in less time than a thread waits for the GIL before it insists.
const AT_ONCE: usize = 2048;
/// Enough for another thread to wake up.
const GIVING_WAY: Duration = Duration::from_micros(50);

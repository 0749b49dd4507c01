//! Entries of keyed state.

use crate::decode::Decoder;
use crate::encode;
use crate::extension::Pickling;
use crate::gate::for_each;
use crate::key::Key;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The hash that places a key, the key, and what is kept of it, both encoded.
pub(crate) type Entry = (u64, Vec<u8>, Vec<u8>);

/// Pairs of a key and a value as entries of keyed state, in the order of hashes: the hash by which a
/// hash-partitioned gate chooses, the key and the value, encoded as records are. With `pickle`, what
/// cannot be encoded otherwise is pickled. Raises EncodeError or KeyExtractError naming the pair.
#[pyfunction]
#[pyo3(signature = (
    pairs: "list[tuple[Any, Any]]",
    pickle: "bool" = false,
) -> "list[tuple[int, bytes, bytes]]")]
pub(crate) fn keyed_entries(pairs: &Bound<'_, PyList>, pickle: bool) -> PyResult<Vec<Entry>> {
    let _pickling = Pickling::allow(pickle);
    let mut entries = Vec::with_capacity(pairs.len());
    for_each(pairs, |index, pair| {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        let encoded = |part: &Bound<'_, PyAny>| {
            let mut out = Vec::new();
            // SAFETY: there is a `Bound`, so the GIL is held and the part is valid.
            unsafe { encode::append(part.py(), &mut out, part.as_ptr(), 0) }
                .map_err(|refused| encode::refusal(index, pair, *refused))?;
            Ok::<_, PyErr>(out)
        };
        let hash = Key::Record.hash(index, &key)?;
        entries.push((hash, encoded(&key)?, encoded(&value)?));
        Ok(())
    })?;
    entries.sort_unstable();
    Ok(entries)
}

/// The entries of keys and values that are encoded already.
pub(crate) fn placed(py: Python<'_>, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> PyResult<Vec<Entry>> {
    let mut decoder = Decoder::new(py);
    let entries = pairs.into_iter().enumerate().map(|(index, (key, value))| {
        let hash = Key::Record.hash(index, &decoder.first(&key)?)?;
        Ok((hash, key, value))
    });
    let mut entries = entries.collect::<PyResult<Vec<_>>>()?;
    entries.sort_unstable();
    Ok(entries)
}

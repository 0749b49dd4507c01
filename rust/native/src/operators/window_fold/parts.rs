//! What windows have kept, for who writes it.

use crate::error::alone;
use oka_window::{Numbered, Part};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Mutex;

/// Goes through what windows had kept at a time, key by key.
#[pyclass(frozen, module = "engine._native")]
pub(super) struct KeptParts(Mutex<Kept>);

struct Kept {
    base: i128,
    counts: Option<Vec<i64>>,
    watermark: Option<i128>,
    parts: Vec<Part>,
    /// How many keys and values were given, once these are in order.
    passed: Option<(usize, usize)>,
}

type OfKey<'py> = (usize, Option<i128>, Vec<Bound<'py, PyTuple>>);

impl KeptParts {
    /// What these have kept now.
    pub(super) fn of(windows: &Numbered) -> Self {
        Self(Mutex::new(Kept {
            base: windows.base(),
            counts: windows.counts().map(<[i64]>::to_vec),
            watermark: windows.watermark(),
            parts: windows.parts(),
            passed: None,
        }))
    }
}

#[pymethods]
impl KeptParts {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<OfKey<'py>>> {
        let mut kept = alone(&self.0, "what windows have kept is in use")?;
        let kept = &mut *kept;
        let order = |part: &Part| (part.key, part.window.start);
        let (mut key, at) = match kept.passed {
            Some(passed) => passed,
            None => py.detach(|| {
                kept.parts.sort_unstable_by_key(order);
                (0, 0)
            }),
        };
        let head = if let Some(counts) = &kept.counts {
            while counts.get(key) == Some(&0) {
                key += 1;
            }
            let Some(count) = counts.get(key) else {
                return Ok(None);
            };
            Some((*count).into())
        } else {
            let Some(part) = kept.parts.get(at) else {
                return Ok(None);
            };
            key = part.key as usize;
            kept.watermark
        };
        let of_key = kept.parts[at..].iter();
        let of_key = of_key.take_while(|part| part.key as usize == key);
        let tuples = of_key.map(|part| {
            let [start, end] =
                [part.window.start, part.window.end].map(|time| kept.base + i128::from(time));
            (start, end, part.form, part.number).into_pyobject(py)
        });
        let tuples = tuples.collect::<Result<Vec<_>, _>>()?;
        kept.passed = Some((key + 1, at + tuples.len()));
        Ok(Some((key, head, tuples)))
    }
}

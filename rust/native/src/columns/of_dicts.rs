//! Columns of dicts, as far as their values are of the plain classes: what is not is left to PyArrow.

use super::values::Values;
use super::{export, import_schema};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{Field, Schema};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTzInfo};
use std::ptr;
use std::sync::Arc;

/// Columns of dicts: a pyarrow.RecordBatch of those that are made here, and the names of all; None where
/// PyArrow is to make them all. `schema` is a pyarrow.Schema, or None.
#[pyfunction]
#[pyo3(signature = (
    records: "Any",
    schema: "Any" = None,
) -> "tuple[Any, list[str]] | None")]
pub(crate) fn columns_of_dicts<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    schema: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Made<'py>>> {
    let Some(mut columns) = Columns::declared(py, schema)? else {
        return Ok(None);
    };
    let Ok(records) = records.cast_exact::<PyList>() else {
        return Ok(None);
    };
    for (row, record) in records.iter().enumerate() {
        let Ok(record) = record.cast_into_exact::<PyDict>() else {
            return Ok(None);
        };
        if !columns.add(row, &record)? {
            return Ok(None);
        }
    }
    let rows = records.len();
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, column) in columns.names.iter().zip(columns.values) {
        if let Some(array) = column.made(rows) {
            let Some(name) = name.to_str().ok().filter(|name| !name.contains('\0')) else {
                return Ok(None);
            };
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
    }
    if arrays.is_empty() || rows == 0 {
        return Ok(None);
    }
    match RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays) {
        Ok(batch) => Ok(Some((export(py, batch)?, columns.names))),
        Err(_) => Ok(None),
    }
}

/// A pyarrow.RecordBatch, and the names of all columns.
type Made<'py> = (Bound<'py, PyAny>, Vec<Bound<'py, PyString>>);

/// The columns so far.
struct Columns<'py> {
    names: Vec<Bound<'py, PyString>>,
    values: Vec<Column<'py>>,
    /// The index of each name.
    indices: Bound<'py, PyDict>,
    /// What the keys of the last dict stood for, in their order. The dicts keep the keys.
    last: Vec<(*mut ffi::PyObject, Option<usize>)>,
    is_declared: bool,
}

impl<'py> Columns<'py> {
    /// Those of a schema; None where a name comes twice.
    fn declared(py: Python<'py>, schema: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Self>> {
        let mut columns = Self {
            names: Vec::new(),
            values: Vec::new(),
            indices: PyDict::new(py),
            last: Vec::new(),
            is_declared: schema.is_some(),
        };
        if let Some(schema) = schema {
            let Ok(fields) = import_schema(schema) else {
                return Ok(None);
            };
            // Arrow's C interface cuts a name off at a NUL.
            let names: Vec<Bound<'py, PyString>> = schema.getattr("names")?.extract()?;
            for (name, field) in names.into_iter().zip(fields.fields()) {
                columns.push(name, Some(field.as_ref().clone()))?;
            }
        }
        Ok(Some(columns).filter(|columns| columns.indices.len() == columns.names.len()))
    }

    fn push(&mut self, name: Bound<'py, PyString>, field: Option<Field>) -> PyResult<usize> {
        let index = self.names.len();
        self.indices.set_item(&name, index)?;
        self.names.push(name);
        self.values.push(Column::new(self.indices.py(), field)?);
        Ok(index)
    }

    /// Takes a dict in; false where it has a key that is no text.
    #[inline]
    fn add(&mut self, row: usize, record: &Bound<'py, PyDict>) -> PyResult<bool> {
        let (mut position, mut at) = (0, 0);
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the GIL is held. No Python code runs here, so the dict stays as it is, and keeps what it
        // lends.
        unsafe {
            while ffi::PyDict_Next(
                record.as_ptr(),
                &raw mut position,
                &raw mut key,
                &raw mut value,
            ) != 0
            {
                let index = match self.last.get(at) {
                    Some((known, index)) if *known == key => *index,
                    _ => {
                        let key = Bound::from_borrowed_ptr(record.py(), key);
                        let Ok(key) = key.cast_into_exact::<PyString>() else {
                            return Ok(false);
                        };
                        self.look_up(at, key)?
                    }
                };
                if let Some(index) = index {
                    self.values[index].push(row, value);
                }
                at += 1;
            }
        }
        Ok(true)
    }

    /// The index of the column with this name, one of its own if there was none and none is declared.
    fn look_up(&mut self, at: usize, key: Bound<'py, PyString>) -> PyResult<Option<usize>> {
        let pointer = key.as_ptr();
        let index = match self.indices.get_item(&key)? {
            Some(index) => Some(index.extract()?),
            None if self.is_declared => None,
            None => Some(self.push(key, None)?),
        };
        self.last.truncate(at);
        self.last.push((pointer, index));
        Ok(index)
    }
}

/// The values of one name.
struct Column<'py> {
    /// As declared.
    field: Option<Field>,
    values: Values,
    rows: usize,
    /// `datetime.timezone.utc`, which PyArrow knows without a question.
    utc: Borrowed<'static, 'py, PyTzInfo>,
}

impl<'py> Column<'py> {
    fn new(py: Python<'py>, field: Option<Field>) -> PyResult<Self> {
        Ok(Self {
            field,
            values: Values::Nothing,
            rows: 0,
            utc: PyTzInfo::utc(py)?,
        })
    }

    /// Takes the value of a row in; rows that were left out have None.
    ///
    /// # Safety
    /// The GIL is held and `value` is valid.
    #[inline]
    unsafe fn push(&mut self, row: usize, value: *mut ffi::PyObject) {
        let missing = row - self.rows;
        self.rows = row + 1;
        // SAFETY: as above.
        unsafe {
            if missing > 0 {
                self.values.nulls(missing);
            }
            if value == ffi::Py_None() {
                self.values.nulls(1);
                return;
            }
            if let Values::Nothing = self.values {
                self.values = Values::like(self.utc.py(), value);
                self.values.nulls(row);
            }
            if !self.values.push(value, self.utc) {
                self.values = Values::Others;
            }
        }
    }

    /// The column of so many rows; None where PyArrow is to make it.
    fn made(mut self, rows: usize) -> Option<ArrayRef> {
        self.values.nulls(rows - self.rows);
        let Some(field) = self.field else {
            return self.values.finish(rows);
        };
        if field.metadata().contains_key(EXTENSION_TYPE_NAME_KEY) {
            return None;
        }
        let made = self.values.finish_as(field.data_type(), rows)?;
        (field.is_nullable() || made.null_count() == 0).then_some(made)
    }
}

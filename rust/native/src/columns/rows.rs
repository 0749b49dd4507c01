//! Rows of columns as dicts of Python's objects, made without an object of PyArrow for each value.

use super::import;
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, BinaryType, BinaryViewType, ByteArrayType,
    ByteViewType, Date32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, StringViewType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    Utf8Type,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use chrono::{Datelike, Timelike};
use oka_codec::Decoder;
use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyDict, PyList, PyString, PyTzInfo};
use std::ptr;

/// A dict of each row of a pyarrow.RecordBatch whose columns have different names: what its `to_pylist`
/// gives, and what that raises.
#[pyfunction]
#[pyo3(signature = (batch: "Any") -> "list[dict[str, Any]]")]
pub(crate) fn dicts_of_rows<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    match dicts(py, batch) {
        Ok(rows) => Ok(rows.into_any()),
        Err(_) => batch.call_method0("to_pylist"), // which says what is wrong with it
    }
}

fn dicts<'py>(py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let columns = import(batch)?;
    let schema = batch.getattr("schema")?;
    // Arrow's C interface cuts a name off at a NUL.
    let names: Vec<Bound<'py, PyString>> = schema.getattr("names")?.extract()?;
    let mut entries = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        let field = columns.schema_ref().field(at);
        let kind = if field.data_type().is_nested() {
            Some(schema.call_method1("field", (at,))?.getattr("type")?)
        } else {
            None
        };
        let cells = match cells_of(py, field, columns.column(at), kind)? {
            Some(cells) => cells,
            None => Cells::listed(
                batch
                    .call_method1("column", (at,))?
                    .call_method0("to_pylist")?,
            )?,
        };
        entries.push((interned(name), cells));
    }
    let rows = Dicts::of(py, entries)?;
    list(
        &mut Decoder::new(py),
        0..columns.num_rows(),
        |texts, row| rows.make(texts, row),
    )
}

/// What gives the Python objects of a column.
struct Cells<'py> {
    array: Option<ArrayRef>,
    /// The value of a row where it is not null, a new reference; null with an exception set.
    value: Value<'py>,
}

/// A new reference; null with an exception set.
type Made = *mut ffi::PyObject;

impl<'py> Cells<'py> {
    fn listed(objects: Bound<'py, PyAny>) -> PyResult<Self> {
        let objects = objects.cast_into::<PyList>()?;
        Ok(Self {
            array: None,
            value: Box::new(move |_, row| match objects.get_item(row) {
                Ok(object) => object.into_ptr(),
                Err(error) => raised(objects.py(), error),
            }),
        })
    }

    #[inline]
    fn make(&self, texts: &mut Decoder<'py>, row: usize) -> Made {
        match &self.array {
            // SAFETY: whoever has the decoder has the GIL.
            Some(array) if array.is_null(row) => unsafe { ffi::Py_NewRef(ffi::Py_None()) },
            _ => (self.value)(texts, row),
        }
    }
}

/// The cells of a column; None where PyArrow is to make the objects. A nested one comes with its type, a
/// pyarrow.DataType.
fn cells_of<'py>(
    py: Python<'py>,
    field: &Field,
    array: &ArrayRef,
    kind: Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Cells<'py>>> {
    if field.metadata().contains_key(EXTENSION_TYPE_NAME_KEY) {
        return Ok(None);
    }
    let value: Value<'py> = match field.data_type() {
        // SAFETY: whoever has the decoder has the GIL.
        DataType::Null => Box::new(|_: &mut _, _| unsafe { ffi::Py_NewRef(ffi::Py_None()) }),
        DataType::Boolean => {
            let array = array.as_boolean().clone();
            // SAFETY: as above.
            Box::new(move |_: &mut _, row| unsafe { ffi::PyBool_FromLong(array.value(row).into()) })
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>().clone();
            // SAFETY: as above.
            Box::new(move |_: &mut _, row| unsafe {
                ffi::PyLong_FromUnsignedLongLong(array.value(row))
            })
        }
        DataType::Float16 => floats::<Float16Type>(array),
        DataType::Float32 => floats::<Float32Type>(array),
        DataType::Float64 => floats::<Float64Type>(array),
        DataType::Utf8 => texts::<Utf8Type>(array),
        DataType::LargeUtf8 => texts::<LargeUtf8Type>(array),
        DataType::Utf8View => views::<StringViewType>(array, text),
        DataType::Binary => bytes_of::<BinaryType>(array),
        DataType::LargeBinary => bytes_of::<LargeBinaryType>(array),
        DataType::BinaryView => views::<BinaryViewType>(array, bytes),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary().clone();
            Box::new(move |decoder: &mut _, row| bytes(decoder, array.value(row)))
        }
        DataType::Date32 => {
            let array = array.as_primitive::<Date32Type>().clone();
            Box::new(move |_: &mut _, row| {
                let day = as_datetime::<Date32Type>(array.value(row).into());
                let made = day.ok_or_else(too_far).and_then(|day| {
                    PyDate::new(py, day.year(), day.month() as u8, day.day() as u8)
                });
                owned(py, made)
            })
        }
        DataType::Timestamp(unit, zone) => {
            let zone = match zone.as_deref() {
                None => None,
                Some("UTC") => Some(utc(py)?),
                Some(_) => return Ok(None),
            };
            match unit {
                TimeUnit::Second => moments::<TimestampSecondType>(py, array, zone),
                TimeUnit::Millisecond => moments::<TimestampMillisecondType>(py, array, zone),
                TimeUnit::Microsecond => moments::<TimestampMicrosecondType>(py, array, zone),
                TimeUnit::Nanosecond => return Ok(None),
            }
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::Struct(_)
        | DataType::Dictionary(_, _) => {
            let inner = match (field.data_type(), kind) {
                (DataType::List(item), Some(kind)) => lists::<i32>(py, array, item, &kind)?,
                (DataType::LargeList(item), Some(kind)) => lists::<i64>(py, array, item, &kind)?,
                (DataType::Struct(fields), Some(kind)) => structs(py, array, fields, &kind)?,
                _ => coded(py, array)?,
            };
            match inner {
                Some(value) => value,
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let array = Some(array.clone()).filter(|array| array.null_count() > 0);
    Ok(Some(Cells { array, value }))
}

type Value<'py> = Box<dyn Fn(&mut Decoder<'py>, usize) -> Made + 'py>;

fn integers<'py, T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Value<'py> {
    let array = array.as_primitive::<T>().clone();
    // SAFETY: whoever has the decoder has the GIL.
    Box::new(move |_, row| unsafe { ffi::PyLong_FromLongLong(array.value(row).into()) })
}

fn floats<'py, T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Value<'py> {
    let array = array.as_primitive::<T>().clone();
    // SAFETY: whoever has the decoder has the GIL.
    Box::new(move |_, row| unsafe { ffi::PyFloat_FromDouble(array.value(row).into()) })
}

fn texts<'py, T: ByteArrayType>(array: &ArrayRef) -> Value<'py> {
    let array = array.as_bytes::<T>().clone();
    Box::new(move |decoder, row| text(decoder, array.value(row).as_ref()))
}

fn bytes_of<'py, T: ByteArrayType>(array: &ArrayRef) -> Value<'py> {
    let array = array.as_bytes::<T>().clone();
    Box::new(move |decoder, row| bytes(decoder, array.value(row).as_ref()))
}

fn views<'py, T: ByteViewType>(
    array: &ArrayRef,
    make: impl Fn(&mut Decoder<'py>, &[u8]) -> Made + 'py,
) -> Value<'py> {
    let array = array.as_byte_view::<T>().clone();
    Box::new(move |decoder, row| make(decoder, array.value(row).as_ref()))
}

#[inline]
fn text(decoder: &mut Decoder, utf8: &[u8]) -> Made {
    decoder.text(utf8)
}

#[inline]
fn bytes(_: &mut Decoder, bytes: &[u8]) -> Made {
    // SAFETY: whoever has the decoder has the GIL.
    unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize) }
}

fn moments<'py, T: ArrowTimestampType>(
    py: Python<'py>,
    array: &ArrayRef,
    zone: Option<Bound<'py, PyTzInfo>>,
) -> Value<'py> {
    let array = array.as_primitive::<T>().clone();
    Box::new(move |_, row| {
        let moment = as_datetime::<T>(array.value(row));
        let made = moment.ok_or_else(too_far).and_then(|at| {
            let [month, day, hour, minute, second] =
                [at.month(), at.day(), at.hour(), at.minute(), at.second()].map(|part| part as u8);
            let microsecond = at.nanosecond() / 1000;
            let zone = zone.as_ref();
            PyDateTime::new(
                py,
                at.year(),
                month,
                day,
                hour,
                minute,
                second,
                microsecond,
                zone,
            )
        });
        owned(py, made)
    })
}

/// The zone of PyArrow's instants in UTC.
fn utc(py: Python<'_>) -> PyResult<Bound<'_, PyTzInfo>> {
    let pyarrow = py.import("pyarrow")?;
    let kind = pyarrow.call_method1("timestamp", ("us", "UTC"))?;
    let instant = pyarrow.call_method1("scalar", (0, kind))?;
    let instant = instant.call_method0("as_py")?;
    Ok(instant.getattr("tzinfo")?.cast_into()?)
}

fn lists<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    array: &ArrayRef,
    item: &Field,
    kind: &Bound<'py, PyAny>,
) -> PyResult<Option<Value<'py>>> {
    let array = array.as_list::<O>().clone();
    let kind = Some(kind.getattr("value_type")?);
    let Some(items) = cells_of(py, item, array.values(), kind)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |decoder, row| {
        let [start, end] = [0, 1].map(|behind| array.value_offsets()[row + behind].as_usize());
        let made = list(decoder, start..end, |decoder, row| items.make(decoder, row));
        owned(py, made)
    })))
}

fn structs<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    fields: &Fields,
    kind: &Bound<'py, PyAny>,
) -> PyResult<Option<Value<'py>>> {
    let mut entries = Vec::new();
    for (at, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
        let told = kind.call_method1("field", (at,))?;
        let Some(cells) = cells_of(py, field, column, Some(told.getattr("type")?))? else {
            return Ok(None);
        };
        entries.push((interned(told.getattr("name")?.cast_into()?), cells));
    }
    let dicts = Dicts::of(py, entries)?;
    Ok(Some(Box::new(move |decoder, row| dicts.make(decoder, row))))
}

fn coded<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Option<Value<'py>>> {
    let array = array.as_any_dictionary();
    let values = array.values();
    let field = Field::new("", values.data_type().clone(), true);
    let is_nested = values.data_type().is_nested();
    let Some(cells) = (!is_nested)
        .then(|| cells_of(py, &field, values, None))
        .transpose()?
        .flatten()
    else {
        return Ok(None);
    };
    let codes = match values.len() {
        0 => Vec::new(), // and all are null
        _ => array.normalized_keys(),
    };
    Ok(Some(Box::new(move |decoder, row| {
        cells.make(decoder, codes[row])
    })))
}

/// The `str` that a program has for the same name, so that it finds the value by identity.
fn interned(name: Bound<'_, PyString>) -> Bound<'_, PyString> {
    let py = name.py();
    let mut name = name.into_ptr();
    // SAFETY: the GIL is held; the one reference is exchanged for another.
    unsafe {
        ffi::PyUnicode_InternInPlace(&raw mut name);
        Bound::from_owned_ptr(py, name).cast_into_unchecked()
    }
}

/// Makes dicts of the same keys.
struct Dicts<'py> {
    entries: Vec<(Bound<'py, PyString>, Cells<'py>)>,
    /// It has them all: a copy of it has a table of the right size.
    template: Bound<'py, PyDict>,
}

impl<'py> Dicts<'py> {
    /// Of keys of which each is another.
    fn of(py: Python<'py>, entries: Vec<(Bound<'py, PyString>, Cells<'py>)>) -> PyResult<Self> {
        let template = PyDict::new(py);
        for (name, _) in &entries {
            template.set_item(name, py.None())?;
        }
        if template.len() < entries.len() {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "a name comes twice",
            ));
        }
        Ok(Self { entries, template })
    }

    #[inline]
    fn make(&self, decoder: &mut Decoder<'py>, row: usize) -> Made {
        // SAFETY: whoever has the decoder has the GIL; the dict is new, and a dict takes references of its
        // own.
        unsafe {
            let dict = ffi::PyDict_Copy(self.template.as_ptr());
            if dict.is_null() {
                return dict;
            }
            for (name, cells) in &self.entries {
                let value = cells.make(decoder, row);
                if value.is_null() || ffi::PyDict_SetItem(dict, name.as_ptr(), value) != 0 {
                    ffi::Py_XDECREF(value);
                    ffi::Py_DECREF(dict);
                    return ptr::null_mut();
                }
                ffi::Py_DECREF(value);
            }
            dict
        }
    }
}

/// The objects of these rows.
fn list<'py>(
    decoder: &mut Decoder<'py>,
    rows: std::ops::Range<usize>,
    make: impl Fn(&mut Decoder<'py>, usize) -> Made,
) -> PyResult<Bound<'py, PyList>> {
    let py = decoder.py();
    // SAFETY: the GIL is held; each place is below the list's length and empty, and a list with empty
    // places may be freed.
    unsafe {
        let list = ffi::PyList_New(rows.len() as ffi::Py_ssize_t);
        let list = Bound::from_owned_ptr_or_err(py, list)?.cast_into_unchecked();
        for (place, row) in rows.enumerate() {
            let object = make(decoder, row);
            if object.is_null() {
                return Err(PyErr::fetch(py));
            }
            ffi::PyList_SET_ITEM(list.as_ptr(), place as ffi::Py_ssize_t, object);
        }
        Ok(list)
    }
}

fn owned<T>(py: Python<'_>, made: PyResult<Bound<'_, T>>) -> Made {
    match made {
        Ok(object) => object.into_ptr(),
        Err(error) => raised(py, error),
    }
}

#[cold]
fn raised(py: Python<'_>, error: PyErr) -> Made {
    error.restore(py);
    ptr::null_mut()
}

#[cold]
fn too_far() -> PyErr {
    PyOverflowError::new_err("date value out of range")
}

//! Record batches over the boundary, by Arrow's C data interface: memory is shared, not copied.

pub(crate) mod encoded;
pub(crate) mod of_dicts;
pub(crate) mod rows;
mod values;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, from_ffi_and_data_type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_schema::{ArrowError, DataType, Schema};
use oka_codec::type_name;
use oka_columnar::{plain_keys as keys, streams, take_rows as take};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use std::sync::Arc;

/// A record batch of anything that has `__arrow_c_array__`, as a pyarrow.RecordBatch does.
pub(crate) fn import(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let (schema, array) = capsules(batch)?;
    let schema = schema_of(&schema)?;
    let imported = || -> Result<_, ArrowError> {
        let schema = Schema::try_from(schema)?;
        let kind = DataType::Struct(schema.fields().clone());
        // SAFETY: the array is of the type that its schema describes.
        let data = unsafe { from_ffi_and_data_type(array, kind) }?;
        let rows = RecordBatchOptions::new().with_row_count(Some(data.len()));
        let columns = StructArray::from(data).columns().to_vec();
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &rows)
    };
    imported().map_err(|error| {
        PyValueError::new_err(format!("a batch that cannot be taken over: {error}"))
    })
}

/// A column of anything that has `__arrow_c_array__`, as a pyarrow.Array does.
fn import_column(column: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let (schema, array) = capsules(column)?;
    // SAFETY: the array is of the type that its schema describes.
    let imported = unsafe { from_ffi(array, schema_of(&schema)?) };
    imported.map(make_array).map_err(|error| {
        PyValueError::new_err(format!("a column that cannot be taken over: {error}"))
    })
}

/// The schema, in its capsule, and the array, moved out.
fn capsules<'py>(columns: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyCapsule>, FFI_ArrowArray)> {
    let py = columns.py();
    let capsules = columns
        .call_method0(pyo3::intern!(py, "__arrow_c_array__"))
        .map_err(|_| {
            PyTypeError::new_err(format!(
                "got a {}, expected a list or a pyarrow.RecordBatch\n\nhint: a single record is \
                 [record]",
                type_name(columns)
            ))
        })?;
    let capsules = capsules.cast_into::<PyTuple>()?;
    let schema = capsules.get_item(0)?.cast_into::<PyCapsule>()?;
    let array = capsules.get_item(1)?.cast_into::<PyCapsule>()?;
    let array = array.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: a capsule of this name holds such a structure; moved out, it leaves a released one behind.
    let array = unsafe { FFI_ArrowArray::from_raw(array.cast::<FFI_ArrowArray>().as_ptr()) };
    Ok((schema, array))
}

/// The schema of anything that has `__arrow_c_schema__`, as a pyarrow.Schema does.
pub(crate) fn import_schema(schema: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = schema.call_method0(pyo3::intern!(schema.py(), "__arrow_c_schema__"))?;
    let schema = Schema::try_from(schema_of(&capsule.cast_into::<PyCapsule>()?)?);
    schema.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn schema_of<'a>(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<&'a FFI_ArrowSchema> {
    let schema = capsule.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: a capsule of this name holds such a structure, for as long as it is there.
    Ok(unsafe { schema.cast::<FFI_ArrowSchema>().as_ref() })
}

/// Of some rows of a pyarrow.RecordBatch, which ascend between one of the ends and the next, an Arrow IPC
/// stream for each of these parts.
#[pyfunction]
#[pyo3(signature = (
    batch: "Any",
    rows: "list[int]",
    ends: "list[int]",
) -> "list[bytes]")]
pub(crate) fn ipc_streams<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    rows: Vec<u32>,
    ends: Vec<usize>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let batch = import(batch)?;
    let streams = py.detach(move || streams(&batch, &rows, &ends));
    let streams = streams.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(streams.iter().map(|each| PyBytes::new(py, each)).collect())
}

/// The rows with these numbers, a pyarrow.Array of integers, of a pyarrow.RecordBatch: of columns of all
/// types, in memory of its own.
#[pyfunction]
#[pyo3(signature = (batch: "Any", rows: "Any") -> "Any")]
pub(crate) fn take_rows<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (batch, rows) = (import(batch)?, import_column(rows)?);
    let taken = py.detach(move || take(&batch, &rows));
    export(
        py,
        taken.map_err(|error| PyValueError::new_err(error.to_string()))?,
    )
}

/// Columns of keys, a pyarrow.RecordBatch, as columns of which values are equal where keys are: without
/// dictionaries, and times and decimals as bytes. Raises TypeError naming the column that holds none.
#[pyfunction]
#[pyo3(signature = (columns: "Any") -> "Any")]
pub(crate) fn plain_keys<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let columns = keys(&import(columns)?).map_err(|error| {
        PyTypeError::new_err(format!(
            "{error}\n\nhint: name another, or cast this one in .map_batches(...) before"
        ))
    })?;
    export(py, columns)
}

/// A dict for each row of a pyarrow.RecordBatch.
pub(crate) fn to_rows<'py>(batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let columns = batch.py().import("engine.columns")?;
    let rows = columns.call_method1("rows", (batch,))?;
    Ok(rows.cast_into::<PyList>()?)
}

/// Columns of dicts, for an operator that has got columns before.
pub(crate) fn of_records(records: &Bound<'_, PyList>) -> PyResult<RecordBatch> {
    let columns = records.py().import("engine.columns")?;
    import(&columns.call_method1("columns_among", (records,))?)
}

/// The batch as a pyarrow.RecordBatch. Raises GraphError where there is no PyArrow.
pub(crate) fn export(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    let record_batch = RECORD_BATCH.get_or_try_init(py, || -> PyResult<_> {
        // Python's way to import it knows what to say where it is missing.
        let columns = py.import("engine.columns")?;
        let pyarrow = columns.call_method1("import_pyarrow", ("a stream of columns",))?;
        Ok(pyarrow.getattr("record_batch")?.unbind())
    })?;
    record_batch.bind(py).call1((Exported { batch },))
}

/// A batch for PyArrow to take over.
#[pyclass(frozen, module = "engine._native")]
struct Exported {
    batch: RecordBatch,
}

#[pymethods]
impl Exported {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // may be ignored where no other schema is offered
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let rows = self.batch.num_rows();
        let fields = self.batch.schema_ref().fields().clone();
        let columns = self.batch.columns().to_vec();
        let structs = StructArray::try_new_with_length(fields, columns, None, rows)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let array = FFI_ArrowArray::new(&structs.into_data());
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

static RECORD_BATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

//! Record batches over the boundary, by Arrow's C data interface: memory is shared, not copied.

use crate::error::type_name;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, DataType, Schema};
use oka_columnar::streams;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use std::sync::Arc;

/// A record batch of anything that has `__arrow_c_array__`, as a pyarrow.RecordBatch does.
pub(crate) fn import(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let py = batch.py();
    let capsules = batch
        .call_method0(pyo3::intern!(py, "__arrow_c_array__"))
        .map_err(|_| {
            PyTypeError::new_err(format!(
                "got a {}, expected a list or a pyarrow.RecordBatch\n\nhint: a single record is \
                 [record]",
                type_name(batch)
            ))
        })?;
    let capsules = capsules.cast::<PyTuple>()?;
    let pointer = |index, name| -> PyResult<_> {
        let capsule = capsules.get_item(index)?;
        capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))
    };
    let schema = pointer(0, c"arrow_schema")?.cast::<FFI_ArrowSchema>();
    let array = pointer(1, c"arrow_array")?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold such structures; the schema stays in its capsule, the
    // array is moved out, which leaves a released one behind.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
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

//! Columns without what stands for values elsewhere: dictionaries and runs.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array, downcast_run_array};
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::take::take;

/// The type of the values, where they may come with a dictionary or in runs.
pub(crate) fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        plain => plain,
    }
}

/// The values of a column, one for each row.
pub(crate) fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if let Some(coded) = column.as_any_dictionary_opt() {
        return plain(&take(coded.values(), coded.keys(), None)?);
    }
    if !matches!(column.data_type(), DataType::RunEndEncoded(..)) {
        return Ok(ArrayRef::clone(column));
    }
    let rows: Vec<u64> = (0..column.len() as u64).collect();
    let column = &**column;
    let values = downcast_run_array!(
        column => {
            let places = column.get_physical_indices(&rows)?;
            let places = UInt64Array::from_iter_values(places.into_iter().map(|at| at as u64));
            take(column.values(), &places, None)?
        },
        other => return Err(ArrowError::NotYetImplemented(format!("runs in a column of {other}"))),
    );
    plain(&values)
}

/// What a field's metadata say of its type, where that is an extension of another: of uuid, for one.
pub(crate) fn extension(field: &Field) -> HashMap<String, String> {
    let metadata = field.metadata().iter();
    let of_type = metadata.filter(|(name, _)| name.starts_with("ARROW:extension:"));
    of_type
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

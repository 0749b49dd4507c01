//! Columns with memory of their own: views share that of the batch that they were cut from.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, GenericListViewArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
    UInt64Array, make_array,
};
use arrow_schema::{ArrowError, DataType, FieldRef};
use arrow_select::take::{take, take_arrays};

/// The rows with these numbers, in memory of their own but for dictionaries.
pub fn take_rows(batch: &RecordBatch, rows: &dyn Array) -> Result<RecordBatch, ArrowError> {
    let columns = take_arrays(batch.columns(), rows, None)?;
    let columns = columns.iter().map(compact);
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// The batch with just the bytes that its views show; `None` if it has no views.
pub(crate) fn compact_batch(batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
    if !batch.columns().iter().any(|c| has_views(c.data_type())) {
        return Ok(None);
    }
    let columns = batch.columns().iter().map(compact);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).map(Some)
}

/// The column with just what its views show, at any depth, in memory of its own.
pub(crate) fn compact(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_views(column.data_type()) {
        return Ok(Arc::clone(column));
    }
    Ok(match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        DataType::ListView(field) => compact_lists(column.as_list_view::<i32>(), field)?,
        DataType::LargeListView(field) => compact_lists(column.as_list_view::<i64>(), field)?,
        _ => {
            let data = column.to_data();
            let inside = data.child_data().iter().map(|inside| {
                let inside = compact(&make_array(inside.clone()))?;
                Ok(inside.to_data())
            });
            let inside = inside.collect::<Result<Vec<_>, ArrowError>>()?;
            make_array(data.into_builder().child_data(inside).build()?)
        }
    })
}

/// Lists with their items behind each other.
fn compact_lists<O: OffsetSizeTrait>(
    lists: &GenericListViewArray<O>,
    field: &FieldRef,
) -> Result<ArrayRef, ArrowError> {
    let mut items: Vec<u64> = Vec::new();
    let (mut starts, mut sizes) = (Vec::new(), Vec::new());
    for row in 0..lists.len() {
        let (start, size) = (lists.value_offsets()[row], lists.value_sizes()[row]);
        let size = if lists.is_valid(row) {
            size
        } else {
            O::default()
        };
        starts.push(O::usize_as(items.len()));
        sizes.push(size);
        let start = start.as_usize() as u64;
        items.extend(start..start + size.as_usize() as u64);
    }
    let values = take(lists.values(), &UInt64Array::from(items), None)?;
    Ok(Arc::new(GenericListViewArray::try_new(
        Arc::clone(field),
        starts.into(),
        sizes.into(),
        compact(&values)?,
        lists.nulls().cloned(),
    )?))
}

fn has_views(data_type: &DataType) -> bool {
    use DataType::{
        BinaryView, Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map,
        RunEndEncoded, Struct, Union, Utf8View,
    };
    match data_type {
        Utf8View | BinaryView | ListView(_) | LargeListView(_) => true,
        List(field) | LargeList(field) | FixedSizeList(field, _) | Map(field, _) => {
            has_views(field.data_type())
        }
        RunEndEncoded(_, field) => has_views(field.data_type()),
        Dictionary(_, values) => has_views(values),
        Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_views(field.data_type())),
        _ => false,
    }
}

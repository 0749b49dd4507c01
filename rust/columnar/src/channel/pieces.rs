//! Cutting a batch into pieces of a limited number of bytes.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

/// The rows of a batch in pieces of at most some `bytes`, as far as a mean row tells; in order, and
/// without a copy.
///
/// A batch without rows has no pieces.
pub fn pieces(batch: &RecordBatch, bytes: usize) -> impl Iterator<Item = RecordBatch> + '_ {
    let (rows, step) = (batch.num_rows(), piece_rows(batch, bytes));
    (0..rows).step_by(step).map(move |start| {
        if step >= rows {
            batch.clone()
        } else {
            batch.slice(start, step.min(rows - start))
        }
    })
}

/// How many rows of a batch are at most some `bytes`, as far as a mean row tells; at least one.
pub fn piece_rows(batch: &RecordBatch, bytes: usize) -> usize {
    let rows = batch.num_rows();
    let count = bytes_of(batch).div_ceil(bytes.max(1)).clamp(1, rows.max(1));
    rows.div_ceil(count).max(1)
}

/// Bytes of the rows of a batch.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| size(column)).sum()
}

/// Bytes of the rows of a column; those of a dictionary do not count, since it travels once.
fn size(column: &dyn Array) -> usize {
    let data = match column.data_type() {
        DataType::Dictionary(_, _) => column.as_any_dictionary_opt().map(|c| c.keys().to_data()),
        _ => Some(column.to_data()),
    };
    let size = data.and_then(|data| data.get_slice_memory_size().ok());
    size.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::record_batch;

    #[test]
    fn pieces_are_the_batch_again() {
        let batch = record_batch!(("n", Int64, [1, 2, 3, 4, 5])).unwrap();
        let lengths = |bytes| -> Vec<usize> {
            let found: Vec<_> = pieces(&batch, bytes).collect();
            let batches: Vec<_> = found.iter().collect();
            let whole = arrow_select::concat::concat_batches(&batch.schema(), batches);
            assert_eq!(whole.unwrap(), batch);
            found.iter().map(RecordBatch::num_rows).collect()
        };
        assert_eq!(lengths(1000), [5]);
        assert_eq!(lengths(24), [3, 2]);
        assert_eq!(lengths(0), [1, 1, 1, 1, 1]);
        assert_eq!(pieces(&batch.slice(0, 0), 10).count(), 0);
    }
}

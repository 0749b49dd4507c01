//! What windows of all kinds over columns do.

use arrow_array::RecordBatch;
use oka_window::Window;

use crate::AggregateError;
use crate::aggregate::Aggregate;
use crate::copied::Exported;
use crate::shape::Places;

/// Windows of one kind, and what the rows in them have come to. A template says what is computed; it
/// has had no rows.
pub(super) trait State {
    /// Takes in rows with these times; tells of those that are late.
    fn add_rows(
        &mut self,
        template: &Aggregate,
        rows: (&Places, &RecordBatch),
        times: &[i64],
        late: &mut dyn FnMut(u32),
    ) -> Result<(), AggregateError>;

    /// How many slices or windows there are.
    fn len(&self) -> usize;

    fn advance(&mut self, watermark: i64) -> Result<(), AggregateError>;

    fn go_on_from(&mut self, watermark: i64);

    fn give(&mut self, template: &Aggregate, most: usize) -> Found;

    fn changes(&mut self, template: &Aggregate) -> Found;

    fn has_changes(&self) -> bool;

    /// Copies keys that are new: [`Self::export`] then takes less time.
    fn copy_keys(&mut self) -> Result<(), AggregateError> {
        Ok(())
    }

    fn export(&mut self) -> Result<Exported, AggregateError>;

    /// The template has the schema of `layout`.
    fn import(
        &mut self,
        template: &Aggregate,
        layout: &[u8],
        entries: &[(&[u8], &[u8])],
        touched: bool,
    ) -> Result<(), AggregateError>;
}

/// Batches of rows, and the window of each row.
pub(super) type Found = Result<Vec<(Vec<Window>, RecordBatch)>, AggregateError>;

/// An encoded None: columns have no form of times but their type.
pub(super) const NIL: [u8; 1] = [0xc0];

//! A table of the last value of each key, over batches of columns.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;

use crate::AggregateError;
use crate::columns::compact::compact;
use crate::columns::plain::{extension, plain, plain_type};
use crate::keys::kind::{KeyKind, KeyNumbers, keys};

/// The last value of each key, of batches with two columns: keys, and values of any type.
///
/// Most values are overtaken by later ones: nothing is made of a row before [`Latest::take`].
#[derive(Debug, Default)]
pub struct Latest {
    /// Of the batches since the last `take`.
    schema: Option<SchemaRef>,
    numbers: KeyNumbers,
    /// By the number of the key: where its value is, in which of `values` and which row.
    places: Vec<Option<(usize, usize)>>,
    values: Vec<ArrayRef>,
    /// Rows in all of `values`.
    rows: usize,
}

impl Latest {
    /// Takes in a batch; false, and nothing was taken in, if its columns are no keys and values, or
    /// others than those since the last `take`.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<bool, ArrowError> {
        let [key, value] = batch.columns() else {
            return Ok(false);
        };
        let Some(kind) = KeyKind::of(key.data_type()) else {
            return Ok(false);
        };
        if *self.schema.get_or_insert_with(|| batch.schema()) != batch.schema() {
            return Ok(false);
        }
        let (numbers, count) = self.numbers.of(key, kind)?;
        self.places.resize(count, None);
        for (row, number) in numbers.iter().enumerate() {
            self.places[*number as usize] = Some((self.values.len(), row));
        }
        self.values.push(plain(value)?);
        self.rows += batch.num_rows();
        if self.rows > MOST_ROWS.max(2 * count) {
            self.let_go()?;
        }
        Ok(true)
    }

    /// The last value of each key, two columns, in the order in which the keys came; they are
    /// forgotten. `None` if nothing was added.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, AggregateError> {
        self.let_go()?;
        let taken = mem::take(self);
        let (Some(schema), [values]) = (taken.schema, &taken.values[..]) else {
            return Ok(None);
        };
        let (key, value) = (schema.field(0), schema.field(1));
        let data_type = plain_type(key.data_type());
        let Some(kind) = KeyKind::of(data_type) else {
            return Ok(None);
        };
        let found = (0..).zip(&taken.places);
        let mut found = found.filter_map(|(number, place)| place.map(|_| number));
        let keys = keys(&taken.numbers, kind, data_type, &mut found)?;
        let field = |field: &Field| {
            let plain = Field::new(field.name(), plain_type(field.data_type()).clone(), true);
            plain.with_metadata(extension(field))
        };
        let fields = vec![field(key), field(value)];
        let columns = vec![keys, Arc::clone(values)];
        Ok(Some(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?))
    }

    /// Keeps the last values alone, in the order of their keys.
    fn let_go(&mut self) -> Result<(), ArrowError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let values: Vec<_> = self.values.iter().map(|values| &**values).collect();
        let last: Vec<_> = self.places.iter().flatten().copied().collect();
        let kept = compact(&interleave(&values, &last)?)?;
        for (row, place) in self.places.iter_mut().flatten().enumerate() {
            *place = (0, row);
        }
        self.rows = kept.len();
        self.values = vec![kept];
        Ok(())
    }
}

/// Rows that are kept although most are overtaken; more where there are many keys.
const MOST_ROWS: usize = 1 << 14;

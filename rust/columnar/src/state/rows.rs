//! Rows that stay in the batches they came in, and are found again by their numbers.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;

/// Rows of batches of one schema, by numbers that others give them and that are used again.
///
/// A batch is kept for as long as one of its rows is. When most rows are gone, or when the batches are
/// many and small, those left are copied into one.
#[derive(Clone, Debug, Default)]
pub struct RowStore {
    chunks: Vec<Chunk>,
    /// By its number, the chunk that a row is in, [`NONE`] where it is in none; and its place there.
    places: Vec<(u32, u32)>,
    left: usize,
    /// All rows of the batches.
    held: usize,
}

#[derive(Clone, Debug)]
struct Chunk {
    batch: Option<RecordBatch>,
    left: u32,
    /// Its place among those that rows are taken of just now, [`NONE`] otherwise.
    used: u32,
}

impl RowStore {
    /// Takes in the rows of a batch that have a number, which is not 0.
    pub fn add(&mut self, batch: RecordBatch, numbers: &[u32]) -> Result<(), ArrowError> {
        self.compact()?;
        let chunk = self.chunks.len() as u32;
        let mut left = 0;
        for (row, number) in (0..).zip(numbers).filter(|(_, number)| **number != 0) {
            let number = *number as usize;
            if self.places.len() <= number {
                self.places.resize(number + 1, (NONE, 0));
            }
            self.places[number] = (chunk, row);
            left += 1;
        }
        if left > 0 {
            self.left += left as usize;
            self.held += batch.num_rows();
            self.chunks.push(Chunk {
                batch: Some(batch),
                left,
                used: NONE,
            });
        }
        Ok(())
    }

    /// The rows with these numbers, of which there is one at least, in memory of their own.
    pub fn take(&mut self, numbers: &[u32]) -> Result<RecordBatch, ArrowError> {
        let mut used = Vec::new();
        let mut rows = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (chunk, row) = self.places[*number as usize];
            let of = &mut self.chunks[chunk as usize];
            if of.used == NONE {
                of.used = used.len() as u32;
                used.push(chunk as usize);
            }
            rows.push((of.used as usize, row as usize));
        }
        for chunk in &used {
            self.chunks[*chunk].used = NONE;
        }
        let batches = used.iter().filter_map(|at| self.chunks[*at].batch.as_ref());
        let batches: Vec<_> = batches.collect();
        let columns = (0..batches[0].num_columns()).map(|at| {
            let columns = batches.iter().map(|batch| batch.column(at).as_ref());
            interleave(&columns.collect::<Vec<&dyn Array>>(), &rows)
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(batches[0].schema(), columns, &options)
    }

    /// Lets go of rows, whose numbers others may get.
    pub fn remove(&mut self, numbers: &[u32]) {
        for number in numbers {
            let place = &mut self.places[*number as usize];
            let of = &mut self.chunks[place.0 as usize];
            place.0 = NONE;
            of.left -= 1;
            if of.left == 0 {
                self.held -= of.batch.take().map_or(0, |batch| batch.num_rows());
            }
        }
        self.left -= numbers.len();
    }

    /// The batches that rows are kept of, to bring them into another schema.
    pub fn batches(&mut self) -> impl Iterator<Item = &mut RecordBatch> {
        self.chunks
            .iter_mut()
            .filter_map(|chunk| chunk.batch.as_mut())
    }

    /// Each is copied no more than a few times: as many have gone or come as are copied.
    fn compact(&mut self) -> Result<(), ArrowError> {
        if self.held <= 2 * self.left + FEW && self.chunks.len() <= self.left / 4 + FEW_CHUNKS {
            return Ok(());
        }
        let numbers = (0..).zip(&self.places).filter(|(_, place)| place.0 != NONE);
        let numbers: Vec<u32> = numbers.map(|(number, _)| number).collect();
        let mut whole = Self::default();
        for some in numbers.chunks(CHUNK) {
            whole.add(self.take(some)?, some)?;
        }
        *self = whole;
        Ok(())
    }
}

/// No chunk.
const NONE: u32 = u32::MAX;
/// Rows that are gone, and chunks, of which there may always be as many.
const FEW: usize = 4096;
const FEW_CHUNKS: usize = 64;
/// Rows that are copied into one batch.
const CHUNK: usize = 1 << 16;

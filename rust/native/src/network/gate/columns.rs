//! Rows of columns, on their way into the frames of channels.

use super::frames::{OpenFrames, add_rows};
use super::{OutputGate, Partitioner};
use arrow_array::RecordBatch;
use oka_codec::{EncodeError, Key, KeyExtractError};
use oka_columnar::{PartitionError, Selector, goes_as_records, piece_rows, pieces};
use oka_transport::{Encoding, OpenFrame, OutputChannel};
use pyo3::prelude::*;
use std::sync::Arc;

impl OutputGate {
    pub(super) fn encode_columns(
        &self,
        frames: &mut OpenFrames,
        batch: &RecordBatch,
    ) -> PyResult<()> {
        let channels = &self.channels;
        let count = channels.len();
        let is_new = frames.is_new(batch);
        match &self.partitioner {
            Partitioner::Single | Partitioner::Rebalance if is_new && batch.num_rows() == 0 => {
                (0..count).try_for_each(|channel| frames.tell_schema(channels, channel, batch))
            }
            Partitioner::Single => frames.append_columns(channels, 0, batch),
            Partitioner::Hash(_) => {
                let mut cut = frames.rows.take().ok_or_else(|| {
                    KeyExtractError::new_err(
                        "rows of columns are no keys, expected the name of a column\n\nhint: name \
                         it, as in key_by(\"word\")",
                    )
                })?;
                let most = piece_rows(batch, PIECE_BYTES);
                let parts = cut.split(batch, count).map_err(|error| no_key(&error));
                let appended = parts.and_then(|parts| {
                    let mut parts = parts.iter().enumerate();
                    parts.try_for_each(|(channel, rows)| match rows.is_empty() {
                        true if is_new => frames.tell_schema(channels, channel, batch),
                        true => Ok(()),
                        false => frames.append_rows(channels, channel, batch, rows, most),
                    })
                });
                frames.rows = Some(cut);
                appended
            }
            Partitioner::Rebalance => {
                for piece in pieces(batch, PIECE_BYTES) {
                    let channel = frames.take_turn();
                    frames.append_columns(channels, channel, &piece)?;
                }
                Ok(())
            }
            Partitioner::Broadcast => {
                for piece in pieces(batch, PIECE_BYTES) {
                    // All channels have had the same, so that one encoder speaks for all.
                    let mut message = std::mem::take(&mut frames.scratch);
                    message.clear();
                    frames.encoders[0]
                        .append(&piece, &mut message)
                        .map_err(|error| no_columns(&error))?;
                    for (channel, output) in channels.iter().enumerate() {
                        let frame = frames.open_columns(channel);
                        frame.body.extend_from_slice(&message);
                        add_rows(output, frame, piece.num_rows());
                    }
                    frames.scratch = message;
                }
                Ok(())
            }
        }
    }
}

impl OpenFrames {
    fn open_columns(&mut self, channel: usize) -> &mut OpenFrame {
        self.has_columns = true;
        let frame = self.open(channel);
        frame.encoding = Encoding::Arrow;
        frame
    }

    fn append_columns(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
    ) -> PyResult<()> {
        for piece in pieces(batch, PIECE_BYTES) {
            self.append_piece(channels, channel, &piece, None)?;
        }
        Ok(())
    }

    /// These rows of the batch, at most so many in a message.
    fn append_rows(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: &[u32],
        most: usize,
    ) -> PyResult<()> {
        if rows.len() == batch.num_rows() {
            return self.append_columns(channels, channel, batch);
        }
        for piece in rows.chunks(most) {
            self.append_piece(channels, channel, batch, Some(piece))?;
        }
        Ok(())
    }

    fn append_piece(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
    ) -> PyResult<()> {
        self.last = channel;
        self.write(channels, channel, batch, rows)
    }

    /// Whether rows may go elsewhere than records with their key.
    pub(super) fn divides_by_form(&self, batch: &RecordBatch) -> bool {
        let cut = self.rows.as_ref();
        cut.is_some_and(|cut| !goes_as_records(cut.key(), batch.schema_ref()))
    }

    /// Whether the columns before had another schema.
    fn is_new(&mut self, batch: &RecordBatch) -> bool {
        let schema = batch.schema_ref();
        let is_new = self.schema.as_ref() != Some(schema);
        if is_new {
            self.schema = Some(Arc::clone(schema));
        }
        is_new
    }

    /// Tells what columns there are where no row goes: an operator of two streams makes nulls of
    /// them.
    fn tell_schema(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
    ) -> PyResult<()> {
        self.write(channels, channel, batch, Some(&[]))
    }

    fn write(
        &mut self,
        channels: &[OutputChannel],
        channel: usize,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
    ) -> PyResult<()> {
        self.open_columns(channel);
        let frame = &mut self.frames[channel];
        self.encoders[channel]
            .append_rows(batch, rows, &mut frame.body)
            .map_err(|error| no_columns(&error))?;
        let count = rows.map_or(batch.num_rows(), <[u32]>::len);
        add_rows(&channels[channel], frame, count);
        Ok(())
    }
}

/// The columns with the keys, where records are rows; none if the record is the key.
pub(super) fn selectors(key: &Key) -> Vec<Selector> {
    match key {
        Key::Record => Vec::new(),
        Key::Item(item) => vec![Selector::Index(*item)],
        Key::Field(field) => vec![Selector::Name(field.to_string())],
        Key::Tuple(keys) => keys.iter().flat_map(selectors).collect(),
    }
}

#[cold]
pub(super) fn no_batch(py: Python<'_>, error: PyErr) -> PyErr {
    let raised = EncodeError::new_err(error.value(py).to_string());
    raised.set_cause(py, Some(error));
    raised
}

#[cold]
fn no_columns(error: &oka_columnar::EncodeError) -> PyErr {
    EncodeError::new_err(format!(
        "{error}\n\nhint: cast the column or take it apart in map_batches first"
    ))
}

#[cold]
fn no_key(error: &PartitionError) -> PyErr {
    let hint = match error {
        PartitionError::Column(_) => "key_by takes the name or the index of a column",
        _ => "add a column to key by, or cast this one, in map_batches first",
    };
    KeyExtractError::new_err(format!("{error}\n\nhint: {hint}"))
}

/// Larger batches of columns are cut, so that frames stay in the processor's cache and the receiver
/// works while the rest is on its way.
const PIECE_BYTES: usize = 128 * 1024;

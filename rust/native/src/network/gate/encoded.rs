//! Records that are encoded already, on their way into the frames of channels.

use super::frames::{OpenFrames, add_record, add_rows};
use super::{OutputGate, Partitioner, at};
use oka_codec::encode::refusal;
use oka_codec::{Decoder, Key, unreadable};
use oka_compute::{KeyPath, Path, Reader, Step};
use oka_protocol::FRAME_BYTES;
use oka_protocol::partition::target;
use oka_transport::{OutputChannel, ReceivedFrames};
use pyo3::prelude::*;

impl OutputGate {
    /// Copies records, each into the frame that the partitioner chooses.
    pub(super) fn copy(
        &self,
        py: Python<'_>,
        frames: &mut OpenFrames,
        received: &ReceivedFrames,
    ) -> PyResult<()> {
        let (mut first, channels) = (0, &self.channels);
        for (records, body) in received.bodies() {
            let body = (first, records, body);
            let copied = match &self.partitioner {
                Partitioner::Single | Partitioner::Broadcast
                    if self.copy_together(frames, body) =>
                {
                    Ok(())
                }
                Partitioner::Single => each(py, body, |index, reader| {
                    let record = next(reader)?;
                    frames.copy(py, channels, 0, index, record)
                }),
                Partitioner::Broadcast => each(py, body, |index, reader| {
                    let record = next(reader)?;
                    let mut all = 0..channels.len();
                    all.try_for_each(|channel| frames.copy(py, channels, channel, index, record))
                }),
                Partitioner::Rebalance => each(py, body, |index, reader| {
                    let channel = frames.take_turn();
                    frames.copy(py, channels, channel, index, next(reader)?)
                }),
                Partitioner::Hash(key) => each(py, body, |index, reader| {
                    let start = reader.position();
                    let hash = self.place.pass(reader).map_err(unreadable)?;
                    let record = reader.since(start);
                    let hash = match hash {
                        Some(hash) => hash,
                        None => hash_of_object(py, key, index, record)?,
                    };
                    let channel = target(hash, channels.len());
                    frames.copy(py, channels, channel, index, record)
                }),
            };
            copied?;
            first += records;
        }
        Ok(())
    }

    /// Copies all these records at once to all channels, if they fit into one frame.
    fn copy_together(&self, frames: &mut OpenFrames, (_, records, body): Body) -> bool {
        let fits = frames
            .frames
            .iter()
            .zip(&self.channels)
            .all(|(frame, channel)| {
                let most = channel.max_frame_bytes().min(2 * FRAME_BYTES);
                frame.body_bytes() + body.len() <= most
            });
        if fits && records > 0 {
            for (channel, output) in self.channels.iter().enumerate() {
                let frame = frames.open(channel);
                frame.body.extend_from_slice(body);
                add_rows(output, frame, records);
            }
        }
        fits
    }
}

impl OpenFrames {
    #[inline]
    fn copy(
        &mut self,
        py: Python<'_>,
        channels: &[OutputChannel],
        channel: usize,
        index: usize,
        record: &[u8],
    ) -> PyResult<()> {
        self.last = channel;
        let frame = self.open(channel);
        let start = frame.body.len();
        frame.body.extend_from_slice(record);
        add_record(
            &channels[channel],
            frame,
            start,
            |refused| match Decoder::new(py).first(record) {
                Ok(object) => refusal(index, &object, refused),
                Err(error) => error,
            },
        )
    }
}

/// Calls `f` at each of these records, with its index.
#[inline]
fn each(
    py: Python<'_>,
    (first, records, body): Body,
    mut f: impl FnMut(usize, &mut Reader) -> PyResult<()>,
) -> PyResult<()> {
    let mut reader = Reader::new(body);
    for index in first..first + records {
        f(index, &mut reader).map_err(|error| at(index, py, error))?;
    }
    Ok(())
}

#[inline]
fn next<'a>(reader: &mut Reader<'a>) -> PyResult<&'a [u8]> {
    Ok(reader.encoded().map_err(unreadable)?)
}

/// The index of the first record, how many there are, and their bytes.
type Body<'a> = (usize, usize, &'a [u8]);

/// Where the key is in encoded records.
pub(crate) fn key_path(key: &Key) -> KeyPath {
    let one = |key: &Key| match key {
        Key::Item(item) => Path::from([Step::Item(*item as i64)]),
        Key::Field(field) => Path::from([Step::Field(field.to_string())]),
        Key::Record | Key::Tuple(_) => Path::default(),
    };
    match key {
        Key::Tuple(keys) => KeyPath::Tuple(keys.iter().map(one).collect()),
        key => KeyPath::One(one(key)),
    }
}

/// Where in what comes a key and the record are: of pairs of both, if it is `paired`.
pub(crate) fn key_and_record(
    key: Option<&Bound<'_, PyAny>>,
    paired: bool,
) -> PyResult<(KeyPath, Path)> {
    if !paired {
        return Ok((key_path(&Key::new(key)?), Path::default()));
    }
    let item = |item| Path::from([Step::Item(item)]);
    Ok((item(0).into(), item(1)))
}

/// The hash of a key that bytes do not tell, or the error of a record without one.
#[cold]
fn hash_of_object(py: Python<'_>, key: &Key, index: usize, record: &[u8]) -> PyResult<u64> {
    key.hash(index, &Decoder::new(py).first(record)?)
}

//! Avro's records to rows: by one schema, or by the one whose id is in front of each message.

use crate::sift::{Decode, Message, sifted};
use crate::{Decoded, FormatError, shortened, words};
use arrow_array::RecordBatch;
use arrow_avro::reader::{Decoder, DecoderMode, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;
use std::collections::HashMap;

/// Makes rows of messages that are a record of Avro each.
///
/// With ids, a message is a zero, four bytes of the id of its writer's schema, and the record; without, it is
/// the record alone. A reader's schema says what columns there are, whoever wrote a message.
pub struct AvroDecoder {
    reader: Option<String>,
    writers: HashMap<u32, Writer>,
    has_ids: bool,
}

/// Ids of schemas that the messages have, and the decoder does not: `AvroDecoder::add` gives it one.
pub type Unknown = Vec<u32>;

/// The schema of messages' writer.
struct Writer {
    schema: Result<String, String>,
    /// Made when a message needs it.
    decoder: Option<Decoder>,
}

impl AvroDecoder {
    /// A decoder of records that were all written by this schema.
    pub fn of_schema(schema: String) -> Result<Self, FormatError> {
        let decoder = made(&schema, None).map_err(FormatError::Schema)?;
        let writer = Writer {
            schema: Ok(schema),
            decoder: Some(decoder),
        };
        Ok(Self {
            reader: None,
            writers: HashMap::from([(OF_ALL, writer)]),
            has_ids: false,
        })
    }

    /// A decoder of messages with ids, for columns by the reader's schema.
    pub fn of_ids(reader: Option<String>) -> Result<Self, FormatError> {
        if let Some(schema) = &reader {
            made(schema, None).map_err(FormatError::Schema)?;
        }
        Ok(Self {
            reader,
            writers: HashMap::new(),
            has_ids: true,
        })
    }

    /// The ids in these messages that it does not know, each once.
    pub fn unknown(&self, messages: &[Option<&[u8]>]) -> Unknown {
        let mut found = Unknown::new();
        if self.has_ids {
            for (id, _) in messages
                .iter()
                .flatten()
                .filter_map(|each| split(each).ok())
            {
                if !self.writers.contains_key(&id) && !found.contains(&id) {
                    found.push(id);
                }
            }
        }
        found
    }

    /// Tell the schema of an id, or why there is none.
    pub fn add(&mut self, id: u32, schema: Result<String, String>) {
        let decoder = None;
        self.writers.insert(id, Writer { schema, decoder });
    }

    /// Forget an id that had no schema: it may have one when the next messages come.
    pub fn forget(&mut self, id: u32) {
        self.writers.remove(&id);
    }

    /// The messages as rows: in one batch if there is a reader's schema, else in one for each stretch of
    /// messages of one writer's schema.
    pub fn decode(
        &mut self,
        messages: &[Option<&[u8]>],
    ) -> Result<Decoded<Vec<RecordBatch>>, FormatError> {
        let mut rejected = Vec::new();
        let mut present = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            match message {
                Some(message) => present.push((place, *message)),
                None => rejected.push((place, "no value".to_owned())),
            }
        }
        let rows = sifted(self, &present, &mut rejected).map_err(FormatError::TooLarge)?;
        Ok(Decoded { rows, rejected })
    }

    /// The body of a message, and the decoder of its schema.
    fn of<'m>(&mut self, message: &'m [u8]) -> Result<(u32, &'m [u8], &mut Decoder), String> {
        let (id, body) = if self.has_ids {
            split(message)?
        } else {
            (OF_ALL, message)
        };
        let unknown = || format!("the id {id} of a schema that is not known");
        let writer = self.writers.get_mut(&id).ok_or_else(unknown)?;
        if writer.decoder.is_none() {
            let schema = writer.schema.as_ref().map_err(Clone::clone)?;
            let decoder = made(schema, self.reader.as_deref());
            writer.decoder = Some(decoder.map_err(|error| format!("schema {id}: {error}"))?);
        }
        Ok((id, body, writer.decoder.as_mut().expect("made above")))
    }

    /// Begin anew: a decoder that has failed keeps what it has read, and does not tell.
    fn reset(&mut self) {
        for writer in self.writers.values_mut() {
            writer.decoder = None;
        }
    }

    /// The ids of messages that were read, in order, and of each id the rows.
    fn read(
        &mut self,
        messages: &[Message<'_>],
    ) -> Result<(Vec<u32>, HashMap<u32, RecordBatch>), String> {
        let mut ids = Vec::with_capacity(messages.len());
        for (_, message) in messages {
            let (id, body, decoder) = self.of(message)?;
            feed(decoder, body)?;
            ids.push(id);
        }
        let mut batches = HashMap::new();
        for (id, writer) in &mut self.writers {
            let Some(decoder) = &mut writer.decoder else {
                continue;
            };
            if let Some(batch) = decoder.flush().map_err(avro_words)? {
                batches.insert(*id, batch);
            }
        }
        Ok((ids, batches))
    }
}

impl Decode for AvroDecoder {
    type Rows = Vec<RecordBatch>;

    fn together(&mut self, messages: &[Message<'_>]) -> Result<Vec<RecordBatch>, String> {
        let read = self.read(messages);
        if read.is_err() {
            self.reset();
        }
        let (ids, mut batches) = read?;
        if batches.len() <= 1 {
            let none = || self.without_rows();
            return Ok(batches
                .drain()
                .map(|(_, batch)| batch)
                .chain(none())
                .take(1)
                .collect());
        }
        if self.reader.is_some() {
            let batch = in_order(&ids, &batches).map_err(|error| words(&error))?;
            return Ok(vec![batch]);
        }
        Ok(in_stretches(&ids, &batches))
    }

    fn alone(&mut self, message: &[u8]) -> Result<(), String> {
        let read = self.read(&[(0, message)]);
        if read.is_err() {
            self.reset();
        }
        read.map(drop)
    }
}

impl AvroDecoder {
    /// A batch that tells the columns, if these are the same for all messages.
    fn without_rows(&self) -> Option<RecordBatch> {
        let schema = match &self.reader {
            Some(schema) => schema,
            None => self
                .writers
                .get(&OF_ALL)
                .filter(|_| !self.has_ids)?
                .schema
                .as_ref()
                .ok()?,
        };
        let decoder = made(schema, None).ok()?;
        Some(RecordBatch::new_empty(decoder.schema()))
    }
}

/// The id in front of a message, and its body.
fn split(message: &[u8]) -> Result<(u32, &[u8]), String> {
    match message {
        [] => Err("empty".to_owned()),
        [0, a, b, c, d, body @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), body)),
        [0, ..] => Err("it ends within the id of its schema".to_owned()),
        [first, ..] => Err(format!(
            "its first byte is {first:#04x}, expected 0x00 in front of the id of its schema"
        )),
    }
}

fn feed(decoder: &mut Decoder, body: &[u8]) -> Result<(), String> {
    let taken = decoder.decode(body).map_err(avro_words)?;
    if taken == body.len() {
        return Ok(());
    }
    let rest = body.len() - taken;
    Err(format!(
        "not Avro of its schema: {rest} bytes follow the record"
    ))
}

fn avro_words(error: impl Into<ArrowError>) -> String {
    let words = words(&error.into());
    format!("not Avro of its schema: {}", shortened(&words))
}

/// A decoder of records that were written by one schema, to columns of another.
fn made(writer: &str, reader: Option<&str>) -> Result<Decoder, String> {
    let decoder = || -> Result<Decoder, ArrowError> {
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        let id = Fingerprint::Id(OF_ALL);
        store.set(id, AvroSchema::new(writer.to_owned()))?;
        let mut builder = ReaderBuilder::new()
            .with_writer_schema_store(store)
            .with_active_fingerprint(id)
            .with_decoder_mode(DecoderMode::UnframedDatum)
            .with_batch_size(usize::MAX);
        if let Some(reader) = reader {
            builder = builder.with_reader_schema(AvroSchema::new(reader.to_owned()));
        }
        builder.build_decoder()
    };
    decoder().map_err(|error| words(&error))
}

/// One batch of rows of several, by the id that each row comes from.
fn in_order(ids: &[u32], batches: &HashMap<u32, RecordBatch>) -> Result<RecordBatch, ArrowError> {
    let mut reached: HashMap<u32, (usize, usize)> = HashMap::new();
    let mut parts = Vec::with_capacity(batches.len());
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        let (part, row) = reached.entry(*id).or_insert_with(|| {
            parts.push(&batches[id]);
            (parts.len() - 1, 0)
        });
        rows.push((*part, *row));
        *row += 1;
    }
    interleave_record_batch(&parts, &rows)
}

/// A batch for each stretch of rows of one id.
fn in_stretches(ids: &[u32], batches: &HashMap<u32, RecordBatch>) -> Vec<RecordBatch> {
    let mut reached: HashMap<u32, usize> = HashMap::new();
    let stretches = ids.chunk_by(|one, next| one == next);
    stretches
        .map(|stretch| {
            let row = reached.entry(stretch[0]).or_default();
            let batch = batches[&stretch[0]].slice(*row, stretch.len());
            *row += stretch.len();
            batch
        })
        .collect()
}

/// The id that stands for the one schema of messages without ids.
const OF_ALL: u32 = 0;

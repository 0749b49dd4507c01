//! Frames: their kinds, the header of 24 bytes, and its decoding.

use bytes::Bytes;
use thiserror::Error;

/// What a frame carries.
///
/// The numbers 7 (error) and 8 (blob chunk) are kept for frames to come; a decoder of this version
/// refuses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Encoded records.
    Data = 1,
    /// Latency markers of the records in the data frame before.
    Markers = 2,
    /// All records that follow are later; or, without a time, the channel is idle.
    Watermark = 3,
    /// Divides what belongs to a checkpoint from what does not.
    Barrier = 4,
    /// What a receiver acknowledges and grants.
    Credit = 5,
    /// No records follow on this channel.
    End = 6,
    /// The sender knows that everything was consumed; nothing at all follows.
    Closed = 9,
    /// What a sender asks: which frames arrived?
    Probe = 10,
    /// What a receiver answers.
    State = 11,
}

/// How the records of a data frame are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Encoding {
    /// Msgpack values, back to back.
    #[default]
    Msgpack = 0,
    /// Messages of an Arrow IPC stream, back to back: the schema where it is new, dictionaries where
    /// they are new, record batches. Their rows are the records.
    Arrow = 1,
}

/// The fixed start of every frame: 24 bytes, little endian.
///
/// | bytes | field |
/// |---|---|
/// | 0 | version, 2 |
/// | 1 | kind |
/// | 2 | encoding |
/// | 3 | attempt, modulo 256 |
/// | 4–7 | channel |
/// | 8–15 | sequence |
/// | 16–19 | count of records, markers or times |
/// | 20–23 | length of the body in bytes |
///
/// ```
/// use oka_protocol::{Encoding, FrameHeader, FrameKind};
///
/// let header = FrameHeader {
///     kind: FrameKind::Data,
///     encoding: Encoding::Msgpack,
///     attempt: 0,
///     channel: 7,
///     sequence: 1,
///     count: 3,
///     length: 12,
/// };
/// assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the body is.
    pub kind: FrameKind,
    /// How records in the body are encoded.
    pub encoding: Encoding,
    /// Which deployment of the job's tasks it belongs to; others' frames are refused.
    pub attempt: u8,
    /// Job-wide id of the channel.
    pub channel: u32,
    /// Position in the channel, from 1; in a credit or state, the last position that was consumed;
    /// in a probe, the last that was sent.
    pub sequence: u64,
    /// Number of records, markers or times in the body.
    pub count: u32,
    /// Bytes of the body.
    pub length: u32,
}

impl FrameHeader {
    /// The header of a frame with no body.
    #[inline]
    pub fn new(kind: FrameKind, channel: u32, attempt: u8, sequence: u64) -> Self {
        Self {
            kind,
            encoding: Encoding::default(),
            attempt,
            channel,
            sequence,
            count: 0,
            length: 0,
        }
    }

    /// The bytes of this header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        bytes[2] = self.encoding as u8;
        bytes[3] = self.attempt;
        bytes[4..8].copy_from_slice(&self.channel.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of `bytes`; total.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Truncated {
                expected: HEADER_BYTES,
                got: bytes.len(),
            });
        };
        if header[0] != VERSION {
            return Err(FrameError::UnsupportedVersion(header[0]));
        }
        Ok(Self {
            kind: match header[1] {
                1 => FrameKind::Data,
                2 => FrameKind::Markers,
                3 => FrameKind::Watermark,
                4 => FrameKind::Barrier,
                5 => FrameKind::Credit,
                6 => FrameKind::End,
                9 => FrameKind::Closed,
                10 => FrameKind::Probe,
                11 => FrameKind::State,
                other => return Err(FrameError::UnsupportedKind(other)),
            },
            encoding: match header[2] {
                0 => Encoding::Msgpack,
                1 => Encoding::Arrow,
                other => return Err(FrameError::UnsupportedEncoding(other)),
            },
            attempt: header[3],
            channel: read_u32(header, 4),
            sequence: u64::from(read_u32(header, 8)) | u64::from(read_u32(header, 12)) << 32,
            count: read_u32(header, 16),
            length: read_u32(header, 20),
        })
    }
}

/// One frame: a header and the body it announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The fixed start; its `length` is that of the body.
    pub header: FrameHeader,
    /// What the kind says.
    pub body: Bytes,
}

impl Frame {
    /// Appends this frame to a message, at the next multiple of [`FRAME_ALIGNMENT`].
    #[inline]
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        bytes.resize(padded(bytes.len()), 0);
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.body);
    }
}

/// The frames of one message, each at a multiple of [`FRAME_ALIGNMENT`] from its start.
///
/// Total: any bytes give frames, then at most one error; nothing is copied or allocated.
///
/// ```
/// use oka_protocol::Frames;
///
/// assert_eq!(Frames::new(b"").count(), 0);
/// assert!(Frames::new(b"garbage").next().unwrap().is_err());
/// ```
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// The frames in `message`.
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The channel that all these frames belong to; `None` for garbage, frames of several channels,
    /// and those of another attempt.
    #[inline]
    pub fn channel(mut self, attempt: u8) -> Option<u32> {
        let first = self.next()?.ok()?.0;
        let belongs =
            |header: FrameHeader| header.channel == first.channel && header.attempt == attempt;
        let all =
            belongs(first) && self.all(|frame| frame.is_ok_and(|(header, _)| belongs(header)));
        all.then_some(first.channel)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<(FrameHeader, &'a [u8]), FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = FrameHeader::decode(self.rest).and_then(|header| {
            let expected = HEADER_BYTES + header.length as usize;
            let body = self.rest.get(HEADER_BYTES..expected);
            let body = body.ok_or(FrameError::Truncated {
                expected,
                got: self.rest.len(),
            })?;
            self.rest = self.rest.get(padded(expected)..).unwrap_or_default();
            Ok((header, body))
        });
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }
}

/// `bytes`, or the next multiple of [`FRAME_ALIGNMENT`]: where the next frame of a message starts.
pub const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(FRAME_ALIGNMENT)
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The bytes end too early.
    #[error("a frame of {expected} bytes was announced, got {got}\n\nhint: the message was cut")]
    Truncated {
        /// Bytes that were needed.
        expected: usize,
        /// Bytes there were.
        got: usize,
    },
    /// Another version of the protocol, or no frame at all.
    #[error(
        "frame version {0} is not supported, expected 2\n\nhint: all tasks of a job run one version"
    )]
    UnsupportedVersion(u8),
    /// A kind this version does not know.
    #[error("frame kind {0} is not supported\n\nhint: all tasks of a job run one version")]
    UnsupportedKind(u8),
    /// An encoding this version does not know.
    #[error("encoding {0} is not supported\n\nhint: all tasks of a job run one version")]
    UnsupportedEncoding(u8),
}

fn read_u32(header: &[u8; HEADER_BYTES], start: usize) -> u32 {
    u32::from_le_bytes([
        header[start],
        header[start + 1],
        header[start + 2],
        header[start + 3],
    ])
}

/// Where frames start in a message: columns in a body can then be read in place.
pub const FRAME_ALIGNMENT: usize = 8;

/// Bytes of every frame's header.
pub const HEADER_BYTES: usize = 24;

/// Body bytes from which a frame counts as full and no longer waits for company.
pub const FRAME_BYTES: usize = 64 * 1024;

const VERSION: u8 = 2;

//! What two nodes say to each other about one blob.
//!
//! A message is a kind and its fields, little-endian; on the wire its length stands before it. The
//! bytes of a chunk follow their message as they are. The decoder is total: any bytes are a message
//! or [`MalformedMessage`], and nothing is allocated beyond the length of what was received.

use thiserror::Error;

/// One message; those up to `Abort` go down the chain, the others up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The first one: which blob comes, and where it goes on from here.
    Begin(Header),
    /// The bytes of a chunk follow.
    Chunk(ChunkHead),
    /// The sender is there. `fed`: and so is everyone before it, up to the origin.
    Alive {
        /// Whether whoever feeds the sender is there, too, or nobody needs to be.
        fed: bool,
    },
    /// The blob will never be whole.
    Abort(String),
    /// The first answer, and a request to go on from that chunk again.
    Have(u64),
    /// The blob is whole here.
    Landed,
    /// Every node behind this one has it, but for these.
    Done(Vec<FailedNode>),
    /// The blob is not taken.
    Refused(Refusal),
}

/// Which blob comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Where the blob began, as the job numbers its tasks.
    pub origin: u32,
    /// Which of the blobs of that origin it is.
    pub number: u64,
    /// Bytes in all.
    pub size: u64,
    /// Bytes of each chunk but the last.
    pub chunk_bytes: u32,
    /// How far the sender is from the origin: of two senders the nearer one counts.
    pub position: u32,
    /// Endpoints to relay it to, in order.
    pub rest: Vec<String>,
}

impl Header {
    /// How many chunks the blob has.
    pub fn chunks(&self) -> u64 {
        self.size.div_ceil(u64::from(self.chunk_bytes))
    }
}

/// Which chunk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// Counted from 0.
    pub index: u64,
    /// Bytes.
    pub length: u32,
    /// XXH3-64 of the bytes, as computed at the origin.
    pub hash: u64,
}

/// A node that a blob did not get to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedNode {
    /// Its endpoint.
    pub endpoint: String,
    /// What was seen last.
    pub reason: String,
}

/// Why a blob is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A sender nearer to the origin sends it, or it has to be sent to nobody else.
    Superseded,
    /// There is no room for it, or it contradicts what is known about it.
    Reason(String),
}

/// Bytes that are no message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct MalformedMessage(pub &'static str);

impl Message {
    /// Appends the message, without its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin(header) => {
                out.push(BEGIN);
                out.extend(header.origin.to_le_bytes());
                out.extend(header.number.to_le_bytes());
                out.extend(header.size.to_le_bytes());
                out.extend(header.chunk_bytes.to_le_bytes());
                out.extend(header.position.to_le_bytes());
                out.extend((header.rest.len() as u32).to_le_bytes());
                for endpoint in &header.rest {
                    put_text(out, endpoint);
                }
            }
            Self::Chunk(head) => {
                out.push(CHUNK);
                out.extend(head.index.to_le_bytes());
                out.extend(head.length.to_le_bytes());
                out.extend(head.hash.to_le_bytes());
            }
            Self::Alive { fed } => out.extend([ALIVE, u8::from(*fed)]),
            Self::Abort(reason) => {
                out.push(ABORT);
                put_text(out, reason);
            }
            Self::Have(chunks) => {
                out.push(HAVE);
                out.extend(chunks.to_le_bytes());
            }
            Self::Landed => out.push(LANDED),
            Self::Done(failed) => {
                out.push(DONE);
                out.extend((failed.len() as u32).to_le_bytes());
                for FailedNode { endpoint, reason } in failed {
                    put_text(out, endpoint);
                    put_text(out, reason);
                }
            }
            Self::Refused(Refusal::Superseded) => out.push(SUPERSEDED),
            Self::Refused(Refusal::Reason(reason)) => {
                out.push(REFUSED);
                put_text(out, reason);
            }
        }
    }

    /// The message that these bytes are, all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let mut left = Cursor(bytes);
        let [kind] = left.take()?;
        let message = match kind {
            BEGIN => Self::Begin(left.header()?),
            CHUNK => Self::Chunk(ChunkHead {
                index: left.u64()?,
                length: left.u32()?,
                hash: left.u64()?,
            }),
            ALIVE => match left.take()? {
                [0] => Self::Alive { fed: false },
                [1] => Self::Alive { fed: true },
                _ => return Err(MalformedMessage("a truth value is neither 0 nor 1")),
            },
            ABORT => Self::Abort(left.text()?),
            HAVE => Self::Have(left.u64()?),
            LANDED => Self::Landed,
            DONE => Self::Done(left.list(|left| {
                Ok(FailedNode {
                    endpoint: left.text()?,
                    reason: left.text()?,
                })
            })?),
            SUPERSEDED => Self::Refused(Refusal::Superseded),
            REFUSED => Self::Refused(Refusal::Reason(left.text()?)),
            _ => return Err(MalformedMessage("a message of an unknown kind")),
        };
        if !left.0.is_empty() {
            return Err(MalformedMessage("a message with bytes behind its end"));
        }
        Ok(message)
    }
}

/// What is left of a message.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], MalformedMessage> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = tail;
        Ok(head)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (head, tail) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = tail;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, MalformedMessage> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, MalformedMessage> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, MalformedMessage> {
        let length = u16::from_le_bytes(self.take()?);
        let text = str::from_utf8(self.bytes(usize::from(length))?);
        text.map(str::to_owned)
            .map_err(|_| MalformedMessage("a text that is not UTF-8"))
    }

    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, MalformedMessage>,
    ) -> Result<Vec<T>, MalformedMessage> {
        // Not allocated in advance: the count may be anything.
        (0..self.u32()?)
            .map(|_| one(self))
            .collect::<Result<_, _>>()
    }

    fn header(&mut self) -> Result<Header, MalformedMessage> {
        let header = Header {
            origin: self.u32()?,
            number: self.u64()?,
            size: self.u64()?,
            chunk_bytes: self.u32()?,
            position: self.u32()?,
            rest: self.list(Self::text)?,
        };
        if !CHUNK_BYTES.contains(&header.chunk_bytes) {
            return Err(MalformedMessage("a chunk that is too small or too large"));
        }
        if header.size > MAX_SIZE {
            return Err(MalformedMessage("a blob larger than any memory"));
        }
        Ok(header)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

/// What a chunk may have; bounds what one connection makes a node set aside.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 26;

/// The largest message, without the bytes of a chunk: a chain of some thousands of nodes.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// More than a process can address, and far from overflows.
const MAX_SIZE: u64 = 1 << 56;

const MAX_TEXT: usize = 2000;
const SHORT: MalformedMessage = MalformedMessage("a message that ends too early");

const BEGIN: u8 = 1;
const CHUNK: u8 = 2;
const ALIVE: u8 = 3;
const ABORT: u8 = 4;
const HAVE: u8 = 5;
const LANDED: u8 = 6;
const DONE: u8 = 7;
const SUPERSEDED: u8 = 8;
const REFUSED: u8 = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let header = (
            any::<(u32, u64, u32)>(),
            0..MAX_SIZE,
            CHUNK_BYTES,
            prop::collection::vec(".{0,40}", 0..5),
        );
        let header = header.prop_map(|((origin, number, position), size, chunk_bytes, rest)| {
            Message::Begin(Header {
                origin,
                number,
                size,
                chunk_bytes,
                position,
                rest,
            })
        });
        let failed =
            (".{0,40}", ".{0,40}").prop_map(|(endpoint, reason)| FailedNode { endpoint, reason });
        prop_oneof![
            header,
            any::<(u64, u32, u64)>().prop_map(|(index, length, hash)| Message::Chunk(ChunkHead {
                index,
                length,
                hash
            })),
            any::<bool>().prop_map(|fed| Message::Alive { fed }),
            ".{0,40}".prop_map(Message::Abort),
            any::<u64>().prop_map(Message::Have),
            Just(Message::Landed),
            prop::collection::vec(failed, 0..5).prop_map(Message::Done),
            Just(Message::Refused(Refusal::Superseded)),
            ".{0,40}".prop_map(|reason| Message::Refused(Refusal::Reason(reason))),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back(message in message()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
            for end in 0..bytes.len() {
                prop_assert!(Message::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            prop_assert!(Message::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Message::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn any_fields_of_any_kind(kind in 0_u8..12, bytes in prop::collection::vec(0_u8..4, 0..60)) {
            let _ = Message::decode(&[&[kind], &bytes[..]].concat());
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let mut bytes = Vec::new();
        Message::Abort("\u{e9}".repeat(5000)).encode(&mut bytes);
        assert_eq!(
            Message::decode(&bytes),
            Ok(Message::Abort("\u{e9}".repeat(1000)))
        );
    }
}

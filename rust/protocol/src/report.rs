//! Probes and reports: how a sender learns which frames have arrived.

use crate::{Credit, FrameHeader, FrameKind, HEADER_BYTES};

/// What a sender asks a receiver: which frames did you get?
///
/// Its stamp names it: a receiver answers to each stamp once, and the answer carries it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The last frame that left before it, as far as the receiver may know of it; 0 before any.
    pub sequence: u64,
    /// When it left, on the sender's clock.
    pub sent_ns: u64,
}

/// What a receiver tells a sender about one channel: everything needed to go on from there.
///
/// Answers a [`Probe`], or comes unasked when frames are missing or a connection is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What was consumed, and what would be accepted.
    pub credit: Credit,
    /// The last frame that arrived with all before it; 0 before any.
    pub arrived: u64,
    /// The last frame that the receiver knows to have been sent; beyond `arrived`, frames are lost.
    pub seen: u64,
    /// Which clock the receiver reads; 0 if it cannot tell.
    pub clock: u64,
    /// The latest probe, and when it came; none before any.
    pub echo: Option<Echo>,
}

/// A probe's stamp on its way back, with the receiver's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The probe's `sent_ns`.
    pub probe_ns: u64,
    /// When the probe arrived, on the receiver's clock.
    pub received_ns: u64,
    /// When this state left, on the receiver's clock.
    pub answered_ns: u64,
}

impl Probe {
    /// The bytes of the probe frame for `channel`.
    pub fn encode(self, channel: u32, attempt: u8) -> [u8; HEADER_BYTES + WORD] {
        let mut bytes = [0; HEADER_BYTES + WORD];
        put_header(
            &mut bytes,
            FrameHeader::new(FrameKind::Probe, channel, attempt, self.sequence),
        );
        bytes[HEADER_BYTES..].copy_from_slice(&self.sent_ns.to_le_bytes());
        bytes
    }

    /// The probe in a frame of kind `Probe`; `None` if its body is none.
    pub fn decode(header: &FrameHeader, body: &[u8]) -> Option<Self> {
        Some(Self {
            sequence: header.sequence,
            sent_ns: u64::from_le_bytes(body.try_into().ok()?),
        })
    }
}

impl Report {
    /// The bytes of the state frame for `channel`.
    pub fn encode(self, channel: u32, attempt: u8) -> [u8; HEADER_BYTES + STATE_WORDS * WORD] {
        let mut bytes = [0; HEADER_BYTES + STATE_WORDS * WORD];
        let acknowledged = self.credit.acknowledged;
        put_header(
            &mut bytes,
            FrameHeader::new(FrameKind::State, channel, attempt, acknowledged),
        );
        let echo = self.echo.unwrap_or(NO_ECHO);
        let words: [u64; STATE_WORDS] = [
            self.credit.limit,
            self.arrived,
            self.seen,
            self.clock,
            echo.probe_ns,
            echo.received_ns,
            echo.answered_ns,
        ];
        let (places, _) = bytes[HEADER_BYTES..].as_chunks_mut::<WORD>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// The report in a frame of kind `State`; `None` if its body is none.
    pub fn decode(header: &FrameHeader, body: &[u8]) -> Option<Self> {
        let (words, rest) = body.as_chunks::<WORD>();
        let words: &[[u8; WORD]; STATE_WORDS] = words.try_into().ok()?;
        if !rest.is_empty() {
            return None;
        }
        let [
            limit,
            arrived,
            seen,
            clock,
            probe_ns,
            received_ns,
            answered_ns,
        ] = words.map(u64::from_le_bytes);
        let echo = Echo {
            probe_ns,
            received_ns,
            answered_ns,
        };
        Some(Self {
            credit: Credit {
                acknowledged: header.sequence,
                limit,
            },
            arrived,
            seen,
            clock,
            echo: (echo != NO_ECHO).then_some(echo),
        })
    }
}

fn put_header(bytes: &mut [u8], mut header: FrameHeader) {
    header.length = (bytes.len() - HEADER_BYTES) as u32;
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
}

const NO_ECHO: Echo = Echo {
    probe_ns: 0,
    received_ns: 0,
    answered_ns: 0,
};
const WORD: usize = size_of::<u64>();
const STATE_WORDS: usize = 7;

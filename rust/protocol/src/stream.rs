//! A channel over a window of bytes that loses nothing: frames in order, back to back.
//!
//! A ring in shared memory is one. The room in it is the sender's credit, what was consumed is what
//! is acknowledged, and numbers and ends are those of channels over links.

use std::collections::VecDeque;

use thiserror::Error;

use crate::channel::{Numbers, Order};
use crate::{Arrival, ChannelError, FrameError, FrameHeader, FrameKind, HEADER_BYTES, padded};

/// The sending end: the numbers of frames, and which bytes may be written when.
///
/// A frame is written whole where it can be; one larger than the window goes in parts. What finds no
/// room waits, and what comes later waits behind it. Its owner keeps what waits.
#[derive(Debug, Clone)]
pub struct StreamSender {
    capacity: usize,
    numbers: Numbers,
    /// Bytes of the frames that wait, of each in whole.
    waiting: VecDeque<usize>,
    /// What is left to write of them all.
    waiting_bytes: usize,
    /// What was written of the first.
    written: usize,
}

impl StreamSender {
    /// A sender into a window of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            numbers: Numbers::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            written: 0,
        }
    }

    /// The number of the next frame, which is then to be written, or to wait.
    #[inline]
    pub fn next(&mut self, kind: FrameKind) -> u64 {
        self.numbers.next(kind)
    }

    /// Whether nothing waits, so that a frame may be written if there is room for all of it.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes in that a frame of so many bytes waits.
    pub fn wait(&mut self, bytes: usize) {
        self.waiting.push_back(bytes);
        self.waiting_bytes += bytes;
    }

    /// How much room it takes for the first that waits to go on; none if nothing waits.
    pub fn room_needed(&self) -> Option<usize> {
        let first = *self.waiting.front()?;
        let whole = first <= self.capacity;
        Some(if whole { first - self.written } else { 1 })
    }

    /// How much room is worth being woken for: enough for the first, and for half of what the window
    /// holds.
    pub fn room_awaited(&self) -> usize {
        let half = self.capacity / 2;
        let first = self.waiting.front().copied().unwrap_or_default();
        if first <= self.capacity {
            first.max(half)
        } else {
            half
        }
    }

    /// How much was written of the first that waits.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Takes in that so much more was; whether that was the last of it, and the next is the first.
    pub fn on_written(&mut self, bytes: usize) -> bool {
        self.written += bytes;
        self.waiting_bytes -= bytes;
        let whole = self.waiting.front() == Some(&self.written);
        if whole {
            self.waiting.pop_front();
            self.written = 0;
        }
        whole
    }

    /// Bytes that are left to write.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether the end was numbered.
    pub fn is_ended(&self) -> bool {
        self.numbers.is_ended()
    }
}

/// The receiving end: which frame comes next, and whether it is there.
///
/// It counts a frame once it is accepted. Whatever cannot be the next one breaks the channel: here
/// nothing is lost that could come again.
#[derive(Debug, Clone)]
pub struct StreamReceiver {
    channel: u32,
    attempt: u8,
    capacity: usize,
    max_frame_bytes: usize,
    order: Order,
}

/// What is there of the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextFrame {
    /// Not all of it, or nothing.
    Unfinished,
    /// All of it.
    Whole {
        /// What it says.
        header: FrameHeader,
        /// Header, body and padding.
        bytes: usize,
    },
    /// Its header. It is of records, and larger than the window, so that it comes in parts.
    Large {
        /// What it says.
        header: FrameHeader,
        /// Header, body and padding.
        bytes: usize,
    },
}

impl StreamReceiver {
    /// A receiver of this channel's frames, from a window of `capacity` bytes.
    pub fn new(channel: u32, attempt: u8, capacity: usize, max_frame_bytes: usize) -> Self {
        Self {
            channel,
            attempt,
            capacity,
            max_frame_bytes,
            order: Order::default(),
        }
    }

    /// What is there of the next frame, which begins where `bytes` do.
    #[inline]
    pub fn next(&self, bytes: &[u8]) -> Result<NextFrame, StreamError> {
        if bytes.len() < HEADER_BYTES {
            // A frame that goes in parts may begin with less than its header.
            return Ok(NextFrame::Unfinished);
        }
        let header = FrameHeader::decode(bytes)?;
        if header.channel != self.channel
            || header.attempt != self.attempt
            || self.order.place(header.sequence)? != Arrival::Next
        {
            return Err(StreamError::OutOfPlace);
        }
        let length = header.length as usize;
        let total = padded(HEADER_BYTES + length);
        match header.kind {
            FrameKind::Data
            | FrameKind::Markers
            | FrameKind::Watermark
            | FrameKind::Barrier
            | FrameKind::End => {}
            FrameKind::Credit | FrameKind::Closed | FrameKind::Probe | FrameKind::State => {
                return Err(StreamError::Kind);
            }
        }
        if total <= bytes.len() {
            return Ok(NextFrame::Whole {
                header,
                bytes: total,
            });
        }
        if total <= self.capacity {
            return Ok(NextFrame::Unfinished);
        }
        if header.kind != FrameKind::Data || length > self.max_frame_bytes {
            return Err(StreamError::Oversized(length));
        }
        Ok(NextFrame::Large {
            header,
            bytes: total,
        })
    }

    /// Counts the frame that was found to be the next.
    #[inline]
    pub fn accept(&mut self, header: &FrameHeader) {
        self.order.on_next(header.kind);
    }

    /// Whether the end was accepted.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.order.is_ended()
    }
}

/// Bytes that no correct sender wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamError {
    /// They are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame of another channel or attempt, or not the next one.
    #[error("its frames are out of place")]
    OutOfPlace,
    /// A frame behind the end.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A frame that travels over links only.
    #[error("its frames are of a kind that no ring carries")]
    Kind,
    /// A frame larger than its receiver takes.
    #[error("it announced a frame of {0} bytes")]
    Oversized(usize),
}

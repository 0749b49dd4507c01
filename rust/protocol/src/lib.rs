//! The protocol of a channel: frames, credits, order, acknowledgement, markers, partitioning.
//!
//! This crate owns no socket, no clock and no thread: it decides, and `oka-transport` carries out.
//! A channel is one [`Sender`] and one [`Receiver`] that exchange [`Frame`]s; whatever a link
//! between them loses, repeats, delays or reorders, records arrive in order, exactly once, and a
//! receiver never holds more than its window (one larger frame excepted). Over a ring, which loses
//! nothing, they are a [`StreamSender`] and a [`StreamReceiver`]. A [`ClockOffset`] makes
//! stamps of one host comparable to those of another. An [`Alignment`] brings the inputs of a task
//! together: watermarks, barriers, holds and ends; [`Backlogs`] keeps short what waits for it. [`partition`] hashes keys as Python compares
//! them; [`LatencyHistogram`] gathers what [`encode_markers`] carries.

mod alignment;
mod backlog;
mod channel;
mod clock;
mod control;
mod credit;
mod frame;
mod latency;
mod marker;
pub mod number;
pub mod partition;
mod report;
mod stream;

pub use alignment::{Alignment, END_OF_TIME, START_OF_TIME};
pub use backlog::Backlogs;
pub use channel::{
    Arrival, CLOCK_INTERVAL_NS, ChannelError, FIRST_ROUND_TRIPS, Link, PROBE_INTERVAL_NS, Receiver,
    Retransmission, SMALL_FRAME_INTERVAL_NS, SMALL_FRAMES_IN_FLIGHT, Sender,
};
pub use clock::{ClockOffset, RoundTrip};
pub use control::{CONTROL_BYTES, CONTROL_FRAME_BYTES, Control, Trailer};
pub use credit::Credit;
pub use frame::{
    Encoding, FRAME_ALIGNMENT, FRAME_BYTES, Frame, FrameError, FrameHeader, FrameKind, Frames,
    HEADER_BYTES, padded,
};
pub use latency::{HistogramError, LatencyHistogram};
pub use marker::{MARKER_BYTES, decode_markers, encode_markers};
pub use report::{Echo, Probe, Report};
pub use stream::{NextFrame, StreamError, StreamReceiver, StreamSender};

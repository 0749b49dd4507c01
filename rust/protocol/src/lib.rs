//! The channel protocol.

/// Encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Msgpack.
    Msgpack = 0,
}

/// Full frame.
pub const FRAME_BYTES: usize = 65536;

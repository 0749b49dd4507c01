//! The body of marker frames, encoded and decoded.

/// Appends the body of a marker frame: the stamps (nanoseconds), 8 bytes each, little endian.
pub fn encode_markers(stamps: &[u64], bytes: &mut Vec<u8>) {
    bytes.reserve(stamps.len() * MARKER_BYTES);
    for stamp in stamps {
        bytes.extend_from_slice(&stamp.to_le_bytes());
    }
}

/// The stamps in the body of a marker frame; `None` unless there are exactly `count`.
///
/// ```
/// let mut body = Vec::new();
/// oka_protocol::encode_markers(&[5, 7], &mut body);
/// assert_eq!(oka_protocol::decode_markers(2, &body), Some(vec![5, 7]));
/// assert_eq!(oka_protocol::decode_markers(1, &body), None);
/// ```
pub fn decode_markers(count: u32, body: &[u8]) -> Option<Vec<u64>> {
    let (stamps, rest) = body.as_chunks::<MARKER_BYTES>();
    if !rest.is_empty() || stamps.len() != count as usize {
        return None;
    }
    Some(
        stamps
            .iter()
            .map(|stamp| u64::from_le_bytes(*stamp))
            .collect(),
    )
}

/// Bytes of one marker.
pub const MARKER_BYTES: usize = size_of::<u64>();

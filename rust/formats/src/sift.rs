//! Which messages are right: all are decoded together, and one by one where that fails.

/// A message and its place among all.
pub(crate) type Message<'a> = (usize, &'a [u8]);

/// Decodes messages, each to a row.
pub(crate) trait Decode {
    /// Rows of several messages.
    type Rows;

    /// The rows of all messages; an error of one is that of all.
    fn together(&mut self, messages: &[Message<'_>]) -> Result<Self::Rows, String>;

    /// Whether a message can be decoded, or why not.
    fn alone(&mut self, message: &[u8]) -> Result<(), String>;
}

/// The rows of all messages that can be decoded; the others are added to `rejected`, which then ascends.
///
/// The error is that of messages which can be decoded one by one, and not together.
pub(crate) fn sifted<D: Decode>(
    decoder: &mut D,
    messages: &[Message<'_>],
    rejected: &mut Vec<(usize, String)>,
) -> Result<D::Rows, String> {
    if let Ok(rows) = decoder.together(messages) {
        return Ok(rows);
    }
    let mut right = Vec::with_capacity(messages.len());
    for &(place, message) in messages {
        match decoder.alone(message) {
            Ok(()) => right.push((place, message)),
            Err(reason) => rejected.push((place, reason)),
        }
    }
    rejected.sort_unstable_by_key(|(place, _)| *place);
    decoder.together(&right)
}

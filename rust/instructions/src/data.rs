//! The words that every path works on.

/// Records in a round: one batch.
pub const RECORDS: usize = 1_000;

/// In October 2025: what times of today take in a record.
pub const START_US: i64 = 1_760_000_000_000_000;

/// Batches in a window, whose records are a millisecond apart.
pub const BATCHES: i64 = 10;
pub const BATCH_US: i64 = RECORDS as i64 * 1_000;

/// A batch of words of 32 letters, out of 100 different ones, in no order.
pub fn words() -> Vec<String> {
    (0..RECORDS).map(|row| word(drawn(row))).collect()
}

/// Which word, and which number, is at this row.
pub fn drawn(row: usize) -> usize {
    row.wrapping_mul(2_654_435_761) / 7 % WORDS
}

/// Words of one length that differ from their first letter on, as random ones do.
fn word(number: usize) -> String {
    let mut state = number as u64 + 1;
    (0..WORD_BYTES)
        .map(|_| {
            // Knuth's linear congruential generator (MMIX).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 33) as u8 % 26)
        })
        .collect()
}

const WORDS: usize = 100;
const WORD_BYTES: usize = 32;

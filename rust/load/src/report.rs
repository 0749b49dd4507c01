//! What came of the requests, as JSON.

use std::fmt::Write;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// The requests that ended in one way.
pub struct Class {
    /// All that arrived after the warm-up.
    pub latencies: Histogram<u64>,
    /// Those of all requests that ended within the measured seconds.
    pub ended_within: u64,
}

pub struct Report {
    pub seconds: f64,
    /// Requests per second that arrived, as asked for.
    pub offered: f64,
    pub arrived: u64,
    pub not_sent: u64,
    /// Requests that found no free connection.
    pub waited: u64,
    pub reconnects: u64,
    pub cpu_seconds: f64,
    pub classes: [Class; CLASSES.len()],
}

impl Class {
    pub fn new() -> Self {
        Self {
            latencies: Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3)
                .expect("the bounds are possible"),
            ended_within: 0,
        }
    }

    fn to_json(&self, seconds: f64) -> String {
        let latencies = &self.latencies;
        let mut json = format!(
            "{{\"count\": {}, \"per_second\": {:.3}",
            latencies.len(),
            self.ended_within as f64 / seconds
        );
        for (name, ns) in [
            ("p50_ms", latencies.value_at_quantile(0.5)),
            ("p99_ms", latencies.value_at_quantile(0.99)),
            ("p99_9_ms", latencies.value_at_quantile(0.999)),
            ("max_ms", latencies.max()),
        ] {
            let _ = write!(json, ", \"{name}\": {:.6}", ns as f64 / 1e6);
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(latencies, &mut bytes)
            .expect("a vector takes any bytes");
        let _ = write!(json, ", \"histogram\": \"{}\"}}", base64(&bytes));
        json
    }
}

impl Report {
    /// Of a reply with this status, or of none.
    pub fn class_of(status: Option<u16>) -> usize {
        match status {
            Some(200..=299) => 0,
            Some(503) => 1,
            Some(_) => 2,
            None => 3,
        }
    }

    pub fn to_json(&self) -> String {
        let classes: Vec<String> = CLASSES
            .iter()
            .zip(&self.classes)
            .map(|(name, class)| format!("\"{name}\": {}", class.to_json(self.seconds)))
            .collect();
        format!(
            "{{\"seconds\": {:.6}, \"offered\": {:.3}, \"arrived\": {}, \"not_sent\": {}, \
             \"waited\": {}, \"reconnects\": {}, \"cpu_seconds\": {:.6}, \"classes\": {{{}}}}}",
            self.seconds,
            self.offered,
            self.arrived,
            self.not_sent,
            self.waited,
            self.reconnects,
            self.cpu_seconds,
            classes.join(", ")
        )
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            text.push(if digit <= three.len() {
                char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}

/// As in Oka's own histograms, which are merged with these.
const SHORTEST_NS: u64 = 64;
const LONGEST_NS: u64 = 3_600_000_000_000;
pub const CLASSES: [&str; 4] = ["2xx", "503", "other", "errors"];
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_others_write_it() {
        for (bytes, text) in [
            (b"".as_slice(), ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xff, 0xef, 0xbe], "/+++"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn classes_of_statuses() {
        let names = [Some(204), Some(503), Some(500), None].map(|it| CLASSES[Report::class_of(it)]);
        assert_eq!(names, CLASSES);
    }
}

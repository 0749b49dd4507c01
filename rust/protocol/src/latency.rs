//! A histogram of latencies that tasks can merge.

use std::fmt;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use thiserror::Error;

/// A histogram of latencies with 3 significant digits: nanoseconds in, microseconds out.
///
/// Covers up to one hour and saturates there. Histograms of several tasks merge exactly.
///
/// ```
/// use oka_protocol::LatencyHistogram;
///
/// let mut histogram = LatencyHistogram::new();
/// for microseconds in 1..=100 {
///     histogram.record(microseconds * 1_000);
/// }
/// assert_eq!(histogram.percentile(50.0).round(), 50.0);
/// assert_eq!(histogram.maximum().round(), 100.0);
/// ```
#[derive(Clone, PartialEq)]
pub struct LatencyHistogram {
    counts: Histogram<u64>,
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let counts = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Self { counts }
    }

    /// Records one latency in nanoseconds.
    pub fn record(&mut self, nanoseconds: u64) {
        self.counts.saturating_record(nanoseconds.min(HIGHEST_NS));
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts
            .add(&other.counts)
            .expect("all histograms have the same bounds");
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Mean in microseconds; 0 when empty.
    pub fn mean(&self) -> f64 {
        self.counts.mean() / NS_PER_US
    }

    /// Largest value in microseconds; 0 when empty.
    pub fn maximum(&self) -> f64 {
        self.counts.max() as f64 / NS_PER_US
    }

    /// The value in microseconds that `percentile` (0–100) of all values do not exceed; 0 when
    /// empty.
    pub fn percentile(&self, percentile: f64) -> f64 {
        let value = self.counts.value_at_percentile(percentile);
        value.min(self.counts.max()) as f64 / NS_PER_US
    }

    /// How many values are at most each bound, and above the bound before it; then those above the
    /// last. Bounds are in nanoseconds and rise. A value within 0.1 % of a bound may count on either
    /// side.
    ///
    /// ```
    /// use oka_protocol::LatencyHistogram;
    ///
    /// let mut histogram = LatencyHistogram::new();
    /// for microseconds in [1, 20, 30, 400] {
    ///     histogram.record(microseconds * 1_000);
    /// }
    /// assert_eq!(histogram.counts_between(&[10_000, 100_000]), [1, 2, 1]);
    /// ```
    pub fn counts_between(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        for recorded in self.counts.iter_recorded() {
            let least = self.counts.lowest_equivalent(recorded.value_iterated_to());
            counts[bounds.partition_point(|bound| *bound < least)] += recorded.count_at_value();
        }
        counts
    }

    /// The histogram in the `V2` format of HDR histograms, values in nanoseconds.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.counts, &mut bytes)
            .expect("a vector takes any bytes and the bounds fit the format");
        bytes
    }

    /// Reads what [`LatencyHistogram::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HistogramError> {
        let refused = |reason: String| HistogramError { reason };
        let counts: Histogram<u64> = Deserializer::new()
            .deserialize(&mut &bytes[..])
            .map_err(|error| refused(error.to_string()))?;
        if (counts.low(), counts.high(), counts.sigfig())
            != (LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
        {
            return Err(refused("its bounds differ".to_owned()));
        }
        Ok(Self { counts })
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LatencyHistogram")
            .field("count", &self.count())
            .field("mean", &self.mean())
            .field("maximum", &self.maximum())
            .finish()
    }
}

/// Bytes that are no latency histogram.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the bytes are no latency histogram: {reason}\n\nhint: pass what to_bytes gave, unchanged")]
pub struct HistogramError {
    reason: String,
}

const LOWEST_NS: u64 = 64;
const HIGHEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
const NS_PER_US: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_histograms_hold_the_values_of_both() {
        let mut first = LatencyHistogram::new();
        let mut second = LatencyHistogram::new();
        (0..1_000).for_each(|_| first.record(20_000));
        (0..1_000).for_each(|_| second.record(3_000_000));
        first.merge(&second);
        assert_eq!(first.count(), 2_000);
        assert!((first.percentile(50.0) - 20.0).abs() < 0.1);
        assert!((first.percentile(99.0) - 3_000.0).abs() < 3.0);
    }

    #[test]
    fn bytes_bring_back_the_same_histogram() {
        let mut histogram = LatencyHistogram::new();
        for value in [0, 1, 999, 1_000, 5_000_000, HIGHEST_NS, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!(
            LatencyHistogram::from_bytes(&histogram.to_bytes()),
            Ok(histogram)
        );
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b""[..], b"garbage", &[0x1c; 64]] {
            let error = LatencyHistogram::from_bytes(bytes).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{error}");
        }
    }

    #[test]
    fn empty_histograms_report_zero() {
        let histogram = LatencyHistogram::new();
        assert_eq!(histogram.count(), 0);
        assert!(histogram.mean().abs() < f64::EPSILON);
        assert!(histogram.percentile(99.0).abs() < f64::EPSILON);
    }
}

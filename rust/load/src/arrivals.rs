//! When requests arrive: random moments of a rate, the same for the same seed.

/// A Poisson process, in nanoseconds from 0.
pub struct Arrivals {
    random: Random,
    mean_ns: f64,
    next_ns: f64,
}

impl Arrivals {
    pub fn new(rate: f64, seed: u64) -> Self {
        let mut arrivals = Self {
            random: Random(seed),
            mean_ns: 1e9 / rate,
            next_ns: 0.0,
        };
        arrivals.advance();
        arrivals
    }

    /// The next moment.
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Go on to the one after it.
    pub fn advance(&mut self) {
        self.next_ns -= self.mean_ns * (1.0 - self.random.share()).ln();
    }
}

/// `SplitMix64`: small, and good enough for moments.
pub struct Random(pub u64);

impl Random {
    /// At least 0 and below 1.
    pub fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(seed: u64, number: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(1000.0, seed);
        (0..number)
            .map(|_| {
                let moment = arrivals.next_ns();
                arrivals.advance();
                moment
            })
            .collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(moments(3, 100), moments(3, 100));
        assert_ne!(moments(3, 100), moments(4, 100));
    }

    #[test]
    fn gaps_are_exponential() {
        let moments = moments(1, 100_000);
        let mean = *moments.last().unwrap() as f64 / moments.len() as f64;
        assert!((mean - 1e6).abs() < 2e4, "{mean}");
        let short = moments
            .windows(2)
            .filter(|pair| pair[1] - pair[0] < 693_147);
        let share = short.count() as f64 / moments.len() as f64; // half of them are below ln 2
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }
}

//! Count, mean and squared deviations of numbers, and of pairs of numbers.
//!
//! A number is taken in as by Welford (Technometrics 4, 1962), and two parts become one as by Chan, Golub and
//! `LeVeque` (Updating formulae and a pairwise algorithm for computing sample variances, 1979); products of
//! deviations likewise, as by Pébay (Sandia report SAND2008-6212). Nothing is the difference of large sums, so
//! that numbers far from zero keep their variance.

use crate::accumulator::numeric::float;
use crate::accumulator::parts;
use crate::encoded::encode;
use crate::problem::Problem;

/// Of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    /// The sum of the squares of the deviations from the mean.
    pub(crate) squares: f64,
}

impl Moments {
    #[inline]
    pub(crate) fn of(number: f64) -> Self {
        let mut moments = Self::default();
        moments.add(number);
        moments
    }

    #[inline]
    pub fn add(&mut self, number: f64) {
        self.count += 1.0;
        let deviation = number - self.mean;
        self.mean += deviation / self.count;
        self.squares += deviation * (number - self.mean);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if count == 0.0 {
            return;
        }
        let between = other.mean - self.mean;
        self.mean += between * (other.count / count);
        self.squares += other.squares + between * between * (self.count * other.count / count);
        self.count = count;
    }

    /// The variance, where the divisor is so much less than the count; `None` where there is none.
    pub fn variance(&self, less: f64) -> Option<f64> {
        let divisor = self.count - less;
        (divisor > 0.0).then(|| self.squares / divisor)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode_all(&[self.count, self.mean, self.squares], out);
    }

    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Problem> {
        let [count, mean, squares] = decode_all(encoded)?;
        Ok(Self {
            count,
            mean,
            squares,
        })
    }
}

/// Of pairs of numbers: y and x.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairMoments {
    pub(crate) y: Moments,
    pub(crate) x: Moments,
    /// The sum of the products of both deviations.
    products: f64,
}

impl PairMoments {
    #[inline]
    pub fn add(&mut self, y: f64, x: f64) {
        let deviation = y - self.y.mean;
        self.y.add(y);
        self.x.add(x);
        self.products += deviation * (x - self.x.mean);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let count = self.y.count + other.y.count;
        if count == 0.0 {
            return;
        }
        let between = (other.y.mean - self.y.mean) * (other.x.mean - self.x.mean);
        self.products += other.products + between * (self.y.count * other.y.count / count);
        self.y.merge(&other.y);
        self.x.merge(&other.x);
    }

    /// As [`Moments::variance`].
    pub fn covariance(&self, less: f64) -> Option<f64> {
        let divisor = self.y.count - less;
        (divisor > 0.0).then(|| self.products / divisor)
    }

    /// Pearson's; `None` where y or x does not vary.
    pub fn correlation(&self) -> Option<f64> {
        let both = self.y.squares.sqrt() * self.x.squares.sqrt();
        // A rounding may bring it beyond 1.
        (both != 0.0).then(|| (self.products / both).clamp(-1.0, 1.0))
    }

    /// The line of least squares through the pairs, as SQL's `regr_...` describe it.
    pub fn regression(&self) -> Regression {
        let some = |value: f64| (self.y.count > 0.0).then_some(value);
        let slope = (self.x.squares != 0.0).then(|| self.products / self.x.squares);
        Regression {
            slope,
            intercept: slope.map(|slope| self.y.mean - slope * self.x.mean),
            r2: slope.map(|_| self.correlation().map_or(1.0, |found| found * found)),
            count: self.y.count as i64,
            avg_y: some(self.y.mean),
            avg_x: some(self.x.mean),
            syy: some(self.y.squares),
            sxx: some(self.x.squares),
            sxy: some(self.products),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { y, x, products } = self;
        encode_all(
            &[y.count, y.mean, y.squares, x.mean, x.squares, *products],
            out,
        );
    }

    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Problem> {
        let [count, y, y_squares, x, x_squares, products] = decode_all(encoded)?;
        let moments = |mean, squares| Moments {
            count,
            mean,
            squares,
        };
        Ok(Self {
            y: moments(y, y_squares),
            x: moments(x, x_squares),
            products,
        })
    }
}

/// A line y = slope · x + intercept, with what it is of. `None` where that is not determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    pub slope: Option<f64>,
    pub intercept: Option<f64>,
    /// The coefficient of determination; 1 where y does not vary.
    pub r2: Option<f64>,
    /// The number of pairs.
    pub count: i64,
    pub avg_y: Option<f64>,
    pub avg_x: Option<f64>,
    /// The sums of squares of the deviations from the means, and of their products.
    pub syy: Option<f64>,
    pub sxx: Option<f64>,
    pub sxy: Option<f64>,
}

impl Regression {
    /// All but the count, with their names.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("slope", self.slope),
            ("intercept", self.intercept),
            ("r2", self.r2),
            ("avg_y", self.avg_y),
            ("avg_x", self.avg_x),
            ("syy", self.syy),
            ("sxx", self.sxx),
            ("sxy", self.sxy),
        ]
    }
}

fn encode_all(numbers: &[f64], out: &mut Vec<u8>) {
    encode::array(out, numbers.len());
    for number in numbers {
        encode::float(out, *number);
    }
}

fn decode_all<const N: usize>(encoded: &[u8]) -> Result<[f64; N], Problem> {
    let mut numbers = [0.0; N];
    for (number, part) in numbers.iter_mut().zip(parts(encoded, N)?) {
        *number = float(part)?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: &[f64]) -> Moments {
        let mut moments = Moments::default();
        for number in numbers {
            moments.add(*number);
        }
        moments
    }

    #[test]
    fn numbers_far_from_zero_keep_their_variance() {
        let numbers = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
        assert_eq!(of(&numbers).variance(1.0), Some(30.0));
        let (left, right) = numbers.split_at(1);
        let mut merged = of(left);
        merged.merge(&of(right));
        assert_eq!(merged.variance(1.0), Some(30.0));
        assert_eq!(of(&numbers[..1]).variance(1.0), None);
        assert_eq!(of(&numbers[..1]).variance(0.0), Some(0.0));
        assert_eq!(Moments::default().variance(0.0), None);
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let mut pairs = PairMoments::default();
        assert_eq!(pairs.regression().count, 0);
        assert_eq!(
            (pairs.regression().avg_y, pairs.correlation()),
            (None, None)
        );
        for x in 0..5 {
            pairs.add(2.0 * f64::from(x) - 1.0, f64::from(x));
        }
        let line = pairs.regression();
        assert_eq!((line.slope, line.intercept), (Some(2.0), Some(-1.0)));
        assert_eq!((line.count, line.sxx), (5, Some(10.0)));
        assert!((line.r2.unwrap_or_default() - 1.0).abs() < 1e-12);
        assert_eq!(pairs.covariance(0.0), Some(4.0));
    }

    proptest! {
        #[test]
        fn parts_come_to_the_same_as_the_whole(
            numbers in proptest::collection::vec((-1e6..1e6, -1e6..1e6), 2..40),
            cut in 0..40_usize,
        ) {
            let of = |some: &[(f64, f64)]| {
                let mut pairs = PairMoments::default();
                for (y, x) in some {
                    pairs.add(*y, *x);
                }
                pairs
            };
            let (left, right) = numbers.split_at(cut.min(numbers.len()));
            let mut merged = of(left);
            merged.merge(&of(right));
            let whole = of(&numbers);
            let near = |left: Option<f64>, right: Option<f64>, scale: f64| {
                let (left, right) = (left.unwrap_or(0.0), right.unwrap_or(0.0));
                (left - right).abs() <= 1e-9 * scale
            };
            prop_assert!(near(merged.covariance(0.0), whole.covariance(0.0), 1e12));
            prop_assert!(near(merged.y.variance(1.0), whole.y.variance(1.0), 1e12));
            let mut encoded = Vec::new();
            merged.encode(&mut encoded);
            prop_assert_eq!(PairMoments::decode(&encoded), Ok(merged));
        }
    }
}

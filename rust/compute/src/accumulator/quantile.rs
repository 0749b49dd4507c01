//! Quantiles of numbers.

/// The quantiles at these shares, from 0 to 1, of numbers in any order: between two of them by how far
/// it is from one to the other. NaN if there is one among them, or none at all.
///
/// ```
/// use oka_compute::quantiles;
///
/// assert_eq!(quantiles(&[4.0, 1.0, 2.0], &[0.0, 0.5, 0.75, 1.0]), [1.0, 2.0, 3.0, 4.0]);
/// ```
pub fn quantiles(numbers: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let is_none = numbers.iter().any(|number| number.is_nan());
    let count = if is_none { 0 } else { sorted.len() };
    let each = shares.iter();
    each.map(|share| quantile(count, *share, |place| sorted[place]))
        .collect()
}

/// One quantile of so many numbers, by their places in order; NaN of none.
pub(crate) fn quantile(count: usize, share: f64, get: impl Fn(usize) -> f64) -> f64 {
    let Some(last) = count.checked_sub(1) else {
        return f64::NAN;
    };
    let place = last as f64 * share.clamp(0.0, 1.0);
    let (low, high) = (get(place.floor() as usize), get(place.ceil() as usize));
    let (part, between) = (place.fract(), high - low);
    if low.total_cmp(&high).is_eq() {
        low
    } else if part < 0.5 {
        low + between * part
    } else {
        high - between * (1.0 - part)
    }
}

//! What is kept of a key in windows, encoded.

use crate::accumulator::parts;
use crate::encoded::encode;
use crate::encoded::value::{Reader, Value};
use crate::problem::Problem;

/// What is kept of a key: how far event time has come, or how many records it had, and its windows
/// or slices.
pub fn kept(how_far: Option<i64>, windows: &[Vec<u8>]) -> Vec<u8> {
    let mut kept = Vec::new();
    encode::array(&mut kept, 2);
    match how_far {
        Some(how_far) => encode::int(&mut kept, how_far),
        None => encode::nil(&mut kept),
    }
    encode::array(&mut kept, windows.len());
    kept.extend_from_slice(&windows.concat());
    kept
}

/// What is kept of a key in a window or a slice: where that begins and ends, and encoded values.
pub fn kept_window(bounds: &[i64], values: &[&[u8]]) -> Vec<u8> {
    let mut kept = Vec::new();
    encode::array(&mut kept, bounds.len() + values.len());
    for bound in bounds {
        encode::int(&mut kept, *bound);
    }
    kept.extend_from_slice(&values.concat());
    kept
}

/// What [`kept`] has written, and of each window the parts that [`kept_window`] has.
pub fn read_kept<const PARTS: usize>(kept: &[u8]) -> Result<Windows<'_, PARTS>, Problem> {
    let [how_far, windows] = exactly(kept)?;
    let how_far = match Reader::new(how_far).read()? {
        Value::Nil => None,
        _ => Some(integer(how_far)?),
    };
    let windows = items(windows)?.into_iter().map(exactly);
    Ok((how_far, windows.collect::<Result<_, _>>()?))
}

/// What was kept of a key, with its values, each in the place that `order` has it from. `in_windows` tells
/// that they are the last part of each window of what [`kept`] has written.
pub fn reordered(value: &[u8], order: &[usize], in_windows: bool) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(value.len());
    if !in_windows {
        let values = parts(value, order.len())?;
        encode::array(&mut out, order.len());
        for &place in order {
            out.extend_from_slice(values.get(place).ok_or(Problem::Parts(order.len()))?);
        }
        return Ok(out);
    }
    let [how_far, windows] = exactly(value)?;
    let windows = items(windows)?;
    encode::array(&mut out, 2);
    out.extend_from_slice(how_far);
    encode::array(&mut out, windows.len());
    for window in windows {
        let window = items(window)?;
        let (values, bounds) = window.split_last().ok_or(Problem::NoWindows)?;
        encode::array(&mut out, window.len());
        out.extend_from_slice(&bounds.concat());
        out.extend_from_slice(&reordered(values, order, false)?);
    }
    Ok(out)
}

/// How far event time has come, or how many records there were; and windows, of which each has so
/// many parts.
pub type Windows<'a, const PARTS: usize> = (Option<i64>, Vec<[&'a [u8]; PARTS]>);

/// A part that is an integer.
pub fn integer(part: &[u8]) -> Result<i64, Problem> {
    match Reader::new(part).read()? {
        Value::Int(number) => Ok(number),
        _ => Err(Problem::NoWindows),
    }
}

/// The items of an encoded array.
pub fn items(encoded: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let mut reader = Reader::new(encoded);
    let Value::Array(count) = reader.read()? else {
        return Err(Problem::NoWindows);
    };
    Ok((0..count)
        .map(|_| reader.encoded())
        .collect::<Result<_, _>>()?)
}

/// The items of an encoded array that has so many.
fn exactly<const N: usize>(encoded: &[u8]) -> Result<[&[u8]; N], Problem> {
    let items = items(encoded)?;
    items.try_into().map_err(|_| Problem::NoWindows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::array(&mut out, of.len());
        for each in of {
            encode::int(&mut out, *each);
        }
        out
    }

    #[test]
    fn values_change_places_everywhere() {
        let order = [2, 0, 1];
        assert_eq!(
            reordered(&values(&[7, 8, 9]), &order, false).ok(),
            Some(values(&[9, 7, 8]))
        );
        let of = |each: &[i64]| {
            let windows = [10, 20].map(|start| kept_window(&[start], &[&[0xc0], &values(each)]));
            kept(Some(5), &windows)
        };
        assert_eq!(
            reordered(&of(&[7, 8, 9]), &order, true).ok(),
            Some(of(&[9, 7, 8]))
        );
    }

    #[test]
    fn what_is_no_such_state_is_refused() {
        assert!(reordered(&values(&[7, 8]), &[2, 0, 1], false).is_err());
        assert!(reordered(&values(&[7, 8]), &[0, 2], false).is_err());
        assert!(reordered(&values(&[7, 8]), &[1, 0], true).is_err());
        assert!(reordered(&[], &[1, 0], true).is_err());
    }
}

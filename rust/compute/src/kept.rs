//! What is kept of a key in windows, encoded.

use crate::encode;
use crate::problem::Problem;
use crate::value::{Reader, Value};

/// Keys with what is kept of them, encoded.
pub type Kept = Vec<(Vec<u8>, Vec<u8>)>;

/// What is kept of a key: how far event time has come, and its slices.
pub fn kept(watermark: Option<i64>, slices: &[Vec<u8>]) -> Vec<u8> {
    let mut kept = Vec::new();
    encode::array(&mut kept, 2);
    match watermark {
        Some(watermark) => encode::int(&mut kept, watermark),
        None => encode::nil(&mut kept),
    }
    encode::array(&mut kept, slices.len());
    kept.extend_from_slice(&slices.concat());
    kept
}

/// What is kept of a key in a slice: where it begins, the form of its times, and encoded values.
pub fn kept_slice(start: i64, form: &[u8], values: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    encode::array(&mut kept, 3);
    encode::int(&mut kept, start);
    kept.extend_from_slice(form);
    kept.extend_from_slice(values);
    kept
}

/// What [`kept`] has written, and of each slice what [`kept_slice`] has.
pub fn read_kept(kept: &[u8]) -> Result<(Option<i64>, Vec<KeptSlice<'_>>), Problem> {
    let [watermark, slices] = exactly(kept)?;
    let watermark = match Reader::new(watermark).read()? {
        Value::Int(watermark) => Some(watermark),
        _ => None,
    };
    let slice = |slice| {
        let [start, form, values] = exactly(slice)?;
        match Reader::new(start).read()? {
            Value::Int(start) => Ok((start, form, values)),
            _ => Err(Problem::NoWindows),
        }
    };
    let slices = items(slices)?.into_iter().map(slice);
    Ok((watermark, slices.collect::<Result<_, _>>()?))
}

/// Where a slice begins, the form of its times, and the values.
pub type KeptSlice<'a> = (i64, &'a [u8], &'a [u8]);

/// The items of an encoded array.
fn items(encoded: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let mut reader = Reader::new(encoded);
    let Value::Array(count) = reader.read()? else {
        return Err(Problem::NoWindows);
    };
    let item = |_| {
        let start = reader.position();
        reader.skip().map(|()| reader.since(start))
    };
    Ok((0..count).map(item).collect::<Result<_, _>>()?)
}

/// The items of an encoded array that has so many.
fn exactly<const N: usize>(encoded: &[u8]) -> Result<[&[u8]; N], Problem> {
    let items = items(encoded)?;
    items.try_into().map_err(|_| Problem::NoWindows)
}

//! Floats as texts.

use bumpalo::collections::String;
use std::fmt::Write;

/// Appends what `repr(number)` is.
pub(crate) fn repr(out: &mut String<'_>, number: f64) {
    if !number.is_finite() {
        return push_not_finite(out, number);
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    // The shortest digits that are read as this number: one, a point, the others, and the exponent.
    let mut shortest = ShortText::default();
    let _ = write!(shortest, "{:e}", number.abs());
    let (digits, exponent) = shortest.text().split_once('e').unwrap_or(("0", "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    if !(-4..16).contains(&exponent) {
        out.push_str(digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.push_str("0.");
        push_zeros(out, -exponent - 1);
        out.push_str(whole);
        out.push_str(rest);
    } else {
        let places = exponent as usize;
        out.push_str(whole);
        if rest.len() > places {
            out.push_str(&rest[..places]);
            out.push('.');
            out.push_str(&rest[places..]);
        } else {
            out.push_str(rest);
            push_zeros(out, (places - rest.len()) as i32);
            out.push_str(".0");
        }
    }
}

/// Appends "inf", "-inf" or "nan".
pub(crate) fn push_not_finite(out: &mut String<'_>, number: f64) {
    out.push_str(if number.is_nan() {
        "nan"
    } else if number > 0.0 {
        "inf"
    } else {
        "-inf"
    });
}

fn push_zeros(out: &mut String<'_>, count: i32) {
    (0..count).for_each(|_| out.push('0'));
}

/// A text in place, of what is known to be short.
#[derive(Default)]
pub(crate) struct ShortText {
    bytes: [u8; 32],
    length: usize,
}

impl ShortText {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for ShortText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end);
        place
            .ok_or(std::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

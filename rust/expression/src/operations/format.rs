//! Format specifications: what `f"{value:>8,.2f}"` gives.

use crate::operations::containers::characters;
use crate::operations::float;
use crate::operations::repr;
use crate::unusual::Unusual;
use crate::value::{Computed, Value, utf8};
use bumpalo::Bump;
use bumpalo::collections::String;
use std::fmt::Write;

/// How a value is written: `conversion` and `[[fill]align][sign][0][width][,][.precision][type]`.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    conversion: Conversion,
    /// Whether there is no more than a conversion.
    is_plain: bool,
    fill: char,
    /// One of `<`, `>`, `^` and `=`.
    align: Option<char>,
    sign: char,
    /// Whether zeros fill a number up.
    zeros: bool,
    width: usize,
    has_commas: bool,
    precision: Option<usize>,
    kind: Option<char>,
}

#[derive(Clone, Copy, Debug)]
enum Conversion {
    None,
    Str,
    Repr,
    Ascii,
}

impl Format {
    /// None of what is not known.
    pub(crate) fn new(conversion: &str, spec: &str) -> Option<Self> {
        let conversion = match conversion {
            "" => Conversion::None,
            "s" => Conversion::Str,
            "r" => Conversion::Repr,
            "a" => Conversion::Ascii,
            _ => return None,
        };
        let characters: Vec<char> = spec.chars().collect();
        let mut rest = &characters[..];
        let is_align = |character: &char| matches!(character, '<' | '>' | '^' | '=');
        let (mut fill, mut align) = (' ', None);
        match *rest {
            [filler, next, ref behind @ ..] if is_align(&next) => {
                (fill, align, rest) = (filler, Some(next), behind);
            }
            [next, ref behind @ ..] if is_align(&next) => (align, rest) = (Some(next), behind),
            _ => {}
        }
        let mut sign = '-';
        if let [next @ ('+' | '-' | ' '), behind @ ..] = rest {
            (sign, rest) = (*next, behind);
        }
        let mut zeros = false;
        if let ['0', behind @ ..] = rest {
            // With an alignment of its own it means something else in some versions.
            if align.is_some() {
                return None;
            }
            (zeros, rest) = (true, behind);
        }
        let width = number(&mut rest)?.unwrap_or(0);
        let mut has_commas = false;
        if let [',', behind @ ..] = rest {
            (has_commas, rest) = (true, behind);
        }
        let mut precision = None;
        if let ['.', behind @ ..] = rest {
            rest = behind;
            precision = Some(number(&mut rest)??);
        }
        let kind = match rest {
            [] => None,
            [kind @ ('d' | 'f' | 's')] => Some(*kind),
            _ => return None,
        };
        // Zeros between commas, and what is written `0,`, are rules of their own.
        if zeros && has_commas {
            return None;
        }
        Some(Self {
            conversion,
            is_plain: spec.is_empty(),
            fill,
            align,
            sign,
            zeros,
            width,
            has_commas,
            precision,
            kind,
        })
    }

    pub(crate) fn text<'a>(&self, value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
        let value = match self.conversion {
            Conversion::None => value,
            Conversion::Str => repr::str(value, arena)?,
            Conversion::Repr => repr::repr(value, arena)?,
            Conversion::Ascii => repr::ascii(value, arena)?,
        };
        if self.is_plain {
            return repr::str(value, arena);
        }
        let mut out = String::new_in(arena);
        match value {
            Value::Text(text) => self.push_text(&mut out, utf8(text)?)?,
            Value::Int(_) | Value::Bool(_) if self.kind != Some('f') => {
                if self.precision.is_some() || self.kind == Some('s') {
                    return Err(Unusual::Types);
                }
                let number = value.integer()?;
                let mut digits = String::new_in(arena);
                let _ = write!(digits, "{}", number.unsigned_abs());
                self.push_number(&mut out, number < 0, &digits);
            }
            Value::Int(_) | Value::Bool(_) => {
                self.push_float(&mut out, value.integer()? as f64, arena);
            }
            Value::Float(number) => match (self.kind, self.precision) {
                (Some('f'), _) => self.push_float(&mut out, number, arena),
                (None, None) if number.is_finite() => {
                    let mut digits = String::new_in(arena);
                    float::repr(&mut digits, number.abs());
                    if self.has_commas && digits.contains('e') {
                        return Err(Unusual::Types);
                    }
                    self.push_number(&mut out, number.is_sign_negative(), &digits);
                }
                _ => return Err(Unusual::Types),
            },
            _ => return Err(value.not_taken()),
        }
        Ok(Value::Text(out.into_bump_str().as_bytes()))
    }

    fn push_float(&self, out: &mut String<'_>, number: f64, arena: &Bump) {
        let mut digits = String::new_in(arena);
        if number.is_finite() {
            let precision = self.precision.unwrap_or(6);
            let _ = write!(digits, "{:.precision$}", number.abs());
        } else {
            float::push_not_finite(&mut digits, number.abs());
        }
        let is_negative = number.is_sign_negative() && !number.is_nan();
        self.push_number(out, is_negative, &digits);
    }

    fn push_text(&self, out: &mut String<'_>, text: &str) -> Result<(), Unusual> {
        let is_number = self.zeros || self.has_commas || self.sign != '-';
        if is_number || self.align == Some('=') || !matches!(self.kind, None | Some('s')) {
            return Err(Unusual::Types);
        }
        let text = match self.precision {
            Some(most) => match text.char_indices().nth(most) {
                Some((end, _)) => &text[..end],
                None => text,
            },
            None => text,
        };
        self.push_aligned(out, "", text, self.align.unwrap_or('<'));
        Ok(())
    }

    /// Digits, perhaps with a point among them.
    fn push_number(&self, out: &mut String<'_>, is_negative: bool, digits: &str) {
        let sign = match (is_negative, self.sign) {
            (true, _) => "-",
            (_, '+') => "+",
            (_, ' ') => " ",
            _ => "",
        };
        let mut grouped = String::new_in(out.bump());
        let digits = if self.has_commas && digits.starts_with(|digit: char| digit.is_ascii_digit())
        {
            let whole = digits.find('.').unwrap_or(digits.len());
            for (index, digit) in digits[..whole].char_indices() {
                if index > 0 && (whole - index).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped.push_str(&digits[whole..]);
            &grouped
        } else {
            digits
        };
        let align = if self.zeros { '=' } else { '>' };
        self.push_aligned(out, sign, digits, self.align.unwrap_or(align));
    }

    fn push_aligned(&self, out: &mut String<'_>, sign: &str, text: &str, align: char) {
        let room = self.width.saturating_sub(sign.len() + characters(text));
        let fill = if self.zeros { '0' } else { self.fill };
        let before = match align {
            '<' => 0,
            '^' => room / 2,
            _ => room,
        };
        let push_fill = |out: &mut String<'_>, count| (0..count).for_each(|_| out.push(fill));
        if align == '=' {
            out.push_str(sign);
            push_fill(out, before);
        } else {
            push_fill(out, before);
            out.push_str(sign);
        }
        out.push_str(text);
        push_fill(out, room - before);
    }
}

/// Digits in front: None within where there are none, and None where there are too many.
#[expect(clippy::option_option, reason = "there are three answers")]
fn number(rest: &mut &[char]) -> Option<Option<usize>> {
    let mut found = None;
    while let [digit @ '0'..='9', behind @ ..] = *rest {
        let next = found.unwrap_or(0) * 10 + digit.to_digit(10)? as usize;
        if next > MOST {
            return None;
        }
        (found, *rest) = (Some(next), behind);
    }
    Some(found)
}

/// Of width and precision.
const MOST: usize = 1000;

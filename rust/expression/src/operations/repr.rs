//! Values as texts: `str` and `repr`.

use crate::operations::float;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value, utf8};
use bumpalo::Bump;
use bumpalo::collections::String;
use std::fmt::Write;

/// `str(value)`
pub(crate) fn str<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    match value {
        Value::Text(_) => Ok(value),
        Value::Bytes(_) => Err(Unusual::Types), // Python may warn of it
        _ => repr(value, arena),
    }
}

/// `repr(value)`
pub(crate) fn repr<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut writer = Writer::new(false, arena);
    writer.push(value, 0)?;
    Ok(Value::Text(writer.out.into_bump_str().as_bytes()))
}

/// `ascii(value)`
pub(crate) fn ascii<'a>(value: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut writer = Writer::new(true, arena);
    writer.push(value, 0)?;
    Ok(Value::Text(writer.out.into_bump_str().as_bytes()))
}

struct Writer<'a> {
    out: String<'a>,
    /// Whether all beyond ASCII is escaped.
    escapes: bool,
    arena: &'a Bump,
}

impl<'a> Writer<'a> {
    fn new(escapes: bool, arena: &'a Bump) -> Self {
        Self {
            out: String::new_in(arena),
            escapes,
            arena,
        }
    }

    fn push(&mut self, value: Value<'a>, depth: usize) -> Result<(), Unusual> {
        match value {
            Value::None => self.out.push_str("None"),
            Value::Bool(true) => self.out.push_str("True"),
            Value::Bool(false) => self.out.push_str("False"),
            Value::Int(number) => {
                let _ = write!(self.out, "{number}");
            }
            Value::Float(number) => float::repr(&mut self.out, number),
            Value::Text(text) => self.push_text(utf8(text)?)?,
            Value::Bytes(_) | Value::Set(_) => return Err(Unusual::Types),
            _ => self.push_container(value, depth)?,
        }
        Ok(())
    }

    fn push_container(&mut self, value: Value<'a>, depth: usize) -> Result<(), Unusual> {
        if depth > MOST_DEPTH {
            return Err(Unusual::TooDeep);
        }
        match value.kind() {
            Kind::Tuple => {
                let items = value.walked(self.arena)?;
                let close = if items.len() == 1 { ",)" } else { ")" };
                self.push_items('(', items, close, depth)
            }
            Kind::List => self.push_items('[', value.walked(self.arena)?, "]", depth),
            Kind::Dict => {
                self.out.push('{');
                for (index, (key, value)) in value.entries(self.arena)?.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.push(*key, depth + 1)?;
                    self.out.push_str(": ");
                    self.push(*value, depth + 1)?;
                }
                self.out.push('}');
                Ok(())
            }
            Kind::Other => Err(value.not_taken()),
        }
    }

    fn push_items(
        &mut self,
        open: char,
        items: &[Value<'a>],
        close: &str,
        depth: usize,
    ) -> Result<(), Unusual> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.push(*item, depth + 1)?;
        }
        self.out.push_str(close);
        Ok(())
    }

    fn push_text(&mut self, text: &str) -> Result<(), Unusual> {
        let quote = if text.contains('\'') && !text.contains('"') {
            '"'
        } else {
            '\''
        };
        let out = &mut self.out;
        out.push(quote);
        for character in text.chars() {
            let _ = match character {
                '\\' => write!(out, "\\\\"),
                '\t' => write!(out, "\\t"),
                '\n' => write!(out, "\\n"),
                '\r' => write!(out, "\\r"),
                ' '..='~' if character == quote => write!(out, "\\{quote}"),
                ' '..='~' => {
                    out.push(character);
                    Ok(())
                }
                // Beyond ASCII, what is printable is in a table.
                '\u{80}'.. if !self.escapes => return Err(Unusual::Unicode),
                '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(character)),
                '\u{100}'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(character)),
                _ => write!(out, "\\U{:08x}", u32::from(character)),
            };
        }
        out.push(quote);
        Ok(())
    }
}

const MOST_DEPTH: usize = 50;

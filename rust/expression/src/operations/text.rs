//! Methods of texts.
//!
//! What depends on the tables of Unicode is known of ASCII alone, as versions of Python have different ones; but
//! which characters are spaces is the same in all.

use crate::operations::arithmetic::MOST_ITEMS;
use crate::operations::containers::characters;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value, collected, utf8};
use bumpalo::Bump;
use bumpalo::collections::String;
use regex::bytes::Regex;

/// What `str.isspace` holds for a space.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, '\x1c'..='\x1f') || character.is_whitespace()
}

/// `pattern.findall(text)`, by a pattern of ASCII characters without groups, which never matches nothing.
pub(crate) fn matches<'a>(text: Value<'a>, pattern: &Regex, arena: &'a Bump) -> Computed<'a> {
    let text = text.text()?;
    utf8(text)?;
    let mut found = bumpalo::collections::Vec::new_in(arena);
    found.extend(
        pattern
            .find_iter(text)
            .map(|each| Value::Text(each.as_bytes())),
    );
    Ok(Value::List(found.into_bump_slice()))
}

/// The characters of a text for which the tables are not needed.
fn ascii(text: Value<'_>) -> Result<&str, Unusual> {
    let text = utf8(text.text()?)?;
    if text.is_ascii() {
        Ok(text)
    } else {
        Err(Unusual::Unicode)
    }
}

fn of_text(text: Value<'_>) -> Result<&str, Unusual> {
    utf8(text.text()?)
}

fn made(text: &str) -> Value<'_> {
    Value::Text(text.as_bytes())
}

/// A text of ASCII, each character changed.
pub(crate) fn mapped<'a>(
    text: Value<'a>,
    change: impl Fn(usize, u8, u8) -> u8,
    arena: &'a Bump,
) -> Computed<'a> {
    let text = ascii(text)?.as_bytes();
    let mut before = b' ';
    let changed = arena.alloc_slice_fill_with(text.len(), |index| {
        let now = text[index];
        let changed = change(index, now, before);
        before = now;
        changed
    });
    Ok(Value::Text(changed))
}

/// `text.strip()`; at the start, at the end, or both.
pub(crate) fn strip<'a>(text: Value<'a>, what: Value<'a>, [start, end]: [bool; 2]) -> Computed<'a> {
    let mut text = of_text(text)?;
    let chars = match what {
        Value::None => None,
        _ => Some(of_text(what)?),
    };
    let is_stripped = |character: char| match chars {
        Some(chars) => chars.contains(character),
        None => is_space(character),
    };
    if start {
        text = text.trim_start_matches(is_stripped);
    }
    if end {
        text = text.trim_end_matches(is_stripped);
    }
    Ok(made(text))
}

/// `text.split(separator, most)`
pub(crate) fn split<'a>(
    text: Value<'a>,
    separator: Value<'a>,
    most: Value<'a>,
    arena: &'a Bump,
) -> Computed<'a> {
    let text = of_text(text)?;
    let most = usize::try_from(most.integer()?).unwrap_or(usize::MAX);
    if let Value::None = separator {
        return Ok(Value::List(spaced(text, most, arena)));
    }
    let separator = of_text(separator)?;
    if separator.is_empty() {
        return Err(Unusual::Argument);
    }
    let parts = text.splitn(most.saturating_add(1), separator);
    Ok(Value::List(collected(arena, parts.map(made))))
}

/// The words of a text.
fn spaced<'a>(text: &'a str, most: usize, arena: &'a Bump) -> &'a [Value<'a>] {
    if most == usize::MAX {
        let words = text.split(is_space).filter(|word| !word.is_empty());
        return collected(arena, words.map(made));
    }
    let mut parts = bumpalo::collections::Vec::new_in(arena);
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            // What is left keeps its spaces.
            parts.push(made(rest));
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(made(&rest[..end]));
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts.into_bump_slice()
}

/// `text.rsplit(separator, most)`
pub(crate) fn rsplit<'a>(
    text: Value<'a>,
    separator: Value<'a>,
    most: Value<'a>,
    arena: &'a Bump,
) -> Computed<'a> {
    let text = of_text(text)?;
    let most = usize::try_from(most.integer()?).unwrap_or(usize::MAX);
    let mut parts = bumpalo::collections::Vec::new_in(arena);
    if let Value::None = separator {
        let mut rest = text.trim_end_matches(is_space);
        while !rest.is_empty() {
            if parts.len() == most {
                parts.push(made(rest));
                break;
            }
            let word = rest.trim_end_matches(|character| !is_space(character));
            parts.push(made(&rest[word.len()..]));
            rest = word.trim_end_matches(is_space);
        }
    } else {
        let separator = of_text(separator)?;
        if separator.is_empty() {
            return Err(Unusual::Argument);
        }
        parts.extend(text.rsplitn(most.saturating_add(1), separator).map(made));
    }
    parts.reverse();
    Ok(Value::List(parts.into_bump_slice()))
}

/// `text.splitlines()`
pub(crate) fn lines<'a>(text: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let mut rest = of_text(text)?;
    let mut lines = bumpalo::collections::Vec::new_in(arena);
    while !rest.is_empty() {
        let end = rest.find(ends_line).unwrap_or(rest.len());
        lines.push(made(&rest[..end]));
        let behind = &rest[end..];
        let behind_both = behind.strip_prefix("\r\n");
        rest = behind_both.unwrap_or_else(|| behind.strip_prefix(ends_line).unwrap_or(""));
    }
    Ok(Value::List(lines.into_bump_slice()))
}

fn ends_line(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// `text.partition(separator)`, or from the end.
pub(crate) fn partition<'a>(
    text: Value<'a>,
    separator: Value<'a>,
    from_end: bool,
    arena: &'a Bump,
) -> Computed<'a> {
    let (whole, separator) = (of_text(text)?, of_text(separator)?);
    if separator.is_empty() {
        return Err(Unusual::Argument);
    }
    let parts = if from_end {
        whole.rsplit_once(separator)
    } else {
        whole.split_once(separator)
    };
    Ok(Value::Tuple(arena.alloc(match parts {
        Some((before, behind)) => [made(before), made(separator), made(behind)],
        None if from_end => [made(""), made(""), text],
        None => [text, made(""), made("")],
    })))
}

/// `text.startswith(what)` or `text.endswith(what)`, of a text or a tuple of texts.
pub(crate) fn begins<'a>(
    text: Value<'a>,
    what: Value<'a>,
    at_end: bool,
    arena: &'a Bump,
) -> Result<bool, Unusual> {
    if what.kind() == Kind::Tuple {
        text.text()?;
        for what in what.walked(arena)? {
            if begins(text, Value::Text(what.text()?), at_end, arena)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let (text, what) = (text.text()?, what.text()?);
    Ok(if at_end {
        text.ends_with(what)
    } else {
        text.starts_with(what)
    })
}

/// `text.replace(old, new)`
pub(crate) fn replace<'a>([text, old, new]: [Value<'a>; 3], arena: &'a Bump) -> Computed<'a> {
    let (whole, old, new) = (of_text(text)?, of_text(old)?, of_text(new)?);
    if !whole.contains(old) {
        return Ok(text);
    }
    if whole
        .len()
        .saturating_add(1)
        .saturating_mul(new.len().max(1))
        > MOST_ITEMS
    {
        return Err(Unusual::TooLarge);
    }
    let mut out = String::with_capacity_in(whole.len(), arena);
    let mut end = 0;
    for (start, found) in whole.match_indices(old) {
        out.push_str(&whole[end..start]);
        out.push_str(new);
        end = start + found.len();
    }
    out.push_str(&whole[end..]);
    Ok(made(out.into_bump_str()))
}

/// `text.find(what)` or `text.rfind(what)`: a number of code points.
pub(crate) fn find<'a>(text: Value<'a>, what: Value<'a>, from_end: bool) -> Result<i64, Unusual> {
    let (text, what) = (of_text(text)?, of_text(what)?);
    let found = if from_end {
        text.rfind(what)
    } else {
        text.find(what)
    };
    Ok(found.map_or(-1, |start| characters(&text[..start]) as i64))
}

/// `text.count(what)`
pub(crate) fn count<'a>(text: Value<'a>, what: Value<'a>) -> Computed<'a> {
    let (text, what) = (of_text(text)?, of_text(what)?);
    Ok(Value::Int(if what.is_empty() {
        characters(text) as i64 + 1
    } else {
        text.matches(what).count() as i64
    }))
}

/// `text.join(items)`
pub(crate) fn join<'a>(text: Value<'a>, items: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let separator = text.text()?;
    let items = items.walked(arena)?;
    if let [only] = items {
        return only.text().map(Value::Text);
    }
    joined(separator, items, arena)
}

/// Texts one behind the other.
pub(crate) fn joined<'a>(separator: &[u8], items: &[Value<'a>], arena: &'a Bump) -> Computed<'a> {
    let mut length = separator.len() * items.len().saturating_sub(1);
    for item in items {
        length += item.text()?.len();
    }
    let mut out = bumpalo::collections::Vec::with_capacity_in(length, arena);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice_copy(separator);
        }
        out.extend_from_slice_copy(item.text()?);
    }
    Ok(Value::Text(out.into_bump_slice()))
}

/// `text.isdigit()` and its like: whether there are characters and all are of a kind.
pub(crate) fn all(text: Value<'_>, is_one: impl Fn(u8) -> bool) -> Computed<'_> {
    let text = ascii(text)?;
    let holds = !text.is_empty() && text.bytes().all(is_one);
    Ok(Value::Bool(holds))
}

/// `text.isspace()`
pub(crate) fn is_spaces(text: Value<'_>) -> Computed<'_> {
    let text = of_text(text)?;
    Ok(Value::Bool(!text.is_empty() && text.chars().all(is_space)))
}

/// `text.isupper()` or `text.islower()`: of the letters, of which there are some.
pub(crate) fn is_case(text: Value<'_>, upper: bool) -> Computed<'_> {
    let text = ascii(text)?;
    let has = |is_one: fn(&u8) -> bool| text.as_bytes().iter().any(is_one);
    let has = [has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase)];
    Ok(Value::Bool(has == [!upper, upper]))
}

/// `text.ljust(width, fill)`
pub(crate) fn to_left<'a>(given: [Value<'a>; 3], arena: &'a Bump) -> Computed<'a> {
    padded(given, |_, _| 0, arena)
}

/// `text.rjust(width, fill)`
pub(crate) fn to_right<'a>(given: [Value<'a>; 3], arena: &'a Bump) -> Computed<'a> {
    padded(given, |room, _| room, arena)
}

/// `text.center(width, fill)`
pub(crate) fn centered<'a>(given: [Value<'a>; 3], arena: &'a Bump) -> Computed<'a> {
    padded(given, |room, width| room / 2 + (room & width & 1), arena)
}

/// `before` says how much of the room, with which the text has so many characters, is in front.
fn padded<'a>(
    [text, width, fill]: [Value<'a>; 3],
    before: impl Fn(usize, usize) -> usize,
    arena: &'a Bump,
) -> Computed<'a> {
    let (whole, fill) = (of_text(text)?, of_text(fill)?);
    if characters(fill) != 1 {
        return Err(Unusual::Argument);
    }
    let room = room(whole, width)?;
    if room == 0 {
        return Ok(text);
    }
    let before = before(room, room + characters(whole));
    let mut out = String::with_capacity_in(whole.len() + room * fill.len(), arena);
    (0..before).for_each(|_| out.push_str(fill));
    out.push_str(whole);
    (before..room).for_each(|_| out.push_str(fill));
    Ok(made(out.into_bump_str()))
}

/// `text.zfill(width)`
pub(crate) fn zeros<'a>(text: Value<'a>, width: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let whole = of_text(text)?;
    let room = room(whole, width)?;
    if room == 0 {
        return Ok(text);
    }
    let (sign, digits) = match whole.strip_prefix(['+', '-']) {
        Some(digits) => whole.split_at(whole.len() - digits.len()),
        None => ("", whole),
    };
    let mut out = String::with_capacity_in(whole.len() + room, arena);
    out.push_str(sign);
    (0..room).for_each(|_| out.push('0'));
    out.push_str(digits);
    Ok(made(out.into_bump_str()))
}

/// How many characters are missing to a width.
fn room(text: &str, width: Value<'_>) -> Result<usize, Unusual> {
    let width = usize::try_from(width.integer()?).unwrap_or(0);
    if width > MOST_ITEMS {
        return Err(Unusual::TooLarge);
    }
    Ok(width.saturating_sub(characters(text)))
}

/// `text.removeprefix(what)` or `text.removesuffix(what)`
pub(crate) fn removed<'a>(text: Value<'a>, what: Value<'a>, at_end: bool) -> Computed<'a> {
    let (text, what) = (of_text(text)?, of_text(what)?);
    let rest = if at_end {
        text.strip_suffix(what)
    } else {
        text.strip_prefix(what)
    };
    Ok(made(rest.unwrap_or(text)))
}

/// `ord(text)`
pub(crate) fn ord(text: Value<'_>) -> Computed<'_> {
    let mut characters = of_text(text)?.chars();
    match (characters.next(), characters.next()) {
        (Some(only), None) => Ok(Value::Int(i64::from(u32::from(only)))),
        _ => Err(Unusual::Argument),
    }
}

/// `chr(number)`
pub(crate) fn chr<'a>(number: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    let number = u32::try_from(number.integer()?).map_err(|_| Unusual::Argument)?;
    let character = char::from_u32(number).ok_or(Unusual::Argument)?;
    Ok(made(arena.alloc_str(character.encode_utf8(&mut [0; 4]))))
}

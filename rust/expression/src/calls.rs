//! The builtins and methods that are known, by their names.

use crate::operations::compare::Comparison;
use crate::operations::{containers, numbers, repr, sequences, text};
use crate::value::{Computed, Kind, Value, utf8};
use bumpalo::Bump;

/// What a call computes of its arguments; of a method, the first is what has it.
pub(crate) type Call = for<'a> fn(&[Value<'a>], &'a Bump) -> Computed<'a>;

/// The builtin with this name, of so many arguments.
pub(crate) fn builtin(name: &str, arguments: usize) -> Option<Call> {
    Some(match (name, arguments) {
        ("len", 1) => |a, _| sequences::len(a[0]),
        ("str", 1) => |a, arena| repr::str(a[0], arena),
        ("repr", 1) => |a, arena| repr::repr(a[0], arena),
        ("int", 1) => |a, _| numbers::int(a[0]),
        ("float", 1) => |a, _| numbers::float(a[0]),
        ("abs", 1) => |a, _| numbers::abs(a[0]),
        ("round", 1) => |a, _| numbers::round(a[0]),
        ("round", 2) => |a, arena| numbers::round_to(a[0], a[1], arena),
        ("min", 1) => |a, arena| numbers::extreme(Comparison::Less, a[0].walked(arena)?, arena),
        ("max", 1) => |a, arena| numbers::extreme(Comparison::Greater, a[0].walked(arena)?, arena),
        ("min", 2..) => |a, arena| numbers::extreme(Comparison::Less, a, arena),
        ("max", 2..) => |a, arena| numbers::extreme(Comparison::Greater, a, arena),
        ("sum", 1) => |a, arena| numbers::sum(a[0], arena),
        ("any", 1) => |a, arena| sequences::has(a[0], true, arena).map(Value::Bool),
        ("all", 1) => {
            |a, arena| sequences::has(a[0], false, arena).map(|has_false| Value::Bool(!has_false))
        }
        ("sorted", 1) => |a, arena| sequences::sorted(a[0], arena),
        ("list", 1) => |a, arena| sequences::list(a[0], arena),
        ("tuple", 1) => |a, arena| sequences::tuple(a[0], arena),
        ("dict", 1) => |a, arena| containers::dict_of_pairs(a[0], arena),
        ("enumerate", 1) => |a, arena| sequences::numbered(a[0], Value::Int(0), arena),
        ("enumerate", 2) => |a, arena| sequences::numbered(a[0], a[1], arena),
        ("range", 1) => |a, arena| sequences::range(Value::Int(0), a[0], Value::Int(1), arena),
        ("range", 2) => |a, arena| sequences::range(a[0], a[1], Value::Int(1), arena),
        ("range", 3) => |a, arena| sequences::range(a[0], a[1], a[2], arena),
        ("reversed", 1) => |a, arena| sequences::reversed(a[0], arena),
        ("zip", 2..) => |a, arena| sequences::zipped(a, arena),
        ("ascii", 1) => |a, arena| repr::ascii(a[0], arena),
        ("ord", 1) => |a, _| text::ord(a[0]),
        ("chr", 1) => |a, arena| text::chr(a[0], arena),
        _ => return None,
    })
}

/// The method with this name, of so many arguments, with what has it.
pub(crate) fn method(name: &str, arguments: usize) -> Option<Call> {
    Some(match (name, arguments) {
        ("lower", 1) => |a, arena| text::mapped(a[0], |_, now, _| now.to_ascii_lowercase(), arena),
        ("upper", 1) => |a, arena| text::mapped(a[0], |_, now, _| now.to_ascii_uppercase(), arena),
        ("casefold", 1) => {
            |a, arena| text::mapped(a[0], |_, now, _| now.to_ascii_lowercase(), arena)
        }
        ("swapcase", 1) => |a, arena| text::mapped(a[0], swapped, arena),
        ("capitalize", 1) => |a, arena| text::mapped(a[0], capitalized, arena),
        ("title", 1) => |a, arena| text::mapped(a[0], titled, arena),
        ("strip", 1) => |a, _| text::strip(a[0], Value::None, [true, true]),
        ("strip", 2) => |a, _| text::strip(a[0], a[1], [true, true]),
        ("lstrip", 1) => |a, _| text::strip(a[0], Value::None, [true, false]),
        ("lstrip", 2) => |a, _| text::strip(a[0], a[1], [true, false]),
        ("rstrip", 1) => |a, _| text::strip(a[0], Value::None, [false, true]),
        ("rstrip", 2) => |a, _| text::strip(a[0], a[1], [false, true]),
        ("split", 1) => |a, arena| text::split(a[0], Value::None, Value::Int(-1), arena),
        ("split", 2) => |a, arena| text::split(a[0], a[1], Value::Int(-1), arena),
        ("split", 3) => |a, arena| text::split(a[0], a[1], a[2], arena),
        ("splitlines", 1) => |a, arena| text::lines(a[0], arena),
        ("rsplit", 1) => |a, arena| text::split(a[0], Value::None, Value::Int(-1), arena),
        ("rsplit", 2) => |a, arena| text::rsplit(a[0], a[1], Value::Int(-1), arena),
        ("rsplit", 3) => |a, arena| text::rsplit(a[0], a[1], a[2], arena),
        ("partition", 2) => |a, arena| text::partition(a[0], a[1], false, arena),
        ("rpartition", 2) => |a, arena| text::partition(a[0], a[1], true, arena),
        ("startswith", 2) => |a, arena| text::begins(a[0], a[1], false, arena).map(Value::Bool),
        ("endswith", 2) => |a, arena| text::begins(a[0], a[1], true, arena).map(Value::Bool),
        ("replace", 3) => |a, arena| text::replace([a[0], a[1], a[2]], arena),
        ("find", 2) => |a, _| text::find(a[0], a[1], false).map(Value::Int),
        ("rfind", 2) => |a, _| text::find(a[0], a[1], true).map(Value::Int),
        ("count", 2) => |a, arena| match a[0] {
            Value::Text(_) => text::count(a[0], a[1]),
            _ if is_sequence(a[0]) => sequences::count(a[0], a[1], arena),
            _ => Err(a[0].not_taken()),
        },
        ("join", 2) => |a, arena| text::join(a[0], a[1], arena),
        ("isdigit" | "isdecimal" | "isnumeric", 1) => {
            |a, _| text::all(a[0], |byte| byte.is_ascii_digit())
        }
        ("isalpha", 1) => |a, _| text::all(a[0], |byte| byte.is_ascii_alphabetic()),
        ("isalnum", 1) => |a, _| text::all(a[0], |byte| byte.is_ascii_alphanumeric()),
        ("isspace", 1) => |a, _| text::is_spaces(a[0]),
        ("isascii", 1) => |a, _| Ok(Value::Bool(utf8(a[0].text()?)?.is_ascii())),
        ("isupper", 1) => |a, _| text::is_case(a[0], true),
        ("islower", 1) => |a, _| text::is_case(a[0], false),
        ("ljust", 2) => |a, arena| text::to_left([a[0], a[1], Value::Text(b" ")], arena),
        ("ljust", 3) => |a, arena| text::to_left([a[0], a[1], a[2]], arena),
        ("rjust", 2) => |a, arena| text::to_right([a[0], a[1], Value::Text(b" ")], arena),
        ("rjust", 3) => |a, arena| text::to_right([a[0], a[1], a[2]], arena),
        ("center", 2) => |a, arena| text::centered([a[0], a[1], Value::Text(b" ")], arena),
        ("center", 3) => |a, arena| text::centered([a[0], a[1], a[2]], arena),
        ("zfill", 2) => |a, arena| text::zeros(a[0], a[1], arena),
        ("removeprefix", 2) => |a, _| text::removed(a[0], a[1], false),
        ("removesuffix", 2) => |a, _| text::removed(a[0], a[1], true),
        ("encode", 1) => |a, _| Ok(Value::Bytes(utf8(a[0].text()?)?.as_bytes())),
        ("decode", 1) => |a, _| match a[0] {
            Value::Bytes(bytes) => Ok(Value::Text(utf8(bytes)?.as_bytes())),
            _ => Err(a[0].not_taken()),
        },
        ("get", 2) => |a, arena| got(a[0], a[1], Value::None, arena),
        ("get", 3) => |a, arena| got(a[0], a[1], a[2], arena),
        ("keys", 1) => |a, arena| sequences::keys(a[0], arena),
        ("values", 1) => |a, arena| sequences::values(a[0], arena),
        ("items", 1) => |a, arena| sequences::items(a[0], arena),
        _ => return None,
    })
}

fn is_sequence(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Tuple | Kind::List)
}

fn got<'a>(dict: Value<'a>, key: Value<'a>, default: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    Ok(containers::get(dict, key, arena)?.unwrap_or(default))
}

fn swapped(_: usize, now: u8, _: u8) -> u8 {
    if now.is_ascii_uppercase() {
        now.to_ascii_lowercase()
    } else {
        now.to_ascii_uppercase()
    }
}

fn capitalized(index: usize, now: u8, _: u8) -> u8 {
    if index == 0 {
        now.to_ascii_uppercase()
    } else {
        now.to_ascii_lowercase()
    }
}

fn titled(_: usize, now: u8, before: u8) -> u8 {
    if before.is_ascii_alphabetic() {
        now.to_ascii_lowercase()
    } else {
        now.to_ascii_uppercase()
    }
}

//! Operators of one and of two values.

use crate::operations::containers::merged;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value};
use bumpalo::Bump;

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// What Python has for `left + right` and its like.
#[inline]
pub(crate) fn binary<'a>(
    operator: Operator,
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Computed<'a> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => integers(operator, left, right),
        (Value::Float(left), Value::Float(right)) => floats(operator, left, right),
        _ => mixed(operator, left, right, arena),
    }
}

/// `-value`
pub(crate) fn negative(value: Value<'_>) -> Computed<'_> {
    if let Value::Float(number) = value {
        return Ok(Value::Float(-number));
    }
    exact(value.integer()?.checked_neg())
}

/// `+value`
pub(crate) fn positive(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Float(_) => Ok(value),
        _ => value.integer().map(Value::Int),
    }
}

/// `~value`, which Python calls deprecated for a bool.
pub(crate) fn invert(value: Value<'_>) -> Computed<'_> {
    match value {
        Value::Int(number) => Ok(Value::Int(!number)),
        _ => Err(value.not_taken()),
    }
}

#[inline]
fn integers<'a>(operator: Operator, left: i64, right: i64) -> Computed<'a> {
    match operator {
        Operator::Add => exact(left.checked_add(right)),
        Operator::Subtract => exact(left.checked_sub(right)),
        Operator::Multiply => exact(left.checked_mul(right)),
        _ => other_integers(operator, left, right),
    }
}

#[inline(never)]
fn other_integers<'a>(operator: Operator, left: i64, right: i64) -> Computed<'a> {
    match operator {
        Operator::Divide | Operator::FloorDivide | Operator::Modulo if right == 0 => {
            Err(Unusual::ZeroDivision)
        }
        Operator::Divide if is_whole_float(left) && is_whole_float(right) => {
            Ok(Value::Float(left as f64 / right as f64))
        }
        Operator::Divide => Err(Unusual::Inexact),
        Operator::FloorDivide => {
            let quotient = left.checked_div(right);
            let is_lower = left.wrapping_rem(right) != 0 && (left < 0) != (right < 0);
            exact(quotient.map(|quotient| quotient - i64::from(is_lower)))
        }
        Operator::Modulo => {
            let rest = left.wrapping_rem(right);
            let is_other_sign = rest != 0 && (rest < 0) != (right < 0);
            Ok(Value::Int(if is_other_sign { rest + right } else { rest }))
        }
        Operator::Power if right < 0 => power(left as f64, right as f64),
        Operator::Power => exact(match left {
            0 | 1 => Some(if right == 0 { 1 } else { left }),
            -1 => Some(if right % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(right)
                .ok()
                .and_then(|right| left.checked_pow(right)),
        }),
        Operator::And => Ok(Value::Int(left & right)),
        Operator::Or => Ok(Value::Int(left | right)),
        Operator::Xor => Ok(Value::Int(left ^ right)),
        Operator::ShiftLeft | Operator::ShiftRight if right < 0 => Err(Unusual::Argument),
        Operator::ShiftLeft if left == 0 => Ok(Value::Int(0)),
        Operator::ShiftLeft => exact((right < 63).then(|| left.checked_mul(1 << right)).flatten()),
        Operator::ShiftRight => Ok(Value::Int(left >> right.min(63))),
        Operator::Add | Operator::Subtract | Operator::Multiply => {
            unreachable!("they are done before")
        }
    }
}

fn floats<'a>(operator: Operator, left: f64, right: f64) -> Computed<'a> {
    Ok(Value::Float(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::FloorDivide | Operator::Modulo if right == 0.0 => {
            return Err(Unusual::ZeroDivision);
        }
        Operator::Divide => left / right,
        Operator::FloorDivide => floor_divided(left, right),
        Operator::Modulo => modulo(left, right),
        Operator::Power => return power(left, right),
        _ => return Err(Unusual::Types),
    }))
}

/// As `float_rem` of `CPython` has it.
fn modulo(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest == 0.0 {
        0.0_f64.copysign(right)
    } else if (right < 0.0) == (rest < 0.0) {
        rest
    } else {
        rest + right
    }
}

/// As `_float_div_mod` of `CPython` has it.
fn floor_divided(left: f64, right: f64) -> f64 {
    let rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest != 0.0 && (right < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0_f64.copysign(left / right);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 {
        floor + 1.0
    } else {
        floor
    }
}

/// As `float_pow` of `CPython` has it, of what is finite.
fn power<'a>(left: f64, right: f64) -> Computed<'a> {
    if !left.is_finite() || !right.is_finite() {
        return Err(Unusual::NotFinite);
    }
    if left == 0.0 && right < 0.0 {
        return Err(Unusual::ZeroDivision);
    }
    let mut is_negative = false;
    if left < 0.0 {
        if right != right.floor() {
            return Err(Unusual::Types); // the result is complex
        }
        is_negative = right.abs() % 2.0 == 1.0;
    }
    let raised = if left.abs() == 1.0 && left < 0.0 {
        1.0
    } else if left < 0.0 {
        (-left).powf(right)
    } else {
        left.powf(right)
    };
    if raised.is_infinite() {
        return Err(Unusual::NotFinite);
    }
    Ok(Value::Float(if is_negative { -raised } else { raised }))
}

#[inline(never)]
fn mixed<'a>(
    operator: Operator,
    left: Value<'a>,
    right: Value<'a>,
    arena: &'a Bump,
) -> Computed<'a> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::And => Ok(Value::Bool(left & right)),
            Operator::Or => Ok(Value::Bool(left | right)),
            Operator::Xor => Ok(Value::Bool(left ^ right)),
            _ => integers(operator, i64::from(left), i64::from(right)),
        },
        (Value::Bool(left), Value::Int(right)) => integers(operator, i64::from(left), right),
        (Value::Int(left), Value::Bool(right)) => integers(operator, left, i64::from(right)),
        (Value::Int(_) | Value::Bool(_), Value::Float(right)) => {
            floats(operator, left.integer()? as f64, right)
        }
        (Value::Float(left), Value::Int(_) | Value::Bool(_)) => {
            floats(operator, left, right.integer()? as f64)
        }
        _ if operator == Operator::Or && left.kind() == Kind::Dict => merged(left, right, arena),
        _ if operator == Operator::Add => joined(left, right, arena),
        (_, Value::Int(_) | Value::Bool(_)) if operator == Operator::Multiply => {
            repeated(left, right.integer()?, arena)
        }
        (Value::Int(_) | Value::Bool(_), _) if operator == Operator::Multiply => {
            repeated(right, left.integer()?, arena)
        }
        _ if left.is_opaque() || right.is_opaque() => Err(Unusual::Opaque),
        _ => Err(Unusual::Types),
    }
}

fn joined<'a>(left: Value<'a>, right: Value<'a>, arena: &'a Bump) -> Computed<'a> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(Value::Text(chained(left, right, arena))),
        (Value::Bytes(left), Value::Bytes(right)) => Ok(Value::Bytes(chained(left, right, arena))),
        _ if left.is_opaque() || right.is_opaque() => Err(Unusual::Opaque),
        _ => {
            let kind = left.kind();
            if kind != right.kind() {
                return Err(Unusual::Types);
            }
            match kind {
                Kind::Tuple => Ok(Value::Tuple(chained(
                    left.walked(arena)?,
                    right.walked(arena)?,
                    arena,
                ))),
                Kind::List => Ok(Value::List(chained(
                    left.walked(arena)?,
                    right.walked(arena)?,
                    arena,
                ))),
                _ => Err(Unusual::Types),
            }
        }
    }
}

fn repeated<'a>(value: Value<'a>, times: i64, arena: &'a Bump) -> Computed<'a> {
    match value {
        Value::Text(text) => Ok(Value::Text(multiplied(text, times, arena)?)),
        Value::Bytes(bytes) => Ok(Value::Bytes(multiplied(bytes, times, arena)?)),
        _ if value.kind() == Kind::Tuple => {
            let items = multiplied(value.walked(arena)?, times, arena)?;
            Ok(Value::Tuple(items))
        }
        _ if value.kind() == Kind::List => {
            Ok(Value::List(multiplied(value.walked(arena)?, times, arena)?))
        }
        _ => Err(value.not_taken()),
    }
}

/// One behind the other.
pub(crate) fn chained<'a, T: Copy>(left: &'a [T], right: &'a [T], arena: &'a Bump) -> &'a [T] {
    if right.is_empty() {
        return left;
    }
    let mut all = bumpalo::collections::Vec::with_capacity_in(left.len() + right.len(), arena);
    all.extend_from_slice_copy(left);
    all.extend_from_slice_copy(right);
    all.into_bump_slice()
}

fn multiplied<'a, T: Copy>(
    items: &'a [T],
    times: i64,
    arena: &'a Bump,
) -> Result<&'a [T], Unusual> {
    let times = usize::try_from(times).unwrap_or(0);
    let count = items.len().checked_mul(times).ok_or(Unusual::TooLarge)?;
    if count > MOST_ITEMS {
        return Err(Unusual::TooLarge);
    }
    let mut all = bumpalo::collections::Vec::with_capacity_in(count, arena);
    for _ in 0..times.min(count) {
        all.extend_from_slice_copy(items);
    }
    Ok(all.into_bump_slice())
}

#[inline]
fn exact<'a>(number: Option<i64>) -> Computed<'a> {
    number.map(Value::Int).ok_or(Unusual::BigInteger)
}

/// Whether it is surely the same as a float.
fn is_whole_float(number: i64) -> bool {
    number.unsigned_abs() <= 1 << 53
}

/// What is repeated to more is left to Python.
pub(crate) const MOST_ITEMS: usize = 1 << 20;

//! The interpreter of instructions.

use crate::arithmetic::{binary, invert, negative, positive};
use crate::build::{Code, Function, Next, Operation, Register};
use crate::compare::compare;
use crate::containers::{
    at, attribute, contains, dict, extended, is, is_instance, item, merged, slice, unpacked,
};
use crate::emit::append;
use crate::text::joined;
use crate::unusual::Unusual;
use crate::value::{Computed, Value};
use bumpalo::Bump;

/// The registers of a function, with its constants.
pub(crate) fn registers<'a>(function: &'a Function, arena: &'a Bump) -> Box<[Value<'a>]> {
    let constants = function.constants.iter();
    let constants = constants.map(|constant| constant.value(arena));
    let others = std::iter::repeat(Value::None);
    constants.chain(others).take(function.registers).collect()
}

/// What the function gives for these arguments.
#[inline]
pub(crate) fn call<'a>(
    function: &'a Function,
    registers: &mut [Value<'a>],
    arguments: &[Value<'a>],
    arena: &'a Bump,
) -> Computed<'a> {
    registers[function.constants.len()..][..arguments.len()].copy_from_slice(arguments);
    match run(&function.code, registers, arena)? {
        Next::Return(register) => Ok(registers[*register]),
        // Only the body of `each` may skip.
        _ => Err(Unusual::NotSent),
    }
}

/// As [`call`], of a function that ends in pieces, which are appended.
#[inline]
pub(crate) fn emit<'a>(
    out: &mut Vec<u8>,
    function: &'a Function,
    registers: &mut [Value<'a>],
    argument: Value<'a>,
    arena: &'a Bump,
) -> Result<(), Unusual> {
    registers[function.constants.len()] = argument;
    match run(&function.code, registers, arena)? {
        Next::Emit(pieces) => append(out, pieces, registers),
        _ => Err(Unusual::NotSent),
    }
}

/// How the path ends.
#[inline]
fn run<'a>(
    mut code: &'a Code,
    registers: &mut [Value<'a>],
    arena: &'a Bump,
) -> Result<&'a Next, Unusual> {
    loop {
        for (into, operation) in &code.instructions {
            registers[*into] = compute(operation, registers, arena)?;
        }
        match &code.end {
            Next::Return(_) | Next::Emit(_) | Next::Skip => return Ok(&code.end),
            Next::Branch(condition, ways) => {
                let [then, otherwise] = &**ways;
                code = if registers[*condition].truth()? {
                    then
                } else {
                    otherwise
                };
            }
        }
    }
}

#[inline]
fn compute<'a>(
    operation: &'a Operation,
    registers: &mut [Value<'a>],
    arena: &'a Bump,
) -> Computed<'a> {
    let value = |register: &Register| registers[*register];
    match operation {
        Operation::Field(record, name, as_bytes) => {
            let found = name.find(value(record), *as_bytes, arena)?;
            found.ok_or(Unusual::NoKey)
        }
        Operation::At(sequence, index) => at(value(sequence), *index, arena),
        Operation::Tuple(items) => Ok(Value::Tuple(gathered(items, registers, arena))),
        Operation::Named(pairs) => {
            let pairs = pairs.iter().map(|(key, item)| (value(key), value(item)));
            Ok(Value::Dict(arena.alloc_slice_fill_iter(pairs)))
        }
        Operation::Binary(operator, left, right) => {
            binary(*operator, value(left), value(right), arena)
        }
        Operation::Compare(comparison, left, right) => {
            compare(*comparison, value(left), value(right), arena).map(Value::Bool)
        }
        Operation::Call(call, arguments) => match **arguments {
            [only] => call(&[registers[only]], arena),
            [first, second] => call(&[registers[first], registers[second]], arena),
            _ => call(gathered(arguments, registers, arena), arena),
        },
        Operation::Get(record, name, default) => {
            let default = default.map_or(Value::None, |default| registers[default]);
            Ok(name.find(value(record), false, arena)?.unwrap_or(default))
        }
        Operation::Item(container, key) => item(value(container), value(key), arena),
        Operation::Attribute(object, path) => attribute(value(object), path, arena),
        Operation::Slice(sequence, [start, stop, step]) => {
            let bounds = [value(start), value(stop), value(step)];
            slice(value(sequence), bounds, arena)
        }
        Operation::List(items) => Ok(Value::List(gathered(items, registers, arena))),
        Operation::Dict(pairs) => {
            let pairs = pairs.iter().map(|(key, item)| (value(key), value(item)));
            dict(pairs, arena)
        }
        Operation::Merge(first, second) => merged(value(first), value(second), arena),
        Operation::Extend(first, second) => extended(value(first), value(second), arena),
        Operation::Negative(number) => negative(value(number)),
        Operation::Positive(number) => positive(value(number)),
        Operation::Invert(number) => invert(value(number)),
        Operation::Not(operand) => value(operand).truth().map(|truth| Value::Bool(!truth)),
        Operation::Truth(operand) => value(operand).truth().map(Value::Bool),
        Operation::Is(left, right) => is(value(left), value(right), arena).map(Value::Bool),
        Operation::In(item, container) => {
            contains(value(item), value(container), arena).map(Value::Bool)
        }
        Operation::Format(format, operand) => format.text(value(operand), arena),
        Operation::JoinText(parts) => joined(b"", gathered(parts, registers, arena), arena),
        Operation::Instance(operand, classes) => {
            is_instance(value(operand), classes).map(Value::Bool)
        }
        Operation::Unpack(operand, count) => unpacked(value(operand), *count, arena),
        Operation::Each(container, item, body) => {
            let items = value(container).walked(arena)?;
            each(items, *item, body, registers, arena)
        }
    }
}

fn gathered<'a>(places: &[Register], registers: &[Value<'a>], arena: &'a Bump) -> &'a [Value<'a>] {
    arena.alloc_slice_fill_iter(places.iter().map(|place| registers[*place]))
}

#[inline(never)]
fn each<'a>(
    items: &[Value<'a>],
    place: Register,
    body: &'a Code,
    registers: &mut [Value<'a>],
    arena: &'a Bump,
) -> Computed<'a> {
    let mut made = bumpalo::collections::Vec::with_capacity_in(items.len(), arena);
    for item in items {
        registers[place] = *item;
        if let Next::Return(register) = run(body, registers, arena)? {
            made.push(registers[*register]);
        }
    }
    Ok(Value::List(made.into_bump_slice()))
}

//! The interpreter of instructions.

use crate::code::{Code, Next, Operation, Part, Register, Taken, Way};
use crate::emit::{Piece, append_block, append_encoded};
use crate::operations::arithmetic::{Operator, binary, invert, negative, positive};
use crate::operations::compare::{compare, holds};
use crate::operations::containers::{
    self, at, attribute, contains, dict, extended, is, is_instance, item, merged, unpacked,
};
use crate::operations::text::{joined, matches};
use crate::parts::Place;
use crate::tree::Constant;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value};
use crate::view;
use crate::write::write;
use bumpalo::Bump;
use oka_compute::encode;
use std::slice;

/// An argument as it came: its bytes, perhaps with others behind them, and where its parts are; nothing of what is not
/// encoded.
#[derive(Clone, Copy, Default)]
pub(crate) struct Input<'a, 'p> {
    pub(crate) bytes: &'a [u8],
    pub(crate) places: &'p [Place],
}

impl<'a> Input<'a, '_> {
    /// The bytes of a part that has a place.
    #[inline]
    pub(crate) fn part(&self, number: usize) -> Option<&'a [u8]> {
        self.places.get(number)?.of(self.bytes)
    }
}

/// What instructions work on.
pub(crate) struct Machine<'a> {
    pub(crate) registers: Box<[Value<'a>]>,
    pub(crate) arena: &'a Bump,
}

impl<'a> Machine<'a> {
    /// With so many registers, of which the first have constants.
    pub(crate) fn new(constants: &'a [Constant], registers: usize, arena: &'a Bump) -> Self {
        let constants = constants.iter().map(|constant| constant.value(arena));
        let others = std::iter::repeat(Value::None);
        Self {
            registers: constants.chain(others).take(registers).collect(),
            arena,
        }
    }

    /// How the path ends.
    #[expect(
        clippy::inline_always,
        reason = "most functions have few instructions, and a call costs as much as some"
    )]
    #[inline(always)]
    pub(crate) fn run(
        &mut self,
        mut code: &'a Code,
        inputs: &[Input<'a, '_>],
    ) -> Result<&'a Next, Unusual> {
        loop {
            for (into, operation) in &code.instructions {
                self.step(*into, operation, inputs)?;
            }
            match &code.end {
                Next::Branch(condition, ways) => {
                    let [then, otherwise] = &**ways;
                    code = if self.truth(*condition)? {
                        then
                    } else {
                        otherwise
                    };
                }
                end => return Ok(end),
            }
        }
    }

    /// Whether a value is true.
    #[inline]
    pub(crate) fn truth(&self, register: Register) -> Result<bool, Unusual> {
        match &self.registers[register] {
            Value::Bool(truth) => Ok(*truth),
            value => value.truth(),
        }
    }

    /// What most records need is done here, each straight into its register: a value that goes through memory as a whole
    /// waits there until it is written.
    #[inline]
    fn step(
        &mut self,
        into: Register,
        operation: &'a Operation,
        inputs: &[Input<'a, '_>],
    ) -> Result<(), Unusual> {
        match operation {
            Operation::Part(part, Taken::AsValue) => {
                let value = &mut self.registers[into];
                match inputs[part.argument].part(part.number) {
                    Some(&[0xa0..=0xbf, ref text @ ..]) => *value = Value::Text(text),
                    Some(&([number @ 0..=0x7f] | [0xcc, number])) => {
                        *value = Value::Int(number.into());
                    }
                    Some(&[0xcd, high, low]) => {
                        *value = Value::Int(u16::from_be_bytes([high, low]).into());
                    }
                    Some(&[0xce, ref number @ ..]) if let Ok(number) = number.try_into() => {
                        *value = Value::Int(u32::from_be_bytes(number).into());
                    }
                    Some(&[0xcb, ref number @ ..]) if let Ok(number) = number.try_into() => {
                        *value = Value::Float(f64::from_be_bytes(number));
                    }
                    Some(&[0xcf, ref number @ ..])
                        if let Ok(number) = number.try_into().map(i64::from_be_bytes)
                            && number >= 0 =>
                    {
                        *value = Value::Int(number);
                    }
                    Some(_) => self.compute(into, operation, inputs)?,
                    None => self.take_another(into, part)?,
                }
                Ok(())
            }
            Operation::Part(part, Taken::AsBytes) => {
                match inputs[part.argument].part(part.number) {
                    Some(bytes) => self.registers[into] = Value::Opaque(bytes),
                    None => self.take_another(into, part)?,
                }
                Ok(())
            }
            Operation::Binary(operator, left, right) => {
                match (&self.registers[*left], &self.registers[*right], operator) {
                    (Value::Int(left), Value::Int(right), Operator::Add) => {
                        let sum = left.checked_add(*right).ok_or(Unusual::BigInteger)?;
                        self.registers[into] = Value::Int(sum);
                    }
                    (Value::Float(left), Value::Float(right), Operator::Multiply) => {
                        self.registers[into] = Value::Float(left * right);
                    }
                    _ => self.compute(into, operation, inputs)?,
                }
                Ok(())
            }
            Operation::Compare(comparison, left, right) => {
                match (&self.registers[*left], &self.registers[*right]) {
                    (Value::Int(left), Value::Int(right)) => {
                        let truth = holds(*comparison, left.partial_cmp(right));
                        self.registers[into] = Value::Bool(truth);
                    }
                    (Value::Float(left), Value::Float(right)) => {
                        let truth = holds(*comparison, left.partial_cmp(right));
                        self.registers[into] = Value::Bool(truth);
                    }
                    _ => self.compute(into, operation, inputs)?,
                }
                Ok(())
            }
            _ => self.compute(into, operation, inputs),
        }
    }

    /// Appends a result.
    #[inline]
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        pieces: &'a [Piece],
        inputs: &[Input<'a, '_>],
    ) -> Result<(), Unusual> {
        for piece in pieces {
            match piece {
                Piece::Bytes(block, length) => append_block(out, block, *length),
                Piece::Part(part, depth) => {
                    let input = &inputs[part.argument];
                    let place = input.places.get(part.number).copied().unwrap_or_default();
                    let length = place.length();
                    match input.bytes.get(place.start()..) {
                        Some(bytes) if length > 0 => append_encoded(out, bytes, length, *depth)?,
                        _ => match (&part.way, &self.registers[part.register]) {
                            (Way::Whole, Value::Text(text)) if text.len() < SHORT => {
                                encode::text(out, text);
                            }
                            _ => self.append_another(out, part, *depth)?,
                        },
                    }
                }
                Piece::Value(register, depth) => match self.registers[*register] {
                    Value::Float(number) => encode::float(out, number),
                    Value::Int(number) => encode::int(out, number),
                    Value::Opaque(bytes) => append_encoded(out, bytes, bytes.len(), *depth)?,
                    value => write(out, value, *depth)?,
                },
            }
        }
        Ok(())
    }

    /// Appends a part that has no place, of what is not encoded.
    #[inline(never)]
    fn append_another(
        &self,
        out: &mut Vec<u8>,
        part: &'a Part,
        depth: usize,
    ) -> Result<(), Unusual> {
        if let Way::Whole = part.way {
            return write(out, self.registers[part.register], depth);
        }
        let value = self.another_part(part)?;
        write(out, value.ok_or(Unusual::NoKey)?, depth)
    }

    fn part(
        &self,
        part: &'a Part,
        taken: Taken,
        inputs: &[Input<'a, '_>],
    ) -> Result<Option<Value<'a>>, Unusual> {
        match inputs[part.argument].part(part.number) {
            Some(bytes) => taken.value(bytes, self.arena).map(Some),
            None => self.another_part(part),
        }
    }

    /// What an operation takes of an argument.
    pub(crate) fn taken(&self, operation: &'a Operation, inputs: &[Input<'a, '_>]) -> Computed<'a> {
        let Operation::Part(part, taken) = operation else {
            return Err(Unusual::NotSent); // it computes something
        };
        let found = self.part(part, *taken, inputs)?;
        found.ok_or(Unusual::NoKey)
    }

    /// Takes a part that has no place.
    #[inline(never)]
    fn take_another(&mut self, into: Register, part: &'a Part) -> Result<(), Unusual> {
        if let (Way::Field(name), Value::Foreign(dict)) =
            (&part.way, &self.registers[part.register])
            && dict.kind() == Kind::Dict
        {
            let found = dict.field(name.number(), self.arena)?;
            self.registers[into] = found.ok_or(Unusual::NoKey)?;
            return Ok(());
        }
        self.registers[into] = self.another_part(part)?.ok_or(Unusual::NoKey)?;
        Ok(())
    }

    /// A part that has no place: the argument is not encoded, or there is no such part in a record that is like others.
    #[inline(never)]
    fn another_part(&self, part: &'a Part) -> Result<Option<Value<'a>>, Unusual> {
        let value = match self.registers[part.register] {
            Value::Opaque(bytes) => view::value(bytes, self.arena)?,
            value => value,
        };
        match &part.way {
            Way::Whole => Ok(Some(value)),
            Way::Field(name) => name.find(value, Taken::AsValue, self.arena),
            Way::Item(index) => at(value, *index, self.arena).map(Some),
        }
    }

    #[inline(never)]
    fn compute(
        &mut self,
        into: Register,
        operation: &'a Operation,
        inputs: &[Input<'a, '_>],
    ) -> Result<(), Unusual> {
        self.registers[into] = self.computed(operation, inputs)?;
        Ok(())
    }

    fn computed(&mut self, operation: &'a Operation, inputs: &[Input<'a, '_>]) -> Computed<'a> {
        let arena = self.arena;
        let registers = &*self.registers;
        let value = |register: &Register| registers[*register];
        match operation {
            Operation::Part(..) => self.taken(operation, inputs),
            Operation::Field(record, name, taken) => {
                let found = name.find(value(record), *taken, arena)?;
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
                [only] => call(slice::from_ref(&registers[only]), arena),
                [first, second] => call(&[registers[first], registers[second]], arena),
                _ => call(gathered(arguments, registers, arena), arena),
            },
            Operation::Get(record, name, default) => {
                let default = default.map_or(Value::None, |default| registers[default]);
                let found = name.find(value(record), Taken::AsValue, arena)?;
                Ok(found.unwrap_or(default))
            }
            Operation::GetPart(part, default) => {
                let default = default.map_or(Value::None, |default| registers[default]);
                Ok(self.part(part, Taken::AsValue, inputs)?.unwrap_or(default))
            }
            Operation::Item(container, key) => item(value(container), value(key), arena),
            Operation::Attribute(object, path) => attribute(value(object), path, arena),
            Operation::Slice(sequence, [start, stop, step]) => {
                let bounds = [value(start), value(stop), value(step)];
                containers::slice(value(sequence), bounds, arena)
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
            Operation::FindAll(operand, pattern) => matches(value(operand), pattern, arena),
            Operation::Instance(operand, classes) => {
                is_instance(value(operand), classes).map(Value::Bool)
            }
            Operation::Unpack(operand, count) => unpacked(value(operand), *count, arena),
            Operation::Each(container, item, body) => {
                let items = value(container).walked(arena)?;
                self.each(items, *item, body, inputs)
            }
        }
    }

    #[inline(never)]
    fn each(
        &mut self,
        items: &[Value<'a>],
        place: Register,
        body: &'a Code,
        inputs: &[Input<'a, '_>],
    ) -> Computed<'a> {
        let mut made = bumpalo::collections::Vec::with_capacity_in(items.len(), self.arena);
        for item in items {
            self.registers[place] = *item;
            if let Next::Return(register) = self.run(body, inputs)? {
                made.push(self.registers[*register]);
            }
        }
        Ok(Value::List(made.into_bump_slice()))
    }
}

/// A text that is not too long to be sent, whatever it is.
const SHORT: usize = 1 << 16;

fn gathered<'a>(places: &[Register], registers: &[Value<'a>], arena: &'a Bump) -> &'a [Value<'a>] {
    arena.alloc_slice_fill_iter(places.iter().map(|place| registers[*place]))
}

//! A function of one record, such as what gives its time, called wherever somebody needs the result.

use crate::build::{Builder, Unknown};
use crate::code::{Code, Next};
use crate::emit::emit;
use crate::parts::Parts;
use crate::run::{Input, Machine};
use crate::tree::{Constant, Expression};
use crate::unusual::Unusual;
use crate::value::Value;
use crate::view;
use bumpalo::Bump;

/// The function, and what it gave last.
#[derive(Debug)]
pub struct Single {
    code: Code,
    constants: Vec<Constant>,
    registers: usize,
    /// What is looked for in the record.
    parts: Parts,
    record: usize,
    /// Whether the record is there as a value beside its parts.
    needs_value: bool,
    arena: Bump,
    result: Vec<u8>,
}

impl Single {
    pub fn new(expression: &Expression) -> Result<Self, Unknown> {
        if expression.arguments != 1 {
            let count = expression.arguments;
            return Err(Unknown(format!("a function of {count} arguments")));
        }
        let mut builder = Builder::new([expression].into_iter(), 1);
        let record = builder.argument(0);
        let mut code = builder.function(expression, &[record])?;
        let needs_value = emit([&mut code].into_iter(), &builder)[0];
        Ok(Self {
            code,
            constants: builder.constants,
            registers: builder.displays.len(),
            parts: builder.parts.remove(0),
            record,
            needs_value,
            arena: Bump::new(),
            result: Vec::new(),
        })
    }

    /// What it gives for an encoded record, which stands in front of whatever follows: encoded, too.
    pub fn call(&mut self, record: &[u8]) -> Result<&[u8], Unusual> {
        self.arena.reset();
        self.result.clear();
        let mut machine = Machine::new(&self.constants, self.registers, &self.arena);
        let end = self.parts.pass(record)?;
        let bytes = record.get(..end).ok_or(Unusual::Malformed)?;
        machine.registers[self.record] = if self.needs_value {
            view::value(bytes, &self.arena)?
        } else {
            Value::Opaque(bytes)
        };
        let inputs = [Input {
            bytes,
            places: self.parts.places(),
        }];
        let Next::Emit(pieces) = machine.run(&self.code, &inputs)? else {
            return Err(Unusual::NotSent); // only the body of `each` may skip
        };
        machine.append(&mut self.result, pieces, &inputs)?;
        Ok(&self.result)
    }
}

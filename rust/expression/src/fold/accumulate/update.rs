//! Slots that change by one operator each, such as `a[1] + b[1]`: no instructions run for a record.

use super::kept::Slot;
use super::plan;
use crate::code::{Code, Operation, Register};
use crate::operations::arithmetic::{Operator, binary};
use crate::run::{Input, Machine};
use crate::unusual::Unusual;

/// What a slot changes to.
#[derive(Debug)]
pub(super) struct Update {
    slot: usize,
    operator: Operator,
    left: Operand,
    right: Operand,
    /// The part of the record that it adds to the slot, if that is what it does.
    adds: Option<usize>,
}

/// Where an operand is.
#[derive(Clone, Copy, Debug)]
enum Operand {
    /// In the slot itself.
    Slot,
    /// A part of the record, by its number and that of the instruction which takes it.
    Part(usize, usize),
    /// A constant, or the record.
    Register(Register),
}

impl Update {
    /// Those of a function: None if one changes otherwise, or by what is in another slot.
    pub(super) fn all(
        code: &Code,
        slots: &[plan::Slot],
        reads: &[(Register, usize)],
        record: Register,
    ) -> Option<Vec<Self>> {
        let made = |register: Register| {
            let mut instructions = code.instructions.iter().enumerate();
            instructions.find(|(_, (into, _))| *into == register)
        };
        let mut updates = Vec::new();
        for (slot, planned) in slots.iter().enumerate() {
            let Some(register) = planned.written else {
                continue;
            };
            let (_, (_, Operation::Binary(operator, left, right))) = made(register)? else {
                return None;
            };
            let operand = |register: Register| match made(register) {
                Some((index, (_, Operation::Part(part, _)))) => {
                    Some(Operand::Part(part.number, index))
                }
                Some(_) => None,
                None if reads.contains(&(register, slot)) => Some(Operand::Slot),
                // Another slot has its register behind that of the record.
                None => (register <= record).then_some(Operand::Register(register)),
            };
            let (left, right) = (operand(*left)?, operand(*right)?);
            updates.push(Self {
                slot,
                operator: *operator,
                left,
                right,
                adds: match (operator, left, right) {
                    (Operator::Add, Operand::Slot, Operand::Part(number, _)) => Some(number),
                    _ => None,
                },
            });
        }
        // What is computed for nothing may fail, too.
        let computed = code.instructions.iter();
        let computed = computed.filter(|(_, operation)| !matches!(operation, Operation::Part(..)));
        (computed.count() == updates.len()).then_some(updates)
    }

    /// Adds a small integer of a record to its slot, if that is all there is to do.
    #[inline]
    pub(super) fn add(&self, slots: &mut [Slot], record: &Input<'_, '_>) -> Result<bool, Unusual> {
        if let Some(number) = self.adds
            && let Slot::Int(before) = &mut slots[self.slot]
            && let Some(&[addend @ 0..=0x7f]) = record.part(number)
        {
            let sum = before.checked_add(addend.into());
            *before = sum.ok_or(Unusual::BigInteger)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Changes its slot by a record, which is in its register, too.
    #[inline(never)]
    pub(super) fn compute<'s>(
        &self,
        slots: &mut [Slot],
        code: &'s Code,
        inputs: &[Input<'s, '_>; 2],
        machine: &Machine<'s>,
    ) -> Result<(), Unusual> {
        let slot = &mut slots[self.slot];
        let value = |operand: Operand| match operand {
            Operand::Slot => slot.value(machine.arena),
            Operand::Part(_, index) => machine.taken(&code.instructions[index].1, inputs),
            Operand::Register(register) => Ok(machine.registers[register]),
        };
        let (left, right) = (value(self.left)?, value(self.right)?);
        slot.set(&binary(self.operator, left, right, machine.arena)?)
    }
}

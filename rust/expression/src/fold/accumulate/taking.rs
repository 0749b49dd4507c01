//! A record changes the value of its key.

use super::kept::{Held, Keys, Undo};
use super::plan::Plan;
use crate::parts::{Parts, Place, WHOLE};
use crate::run::{Input, Machine};
use crate::unusual::Unusual;
use crate::value::Value;

/// What takes records in, until memory is given back.
pub(super) struct Taking<'s> {
    pub(super) plan: &'s Plan,
    /// Finds the parts of a value that comes as a whole.
    pub(super) value: &'s mut Parts,
    pub(super) keys: &'s mut Keys,
    pub(super) undo: &'s mut Undo,
    /// There is a result for each record, where this is given.
    pub(super) results: Option<&'s mut Vec<u8>>,
    pub(super) machine: Machine<'s>,
}

impl<'s> Taking<'s> {
    /// Takes in a record, in front of whatever follows it, whose parts are at these places. `before` gives what its key
    /// had before, if it had something and is not held.
    #[inline]
    pub(super) fn take<'v>(
        &mut self,
        number: u32,
        record: &'s [u8],
        places: &[Place],
        before: impl FnOnce() -> Result<Option<&'v [u8]>, Unusual>,
    ) -> Result<(), Unusual> {
        let at = number as usize;
        self.undo.save(number, self.keys, self.plan.slots.len());
        if self.keys.held[at] == Held::InPieces || self.take_apart(number, before)? {
            let record = Input {
                bytes: record,
                places,
            };
            let slots = self.keys.slots(number, self.plan);
            if let Some(updates) = &self.plan.updates {
                for update in updates {
                    if !update.add(slots, &record)? {
                        let inputs = show(record, self.plan, &mut self.machine);
                        update.compute(slots, &self.plan.code, &inputs, &self.machine)?;
                    }
                }
            } else {
                let inputs = show(record, self.plan, &mut self.machine);
                let registers = &mut self.machine.registers;
                for (register, slot) in &self.plan.reads {
                    slots[*slot].read(&mut registers[*register], self.machine.arena)?;
                }
                self.machine.run(&self.plan.code, &inputs)?;
                for (slot, plan) in slots.iter_mut().zip(&self.plan.slots) {
                    if let Some(register) = plan.written {
                        slot.set(&self.machine.registers[register])?;
                    }
                }
            }
        } else {
            let length = places.first().map_or(0, |whole| whole.length());
            self.keys.fixed[at] = record[..length].to_vec();
            self.keys.held[at] = Held::Whole;
        }
        if let Some(results) = &mut self.results {
            self.keys.append(number, results);
        }
        Ok(())
    }

    /// Has the value of a key be in pieces, if there is one.
    #[inline(never)]
    fn take_apart<'v>(
        &mut self,
        number: u32,
        before: impl FnOnce() -> Result<Option<&'v [u8]>, Unusual>,
    ) -> Result<bool, Unusual> {
        let at = number as usize;
        let arena = self.machine.arena;
        let whole = match self.keys.held[at] {
            Held::Whole => Some(&*arena.alloc_slice_copy(&self.keys.fixed[at])),
            Held::Not | Held::InPieces => {
                self.keys.all.push(number);
                before()?
            }
        };
        let Some(whole) = whole else {
            return Ok(false);
        };
        let end = self.value.pass(whole)?;
        let whole = Input {
            bytes: &whole[..end],
            places: self.value.places(),
        };
        self.keys.take_apart(number, &whole, self.plan, arena)?;
        Ok(true)
    }
}

/// What instructions are given, with the record where they look for a part that has no place.
#[inline]
fn show<'s, 'p>(
    record: Input<'s, 'p>,
    plan: &Plan,
    machine: &mut Machine<'s>,
) -> [Input<'s, 'p>; 2] {
    if !plan.needs_record
        && let Some(whole) = record.part(WHOLE)
    {
        machine.registers[plan.record] = Value::Opaque(whole);
    }
    [Input::default(), record]
}

//! A fold whose values are kept in pieces: what records change lies apart from what stays, and nothing else is read or
//! written for a record.
//!
//! A function is of this kind if it gives a tuple or a dict of its own, or `{**value, ...}`, with no branch, and reads
//! nothing of the value but items that have the same place in the result; or if it takes the value as a whole and gives
//! another, such as the sum of two numbers.

mod kept;
mod plan;

use self::kept::{Held, Keys, Undo};
use self::plan::Plan;
use super::Side;
use crate::build::{Builder, Unknown};
use crate::parts::Parts;
use crate::run::{Input, Machine};
use crate::tree::{Constant, Expression};
use crate::unusual::Unusual;
use bumpalo::Bump;

/// The function, and the values of keys since they were given back last.
#[derive(Debug)]
pub struct Accumulating {
    plan: Plan,
    constants: Vec<Constant>,
    registers: usize,
    record: Side,
    /// Finds the parts of a value that comes as a whole.
    value: Parts,
    keys: Keys,
    undo: Undo,
    arena: Bump,
    results: Vec<u8>,
}

impl Accumulating {
    /// None for a function of another kind.
    pub fn new(expression: &Expression) -> Result<Option<Self>, Unknown> {
        let mut builder = Builder::new([expression].into_iter(), 2);
        let arguments = [builder.argument(0), builder.argument(1)];
        let code = builder.function(expression, &arguments)?;
        let Some(plan) = Plan::of(code, &mut builder) else {
            return Ok(None);
        };
        let mut parts = builder.parts.into_iter();
        Ok(Some(Self {
            value: parts.next().unwrap_or_else(Parts::new),
            record: Side {
                parts: parts.next().unwrap_or_else(Parts::new),
                register: arguments[1],
                needs_value: plan.needs_record,
            },
            registers: builder.displays.len(),
            constants: builder.constants,
            plan,
            keys: Keys::default(),
            undo: Undo::default(),
            arena: Bump::new(),
            results: Vec::new(),
        }))
    }

    /// Whether the first item of a value is always that of the first record of its key.
    pub fn keeps_first(&self) -> bool {
        self.plan.keeps_first
    }

    /// Whether the value of a key is here.
    #[inline]
    pub fn holds(&self, number: u32) -> bool {
        let held = self.keys.held.get(number as usize);
        held.is_some_and(|held| *held != Held::Not)
    }

    /// Folds a batch: records with the numbers of their keys, which are below `keys`, each in front of whatever
    /// follows it. `value` gives what a key had before, if it had something and is not held here. If it fails, all is
    /// as before.
    ///
    /// There is a result for each record, or with `only_last` one for each key.
    pub fn run<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        keys: usize,
        only_last: bool,
        value: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<usize, Unusual> {
        self.keys.resize(keys, self.plan.slots.len());
        self.undo.begin(keys);
        self.results.clear();
        let held = self.keys.all.len();
        let done = records
            .chunks(super::CHUNK)
            .try_for_each(|chunk| self.chunk(chunk, only_last, &value));
        if let Err(unusual) = done {
            self.keys.all.truncate(held);
            self.undo.apply(&mut self.keys, self.plan.slots.len());
            return Err(unusual);
        }
        if !only_last {
            return Ok(records.len());
        }
        for (number, ..) in &self.undo.keys {
            self.keys.append(*number, &mut self.results);
        }
        Ok(self.undo.keys.len())
    }

    /// The results of the last batch, encoded one behind the other.
    pub fn results(&self) -> &[u8] {
        &self.results
    }

    /// Gives all values back, encoded, and holds none.
    pub fn give_back(&mut self, mut take: impl FnMut(u32, &[u8])) {
        let mut encoded = Vec::new();
        for number in std::mem::take(&mut self.keys.all) {
            encoded.clear();
            self.keys.append(number, &mut encoded);
            take(number, &encoded);
            self.keys.held[number as usize] = Held::Not;
            self.keys.fixed[number as usize] = Vec::new();
        }
    }

    fn chunk<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        only_last: bool,
        value: &impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<(), Unusual> {
        self.arena.reset();
        let arena = &self.arena;
        let mut machine = Machine::new(&self.constants, self.registers, arena);
        let width = self.plan.slots.len();
        for (number, bytes) in records {
            let at = *number as usize;
            self.undo.save(*number, &self.keys, width);
            if self.keys.held[at] != Held::InPieces {
                let whole = match self.keys.held[at] {
                    Held::Whole => Some(&*arena.alloc_slice_copy(&self.keys.fixed[at])),
                    Held::Not | Held::InPieces => {
                        self.keys.all.push(*number);
                        value(*number)
                    }
                };
                let Some(whole) = whole else {
                    let end = self.record.parts.pass(bytes)?;
                    self.keys.fixed[at] = bytes[..end].to_vec();
                    self.keys.held[at] = Held::Whole;
                    if !only_last {
                        self.results.extend_from_slice(&bytes[..end]);
                    }
                    continue;
                };
                let end = self.value.pass(whole)?;
                let whole = Input {
                    bytes: &whole[..end],
                    places: self.value.places(),
                };
                self.keys.take_apart(*number, &whole, &self.plan, arena)?;
            }
            self.record.take(bytes, &mut machine)?;
            let slots = self.keys.slots(*number, &self.plan);
            for (register, slot) in &self.plan.reads {
                slots[*slot].read(&mut machine.registers[*register], arena)?;
            }
            let inputs = [
                Input::default(),
                Input {
                    bytes,
                    places: self.record.parts.places(),
                },
            ];
            machine.run(&self.plan.code, &inputs)?;
            for (slot, plan) in slots.iter_mut().zip(&self.plan.slots) {
                if let Some(register) = plan.written {
                    slot.set(&machine.registers[register])?;
                }
            }
            if !only_last {
                self.keys.append(*number, &mut self.results);
            }
        }
        u32::try_from(self.results.len()).map_err(|_| Unusual::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Block, End, Given, Step};

    fn step(operation: &str, operands: &[usize], constant: Constant) -> Step {
        Step {
            operation: operation.to_owned(),
            operands: operands.to_vec(),
            given: Given::Constant(constant),
        }
    }

    fn accumulating(steps: Vec<Step>) -> Option<Accumulating> {
        let end = End::Return(steps.len() + 1);
        let body = Block { steps, end };
        Accumulating::new(&Expression { arguments: 2, body }).expect("known operations")
    }

    /// `lambda a, b: (a[0], a[1] + b[1])`, or with another item than the first in front
    fn adding(first: i64) -> Option<Accumulating> {
        accumulating(vec![
            step("constant", &[], Constant::Int(first)),
            step("item", &[0, 2], Constant::None),
            step("constant", &[], Constant::Int(1)),
            step("item", &[0, 4], Constant::None),
            step("item", &[1, 4], Constant::None),
            step("+", &[5, 6], Constant::None),
            step("tuple", &[3, 7], Constant::None),
        ])
    }

    const A: &[u8] = &[0x92, 0xa1, b'a', 1, 0xc0];
    const B: &[u8] = &[0x92, 0xa1, b'b', 1];

    #[test]
    fn values_go_from_batch_to_batch_and_are_given_back() {
        let mut adding = adding(0).expect("of this kind");
        assert!(adding.keeps_first());
        let records: Vec<_> = (0..200).map(|n| (n % 2, [A, B][n as usize % 2])).collect();
        let before = [0x92, 0xa1, b'b', 20];
        for (only_last, results) in [(false, 200), (true, 2)] {
            let value = |number| (number == 1).then_some(&before[..]);
            assert_eq!(adding.run(&records, 2, only_last, value), Ok(results));
            assert_eq!(adding.results().len(), [800, 10][usize::from(only_last)]);
        }
        let mut values = Vec::new();
        adding.give_back(|number, value| values.push((number, value.to_vec())));
        let expected = [
            (0, vec![0x92, 0xa1, b'a', 0xcc, 200]),
            (1, vec![0x92, 0xa1, b'b', 0xcc, 220]),
        ];
        assert_eq!(values, expected);
        adding.give_back(|_, _| panic!("nothing is held any more"));
    }

    #[test]
    fn a_batch_that_fails_changes_nothing() {
        let mut adding = adding(0).expect("of this kind");
        let text: &[u8] = &[0x92, 0xa1, b'b', 0xa0];
        assert_eq!(
            adding.run(&[(0, A), (0, A), (1, B)], 2, false, |_| None),
            Ok(3)
        );
        let failing = [(2, B), (0, A), (1, B), (1, text)];
        assert_eq!(
            adding.run(&failing, 3, false, |_| None),
            Err(Unusual::Types)
        );
        assert!(!adding.holds(2));
        let mut values = Vec::new();
        adding.give_back(|number, value| values.push((number, value.to_vec())));
        assert_eq!(values, [(0, vec![0x92, 0xa1, b'a', 2]), (1, B.to_vec())]);
    }

    #[test]
    fn functions_of_another_kind_are_told() {
        assert!(adding(1).is_none(), "the second item goes to two places");
        assert!(adding(2).is_none(), "the third item is not in the result");
        let sum = accumulating(vec![step("+", &[0, 1], Constant::None)]);
        assert!(sum.is_some_and(|sum| !sum.keeps_first()));
    }
}

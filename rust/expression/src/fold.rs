//! A function of two records, by which each record changes the value of its key.

mod accumulate;
mod attempts;

pub use accumulate::{KeyPart, Numbers};
pub use attempts::Attempts;

use self::accumulate::Accumulating;

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
use oka_compute::Path;

/// The function, and what it gave for the last batch.
#[derive(Debug)]
pub struct Folding {
    code: Code,
    constants: Vec<Constant>,
    registers: usize,
    /// Of a value and of a record.
    sides: [Side; 2],
    /// None for functions of another kind.
    accumulating: Option<Accumulating>,
    /// Whether that took the last batches.
    attempts: Attempts,
    last_batch: LastBatch,
    arena: Bump,
    /// The results, encoded one behind the other, and where each ends.
    results: Vec<u8>,
    ends: Vec<usize>,
    /// Those that are not with the others yet.
    next: Vec<u8>,
    /// By the number of a key how many records there were up to its last one, or 0.
    last: Vec<u32>,
    /// The keys that there were.
    touched: Vec<u32>,
}

/// How the last batch was folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastBatch {
    Whole,
    InPieces,
    /// Not yet: pieces did not take it.
    Missed,
}

/// An argument.
#[derive(Debug)]
struct Side {
    /// What is looked for in it.
    parts: Parts,
    register: usize,
    /// Whether it is there as a value beside its parts.
    needs_value: bool,
}

impl Folding {
    pub fn new(expression: &Expression) -> Result<Self, Unknown> {
        let mut builder = Builder::new([expression].into_iter(), 2);
        let arguments = [builder.argument(0), builder.argument(1)];
        let mut code = builder.function(expression, &arguments)?;
        let needs_value = emit([&mut code].into_iter(), &builder);
        let mut parts = builder.parts.into_iter();
        Ok(Self {
            code,
            constants: builder.constants,
            registers: builder.displays.len(),
            sides: [0, 1].map(|side| Side {
                parts: parts.next().unwrap_or_else(Parts::new),
                register: arguments[side],
                needs_value: needs_value[side],
            }),
            accumulating: Accumulating::new(expression)?,
            attempts: Attempts::default(),
            last_batch: LastBatch::Whole,
            arena: Bump::new(),
            results: Vec::new(),
            ends: Vec::new(),
            next: Vec::new(),
            last: Vec::new(),
            touched: Vec::new(),
        })
    }

    /// Whether the first item of a value is always that of the first record of its key.
    pub fn keeps_first(&self) -> bool {
        let accumulating = self.accumulating.as_ref();
        accumulating.is_some_and(Accumulating::keeps_first)
    }

    /// What [`Self::run_by_key`] needs; None of a key that is not one step into a record.
    pub fn key_part(&mut self, path: &Path) -> Option<KeyPart> {
        self.accumulating.as_mut()?.key_part(path)
    }

    /// Whether the value of a key is held in pieces.
    #[inline]
    pub fn holds(&self, number: u32) -> bool {
        let accumulating = self.accumulating.as_ref();
        accumulating.is_some_and(|accumulating| accumulating.holds(number))
    }

    /// Gives all values back that are held, encoded.
    pub fn give_back(&mut self, take: impl FnMut(u32, &[u8])) {
        if let Some(accumulating) = &mut self.accumulating {
            accumulating.give_back(take);
        }
    }

    /// Folds a batch whose values are held in pieces from then on: records with the numbers of their keys, which are
    /// below `keys`, each in front of whatever follows it. `value` gives what a key had before, if it had something and
    /// is not held. The number of results: one for each record, or with `only_last` one for each key. If it fails, all
    /// is as before.
    pub fn run_in_pieces<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        keys: usize,
        only_last: bool,
        value: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<usize, Unusual> {
        self.take_in_pieces(|pieces| pieces.run(records, keys, only_last, value))
    }

    /// As `run_in_pieces`, in one pass over bodies with numbers of records, whose keys are parts of them. It fails with
    /// [`Unusual::NoKey`] where they are not.
    pub fn run_by_key<'b>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'b [u8])>,
        key: KeyPart,
        only_last: bool,
        numbers: &mut impl Numbers,
    ) -> Result<usize, Unusual> {
        self.take_in_pieces(|pieces| pieces.run_by_key(bodies, key, only_last, numbers))
    }

    fn take_in_pieces(
        &mut self,
        run: impl FnOnce(&mut Accumulating) -> Result<usize, Unusual>,
    ) -> Result<usize, Unusual> {
        let pieces = self.accumulating.as_mut();
        let pieces = pieces.filter(|_| self.attempts.are_due());
        let pieces = pieces.ok_or(Unusual::NotPlain)?;
        self.last_batch = LastBatch::Missed;
        let results = run(pieces)?;
        self.attempts.note(true);
        self.last_batch = LastBatch::InPieces;
        Ok(results)
    }

    /// As `run_in_pieces`, where nothing is held, with a result for each record. [`Self::values`] has what keys have from
    /// now on. Where it does not fail, these records, or some value, are of another form than pieces are for: those of the
    /// next batches are not tried for a while.
    pub fn run<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        keys: usize,
        value: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<(), Unusual> {
        for number in self.touched.drain(..) {
            self.last[number as usize] = 0;
        }
        self.last.resize(keys.max(self.last.len()), 0);
        self.results.clear();
        self.ends.clear();
        let mut before = 0;
        for chunk in records.chunks(CHUNK) {
            self.chunk(chunk, before, &value)?;
            before += chunk.len();
            self.results.append(&mut self.next);
        }
        if self.last_batch == LastBatch::Missed {
            self.attempts.note(false);
        }
        self.last_batch = LastBatch::Whole;
        Ok(())
    }

    /// As either, where nobody needs the results, but the values that keys have from now on: [`Self::take_values`] gives
    /// them.
    pub fn run_to_values<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        keys: usize,
        value: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<(), Unusual> {
        match self.run_in_pieces(records, keys, true, &value) {
            Ok(_) => Ok(()),
            Err(_) => self.run(records, keys, value),
        }
    }

    /// The keys of the last batch of `run_to_values`, with their values.
    pub fn take_values(&mut self, mut take: impl FnMut(u32, &[u8])) {
        match &mut self.accumulating {
            Some(accumulating) if self.last_batch == LastBatch::InPieces => {
                accumulating.give_back(take);
            }
            _ => self
                .values()
                .for_each(|(number, value)| take(number, value)),
        }
    }

    /// The results of the last batch, encoded one behind the other.
    pub fn results(&self) -> &[u8] {
        match &self.accumulating {
            Some(accumulating) if self.last_batch == LastBatch::InPieces => accumulating.results(),
            _ => &self.results,
        }
    }

    /// The keys of the last batch of `run`, with the values that they have from now on.
    pub fn values(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.touched.iter().map(|number| {
            let last = self.last[*number as usize] as usize;
            (
                *number,
                &self.results[start(&self.ends, last - 1)..self.ends[last - 1]],
            )
        })
    }

    fn chunk<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        before: usize,
        value: &impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<(), Unusual> {
        self.next.clear();
        self.arena.reset();
        let (arena, code, results) = (&self.arena, &self.code, &self.results[..]);
        let mut machine = Machine::new(&self.constants, self.registers, arena);
        let mut made: Vec<&[u8]> = Vec::with_capacity(records.len());
        let [left, right] = &mut self.sides;
        for (at, (number, bytes)) in records.iter().enumerate() {
            let last = &mut self.last[*number as usize];
            let so_far = match (*last as usize).checked_sub(1) {
                Some(place) if place >= before => Some(made[place - before]),
                Some(place) => Some(&results[start(&self.ends, place)..]),
                None => {
                    self.touched.push(*number);
                    value(*number)
                }
            };
            *last = (before + at + 1) as u32;
            let start = self.next.len();
            if let Some(value) = so_far {
                left.take(value, &mut machine)?;
                right.take(bytes, &mut machine)?;
                let inputs = [
                    Input {
                        bytes: value,
                        places: left.parts.places(),
                    },
                    Input {
                        bytes,
                        places: right.parts.places(),
                    },
                ];
                let Next::Emit(pieces) = machine.run(code, &inputs)? else {
                    return Err(Unusual::NotSent); // only the body of `each` may skip
                };
                machine.append(&mut self.next, pieces, &inputs)?;
            } else {
                let end = right.parts.pass(bytes)?;
                self.next.extend_from_slice(&bytes[..end]);
            }
            made.push(arena.alloc_slice_copy(&self.next[start..]));
            self.ends.push(results.len() + self.next.len());
        }
        u32::try_from(results.len() + self.next.len()).map_err(|_| Unusual::TooLarge)?;
        Ok(())
    }
}

impl Side {
    /// Takes the argument at the start of the bytes.
    #[inline]
    fn take<'a>(&mut self, bytes: &'a [u8], machine: &mut Machine<'a>) -> Result<(), Unusual> {
        let end = self.pass(bytes, machine)?;
        if !self.needs_value {
            machine.registers[self.register] = Value::Opaque(&bytes[..end]);
        }
        Ok(())
    }

    /// Finds the parts of the argument at the start of the bytes, and its value if that is needed: where it ends.
    #[inline]
    fn pass<'a>(&mut self, bytes: &'a [u8], machine: &mut Machine<'a>) -> Result<usize, Unusual> {
        let end = self.parts.pass(bytes)?;
        if self.needs_value {
            machine.registers[self.register] = view::value(&bytes[..end], machine.arena)?;
        }
        Ok(end)
    }
}

fn start(ends: &[usize], place: usize) -> usize {
    match place.checked_sub(1) {
        Some(before) => ends[before],
        None => 0,
    }
}

/// Records between two times that memory is given back.
const CHUNK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Block, Constant, End, Given, Step};
    use oka_compute::encode;
    use oka_compute::value::extension;

    /// `lambda a, b: (a[0], a[1] + b[1])`
    fn adding() -> Folding {
        let step = |operation: &str, operands: &[usize], constant| Step {
            operation: operation.to_owned(),
            operands: operands.to_vec(),
            given: Given::Constant(constant),
        };
        let steps = vec![
            step("constant", &[], Constant::Int(0)),
            step("item", &[0, 2], Constant::None),
            step("constant", &[], Constant::Int(1)),
            step("item", &[0, 4], Constant::None),
            step("item", &[1, 4], Constant::None),
            step("+", &[5, 6], Constant::None),
            step("tuple", &[3, 7], Constant::None),
        ];
        let body = Block {
            steps,
            end: End::Return(8),
        };
        Folding::new(&Expression { arguments: 2, body }).expect("known operations")
    }

    #[test]
    fn values_go_from_record_to_record_and_from_batch_to_batch() {
        let mut folding = adding();
        let one: &[u8] = &[0x92, 0xa1, b'a', 1, 0xc0];
        let other: &[u8] = &[0x92, 0xa1, b'b', 1];
        let records: Vec<_> = (0..200)
            .map(|n| (n % 2, [one, other][n as usize % 2]))
            .collect();
        for rounds in 1..3 {
            let before = [0x92, 0xa1, b'b', 20];
            let value = |number| (number == 1).then_some(&before[..]);
            folding.run(&records, 2, value).expect("nothing unusual");
            let values: Vec<_> = folding.values().collect();
            let expected: [(u32, &[u8]); 2] =
                [(0, &[0x92, 0xa1, b'a', 100]), (1, &[0x92, 0xa1, b'b', 120])];
            assert_eq!(values, expected, "{rounds}");
            assert_eq!(folding.results().len(), 200 * 4);
        }
    }

    #[test]
    fn after_what_is_unusual_the_next_batch_is_as_ever() {
        let mut folding = adding();
        let (fine, not): (&[u8], &[u8]) = (&[0x92, 1, 1], &[0x92, 1, 0xa0]);
        let failed = folding.run(&[(0, fine), (0, fine), (0, not)], 1, |_| None);
        assert_eq!(failed, Err(Unusual::Types));
        folding
            .run(&[(0, fine), (0, fine)], 1, |_| None)
            .expect("nothing unusual");
        assert_eq!(folding.results(), [0x92, 1, 1, 0x92, 1, 2]);
    }

    #[test]
    fn pieces_take_what_comes_behind_a_value_of_another_form() {
        let mut folding = adding();
        let one: &[u8] = &[0x92, 0xa1, b'a', 1];
        let mut list = Vec::new();
        let start = encode::open_extension(&mut list, extension::LIST);
        list.extend_from_slice(one);
        assert!(encode::close_extension(&mut list, start));
        let mut value = None::<Vec<u8>>;
        let mut in_pieces = Vec::new();
        for record in [&list[..], one, one, one] {
            let records = [(0, record)];
            let before = value.clone();
            let done = folding.run_in_pieces(&records, 1, true, |_| before.as_deref());
            if done.is_err() {
                folding.give_back(|_, held| value = Some(held.to_vec()));
                let before = value.clone();
                let done = folding.run(&records, 1, |_| before.as_deref());
                done.expect("a list has items, too");
                value = folding.values().next().map(|(_, value)| value.to_vec());
            }
            in_pieces.push(folding.holds(0));
        }
        assert_eq!(folding.results(), [0x92, 0xa1, b'a', 4]);
        assert_eq!(in_pieces, [true, false, false, true]);
    }
}

//! Functions one after the other, over the records of a batch.

use crate::build::{Builder, Unknown};
use crate::code::{Code, Next, Operation, Register};
use crate::emit::emit;
use crate::foreign::Records;
use crate::parts::Parts;
use crate::run::{Input, Machine};
use crate::tree::{Constant, Expression};
use crate::unusual::Unusual;
use crate::value::{Kind, Value};
use crate::view;
use bumpalo::Bump;

/// What a function is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its results are the records.
    Map,
    /// It says which records stay.
    Filter,
    /// The items of its results are the records.
    FlatMap,
    /// Its results are keys: a record is the tuple of key and record.
    Key,
}

/// Stages, which each record goes through before the next.
#[derive(Debug)]
pub struct Program {
    stages: Vec<Built>,
    constants: Vec<Constant>,
    registers: usize,
    names: Vec<String>,
    /// Records out of each stage in the last run, and of the results.
    counts: Vec<usize>,
    /// What is looked for in records.
    parts: Parts,
    /// The register of a record, and whether it is there as a value beside its parts.
    record: Register,
    needs_value: bool,
    arena: Bump,
}

/// A stage as instructions.
#[derive(Debug)]
struct Built {
    code: Code,
    then: Then,
}

/// What becomes of the result of a stage.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It is where the next stage looks for it, or is appended already.
    Next,
    /// The next stage looks for it in this register.
    Move(Register),
    /// It says whether the record goes on.
    Keep,
    /// Each of its items goes on in this register.
    Each(Register),
}

impl Program {
    pub fn new(stages: &[(Stage, Expression)]) -> Result<Self, Unknown> {
        let mut builder = Builder::new(stages.iter().map(|(_, expression)| expression), 1);
        let first = builder.argument(0);
        let mut record = first;
        let mut built = Vec::new();
        for (stage, expression) in stages {
            let mut code = builder.function(expression, &[record])?;
            if *stage == Stage::Key {
                code.each_end(&mut |way| {
                    if let Next::Return(key) = way.end {
                        let pair = builder.instruction(Operation::Tuple([key, record].into()));
                        way.end = Next::Return(pair.0);
                        way.instructions.push(pair);
                    }
                });
            }
            let then = match (stage, code.result()) {
                (Stage::Filter, _) => Then::Keep,
                (Stage::FlatMap, _) => {
                    record = builder.register();
                    Then::Each(record)
                }
                (Stage::Map | Stage::Key, Some(result)) => {
                    record = result;
                    Then::Next
                }
                (Stage::Map | Stage::Key, None) => {
                    record = builder.register();
                    Then::Move(record)
                }
            };
            built.push(Built { code, then });
        }
        match built.last_mut() {
            // The results of these are encoded where they are made.
            Some(Built {
                then: then @ (Then::Next | Then::Move(_)),
                ..
            }) => *then = Then::Next,
            _ => built.push(Built {
                code: Code {
                    instructions: Vec::new(),
                    end: Next::Return(record),
                },
                then: Then::Next,
            }),
        }
        let needs_value = emit(built.iter_mut().map(|stage| &mut stage.code), &builder)[0];
        Ok(Self {
            counts: vec![0; stages.len()],
            stages: built,
            registers: builder.displays.len(),
            constants: builder.constants,
            names: builder.names,
            parts: builder.parts.remove(0),
            record: first,
            needs_value,
            arena: Bump::new(),
        })
    }

    /// The names of fields that it looks for, by their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of records out of each stage in the last run.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Runs over encoded records, given as numbers of records and their bytes.
    pub fn run<'b>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'b [u8])>,
        results: &mut Results,
    ) -> Result<(), Unusual> {
        self.counts.fill(0);
        for (count, mut rest) in bodies {
            results.body.reserve(rest.len());
            let mut left = count;
            while left > 0 {
                self.arena.reset();
                let chunk = left.min(CHUNK);
                let mut chain = Chain {
                    machine: Machine::new(&self.constants, self.registers, &self.arena),
                    stages: &self.stages,
                    counts: &mut self.counts,
                    results,
                };
                for _ in 0..chunk {
                    let end = self.parts.pass(rest)?;
                    let (record, behind) = rest.split_at_checked(end).ok_or(Unusual::Malformed)?;
                    if self.needs_value {
                        chain.machine.registers[self.record] = view::value(record, &self.arena)?;
                    } else {
                        chain.machine.registers[self.record] = Value::Opaque(record);
                    }
                    let inputs = [Input {
                        bytes: rest,
                        places: self.parts.places(),
                    }];
                    chain.pass(0, &inputs)?;
                    rest = behind;
                }
                left -= chunk;
            }
            if !rest.is_empty() {
                return Err(Unusual::Malformed);
            }
        }
        Ok(())
    }

    /// Runs over so many records of somebody else.
    pub fn run_over(
        &mut self,
        count: usize,
        records: &mut impl Records,
        results: &mut Results,
    ) -> Result<(), Unusual> {
        self.counts.fill(0);
        let mut left = count;
        while left > 0 {
            self.arena.reset();
            let chunk = left.min(CHUNK);
            let mut chain = Chain {
                machine: Machine::new(&self.constants, self.registers, &self.arena),
                stages: &self.stages,
                counts: &mut self.counts,
                results,
            };
            for _ in 0..chunk {
                records.next(&mut chain.machine.registers[self.record], &self.arena)?;
                chain.pass(0, &[Input::default()])?;
            }
            left -= chunk;
        }
        Ok(())
    }
}

/// Encoded results, in frames.
#[derive(Debug, Default)]
pub struct Results {
    /// Full frames, each with its number of records.
    frames: Vec<(usize, Vec<u8>)>,
    /// The last frame.
    body: Vec<u8>,
    records: usize,
    /// Bytes in front of the records of each frame.
    front: usize,
}

impl Results {
    /// Each frame has so many zeros in front of its records, for whoever takes it. The first one has memory for so many
    /// bytes behind them.
    pub fn behind(front: usize, expected: usize) -> Self {
        let mut body = Vec::with_capacity(front + expected);
        body.resize(front, 0);
        Self {
            body,
            front,
            ..Self::default()
        }
    }

    /// Bytes of the last frame's records.
    pub fn last_bytes(&self) -> usize {
        self.body.len() - self.front
    }

    /// The frames, each with its number of records.
    pub fn into_frames(mut self) -> Vec<(usize, Vec<u8>)> {
        self.frames.push((self.records, self.body));
        self.frames
    }

    /// Counts a record that was appended.
    #[inline]
    fn count(&mut self) -> Result<(), Unusual> {
        self.records += 1;
        if self.body.len() >= FRAME_BYTES {
            return self.begin_frame();
        }
        Ok(())
    }

    #[cold]
    fn begin_frame(&mut self) -> Result<(), Unusual> {
        if u32::try_from(self.body.len()).is_err() {
            return Err(Unusual::TooLarge);
        }
        let body = std::mem::replace(&mut self.body, vec![0; self.front]);
        self.frames.push((std::mem::take(&mut self.records), body));
        Ok(())
    }
}

/// The stages at work.
struct Chain<'a, 'p> {
    machine: Machine<'a>,
    stages: &'a [Built],
    counts: &'p mut [usize],
    results: &'p mut Results,
}

impl<'a> Chain<'a, '_> {
    /// Takes a record through the stages from this one on.
    #[inline]
    fn pass(&mut self, mut index: usize, inputs: &[Input<'a, '_>]) -> Result<(), Unusual> {
        while let Some(stage) = self.stages.get(index) {
            let result = match self.machine.run(&stage.code, inputs)? {
                Next::Return(register) => *register,
                Next::Emit(pieces) => {
                    let body = &mut self.results.body;
                    self.machine.append(body, pieces, inputs)?;
                    self.count(index, 1);
                    return self.results.count();
                }
                // Only the body of `each` may skip.
                _ => return Err(Unusual::NotSent),
            };
            match stage.then {
                Then::Next => {}
                Then::Move(register) => {
                    self.machine.registers[register] = self.machine.registers[result];
                }
                Then::Keep => {
                    if !self.machine.truth(result)? {
                        return Ok(());
                    }
                }
                Then::Each(register) => return self.pass_each(index, result, register, inputs),
            }
            self.count(index, 1);
            index += 1;
        }
        Ok(())
    }

    #[inline(never)]
    fn pass_each(
        &mut self,
        index: usize,
        items: Register,
        into: Register,
        inputs: &[Input<'a, '_>],
    ) -> Result<(), Unusual> {
        let items = self.machine.registers[items];
        if !matches!(items.kind(), Kind::Tuple | Kind::List) {
            return Err(Unusual::NotIterable);
        }
        let items = items.walked(self.machine.arena)?;
        self.count(index, items.len());
        for item in items {
            self.machine.registers[into] = *item;
            self.pass(index + 1, inputs)?;
        }
        Ok(())
    }

    /// Counts records out of a stage. What only encodes those of the last one is none.
    #[inline]
    fn count(&mut self, index: usize, records: usize) {
        if let Some(count) = self.counts.get_mut(index) {
            *count += records;
        }
    }
}

/// Records between two times that memory is given back: enough that registers cost nothing, and few enough for the
/// caches.
const CHUNK: usize = 64;
/// Results in one frame take at least so much, but for the last.
const FRAME_BYTES: usize = 1 << 26;

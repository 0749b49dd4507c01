//! Functions one after the other, over the records of a batch.

use crate::build::{Function, Unknown, build};
use crate::run::{call, registers};
use crate::tree::Expression;
use crate::unusual::Unusual;
use crate::value::{Kind, Value};
use crate::view::first;
use crate::write::write;
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
    stages: Vec<(Stage, Function)>,
    names: Vec<String>,
    /// Records out of each stage in the last run.
    counts: Vec<usize>,
    looks_inside: bool,
    arena: Bump,
}

impl Program {
    pub fn new(stages: &[(Stage, Expression)]) -> Result<Self, Unknown> {
        let mut names = Vec::new();
        let built = stages.iter().map(|(stage, expression)| {
            if expression.arguments != 1 {
                let count = expression.arguments;
                return Err(Unknown(format!("a function of {count} arguments")));
            }
            Ok((*stage, build(expression, &mut names)?))
        });
        let stages = built.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            looks_inside: stages.iter().any(|(_, function)| function.looks_inside),
            counts: vec![0; stages.len()],
            stages,
            names,
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

    /// Runs over so many encoded records; the encoded results and their number.
    pub fn run<'b>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'b [u8])>,
        results: &mut Results,
    ) -> Result<(), Unusual> {
        self.counts.fill(0);
        for (count, body) in bodies {
            let mut rest = body;
            let mut left = count;
            while left > 0 {
                let chunk = left.min(CHUNK);
                self.arena.reset();
                let arena = &self.arena;
                let mut chain = Chain::new(&self.stages, &mut self.counts, results, arena);
                for _ in 0..chunk {
                    let (record, end) = first(rest, self.looks_inside, arena)?;
                    rest = &rest[end..];
                    chain.pass(0, record)?;
                }
                left -= chunk;
            }
            if !rest.is_empty() {
                return Err(Unusual::Malformed);
            }
        }
        Ok(())
    }
}

/// Encoded results, in frames.
#[derive(Debug, Default)]
pub struct Results {
    /// Each with its number of records.
    pub frames: Vec<(usize, Vec<u8>)>,
}

impl Results {
    fn push(&mut self, record: Value<'_>) -> Result<(), Unusual> {
        let is_full = |(_, body): &(usize, Vec<u8>)| body.len() >= FRAME_BYTES;
        if self.frames.last().is_none_or(is_full) {
            self.frames.push((0, Vec::new()));
        }
        let Some((count, body)) = self.frames.last_mut() else {
            return Ok(());
        };
        write(body, record, 0)?;
        *count += 1;
        if u32::try_from(body.len()).is_err() {
            return Err(Unusual::TooLarge);
        }
        Ok(())
    }
}

/// The stages at work, with the registers of each.
struct Chain<'a, 'p> {
    stages: &'a [(Stage, Function)],
    registers: Vec<Box<[Value<'a>]>>,
    counts: &'p mut [usize],
    results: &'p mut Results,
    arena: &'a Bump,
}

impl<'a, 'p> Chain<'a, 'p> {
    fn new(
        stages: &'a [(Stage, Function)],
        counts: &'p mut [usize],
        results: &'p mut Results,
        arena: &'a Bump,
    ) -> Self {
        let functions = stages.iter();
        Self {
            registers: functions
                .map(|(_, function)| registers(function, arena))
                .collect(),
            stages,
            counts,
            results,
            arena,
        }
    }

    /// Takes a record through the stages from this one on.
    fn pass(&mut self, index: usize, mut record: Value<'a>) -> Result<(), Unusual> {
        for index in index..self.stages.len() {
            let (stage, function) = &self.stages[index];
            let result = call(function, &mut self.registers[index], record, self.arena)?;
            match stage {
                Stage::Map => record = result,
                Stage::Filter => {
                    if !result.truth()? {
                        return Ok(());
                    }
                }
                Stage::Key => record = Value::Tuple(self.arena.alloc([result, record])),
                Stage::FlatMap => {
                    if !matches!(result.kind(), Kind::Tuple | Kind::List) {
                        return Err(Unusual::NotIterable);
                    }
                    let items = result.walked(self.arena)?;
                    self.counts[index] += items.len();
                    return items
                        .iter()
                        .try_for_each(|item| self.pass(index + 1, *item));
                }
            }
            self.counts[index] += 1;
        }
        self.results.push(record)
    }
}

/// Records between two times that memory is given back: enough that registers cost nothing, and few enough for the
/// caches.
const CHUNK: usize = 64;
/// Results in one frame take at least so much, but for the last.
const FRAME_BYTES: usize = 1 << 26;

//! Functions one after the other, over the records of a batch.

use crate::build::{Function, Unknown, build};
use crate::emit;
use crate::foreign::Records;
use crate::run::{self, call, registers};
use crate::tree::Expression;
use crate::unusual::Unusual;
use crate::value::{Computed, Kind, Value};
use crate::view::{Reading, first};
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
    reading: Reading,
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
        let mut stages = built.collect::<Result<Vec<_>, _>>()?;
        if let Some((stage @ (Stage::Map | Stage::Key), last)) = stages.last_mut() {
            emit::emit(last, *stage == Stage::Key);
        }
        Ok(Self {
            reading: match &stages[..] {
                [(_, only)] if only.is_passed_on => Reading::Not,
                _ if stages.iter().any(|(_, function)| function.looks_inside) => Reading::Inside,
                _ => Reading::Whole,
            },
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

    /// Runs over encoded records, given as numbers of records and their bytes.
    pub fn run<'b>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'b [u8])>,
        results: &mut Results,
    ) -> Result<(), Unusual> {
        self.counts.fill(0);
        for (count, body) in bodies {
            results.body.reserve(body.len());
            let mut records = Encoded {
                rest: body,
                reading: self.reading,
            };
            self.pass_all(count, &mut records, results)?;
            if !records.rest.is_empty() {
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
        self.pass_all(count, records, results)
    }

    fn pass_all(
        &mut self,
        count: usize,
        records: &mut impl Records,
        results: &mut Results,
    ) -> Result<(), Unusual> {
        let mut left = count;
        while left > 0 {
            let chunk = left.min(CHUNK);
            self.arena.reset();
            let arena = &self.arena;
            let mut chain = Chain::new(&self.stages, &mut self.counts, results, arena);
            for _ in 0..chunk {
                let record = records.next(arena)?;
                chain.pass(0, record)?;
            }
            left -= chunk;
        }
        Ok(())
    }
}

/// Encoded records one behind the other.
struct Encoded<'b> {
    rest: &'b [u8],
    reading: Reading,
}

impl Records for Encoded<'_> {
    #[inline]
    fn next<'a>(&mut self, arena: &'a Bump) -> Computed<'a>
    where
        Self: 'a,
    {
        let (record, end) = first(self.rest, self.reading, arena)?;
        self.rest = &self.rest[end..];
        Ok(record)
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
}

impl Results {
    /// The frames, each with its number of records.
    pub fn into_frames(mut self) -> Vec<(usize, Vec<u8>)> {
        self.frames.push((self.records, self.body));
        self.frames
    }

    #[inline]
    fn push(&mut self, record: Value<'_>) -> Result<(), Unusual> {
        write(&mut self.body, record, 0)?;
        self.count()
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
        let body = std::mem::take(&mut self.body);
        self.frames.push((std::mem::take(&mut self.records), body));
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
            if index + 1 == self.stages.len() && matches!(stage, Stage::Map | Stage::Key) {
                let registers = &mut self.registers[index];
                run::emit(
                    &mut self.results.body,
                    function,
                    registers,
                    record,
                    self.arena,
                )?;
                self.counts[index] += 1;
                return self.results.count();
            }
            let result = call(function, &mut self.registers[index], &[record], self.arena)?;
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

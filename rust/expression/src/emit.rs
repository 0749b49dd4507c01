//! Results that are encoded piece by piece: tuples and dicts that nobody looks at are never made.

use crate::build::{Code, Function, Next, Operation, Register};
use crate::tree::Constant;
use crate::unusual::Unusual;
use crate::value::Value;
use crate::write::write;
use bumpalo::Bump;
use oka_compute::encode;

/// A part of the encoding of a result.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The same in each.
    Bytes(Vec<u8>),
    /// The value of a register, with so many containers around it.
    Value(Register, usize),
}

/// Appends the pieces.
#[inline]
pub(crate) fn append(
    out: &mut Vec<u8>,
    pieces: &[Piece],
    registers: &[Value<'_>],
) -> Result<(), Unusual> {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Value(register, depth) => match registers[*register] {
                // Short ones cannot be too deep.
                Value::Opaque(bytes) if bytes.len() < MOST_DEPTH => out.extend_from_slice(bytes),
                value => write(out, value, *depth)?,
            },
        }
    }
    Ok(())
}

/// Has the function end in pieces. A record of results is a pair of the result and the argument, if `is_keyed`.
pub(crate) fn emit(function: &mut Function, is_keyed: bool) {
    let first = function.constants.len();
    let mut made = vec![None; function.registers];
    find_displays(&function.code, &mut made);
    let displays = Displays {
        constants: &function.constants,
        made,
    };
    end_in_pieces(&mut function.code, &|register| {
        let mut pieces = Vec::new();
        if is_keyed {
            push_bytes(&mut pieces, |out| encode::array(out, 2));
        }
        displays.push(&mut pieces, register, usize::from(is_keyed));
        if is_keyed {
            pieces.push(Piece::Value(first, 1));
        }
        pieces
    });
    let mut uses = Uses::default();
    uses.computed.resize(function.registers, false);
    uses.drop_unused(&mut function.code);
    take_bytes(&mut function.code, &uses.computed);
    function.looks_inside &= uses.computed[first];
    function.is_passed_on = !uses.computed[first];
}

/// A tuple or a dict of values.
#[derive(Clone, Debug)]
enum Display {
    Tuple(Box<[Register]>),
    Named(Box<[(Register, Register)]>),
}

/// The displays outside of loops, by their registers.
fn find_displays(code: &Code, made: &mut [Option<Display>]) {
    for (into, operation) in &code.instructions {
        made[*into] = match operation {
            Operation::Tuple(items) => Some(Display::Tuple(items.clone())),
            Operation::Named(pairs) => Some(Display::Named(pairs.clone())),
            _ => None,
        };
    }
    if let Next::Branch(_, ways) = &code.end {
        ways.iter().for_each(|way| find_displays(way, made));
    }
}

struct Displays<'f> {
    constants: &'f [Constant],
    made: Vec<Option<Display>>,
}

impl Displays<'_> {
    fn push(&self, pieces: &mut Vec<Piece>, register: Register, depth: usize) {
        if let Some(constant) = self.constants.get(register) {
            let (arena, mut encoded) = (Bump::new(), Vec::new());
            if write(&mut encoded, constant.value(&arena), depth).is_ok() {
                return push_bytes(pieces, |out| out.extend_from_slice(&encoded));
            }
        }
        match &self.made[register] {
            Some(Display::Tuple(items)) if depth < MOST_DEPTH => {
                push_bytes(pieces, |out| encode::array(out, items.len()));
                for item in items {
                    self.push(pieces, *item, depth + 1);
                }
            }
            Some(Display::Named(pairs)) if depth < MOST_DEPTH => {
                push_bytes(pieces, |out| encode::map(out, pairs.len()));
                for (key, value) in pairs {
                    self.push(pieces, *key, depth + 1);
                    self.push(pieces, *value, depth + 1);
                }
            }
            _ => pieces.push(Piece::Value(register, depth)),
        }
    }
}

fn push_bytes(pieces: &mut Vec<Piece>, append: impl FnOnce(&mut Vec<u8>)) {
    if !matches!(pieces.last(), Some(Piece::Bytes(_))) {
        pieces.push(Piece::Bytes(Vec::new()));
    }
    if let Some(Piece::Bytes(bytes)) = pieces.last_mut() {
        append(bytes);
    }
}

fn end_in_pieces(code: &mut Code, pieces: &impl Fn(Register) -> Vec<Piece>) {
    match &mut code.end {
        Next::Return(register) => code.end = Next::Emit(pieces(*register).into()),
        Next::Branch(_, ways) => ways.iter_mut().for_each(|way| end_in_pieces(way, pieces)),
        Next::Emit(_) | Next::Skip => {}
    }
}

#[derive(Default)]
struct Uses {
    /// By register: whether something is computed of it. Else it is encoded, or is nothing at all.
    computed: Vec<bool>,
    emitted: Vec<Register>,
}

impl Uses {
    /// Takes displays out that nothing uses, from the end on.
    fn drop_unused(&mut self, code: &mut Code) {
        match &mut code.end {
            Next::Return(register) => self.computed[*register] = true,
            Next::Emit(pieces) => {
                self.emitted
                    .extend(pieces.iter().filter_map(|piece| match piece {
                        Piece::Value(register, _) => Some(*register),
                        Piece::Bytes(_) => None,
                    }));
            }
            Next::Branch(condition, ways) => {
                ways.iter_mut().for_each(|way| self.drop_unused(way));
                self.computed[*condition] = true;
            }
            Next::Skip => {}
        }
        let mut kept = Vec::new();
        for (into, mut operation) in std::mem::take(&mut code.instructions).into_iter().rev() {
            let is_used = self.computed[into] || self.emitted.contains(&into);
            if !is_used && matches!(operation, Operation::Tuple(_) | Operation::Named(_)) {
                continue;
            }
            operation.each_operand(&mut |register| self.computed[register] = true);
            if let Operation::Each(_, _, body) = &mut operation {
                self.drop_unused(body);
            }
            kept.push((into, operation));
        }
        kept.reverse();
        code.instructions = kept.into();
    }
}

/// Has fields that are only encoded again be taken as they are.
fn take_bytes(code: &mut Code, computed: &[bool]) {
    for (into, operation) in &mut code.instructions {
        if let Operation::Field(_, _, as_bytes) = operation {
            *as_bytes = !computed[*into];
        }
    }
    if let Next::Branch(_, ways) = &mut code.end {
        ways.iter_mut().for_each(|way| take_bytes(way, computed));
    }
}

/// Deeper ones are made, as others are.
const MOST_DEPTH: usize = 50;

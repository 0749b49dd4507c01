//! Results that are encoded piece by piece: tuples and dicts that nobody looks at are never made, and what is only passed
//! on stays as it is encoded.

use crate::build::{Builder, Display};
use crate::code::{Code, Next, Operation, Part, Register, Taken, Way};
use crate::parts::WHOLE;
use crate::unusual::Unusual;
use crate::value::Value;
use crate::write::write;
use bumpalo::Bump;
use oka_compute::encode;

/// A part of the encoding of a result.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The same in each: the first so many of these.
    Bytes([u8; BLOCK], usize),
    /// The value of a register, with so many containers around it.
    Value(Register, usize),
    /// A part of an argument, with so many containers around it.
    Part(Part, usize),
}

/// Appends the first so many bytes of a block, which are copied at once.
#[inline]
pub(crate) fn append_block(out: &mut Vec<u8>, block: &[u8; BLOCK], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(block);
    out.truncate(end);
}

/// Appends the first so many bytes: of a few, one block or two at once, if there are bytes enough.
#[inline]
pub(crate) fn append_first(out: &mut Vec<u8>, bytes: &[u8], length: usize) {
    if let Some(block) = bytes.first_chunk::<BLOCK>()
        && length <= BLOCK
    {
        append_block(out, block, length);
    } else if let (Some(first), Some(last)) =
        (bytes.first_chunk::<8>(), bytes[..length].last_chunk::<8>())
        && length <= 16
    {
        let end = out.len() + length;
        out.extend_from_slice(first);
        out.truncate(end - 8);
        out.extend_from_slice(last);
    } else {
        out.extend_from_slice(&bytes[..length]);
    }
}

/// Appends a value that is encoded already, with these bytes behind it, and so many containers around it.
#[inline]
pub(crate) fn append_encoded(
    out: &mut Vec<u8>,
    bytes: &[u8],
    length: usize,
    depth: usize,
) -> Result<(), Unusual> {
    // Short ones cannot be too deep.
    if depth > 0 && length >= MOST_DEPTH {
        return write(out, Value::Opaque(&bytes[..length]), depth);
    }
    append_first(out, bytes, length);
    Ok(())
}

/// Has functions one after the other end in pieces: the last one gives the results. Whether the value of each argument is
/// needed, beside its parts.
pub(crate) fn emit<'c>(codes: impl Iterator<Item = &'c mut Code>, builder: &Builder) -> Vec<bool> {
    let mut uses = Uses {
        computed: vec![false; builder.displays.len()],
        emitted: vec![false; builder.displays.len()],
    };
    let mut codes: Vec<_> = codes.collect();
    if let Some(last) = codes.last_mut() {
        last.each_end(&mut |code| end_in_pieces(code, builder));
    }
    for code in codes.iter_mut().rev() {
        uses.drop_unused(code);
    }
    for code in codes {
        take_bytes(code, &uses.computed);
    }
    let arguments = (0..builder.parts.len()).map(|index| builder.argument(index));
    arguments.map(|register| uses.computed[register]).collect()
}

fn end_in_pieces(code: &mut Code, builder: &Builder) {
    if let Next::Return(register) = code.end {
        let mut pieces = Vec::new();
        push(&mut pieces, builder, register, 0);
        code.end = Next::Emit(pieces.into());
    }
}

/// The pieces of a value with so many containers around it.
fn push(pieces: &mut Vec<Piece>, builder: &Builder, register: Register, depth: usize) {
    if let Some(constant) = builder.constants.get(register) {
        let (arena, mut encoded) = (Bump::new(), Vec::new());
        if write(&mut encoded, constant.value(&arena), depth).is_ok() {
            return push_bytes(pieces, |out| out.extend_from_slice(&encoded));
        }
    }
    match &builder.displays[register] {
        Some(Display::Tuple(items)) if depth < MOST_DEPTH => {
            push_bytes(pieces, |out| encode::array(out, items.len()));
            for item in items {
                push(pieces, builder, *item, depth + 1);
            }
        }
        Some(Display::Named(pairs)) if depth < MOST_DEPTH => {
            push_bytes(pieces, |out| encode::map(out, pairs.len()));
            for (key, value) in pairs {
                push(pieces, builder, *key, depth + 1);
                push(pieces, builder, *value, depth + 1);
            }
        }
        _ => pieces.push(match builder.argument_in(register) {
            Some(argument) => Piece::Part(
                Part {
                    argument,
                    number: WHOLE,
                    register,
                    way: Way::Whole,
                },
                depth,
            ),
            None => Piece::Value(register, depth),
        }),
    }
}

fn push_bytes(pieces: &mut Vec<Piece>, append: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    append(&mut bytes);
    for byte in bytes {
        match pieces.last_mut() {
            Some(Piece::Bytes(block, length @ 0..BLOCK)) => {
                block[*length] = byte;
                *length += 1;
            }
            _ => pieces.push(Piece::Bytes([byte; BLOCK], 1)),
        }
    }
}

/// By register: whether something is computed of it, and whether it is encoded.
struct Uses {
    computed: Vec<bool>,
    emitted: Vec<bool>,
}

impl Uses {
    /// Takes displays out that nothing uses, from the end on.
    fn drop_unused(&mut self, code: &mut Code) {
        match &mut code.end {
            Next::Return(register) => self.computed[*register] = true,
            Next::Emit(pieces) => {
                for piece in pieces {
                    if let Piece::Value(register, _) = piece {
                        self.emitted[*register] = true;
                    }
                }
            }
            Next::Branch(condition, ways) => {
                ways.iter_mut().for_each(|way| self.drop_unused(way));
                self.computed[*condition] = true;
            }
            Next::Skip => {}
        }
        let mut kept = Vec::new();
        for (into, mut operation) in std::mem::take(&mut code.instructions).into_iter().rev() {
            let is_used = self.computed[into] || self.emitted[into];
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
        code.instructions = kept;
    }
}

/// Has what is only encoded again be taken as it is: as a piece, if it is one of the same instructions' end.
fn take_bytes(code: &mut Code, computed: &[bool]) {
    if let Next::Emit(pieces) = &mut code.end {
        let mut kept = Vec::new();
        for (into, operation) in std::mem::take(&mut code.instructions) {
            let is_piece = |piece: &&mut Piece| matches!(piece, Piece::Value(register, _) if *register == into);
            let mut found = pieces.iter_mut().filter(is_piece);
            match (operation, found.next(), found.next()) {
                (Operation::Part(part, _), Some(piece), None) if !computed[into] => {
                    if let Piece::Value(_, depth) = piece {
                        *piece = Piece::Part(part, *depth);
                    }
                }
                (operation, ..) => kept.push((into, operation)),
            }
        }
        code.instructions = kept;
    }
    for (into, operation) in &mut code.instructions {
        if let Operation::Field(_, _, taken) | Operation::Part(_, taken) = operation
            && !computed[*into]
        {
            *taken = Taken::AsBytes;
        }
    }
    if let Next::Branch(_, ways) = &mut code.end {
        ways.iter_mut().for_each(|way| take_bytes(way, computed));
    }
}

/// Deeper ones are made, as others are.
const MOST_DEPTH: usize = 50;
/// So many bytes are copied at once.
pub(crate) const BLOCK: usize = 16;

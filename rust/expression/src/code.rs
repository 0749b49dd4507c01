//! Instructions: what a function does, each with its registers.

use crate::calls::Call;
use crate::emit::Piece;
use crate::operations::arithmetic::Operator;
use crate::operations::compare::Comparison;
use crate::operations::containers::{Class, Name};
use crate::operations::format::Format;
use crate::value::{Computed, Value};
use crate::view;
use bumpalo::Bump;
use oka_compute::Path;
use regex::bytes::Regex;

/// Where a value is.
pub(crate) type Register = usize;

/// Instructions one after the other, and what comes behind them.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<(Register, Operation)>,
    pub(crate) end: Next,
}

#[derive(Debug)]
pub(crate) enum Next {
    Return(Register),
    /// The result, as it is encoded.
    Emit(Box<[Piece]>),
    Branch(Register, Box<[Code; 2]>),
    Skip,
}

/// What gives a register its value.
#[derive(Debug)]
pub(crate) enum Operation {
    Item(Register, Register),
    /// The item at an index.
    At(Register, i64),
    /// The value of a dict under a name.
    Field(Register, Name, Taken),
    /// That, or else the last, or else None.
    Get(Register, Name, Option<Register>),
    /// A part of an argument.
    Part(Part, Taken),
    /// That, or else the last, or else None.
    GetPart(Part, Option<Register>),
    Attribute(Register, Path),
    Slice(Register, [Register; 3]),
    Tuple(Box<[Register]>),
    List(Box<[Register]>),
    Dict(Box<[(Register, Register)]>),
    /// A dict whose keys are different texts.
    Named(Box<[(Register, Register)]>),
    Merge(Register, Register),
    Extend(Register, Register),
    Binary(Operator, Register, Register),
    Negative(Register),
    Positive(Register),
    Invert(Register),
    Not(Register),
    Truth(Register),
    Compare(Comparison, Register, Register),
    Is(Register, Register),
    In(Register, Register),
    Format(Format, Register),
    JoinText(Box<[Register]>),
    Call(Call, Box<[Register]>),
    Instance(Register, Box<[Class]>),
    /// All matches in a text.
    FindAll(Register, Box<Regex>),
    Unpack(Register, usize),
    /// The body for each item, which is in the second register then.
    Each(Register, Register, Box<Code>),
}

/// How what a dict has is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    AsValue,
    /// As it is encoded, where it is: nothing is computed of it.
    AsBytes,
}

impl Taken {
    /// What is encoded so.
    #[inline]
    pub(crate) fn value<'a>(self, bytes: &'a [u8], arena: &'a Bump) -> Computed<'a> {
        match self {
            Self::AsValue => view::value(bytes, arena),
            Self::AsBytes => Ok(Value::Opaque(bytes)),
        }
    }
}

/// A part of an argument that is found while the record is passed over.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) argument: usize,
    /// See [`crate::parts::Parts`].
    pub(crate) number: usize,
    /// The register of the argument, and how the part is found in its value where there are no such places.
    pub(crate) register: Register,
    pub(crate) way: Way,
}

/// How a part is found in a value.
#[derive(Debug)]
pub(crate) enum Way {
    /// The argument itself.
    Whole,
    Field(Name),
    Item(i64),
}

impl Operation {
    /// Calls `f` with each register that it reads, but for those of a body and for the argument of a part.
    pub(crate) fn each_operand(&self, f: &mut impl FnMut(Register)) {
        match self {
            Self::At(a, _)
            | Self::Field(a, ..)
            | Self::Attribute(a, _)
            | Self::Negative(a)
            | Self::Positive(a)
            | Self::Invert(a)
            | Self::Not(a)
            | Self::Truth(a)
            | Self::Format(_, a)
            | Self::Instance(a, _)
            | Self::FindAll(a, _)
            | Self::Unpack(a, _)
            | Self::Each(a, ..) => f(*a),
            Self::Item(a, b)
            | Self::Merge(a, b)
            | Self::Extend(a, b)
            | Self::Binary(_, a, b)
            | Self::Compare(_, a, b)
            | Self::Is(a, b)
            | Self::In(a, b) => [*a, *b].into_iter().for_each(f),
            Self::Part(..) => {}
            Self::GetPart(_, default) => default.iter().copied().for_each(f),
            Self::Get(a, _, default) => [*a].into_iter().chain(*default).for_each(f),
            Self::Slice(a, [start, stop, step]) => {
                [*a, *start, *stop, *step].into_iter().for_each(f);
            }
            Self::Tuple(all) | Self::List(all) | Self::JoinText(all) | Self::Call(_, all) => {
                all.iter().copied().for_each(f);
            }
            Self::Dict(pairs) | Self::Named(pairs) => {
                pairs
                    .iter()
                    .flat_map(|(key, value)| [*key, *value])
                    .for_each(f);
            }
        }
    }
}

impl Code {
    /// The register of the result, if there is one way to it.
    pub(crate) fn result(&self) -> Option<Register> {
        match self.end {
            Next::Return(register) => Some(register),
            _ => None,
        }
    }

    /// Calls `f` with the code of each way that ends.
    pub(crate) fn each_end(&mut self, f: &mut impl FnMut(&mut Self)) {
        match &mut self.end {
            Next::Branch(_, ways) => ways.iter_mut().for_each(|way| way.each_end(f)),
            _ => f(self),
        }
    }
}

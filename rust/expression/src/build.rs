//! A tree as instructions, of which each has its operation and its registers.
//!
//! Registers of the tree are numbered anew: those of constants come first, and are loaded once.

use crate::arithmetic::Operator;
use crate::calls::{self, Call};
use crate::compare::Comparison;
use crate::containers::{Class, Name};
use crate::emit::Piece;
use crate::format::Format;
use crate::tree::{Block, Constant, End, Expression, Given, Step};
use oka_compute::{Path, Step as PathStep};
use thiserror::Error;

/// Where a value is.
pub(crate) type Register = usize;

/// What of a function is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unknown(pub String);

/// A function as instructions.
#[derive(Debug)]
pub(crate) struct Function {
    /// The values of the first registers; the arguments are in the next ones.
    pub(crate) constants: Vec<Constant>,
    /// The number of all registers.
    pub(crate) registers: usize,
    pub(crate) code: Code,
    /// Whether the record is looked into, and not only passed on.
    pub(crate) looks_inside: bool,
    /// Whether nothing is computed of the record, which is a part of the result.
    pub(crate) is_passed_on: bool,
}

/// Instructions one after the other, and what comes behind them.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) instructions: Box<[(Register, Operation)]>,
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
    /// The value of a dict under a name: its bytes as they are if nothing is computed of it.
    Field(Register, Name, bool),
    /// That, or else the last, or else None.
    Get(Register, Name, Option<Register>),
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
    Unpack(Register, usize),
    /// The body for each item, which is in the second register then.
    Each(Register, Register, Box<Code>),
}

impl Operation {
    /// Calls `f` with each register that it reads, but for those of a body.
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
            | Self::Unpack(a, _)
            | Self::Each(a, ..) => f(*a),
            Self::Item(a, b)
            | Self::Merge(a, b)
            | Self::Extend(a, b)
            | Self::Binary(_, a, b)
            | Self::Compare(_, a, b)
            | Self::Is(a, b)
            | Self::In(a, b) => [*a, *b].into_iter().for_each(f),
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

/// Makes instructions of an expression, whose names of fields are added to those that there are.
pub(crate) fn build(expression: &Expression, names: &mut Vec<String>) -> Result<Function, Unknown> {
    let mut constants = Vec::new();
    collect(&expression.body, &mut constants);
    let first = constants.len();
    let mut builder = Builder {
        constants: &constants,
        next_constant: 0,
        registers: first + expression.arguments,
        names,
        arguments: first..first + expression.arguments,
        looks_inside: false,
    };
    let scope = (first..builder.registers).collect();
    let code = builder.code(&expression.body, scope)?;
    let (registers, looks_inside) = (builder.registers, builder.looks_inside);
    Ok(Function {
        constants,
        registers,
        code,
        looks_inside,
        is_passed_on: false,
    })
}

/// The constants of a block, in the order in which the builder comes to them.
fn collect(block: &Block, constants: &mut Vec<Constant>) {
    for step in &block.steps {
        match &step.given {
            Given::Body(body) => collect(body, constants),
            Given::Constant(constant) if step.operation == "constant" => {
                constants.push(constant.clone());
            }
            Given::Constant(_) => {}
        }
    }
    if let End::Branch(_, then, otherwise) = &block.end {
        collect(then, constants);
        collect(otherwise, constants);
    }
}

struct Builder<'b> {
    constants: &'b [Constant],
    next_constant: Register,
    registers: usize,
    names: &'b mut Vec<String>,
    arguments: std::ops::Range<Register>,
    looks_inside: bool,
}

impl Builder<'_> {
    /// The instructions of a block; `scope` has the registers of the tree.
    fn code(&mut self, block: &Block, mut scope: Vec<Register>) -> Result<Code, Unknown> {
        let mut instructions = Vec::new();
        for step in &block.steps {
            if step.operation == "constant" {
                scope.push(self.next_constant);
                self.next_constant += 1;
                continue;
            }
            let operation = self.operation(step, &scope)?;
            let into = self.register();
            instructions.push((into, operation));
            scope.push(into);
        }
        let end = match &block.end {
            End::Return(register) => Next::Return(placed(&scope, *register)?),
            End::Skip => Next::Skip,
            End::Branch(condition, then, otherwise) => {
                let condition = placed(&scope, *condition)?;
                let then = self.code(then, scope.clone())?;
                let otherwise = self.code(otherwise, scope)?;
                Next::Branch(condition, Box::new([then, otherwise]))
            }
        };
        Ok(Code {
            instructions: instructions.into(),
            end,
        })
    }

    fn register(&mut self) -> Register {
        self.registers += 1;
        self.registers - 1
    }

    fn operation(&mut self, step: &Step, scope: &[Register]) -> Result<Operation, Unknown> {
        let operands = step.operands.iter().map(|operand| placed(scope, *operand));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        let passes_on = matches!(&*step.operation, "tuple" | "list" | "dict" | "is");
        if !passes_on
            && operands
                .iter()
                .any(|operand| self.arguments.contains(operand))
        {
            self.looks_inside = true;
        }
        Ok(match (&*step.operation, &operands[..], &step.given) {
            ("item", &[value, key], _) => match self.constant(key) {
                Some(Constant::Text(name)) => {
                    Operation::Field(value, self.name(&name.clone()), false)
                }
                Some(Constant::Int(index)) => Operation::At(value, *index),
                _ => Operation::Item(value, key),
            },
            ("slice", &[value, start, stop, step], _) => {
                Operation::Slice(value, [start, stop, step])
            }
            ("tuple", _, _) => Operation::Tuple(operands.into()),
            ("list", _, _) => Operation::List(operands.into()),
            ("dict", _, _) if operands.len() % 2 == 0 => self.dict(&operands),
            ("merge", &[first, second], _) => Operation::Merge(first, second),
            ("extend", &[first, second], _) => Operation::Extend(first, second),
            ("negative", &[value], _) => Operation::Negative(value),
            ("positive", &[value], _) => Operation::Positive(value),
            ("invert", &[value], _) => Operation::Invert(value),
            ("not", &[value], _) => Operation::Not(value),
            ("truth", &[value], _) => Operation::Truth(value),
            ("is", &[left, right], _) => Operation::Is(left, right),
            ("in", &[value, container], _) => Operation::In(value, container),
            ("format", &[value], Given::Constant(given)) => {
                Operation::Format(format(given)?, value)
            }
            ("join_text", _, _) => Operation::JoinText(operands.into()),
            ("attribute", &[value], Given::Constant(Constant::Text(name))) => {
                Operation::Attribute(value, Path::from([PathStep::Field(name.clone())]))
            }
            ("unpack", &[value], &Given::Constant(Constant::Int(count))) => {
                Operation::Unpack(value, usize::try_from(count).unwrap_or(usize::MAX))
            }
            ("call", &[value], Given::Constant(Constant::Text(name)))
                if name.starts_with("isinstance:") =>
            {
                let classes = name["isinstance:".len()..].split('|').map(Class::named);
                let classes = classes.collect::<Option<_>>();
                Operation::Instance(value, classes.ok_or_else(|| Unknown(name.clone()))?)
            }
            ("call", _, Given::Constant(Constant::Text(name))) => {
                let call = calls::builtin(name, operands.len());
                let call = call
                    .ok_or_else(|| Unknown(format!("{name}() of {} arguments", operands.len())))?;
                Operation::Call(call, operands.into())
            }
            ("method", _, Given::Constant(Constant::Text(name))) => self.method(name, operands)?,
            ("each", &[value], Given::Body(body)) => {
                let item = self.register();
                let mut scope = scope.to_vec();
                scope.push(item);
                Operation::Each(value, item, Box::new(self.code(body, scope)?))
            }
            (operation, &[left, right], _) => {
                if let Some(operator) = operator(operation) {
                    Operation::Binary(operator, left, right)
                } else if let Some(comparison) = comparison(operation) {
                    Operation::Compare(comparison, left, right)
                } else {
                    return Err(Unknown(format!("operation {operation}")));
                }
            }
            (operation, ..) => return Err(Unknown(format!("operation {operation}"))),
        })
    }

    fn dict(&self, operands: &[Register]) -> Operation {
        let (pairs, _) = operands.as_chunks::<2>();
        let pairs: Box<[_]> = pairs.iter().map(|[key, value]| (*key, *value)).collect();
        let is_new_text = |(index, (key, _)): (usize, &(Register, Register))| {
            let key = self.constant(*key);
            let mut before = pairs[..index].iter();
            matches!(key, Some(Constant::Text(_)))
                && !before.any(|(earlier, _)| self.constant(*earlier) == key)
        };
        if pairs.iter().enumerate().all(is_new_text) {
            Operation::Named(pairs)
        } else {
            Operation::Dict(pairs)
        }
    }

    fn method(&mut self, name: &str, operands: Vec<Register>) -> Result<Operation, Unknown> {
        if let ("get", [value, key, default @ ..]) = (name, &operands[..])
            && let Some(Constant::Text(key)) = self.constant(*key)
            && default.len() < 2
        {
            let name = self.name(&key.clone());
            return Ok(Operation::Get(*value, name, default.first().copied()));
        }
        let call = calls::method(name, operands.len());
        let call = call.ok_or_else(|| {
            Unknown(format!(
                ".{name}() of {} arguments",
                operands.len().saturating_sub(1)
            ))
        })?;
        Ok(Operation::Call(call, operands.into()))
    }

    fn constant(&self, register: Register) -> Option<&Constant> {
        self.constants.get(register)
    }

    fn name(&mut self, text: &str) -> Name {
        let known = self.names.iter().position(|name| name == text);
        let number = known.unwrap_or_else(|| {
            self.names.push(text.to_owned());
            self.names.len() - 1
        });
        Name::new(number, text)
    }
}

fn placed(scope: &[Register], register: usize) -> Result<Register, Unknown> {
    let place = scope.get(register).copied();
    place.ok_or_else(|| Unknown(format!("a value {register} that does not come before")))
}

fn format(given: &Constant) -> Result<Format, Unknown> {
    let unknown = || Unknown(format!("format {given:?}"));
    let Constant::Tuple(parts) = given else {
        return Err(unknown());
    };
    let [Constant::Text(conversion), Constant::Text(spec)] = &parts[..] else {
        return Err(unknown());
    };
    let found = Format::new(conversion, spec);
    found.ok_or_else(|| {
        Unknown(format!(
            "the format {spec:?} with the conversion {conversion:?}"
        ))
    })
}

fn operator(operation: &str) -> Option<Operator> {
    Some(match operation {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "//" => Operator::FloorDivide,
        "%" => Operator::Modulo,
        "**" => Operator::Power,
        "&" => Operator::And,
        "|" => Operator::Or,
        "^" => Operator::Xor,
        "<<" => Operator::ShiftLeft,
        ">>" => Operator::ShiftRight,
        _ => return None,
    })
}

fn comparison(operation: &str) -> Option<Comparison> {
    Some(match operation {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

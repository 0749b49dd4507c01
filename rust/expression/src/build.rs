//! A tree as instructions, of which each has its operation and its registers.
//!
//! Registers of the tree are numbered anew: those of constants come first, and are loaded once. Behind them are those of
//! arguments.

use crate::calls;
use crate::code::{Code, Next, Operation, Part, Register, Taken, Way};
use crate::operations::arithmetic::Operator;
use crate::operations::compare::Comparison;
use crate::operations::containers::{Class, Name};
use crate::operations::format::Format;
use crate::parts::Parts;
use crate::tree::{Block, Constant, End, Expression, Given, Step};
use oka_compute::{Path, Step as PathStep};
use regex::bytes::RegexBuilder;
use thiserror::Error;

/// What of a function is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unknown(pub String);

/// Makes instructions of functions that have their registers together.
#[derive(Debug)]
pub(crate) struct Builder {
    /// The values of the first registers.
    pub(crate) constants: Vec<Constant>,
    next_constant: Register,
    /// By register: what a tuple or a dict is made of.
    pub(crate) displays: Vec<Option<Display>>,
    arguments: std::ops::Range<Register>,
    /// What is looked for in each argument.
    pub(crate) parts: Vec<Parts>,
    /// The names of fields.
    pub(crate) names: Vec<String>,
}

/// The registers of what a tuple or a dict is made of; the keys of the dict are different texts.
#[derive(Clone, Debug)]
pub(crate) enum Display {
    Tuple(Box<[Register]>),
    Named(Box<[(Register, Register)]>),
}

impl Builder {
    /// Of these expressions, which are built in this order, with so many arguments for all of them.
    pub(crate) fn new<'e>(
        expressions: impl Iterator<Item = &'e Expression>,
        arguments: usize,
    ) -> Self {
        let mut constants = Vec::new();
        expressions.for_each(|expression| collect(&expression.body, &mut constants));
        let first = constants.len();
        Self {
            constants,
            next_constant: 0,
            displays: vec![None; first + arguments],
            arguments: first..first + arguments,
            parts: (0..arguments).map(|_| Parts::new()).collect(),
            names: Vec::new(),
        }
    }

    /// The register of an argument.
    pub(crate) fn argument(&self, index: usize) -> Register {
        self.arguments.start + index
    }

    /// Which argument is in a register.
    pub(crate) fn argument_in(&self, register: Register) -> Option<usize> {
        self.arguments
            .contains(&register)
            .then(|| register - self.arguments.start)
    }

    /// The instructions of a function of what is in these registers.
    pub(crate) fn function(
        &mut self,
        expression: &Expression,
        arguments: &[Register],
    ) -> Result<Code, Unknown> {
        if expression.arguments != arguments.len() {
            let count = expression.arguments;
            return Err(Unknown(format!("a function of {count} arguments")));
        }
        self.code(&expression.body, arguments.to_vec())
    }

    /// A register that nothing else has.
    pub(crate) fn register(&mut self) -> Register {
        self.displays.push(None);
        self.displays.len() - 1
    }

    /// An instruction with the register that it fills.
    pub(crate) fn instruction(&mut self, operation: Operation) -> (Register, Operation) {
        let into = self.register();
        self.displays[into] = match &operation {
            Operation::Tuple(items) => Some(Display::Tuple(items.clone())),
            Operation::Named(pairs) => Some(Display::Named(pairs.clone())),
            _ => None,
        };
        (into, operation)
    }

    /// The instructions of a block; `scope` has the registers of the tree.
    fn code(&mut self, block: &Block, mut scope: Vec<Register>) -> Result<Code, Unknown> {
        let mut instructions = Vec::new();
        for step in &block.steps {
            if step.operation == "constant" {
                scope.push(self.next_constant);
                self.next_constant += 1;
                continue;
            }
            if let Some(known) = self.known(step, &scope)? {
                scope.push(known);
                continue;
            }
            let operation = self.operation(step, &scope)?;
            let instruction = self.instruction(operation);
            scope.push(instruction.0);
            instructions.push(instruction);
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
        Ok(Code { instructions, end })
    }

    /// The register that has the item of a tuple or a dict already, which is never looked into then.
    fn known(&self, step: &Step, scope: &[Register]) -> Result<Option<Register>, Unknown> {
        let ("item", &[value, key]) = (&*step.operation, &step.operands[..]) else {
            return Ok(None);
        };
        let (value, key) = (placed(scope, value)?, placed(scope, key)?);
        Ok(match (&self.displays[value], self.constant(key)) {
            (Some(Display::Tuple(items)), Some(Constant::Int(index))) => {
                let index = usize::try_from(*index).ok();
                index.and_then(|index| items.get(index).copied())
            }
            (Some(Display::Named(pairs)), Some(name @ Constant::Text(_))) => {
                let mut pairs = pairs.iter();
                let pair = pairs.find(|(key, _)| self.constant(*key) == Some(name));
                pair.map(|(_, value)| *value)
            }
            _ => None,
        })
    }

    fn operation(&mut self, step: &Step, scope: &[Register]) -> Result<Operation, Unknown> {
        let operands = step.operands.iter().map(|operand| placed(scope, *operand));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        Ok(match (&*step.operation, &operands[..], &step.given) {
            ("item", &[value, key], _) => self.item(value, key),
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
            ("call", &[value], Given::Constant(Constant::Text(name)))
                if let Some(pattern) = name.strip_prefix("findall:") =>
            {
                let pattern = RegexBuilder::new(pattern).unicode(false).build();
                let pattern = pattern.map_err(|reason| Unknown(reason.to_string()))?;
                Operation::FindAll(value, Box::new(pattern))
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

    fn item(&mut self, value: Register, key: Register) -> Operation {
        match self.constant(key) {
            Some(Constant::Text(name)) => {
                let name = self.name(&name.clone());
                if self.arguments.contains(&value) {
                    return Operation::Part(self.field(value, name), Taken::AsValue);
                }
                Operation::Field(value, name, Taken::AsValue)
            }
            Some(&Constant::Int(index)) => match usize::try_from(index) {
                Ok(place) if self.arguments.contains(&value) => {
                    let argument = value - self.arguments.start;
                    let part = Part {
                        argument,
                        number: self.parts[argument].item(place),
                        register: value,
                        way: Way::Item(index),
                    };
                    Operation::Part(part, Taken::AsValue)
                }
                _ => Operation::At(value, index),
            },
            _ => Operation::Item(value, key),
        }
    }

    /// The field of an argument.
    fn field(&mut self, register: Register, name: Name) -> Part {
        let argument = register - self.arguments.start;
        Part {
            argument,
            number: self.parts[argument].field(&name),
            register,
            way: Way::Field(name),
        }
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
            let (name, default) = (self.name(&key.clone()), default.first().copied());
            if self.arguments.contains(value) {
                return Ok(Operation::GetPart(self.field(*value, name), default));
            }
            return Ok(Operation::Get(*value, name, default));
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

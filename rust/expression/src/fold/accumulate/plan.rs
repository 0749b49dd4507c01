//! What of a value records read and change, and what stays.

use super::update::Update;
use crate::build::{Builder, Display};
use crate::code::{Code, Next, Operation, Part, Register, Way};
use crate::operations::arithmetic::Operator;
use crate::parts::{Parts, WHOLE};
use crate::tree::Constant;
use oka_compute::encode;

/// A function of this kind.
#[derive(Debug)]
pub(super) struct Plan {
    /// What a record is computed by, between its slots.
    pub(super) code: Code,
    pub(super) layout: Layout,
    pub(super) slots: Vec<Slot>,
    /// What slots change to, where the code needs not run.
    pub(super) updates: Option<Vec<Update>>,
    /// The registers that have slots before a record is computed.
    pub(super) reads: Vec<(Register, usize)>,
    /// The register of a record, and whether it is there as a value beside its parts.
    pub(super) record: Register,
    pub(super) needs_record: bool,
    /// Whether nothing changes the first item.
    pub(super) keeps_first: bool,
}

/// What a value is made of.
#[derive(Debug)]
pub(super) enum Layout {
    /// These pieces, one behind the other.
    Display(Vec<Piece>),
    /// A dict of which some fields are slots.
    Dict,
}

#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// A part of the first value, by its number.
    Part(usize),
    /// The next slot.
    Slot,
}

/// A piece of a value that records read or change.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its part in a value that comes as a whole; None if it need not be there.
    pub(super) part: Option<usize>,
    /// The register that has it behind a record; None if it is only read.
    pub(super) written: Option<Register>,
}

/// Where something is in a value.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It is all there is.
    Whole,
    Item(usize),
    /// By its name, encoded.
    Field(Box<[u8]>),
}

/// The result of a function, as it is made of items.
#[derive(Default)]
struct Made {
    items: Vec<(Place, Register)>,
    /// What is in front of each, but for a dict of which they replace some.
    fronts: Vec<Vec<u8>>,
    replaces: bool,
    /// The registers of the result and of what is made for it alone.
    unmade: Vec<Register>,
}

/// What is read of the value.
struct Read {
    parts: Vec<(Register, Part)>,
    /// By register: whether something is computed of it.
    used: Vec<bool>,
}

impl Plan {
    /// None for a function of another kind.
    pub(super) fn of(code: Code, builder: &mut Builder) -> Option<Self> {
        let result = code.result()?;
        let [value, record] = [builder.argument(0), builder.argument(1)];
        let made = Made::of(&code, builder, result)?;
        let mut read = Read {
            parts: Vec::new(),
            used: vec![false; builder.displays.len()],
        };
        let mut instructions = Vec::new();
        for (into, operation) in code.instructions {
            match operation {
                Operation::Part(part, _) if part.argument == 0 => read.parts.push((into, part)),
                Operation::GetPart(Part { argument: 0, .. }, _) | Operation::Each(..) => {
                    return None;
                }
                _ if made.unmade.contains(&into) => {}
                operation => {
                    operation.each_operand(&mut |register| read.used[register] = true);
                    instructions.push((into, operation));
                }
            }
        }
        let is_whole = matches!(made.items[..], [(Place::Whole, _)]);
        let is_needed = |register: &Register| {
            read.used[*register] || made.items.iter().any(|(_, item)| item == register)
        };
        if !is_whole && (is_needed(&value) || made.unmade.iter().any(is_needed)) {
            return None;
        }
        let mut plan = Self {
            layout: Layout::Dict,
            slots: Vec::new(),
            updates: None,
            reads: Vec::new(),
            record,
            needs_record: read.used[record] || made.items.iter().any(|(_, item)| *item == record),
            keeps_first: false,
            code: Code {
                instructions,
                end: Next::Skip,
            },
        };
        if is_whole {
            plan.reads.push((value, 0));
        }
        let pieces = plan.pieces(&made, &read, &mut builder.parts[0])?;
        if !made.replaces {
            plan.layout = Layout::Display(pieces);
        }
        plan.read_others(&made, &read)?;
        plan.updates = Update::all(&plan.code, &plan.slots, &plan.reads, record);
        Some(plan)
    }

    /// The pieces of a result, with slots for what is read or changed.
    fn pieces(&mut self, made: &Made, read: &Read, parts: &mut Parts) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        for (at, (place, item)) in made.items.iter().enumerate() {
            pieces.extend(made.fronts.get(at).cloned().map(Piece::Bytes));
            let kept = read.parts.iter().find(|(register, _)| register == item);
            if kept.is_some_and(|(_, part)| Place::of(part).as_ref() != Some(place)) {
                return None; // it changes its place
            }
            let is_read = self.read(place, read);
            let part = read.at(place).next().map(|(_, part)| part.number);
            if let (Some(_), Some(part), false, false) = (kept, part, is_read, made.replaces) {
                self.keeps_first |= *place == Place::Item(0);
                pieces.push(Piece::Part(part));
                continue;
            }
            pieces.push(Piece::Slot);
            self.slots.push(Slot {
                part: match place {
                    Place::Whole => Some(WHOLE),
                    Place::Field(name) if made.replaces => Some(parts.named(name)),
                    _ => part,
                },
                written: kept.is_none().then_some(*item),
            });
        }
        Some(pieces)
    }

    /// Makes slots of what is read beside the items of the result, which a dict has where it has it.
    fn read_others(&mut self, made: &Made, read: &Read) -> Option<()> {
        for (_, part) in &read.parts {
            let place = Place::of(part)?;
            if made.items.iter().any(|(item, _)| *item == place) {
                continue;
            }
            if !made.replaces {
                return None;
            }
            self.read(&place, read);
            self.slots.push(Slot {
                part: Some(part.number),
                written: None,
            });
        }
        Some(())
    }

    /// Has the next slot be read where what is at the place is; whether it is.
    fn read(&mut self, place: &Place, read: &Read) -> bool {
        let computed = read.at(place).filter(|(register, _)| read.used[*register]);
        let before = self.reads.len();
        let slot = self.slots.len();
        self.reads
            .extend(computed.map(|(register, _)| (*register, slot)));
        self.reads.len() > before
    }
}

impl Read {
    fn at(&self, place: &Place) -> impl Iterator<Item = &(Register, Part)> {
        let is_there = move |(_, part): &&(Register, Part)| Place::of(part).as_ref() == Some(place);
        self.parts.iter().filter(is_there)
    }
}

impl Place {
    fn of(part: &Part) -> Option<Self> {
        match &part.way {
            Way::Whole => Some(Self::Whole),
            Way::Item(index) => usize::try_from(*index).ok().map(Self::Item),
            Way::Field(name) => Some(Self::Field(name.encoded().into())),
        }
    }
}

impl Made {
    fn of(code: &Code, builder: &Builder, result: Register) -> Option<Self> {
        let mut made = Self {
            unmade: vec![result],
            ..Self::default()
        };
        let fields = made.replacing(code, builder, result);
        made.replaces = fields.is_some();
        match &builder.displays[fields.unwrap_or(result)] {
            Some(Display::Tuple(items)) if !made.replaces => {
                for (at, item) in items.iter().enumerate() {
                    let mut front = Vec::new();
                    if at == 0 {
                        encode::array(&mut front, items.len());
                    }
                    made.fronts.push(front);
                    made.items.push((Place::Item(at), *item));
                }
            }
            Some(Display::Named(pairs)) => {
                for (at, (name, item)) in pairs.iter().enumerate() {
                    let Some(Constant::Text(name)) = builder.constants.get(*name) else {
                        return None;
                    };
                    let (mut front, mut encoded) = (Vec::new(), Vec::new());
                    encode::text(&mut encoded, name.as_bytes());
                    if at == 0 {
                        encode::map(&mut front, pairs.len());
                    }
                    front.extend_from_slice(&encoded);
                    made.fronts.push(front);
                    made.items.push((Place::Field(encoded.into()), *item));
                }
            }
            None if !made.replaces && result != builder.argument(0) => {
                made.items.push((Place::Whole, result));
                made.unmade.clear();
            }
            _ => return None,
        }
        if made.replaces {
            made.fronts.clear();
        }
        Some(made)
    }

    /// The register of a dict whose fields replace those of the value: of `{**value, ...}` and `value | {...}`.
    fn replacing(&mut self, code: &Code, builder: &Builder, result: Register) -> Option<Register> {
        let made = |register: Register| {
            let mut instructions = code.instructions.iter();
            instructions.find_map(|(into, made)| (*into == register).then_some(made))
        };
        let (whole, fields) = match made(result)? {
            Operation::Merge(whole, fields) | Operation::Binary(Operator::Or, whole, fields) => {
                (*whole, *fields)
            }
            _ => return None,
        };
        if !matches!(builder.displays[fields], Some(Display::Named(_))) {
            return None;
        }
        if whole != builder.argument(0) {
            let Operation::Merge(empty, value) = made(whole)? else {
                return None;
            };
            let is_empty = match &builder.displays[*empty] {
                Some(Display::Named(pairs)) => pairs.is_empty(),
                _ => false,
            };
            if !is_empty || *value != builder.argument(0) {
                return None;
            }
            self.unmade.extend([whole, *empty]);
        }
        self.unmade.push(fields);
        Some(fields)
    }
}

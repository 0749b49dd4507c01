//! What a function computes, as `engine/expression/tree.py` describes it.

/// A lifted function of `arguments` arguments.
#[derive(Clone, Debug)]
pub struct Expression {
    pub arguments: usize,
    pub body: Block,
}

/// Steps one after the other, and what comes behind them.
#[derive(Clone, Debug)]
pub struct Block {
    pub steps: Vec<Step>,
    pub end: End,
}

/// One value from others before it.
#[derive(Clone, Debug)]
pub struct Step {
    pub operation: String,
    pub operands: Vec<usize>,
    pub given: Given,
}

/// What an operation has beside its operands.
#[derive(Clone, Debug)]
pub enum Given {
    Constant(Constant),
    Body(Block),
}

/// A value that is the same for every record.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Constant>),
    Set(Vec<Constant>),
}

/// The end of a path.
#[derive(Clone, Debug)]
pub enum End {
    Return(usize),
    Branch(usize, Box<Block>, Box<Block>),
    Skip,
}

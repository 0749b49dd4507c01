//! What is computed of each key's records.

use crate::accumulator::{Accumulated, Aggregation};
use crate::encoded::encode;
use crate::encoded::fields::first;
use crate::encoded::path::Path;
use crate::encoded::value::{Reader, Value};
use crate::problem::Problem;
use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::iter;
use std::sync::Arc;

/// One aggregation, and where in a record its values are.
#[derive(Clone, Debug)]
pub struct Term {
    pub(crate) aggregation: Aggregation,
    /// The way from the record to the value.
    pub(crate) value: Path,
    /// And to the second value, where it is of pairs.
    beside: Option<Path>,
    filter: Option<Filter>,
}

/// Which records count.
#[derive(Clone)]
pub enum Filter {
    /// Those with a true value there; nil is false.
    Item(Path),
    /// Those that a function is true for, of what is there, encoded.
    Function(Path, Arc<Predicate>),
}

/// Whether a record counts.
pub type Predicate = dyn Fn(&[u8]) -> Result<bool, Problem> + Send + Sync;

impl Term {
    /// Of what is at this path; a count needs none.
    pub fn new(aggregation: Aggregation, value: Path) -> Self {
        Self {
            aggregation,
            value,
            beside: None,
            filter: None,
        }
    }

    /// Of pairs of that and what is at this path.
    #[must_use]
    pub fn beside(mut self, path: Path) -> Self {
        self.beside = Some(path);
        self
    }

    /// Of some of the records alone.
    #[must_use]
    pub fn filtered(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Whether it is of the value at its path, of every record.
    pub(crate) fn is_plain(&self) -> bool {
        self.beside.is_none() && self.filter.is_none()
    }

    /// Whether some records do not count.
    pub(crate) fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// The bytes of a record from its value on; `None` if it does not count.
    pub(crate) fn find<'r>(&self, record: &'r [u8]) -> Result<Option<Cow<'r, [u8]>>, Problem> {
        if let Some(filter) = &self.filter
            && !filter.has(record)?
        {
            return Ok(None);
        }
        if self.aggregation == Aggregation::Count {
            return Ok(Some(Cow::Borrowed(record)));
        }
        let value = self.value.find(record).map_err(Problem::NoValue)?;
        let Some(beside) = &self.beside else {
            return Ok(Some(Cow::Borrowed(value)));
        };
        let beside = beside.find(record).map_err(Problem::NoValue)?;
        let mut pair = Vec::with_capacity(PAIR_BYTES);
        encode::array(&mut pair, 2);
        pair.extend_from_slice(first(value)?);
        pair.extend_from_slice(first(beside)?);
        Ok(Some(Cow::Owned(pair)))
    }

    /// What a record comes to by itself.
    pub(crate) fn alone(&self, record: &[u8]) -> Result<Accumulated, Problem> {
        match self.find(record)? {
            Some(value) => Accumulated::first(self.aggregation, &value),
            None => Ok(Accumulated::empty(self.aggregation)),
        }
    }

    /// Takes a record in; false if it does not count.
    pub(crate) fn add(&self, so_far: &mut Accumulated, record: &[u8]) -> Result<bool, Problem> {
        match self.find(record)? {
            None => Ok(false),
            Some(value) if matches!(so_far, Accumulated::Nothing) => {
                *so_far = Accumulated::first(self.aggregation, &value)?;
                Ok(true)
            }
            Some(value) => so_far.add(self.aggregation, &value),
        }
    }
}

impl From<(Aggregation, Path)> for Term {
    fn from((aggregation, value): (Aggregation, Path)) -> Self {
        Self::new(aggregation, value)
    }
}

impl Filter {
    fn has(&self, record: &[u8]) -> Result<bool, Problem> {
        let path = match self {
            Self::Item(path) | Self::Function(path, _) => path,
        };
        let found = path.find(record).map_err(Problem::NoFilter)?;
        match self {
            Self::Function(_, function) => function(first(found)?),
            Self::Item(_) => match Reader::new(found).read()? {
                Value::Bool(truth) => Ok(truth),
                Value::Nil => Ok(false),
                _ => Err(Problem::NotAFilter),
            },
        }
    }
}

impl Debug for Filter {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(path) => out.debug_tuple("Item").field(path).finish(),
            Self::Function(path, _) => out.debug_tuple("Function").field(path).finish(),
        }
    }
}

/// One aggregation, and others beside it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) aggregation: Aggregation,
    /// The first one, where it is not plain: else its value comes with the key.
    pub(crate) first: Option<Term>,
    pub(crate) further: Vec<Term>,
    /// Whether a record that fails leaves everything as it was.
    pub(crate) careful: bool,
}

impl Wanted {
    pub(crate) fn new(first: &Term) -> Self {
        Self {
            aggregation: first.aggregation,
            first: (!first.is_plain()).then(|| first.clone()),
            further: Vec::new(),
            careful: false,
        }
    }

    /// Whether there is one aggregation, a plain one.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.further.is_empty() && self.first.is_none()
    }

    /// Each of the aggregations.
    pub(crate) fn all(&self) -> impl Iterator<Item = Aggregation> {
        let further = self.further.iter().map(|term| term.aggregation);
        iter::once(self.aggregation).chain(further)
    }

    /// Of each, whether some records do not count.
    pub(crate) fn are_filtered(&self) -> impl Iterator<Item = bool> {
        let first = self.first.as_ref().is_some_and(Term::is_filtered);
        iter::once(first).chain(self.further.iter().map(Term::is_filtered))
    }

    /// What a record comes to by itself.
    pub(crate) fn alone(&self, value: &[u8], record: &[u8]) -> Result<Vec<Accumulated>, Problem> {
        let first = match &self.first {
            None => Accumulated::first(self.aggregation, value),
            Some(term) => term.alone(record),
        };
        let further = self.further.iter().map(|term| term.alone(record));
        iter::once(first).chain(further).collect()
    }
}

/// So much two numbers take at most, with the head of their array.
const PAIR_BYTES: usize = 19;

//! The calls of aggregate functions, and the paths to keys and values in records.

use crate::operators::refused::{no_column, raise};
use crate::operators::results::Shown;
use oka_codec::Decoder;
use oka_columnar::Selector;
use oka_compute::{
    AggregateError, Aggregation, Filter, KeyPath, Path, Problem, Reader, Rolled, Span, Step, Term,
    Unit,
};
use oka_transport::ReceivedFrames;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::iter;
use std::sync::Arc;

/// One step of a path: an int or a str.
#[derive(FromPyObject)]
pub(crate) enum PathStep {
    Item(i64),
    Field(String),
}

/// A call of an aggregate function.
pub(crate) struct AggregateCall {
    pub(crate) aggregation: Aggregation,
    /// The way from the record to the value.
    pub(crate) path: Vec<PathStep>,
    /// The shares of quantiles, or how many values are wanted.
    pub(crate) parameters: Vec<f64>,
    /// The way to the second value of pairs.
    beside: Option<Vec<PathStep>>,
    filter: Option<FilterTuple>,
}

/// A call as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum CallTuple {
    Plain(String, Vec<PathStep>),
    With(String, Vec<PathStep>, Vec<f64>),
    Of(
        String,
        Vec<PathStep>,
        Vec<f64>,
        Option<Vec<PathStep>>,
        Option<FilterTuple>,
    ),
}

/// The way to what says whether a record counts, and the function that says it of that, if it is no bool.
type FilterTuple = (Vec<PathStep>, Option<Py<PyAny>>);

/// What is computed of records or columns by their keys, as Python says it.
pub(crate) struct Computation {
    key: Vec<Vec<PathStep>>,
    wanted: Vec<AggregateCall>,
    /// One for each call, where there are several.
    names: Option<Vec<Py<PyString>>>,
    /// What takes records that fail.
    rescue: Option<Py<PyAny>>,
}

impl Computation {
    pub(crate) fn new(
        key: Vec<Vec<PathStep>>,
        wanted: Vec<CallTuple>,
        names: Option<Vec<Py<PyString>>>,
        rescue: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            key,
            wanted: aggregate_calls(wanted, names.as_deref())?,
            names,
            rescue,
        })
    }

    /// The way to the key; without one, all records have the empty tuple.
    pub(crate) fn key(&self) -> KeyPath {
        match &self.key[..] {
            [only] => KeyPath::One(path(only)),
            several => KeyPath::Tuple(several.iter().map(|each| path(each)).collect()),
        }
    }

    /// The first of what is computed, and those beside it.
    pub(crate) fn terms(&self) -> (Term, impl Iterator<Item = Term>) {
        let mut terms = self.wanted.iter().map(AggregateCall::term);
        let first = terms.next();
        (
            first.unwrap_or_else(|| Term::new(Aggregation::Count, Path::default())),
            terms,
        )
    }

    /// The shares of quantiles, or how many values are wanted, of each.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = Arc<[f64]>> {
        self.wanted.iter().map(|each| each.parameters[..].into())
    }

    /// Whether a record that fails leaves everything as it was.
    pub(crate) fn is_careful(&self) -> bool {
        self.rescue.is_some()
    }

    pub(crate) fn shown(&self) -> Shown<'_> {
        Shown {
            wanted: &self.wanted,
            names: self.names.as_deref(),
            is_keyed: !self.key.is_empty(),
        }
    }

    /// Has encoded records taken in by `update`, which stops at one that fails: that is rescued, and the next
    /// ones follow.
    pub(crate) fn take_in(
        &self,
        py: Python<'_>,
        received: &ReceivedFrames,
        mut update: impl FnMut(&[u8], usize) -> Result<(), AggregateError> + Send,
    ) -> PyResult<()> {
        let mut first = 0;
        for (mut records, mut body) in received.bodies() {
            while let Err(error) = detached(py, body.len(), || update(body, records)) {
                let failed = raise(py, (first, body), &error, &self.wanted);
                body = behind(py, self.rescue.as_ref(), (body, &error), failed)?;
                first += error.record + 1;
                records -= error.record + 1;
            }
            first += records;
        }
        Ok(())
    }

    /// The same over columns.
    pub(crate) fn over_columns(&self) -> PyResult<oka_columnar::Aggregate> {
        let mut aggregate = oka_columnar::Aggregate::by(self.key_columns()?);
        for (at, each) in self.wanted.iter().enumerate() {
            let name = match &self.names {
                Some(names) => names[at].to_string(),
                None => each.aggregation.name().to_owned(),
            };
            let computed = (each.aggregation, &each.parameters[..]);
            aggregate = aggregate.compute_by(name, computed, each.column()?);
            aggregate = aggregate.of(each.second_column()?, each.filter_column()?);
        }
        Ok(aggregate)
    }

    /// The same within spans that end at each row. The names of results are those of each span.
    pub(crate) fn over_spans(
        &self,
        time: (Selector, Unit),
        (spans, names): (&[Span], &[String]),
        keeps_late: bool,
    ) -> PyResult<oka_columnar::RollingAggregate> {
        let by = oka_columnar::RollingAggregate::by;
        let mut aggregate = by(self.key_columns()?, time, spans, keeps_late);
        for (at, each) in self.wanted.iter().enumerate() {
            let own = names.iter().skip(at).step_by(self.wanted.len());
            let rolled = Rolled {
                aggregation: each.aggregation,
                parameters: each.parameters.clone().into(),
                is_filtered: each.filter.is_some(),
            };
            aggregate = aggregate.compute(own.cloned().collect(), rolled, each.column()?);
            aggregate = aggregate.of(each.second_column()?, each.filter_column()?);
        }
        Ok(aggregate)
    }

    /// Whether a function says which records count: it looks at records alone.
    pub(crate) fn looks_at_records(&self) -> bool {
        let mut filters = self.wanted.iter().filter_map(|each| each.filter.as_ref());
        filters.any(|(_, function)| function.is_some())
    }

    /// Whether nothing but the number of all records is wanted.
    pub(crate) fn only_counts(&self) -> bool {
        let mut wanted = self.wanted.iter();
        let counts =
            |each: &AggregateCall| each.aggregation == Aggregation::Count && each.filter.is_none();
        self.key.is_empty() && wanted.all(counts)
    }

    /// The columns of the key.
    pub(crate) fn key_columns(&self) -> PyResult<Vec<Selector>> {
        let column = |path: &Vec<PathStep>| selector(path)?.ok_or_else(|| no_column("key_by()"));
        self.key.iter().map(column).collect()
    }
}

impl AggregateCall {
    /// The column of the values; a count needs none.
    fn column(&self) -> PyResult<Option<Selector>> {
        match (self.aggregation, selector(&self.path)?) {
            (Aggregation::Count, _) => Ok(None),
            (_, None) => Err(no_column("the aggregation")),
            (_, value) => Ok(value),
        }
    }

    /// The ways to its values: to one, or to both of pairs.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[PathStep]> {
        iter::once(&self.path)
            .chain(&self.beside)
            .map(Vec::as_slice)
    }

    /// That of the second values of pairs.
    fn second_column(&self) -> PyResult<Option<Selector>> {
        match &self.beside {
            Some(path) => selector(path)?.map_or_else(|| Err(no_column("the aggregation")), some),
            None => Ok(None),
        }
    }

    /// That of bools which say whether rows count.
    fn filter_column(&self) -> PyResult<Option<Selector>> {
        match &self.filter {
            Some((path, None)) => selector(path)?.map_or_else(|| Err(no_column("where=")), some),
            Some((_, Some(_))) => Err(no_column("a function as where=")),
            None => Ok(None),
        }
    }

    /// The same over records.
    fn term(&self) -> Term {
        let mut term = Term::new(self.aggregation, path(&self.path));
        if let Some(beside) = &self.beside {
            term = term.beside(path(beside));
        }
        let Some((to, function)) = &self.filter else {
            return term;
        };
        let function = (function.as_ref()).map(|f| Python::attach(|py| f.clone_ref(py)));
        term.filtered(match function {
            None => Filter::Item(path(to)),
            Some(function) => {
                let says = move |record: &[u8]| says(&function, record);
                Filter::Function(path(to), Arc::new(says))
            }
        })
    }
}

/// What a function says of a record.
fn says(function: &Py<PyAny>, record: &[u8]) -> Result<bool, Problem> {
    let said = Python::attach(|py| {
        let record = Decoder::new(py).first(record)?;
        let said = function.bind(py).call1((record,));
        said?.is_truthy()
    });
    said.map_err(|error| {
        Problem::Told(Python::attach(|py| {
            let error = error.value(py);
            let kind = error.get_type().name().map(|name| name.to_string());
            format!("where= raised {}: {error}", kind.unwrap_or_default())
        }))
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as the other arm fails")]
fn some(selector: Selector) -> PyResult<Option<Selector>> {
    Ok(Some(selector))
}

/// The calls that Python gives: one, or one for each name.
fn aggregate_calls(
    tuples: Vec<CallTuple>,
    names: Option<&[Py<PyString>]>,
) -> PyResult<Vec<AggregateCall>> {
    let expected = names.map_or(1, <[_]>::len);
    if tuples.is_empty() || tuples.len() != expected {
        return Err(PyValueError::new_err(format!(
            "{} aggregations, expected one for each name, or one without a name",
            tuples.len()
        )));
    }
    let calls = tuples.into_iter().map(|tuple| {
        let (kind, path, parameters, beside, filter) = match tuple {
            CallTuple::Plain(kind, path) => (kind, path, Vec::new(), None, None),
            CallTuple::With(kind, path, parameters) => (kind, path, parameters, None, None),
            CallTuple::Of(kind, path, parameters, beside, filter) => {
                (kind, path, parameters, beside, filter)
            }
        };
        let aggregation = Aggregation::named(&kind).ok_or_else(|| {
            let all = Aggregation::ALL.map(Aggregation::name).join(", ");
            PyValueError::new_err(format!("aggregation {kind:?}, expected one of {all}"))
        })?;
        Ok(AggregateCall {
            aggregation,
            path,
            parameters,
            beside,
            filter,
        })
    });
    calls.collect()
}

pub(crate) fn path(steps: &[PathStep]) -> Path {
    let step = |step: &PathStep| match step {
        PathStep::Item(item) => Step::Item(*item),
        PathStep::Field(field) => Step::Field(field.clone()),
    };
    Path::from(steps.iter().map(step).collect::<Vec<_>>())
}

/// The column that a path leads to; `None` if the path is empty.
pub(crate) fn selector(path: &[PathStep]) -> PyResult<Option<Selector>> {
    match path {
        [] => Ok(None),
        [PathStep::Item(index)] => Ok(Some(Selector::Index(*index as isize))),
        [PathStep::Field(name)] => Ok(Some(Selector::Name(name.clone()))),
        _ => Err(no_column("key_by() with a function")),
    }
}

/// Has a record that failed rescued; returns what follows it in the body. Raises the error where
/// nobody rescues, or where it is not the record's.
#[cold]
fn behind<'b>(
    py: Python<'_>,
    rescue: Option<&Py<PyAny>>,
    (body, error): (&'b [u8], &AggregateError),
    failed: PyErr,
) -> PyResult<&'b [u8]> {
    let mut reader = Reader::new(&body[error.offset..]);
    match rescue {
        Some(rescue) if reader.skip().is_ok() => {
            let record = Decoder::new(py).first(reader.since(0))?;
            rescue.bind(py).call1((record, failed.into_value(py)))?;
            Ok(reader.rest())
        }
        _ => Err(failed),
    }
}

/// Does the work, without the GIL if there are bytes enough.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    if bytes >= DETACH_BYTES {
        py.detach(work)
    } else {
        work()
    }
}

/// Bodies from this size on are worth giving the GIL up for: doing so takes 40 ns and lets other
/// threads delay the return.
const DETACH_BYTES: usize = 32 * 1024;

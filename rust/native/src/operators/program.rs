//! Lifted functions over the records of a batch.

use crate::error::alone;
use crate::network::batch::{Batch, Content};
use crate::operators::objects::{Name, Objects};
use oka_codec::type_name;
use oka_expression::program::Results;
use oka_expression::tree::{Block, Constant, End, Expression, Given, Step};
use oka_expression::{Stage, Unusual};
use oka_protocol::HEADER_BYTES;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyFrozenSet, PyInt, PyList, PyString, PyTuple};
use std::sync::{Mutex, MutexGuard};

/// Lifted functions one after the other, over encoded records: with the results of the functions themselves, or none.
///
/// Each stage is "map", "filter", "flat_map" or "key", which makes tuples of the result and the record, and the data of
/// its `Expression`. Raises ValueError for an operation that is not known here. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Program {
    state: Mutex<State>,
}

struct State {
    program: oka_expression::Program,
    /// Those that the program looks for.
    names: Vec<Name>,
    /// Whether objects of a list are encoded first: some were of types that are not read here.
    encodes: bool,
    /// Bytes that the results of a record took in the last list.
    bytes_of_record: usize,
}

#[pymethods]
impl Program {
    #[new]
    #[pyo3(signature = (stages: "list[tuple[str, Any]]"))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it away")]
    fn new(py: Python<'_>, stages: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let read = stages.iter().map(|(stage, data)| {
            let stage = match &**stage {
                "map" => Stage::Map,
                "filter" => Stage::Filter,
                "flat_map" => Stage::FlatMap,
                "key" => Stage::Key,
                other => return Err(unknown(&format!("a stage {other:?}"))),
            };
            Ok((stage, expression(data)?))
        });
        let stages = read.collect::<PyResult<Vec<_>>>()?;
        let program = oka_expression::Program::new(&stages);
        let program = program.map_err(|reason| unknown(&reason.to_string()))?;
        Ok(Self {
            state: Mutex::new(State {
                names: program
                    .names()
                    .iter()
                    .map(|name| Name::new(py, name))
                    .collect(),
                program,
                encodes: false,
                bytes_of_record: 0,
            }),
        })
    }

    /// The encoded results of a batch or a list of records; or why it gives up, and the functions are to be called
    /// with the whole batch. With `pickle`, records of a list that cannot travel otherwise are pickled.
    #[pyo3(signature = (batch: "Batch | list[Any]", pickle: "bool" = false) -> "Batch | str")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        pickle: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state()?;
        let done = if let Ok(records) = batch.cast_exact::<PyList>() {
            state.run_list(records, pickle)?
        } else {
            state.run(&*batch.cast::<Batch>()?.try_borrow()?)?
        };
        Ok(match done {
            Ok(results) => Batch::of_frames(results.into_frames())
                .into_pyobject(py)?
                .into_any(),
            Err(reason) => reason.to_string().into_pyobject(py)?.into_any(),
        })
    }

    /// The number of records out of each stage in the last run.
    #[getter]
    fn counts(&self) -> PyResult<Vec<usize>> {
        Ok(self.state()?.program.counts().to_vec())
    }
}

impl Program {
    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        alone(
            &self.state,
            "the program is in use\n\nhint: a program belongs to one thread",
        )
    }
}

impl State {
    fn run(&mut self, batch: &Batch) -> PyResult<Result<Results, Unusual>> {
        Ok(match batch.content()? {
            Content::Records(records) => {
                let mut results = Results::behind(HEADER_BYTES, 0);
                let done = self.program.run(records.bodies(), &mut results);
                done.map(|()| results)
            }
            Content::Columns(_) => Err(Unusual::Columns),
        })
    }

    fn run_list(
        &mut self,
        records: &Bound<'_, PyList>,
        pickle: bool,
    ) -> PyResult<Result<Results, Unusual>> {
        if !self.encodes {
            let count = records.len();
            let mut objects = Objects::of(records, &self.names);
            let expected = count.saturating_mul(self.bytes_of_record);
            let mut results = Results::behind(HEADER_BYTES, expected.min(MOST_EXPECTED));
            match self.program.run_over(count, &mut objects, &mut results) {
                Ok(()) => {
                    self.bytes_of_record = results.last_bytes().div_ceil(count.max(1));
                    return Ok(Ok(results));
                }
                Err(Unusual::NotPlain) => self.encodes = true,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        match Batch::from_list(records, pickle) {
            Ok(batch) => self.run(&batch),
            Err(_) => Ok(Err(Unusual::NotPlain)),
        }
    }
}

/// What `Expression.to_data` gives.
pub(crate) fn expression(data: &Bound<'_, PyAny>) -> PyResult<Expression> {
    let (arguments, body): (usize, Bound<'_, PyAny>) = data.extract()?;
    Ok(Expression {
        arguments,
        body: block(&body)?,
    })
}

fn block(data: &Bound<'_, PyAny>) -> PyResult<Block> {
    type Given<'py> = (String, Vec<usize>, Bound<'py, PyAny>);
    let (steps, end): (Vec<Given<'_>>, Bound<'_, PyTuple>) = data.extract()?;
    let steps = steps.into_iter().map(|(operation, operands, value)| {
        let given = given(&operation, &value)?;
        Ok(Step {
            operation,
            operands,
            given,
        })
    });
    let steps = steps.collect::<PyResult<_>>()?;
    let kind: String = end.get_item(0)?.extract()?;
    let end = match &*kind {
        "return" => End::Return(end.get_item(1)?.extract()?),
        "branch" => End::Branch(
            end.get_item(1)?.extract()?,
            Box::new(block(&end.get_item(2)?)?),
            Box::new(block(&end.get_item(3)?)?),
        ),
        _ => End::Skip,
    };
    Ok(Block { steps, end })
}

fn given(operation: &str, value: &Bound<'_, PyAny>) -> PyResult<Given> {
    if operation == "each" {
        return block(value).map(Given::Body);
    }
    constant(value).map(Given::Constant)
}

fn constant(value: &Bound<'_, PyAny>) -> PyResult<Constant> {
    let all = |items: Vec<Bound<'_, PyAny>>| items.iter().map(constant).collect::<PyResult<_>>();
    Ok(if value.is_none() {
        Constant::None
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        Constant::Bool(truth.is_true())
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        let number = number.extract();
        Constant::Int(number.map_err(|_| unknown("an integer beyond 64 bits"))?)
    } else if let Ok(number) = value.cast_exact::<PyFloat>() {
        Constant::Float(number.value())
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        let text = text.to_str();
        Constant::Text(text.map_err(|_| unknown("a lone surrogate"))?.to_owned())
    } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        Constant::Bytes(bytes.as_bytes().to_vec())
    } else if let Ok(items) = value.cast_exact::<PyTuple>() {
        Constant::Tuple(all(items.iter().collect())?)
    } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
        Constant::Set(all(items.iter().collect())?)
    } else {
        return Err(unknown(&format!("a constant {}", type_name(value))));
    })
}

fn unknown(reason: &str) -> PyErr {
    PyValueError::new_err(reason.to_owned())
}

/// The most bytes that a list gets memory for in front: records may be much smaller than those before, and where they
/// take more, growing is next to nothing.
const MOST_EXPECTED: usize = 1 << 20;

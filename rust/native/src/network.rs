//! The network of one task: its input gate, and where its output gates come from.

pub(crate) mod batch;
pub(crate) mod control;
pub(crate) mod gate;
pub(crate) mod key;
pub(crate) mod latency;
pub(crate) mod paired;
pub(crate) mod statistics;
pub(crate) mod system;

use crate::error::Raise;
use crate::network::batch::{Batch, not_columns};
use crate::network::control::Control;
use crate::network::gate::OutputGate;
use crate::network::statistics::NetworkStatistics;
use oka_columnar::Decoder;
use oka_transport::{ChannelSpec, Element, Encoding, NetworkConfig, ReceivedFrames};
use pyo3::exceptions::{PyInterruptedError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All channels of one task, moved by one I/O thread that never needs the GIL.
///
/// Thread-safe: any thread may call `cancel` and `statistics` while another one waits.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Network {
    network: oka_transport::Network,
    inbound: Mutex<Inbound>,
}

/// What `receive` keeps between its calls.
#[derive(Default)]
struct Inbound {
    /// The batch that the next call releases.
    last: Option<Py<Batch>>,
    /// Batches that came together with the last one: columns of another schema.
    next: VecDeque<Batch>,
    /// Per input channel with columns, its schema and dictionaries.
    decoders: HashMap<u32, Decoder>,
}

#[pymethods]
impl Network {
    /// Listens on every endpoint: shm:///directory/name, ipc:///directory/name or tcp://host:port
    /// (port 0 picks one). Raises ValueError for an invalid endpoint, NetworkError when the system
    /// refuses it. A setting that is None is the usual one.
    ///
    /// `window_bytes`: taken from one channel before any is consumed. `send_buffer_bytes`: wait on
    /// one output channel before `emit` blocks. `max_frame_bytes`: the largest record. `linger_ms`:
    /// how long a small frame waits for company. `connect_timeout_seconds`: for peers to answer.
    /// `reconnect_timeout_seconds`: until a tcp channel that was cut off counts as lost. `nap_us`: how
    /// long a task that is woken again and again lets frames from shared memory gather.
    /// `encryption`: tcp channels are encrypted and both ends authenticated. `channels`: how many
    /// there will be, inputs and outputs; bounds the handshakes at one moment. `attempt`: which
    /// deployment of the job's tasks this is; those of any other are refused.
    #[new]
    #[allow(
        clippy::needless_pass_by_value,
        clippy::too_many_arguments,
        reason = "the list is converted anyway; the settings have names in Python"
    )]
    #[pyo3(signature = (
        listen: "list[str]",
        *,
        window_bytes: "int | None" = None,
        send_buffer_bytes: "int | None" = None,
        max_frame_bytes: "int | None" = None,
        linger_ms: "float | None" = None,
        connect_timeout_seconds: "float | None" = None,
        reconnect_timeout_seconds: "float | None" = None,
        nap_us: "float | None" = None,
        encryption: "bool | None" = None,
        channels: "int | None" = None,
        attempt: "int" = 0,
    ))]
    fn new(
        py: Python<'_>,
        listen: Vec<String>,
        window_bytes: Option<usize>,
        send_buffer_bytes: Option<usize>,
        max_frame_bytes: Option<usize>,
        linger_ms: Option<f64>,
        connect_timeout_seconds: Option<f64>,
        reconnect_timeout_seconds: Option<f64>,
        nap_us: Option<f64>,
        encryption: Option<bool>,
        channels: Option<usize>,
        attempt: u64,
    ) -> PyResult<Self> {
        let usual = NetworkConfig::default();
        let config = NetworkConfig {
            window_bytes: window_bytes.unwrap_or(usual.window_bytes),
            send_buffer_bytes: send_buffer_bytes.unwrap_or(usual.send_buffer_bytes),
            max_frame_bytes: max_frame_bytes.unwrap_or(usual.max_frame_bytes),
            linger: duration_or("linger_ms", linger_ms.map(|ms| ms / 1e3), usual.linger)?,
            connect_timeout: duration_or(
                "connect_timeout_seconds",
                connect_timeout_seconds,
                usual.connect_timeout,
            )?,
            reconnect_timeout: duration_or(
                "reconnect_timeout_seconds",
                reconnect_timeout_seconds,
                usual.reconnect_timeout,
            )?,
            nap: duration_or("nap_us", nap_us.map(|us| us / 1e6), usual.nap)?,
            encryption: encryption.unwrap_or(usual.encryption),
            channels: channels.unwrap_or(usual.channels),
            attempt: (attempt % ATTEMPTS) as u8,
        };
        let network = py
            .detach(|| oka_transport::Network::bind(config, &listen))
            .map_err(Raise::raise)?;
        Ok(Self {
            network,
            inbound: Mutex::default(),
        })
    }

    /// The endpoints that peers connect to, in the order of `listen`: those of tcp with the real
    /// port and, where they are encrypted, this network's public key (tcp://KEY@host:port).
    #[getter]
    fn endpoints(&self) -> Vec<String> {
        self.network.endpoints().to_vec()
    }

    /// Connects all channels, given as (id, endpoint of the other end), and waits until every peer
    /// has answered; encrypted ones do so once they are connecting, too. Raises NetworkError when one
    /// does not in time, Cancelled.
    ///
    /// Each of `inputs` has channels of its own, and a batch holds records of one (`Batch.input`). Those
    /// whose numbers are in `side` are side inputs: `receive` does not wait for their end.
    #[pyo3(signature = (
        outputs: "list[tuple[int, str]]",
        *inputs: "list[tuple[int, str]]",
        side: "list[int]" = Vec::new(),
    ))]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the lists are converted anyway"
    )]
    fn connect(
        &self,
        py: Python<'_>,
        outputs: Vec<(u32, String)>,
        inputs: Vec<Vec<(u32, String)>>,
        side: Vec<usize>,
    ) -> PyResult<()> {
        let spec = |(id, peer): (u32, String)| ChannelSpec::new(id, peer);
        let outputs: Vec<_> = outputs.into_iter().map(spec).collect();
        let inputs: Vec<_> = inputs
            .into_iter()
            .enumerate()
            .flat_map(|(input, channels)| {
                let is_side = side.contains(&input);
                channels.into_iter().map(move |channel| ChannelSpec {
                    side: is_side,
                    ..spec(channel).of_input(input)
                })
            })
            .collect();
        py.detach(|| self.network.connect(&outputs, &inputs))
            .map_err(Raise::raise)
    }

    /// Removes the rendezvous files of this network's own endpoints: after every peer connected.
    fn unlink_endpoints(&self) {
        self.network.unlink_endpoints();
    }

    /// The gate to these output channels. `partitioner` is forward (one channel), rebalance,
    /// broadcast, or hash by `key`: an item of a tuple or list (int), a field of a dict (str), or
    /// the record itself (None); `columns` is the key of columns, where that is in another place. With
    /// `pickle`, what cannot travel otherwise is pickled. With `rows`, the operator behind it makes
    /// rows of columns: each goes where a record with its key goes.
    #[pyo3(signature = (
        channels: "list[int]",
        partitioner: "str",
        key: "int | str | tuple[int | str, ...] | None" = None,
        pickle: "bool" = false,
        columns: "int | str | tuple[int | str, ...] | None" = None,
        rows: "bool" = false,
    ))]
    fn output_gate(
        &self,
        channels: Vec<u32>,
        partitioner: &str,
        key: Option<&Bound<'_, PyAny>>,
        pickle: bool,
        columns: Option<&Bound<'_, PyAny>>,
        rows: bool,
    ) -> PyResult<OutputGate> {
        let output = |id: u32| {
            self.network.output(id).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "channel {id} is no output of this task\n\nhint: connect it first"
                ))
            })
        };
        let channels = channels
            .into_iter()
            .map(output)
            .collect::<PyResult<Vec<_>>>()?;
        OutputGate::new(channels, partitioner, (key, columns), pickle, rows)
    }

    /// The next element of any input: a batch, or what all inputs have come to between two; None once
    /// all of them ended but side inputs, or all that are not paused. The batch before it counts as
    /// consumed with this call, and is released. Waits without the GIL; raises TimeoutError if nothing
    /// comes in time, InterruptedError if nothing is there and `wake` was called, Cancelled, ChannelLost.
    #[pyo3(signature = (timeout_seconds: "float | None" = None) -> "Batch | Control | None")]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout_seconds: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(last) = self.inbound(py).last.take() {
            last.try_borrow_mut(py)?.release();
        }
        let next = self.inbound(py).next.pop_front();
        let batch = match next {
            Some(batch) => batch,
            None => match self.receive_new(py, timeout_seconds)? {
                Element::Batch(received) => self.inbound(py).batch(received)?,
                Element::Control(control) => {
                    return Ok(Some(Bound::new(py, Control(control))?.into_any()));
                }
                Element::Ended => return Ok(None),
                Element::Empty => {
                    return Err(PyTimeoutError::new_err("nothing has arrived in time"));
                }
                Element::Woken => {
                    return Err(PyInterruptedError::new_err(
                        "woken to look at something else",
                    ));
                }
            },
        };
        let batch = Bound::new(py, batch)?;
        self.inbound(py).last = Some(batch.clone().unbind());
        Ok(Some(batch.into_any()))
    }

    /// Makes `receive` raise InterruptedError once, now or the next time that nothing is there; from any
    /// thread.
    fn wake(&self) {
        self.network.wake();
    }

    /// Lets `receive` give nothing of these input channels until `resume` with the same reason: what
    /// arrives on them stays there, within the channel's window. Raises ValueError for a channel that
    /// is no input.
    #[pyo3(signature = (channels: "list[int]", reason: "str"))]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the list is converted anyway"
    )]
    fn pause(&self, channels: Vec<u32>, reason: &str) -> PyResult<()> {
        self.network.pause(&channels, reason).map_err(Raise::raise)
    }

    /// Lets `receive` give what these channels have that are paused for no other reason, and wakes it;
    /// from any thread. Raises ValueError for a channel that is no input.
    #[pyo3(signature = (channels: "list[int]", reason: "str"))]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the list is converted anyway"
    )]
    fn resume(&self, channels: Vec<u32>, reason: &str) -> PyResult<()> {
        self.network.resume(&channels, reason).map_err(Raise::raise)
    }

    /// Lets `receive` give what still comes of side inputs, and wait for their end.
    fn include_side_inputs(&self) {
        self.network.include_side_inputs();
    }

    /// Ends every output channel and waits until the peers have consumed everything. Raises
    /// NetworkError after `timeout_seconds`, Cancelled, ChannelLost.
    #[pyo3(signature = (timeout_seconds = None))]
    fn finish(&self, py: Python<'_>, timeout_seconds: Option<f64>) -> PyResult<()> {
        let timeout = timeout_seconds
            .map(|seconds| duration("timeout_seconds", seconds))
            .transpose()?;
        py.detach(|| self.network.finish(timeout))
            .map_err(Raise::raise)
    }

    /// Makes every call that waits, now or later, raise Cancelled.
    fn cancel(&self) {
        self.network.cancel();
    }

    /// Makes every call raise Cancelled, in a forked copy of the process. It takes no lock: a thread that is not
    /// in the copy may have had it.
    fn cancel_copy(&self) {
        self.network.cancel_copy();
    }

    /// A snapshot of the counters.
    fn statistics(&self, py: Python<'_>) -> PyResult<NetworkStatistics> {
        NetworkStatistics::new(py, self.network.statistics())
    }

    /// Stops the I/O thread and removes the rendezvous files; idempotent.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.network.close());
    }
}

impl Network {
    fn receive_new(&self, py: Python<'_>, timeout_seconds: Option<f64>) -> PyResult<Element> {
        let found = self.network.try_receive().map_err(Raise::raise)?;
        if found != Element::Empty {
            return Ok(found);
        }
        let timeout = timeout_seconds.map(|seconds| duration("timeout_seconds", seconds));
        let deadline = timeout.transpose()?.map(|timeout| Instant::now() + timeout);
        py.detach(|| self.network.receive(deadline))
            .map_err(Raise::raise)
    }

    /// Never waits long: nothing is done under the lock.
    fn inbound(&self, py: Python<'_>) -> MutexGuard<'_, Inbound> {
        self.inbound
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbound {
    /// The batch of what was received; where it is columns of several schemas, the first of them.
    fn batch(&mut self, mut received: ReceivedFrames) -> PyResult<Batch> {
        if received.encoding != Encoding::Arrow {
            return Ok(received.into());
        }
        let decoder = self.decoders.entry(received.channel).or_default();
        let mut runs = Vec::with_capacity(1);
        for (rows, body) in received.shared_bodies() {
            decoder
                .accept(body, rows, &mut runs)
                .map_err(|error| not_columns(&error))?;
        }
        // The markers are behind all records.
        let mut markers = std::mem::take(&mut received.markers);
        while let Some(run) = runs.pop() {
            let markers = std::mem::take(&mut markers);
            self.next.push_front(Batch::of_columns(
                received.channel,
                received.input,
                run,
                markers,
            ));
        }
        received.markers = markers;
        Ok(self.next.pop_front().unwrap_or_else(|| received.into()))
    }
}

/// The seconds that were given, or what is usual.
pub(crate) fn duration_or(name: &str, seconds: Option<f64>, usual: Duration) -> PyResult<Duration> {
    seconds.map_or(Ok(usual), |seconds| duration(name, seconds))
}

/// Attempts are told apart modulo this, which is many more than are alive at one time.
const ATTEMPTS: u64 = 1 << u8::BITS;

pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| {
        PyValueError::new_err(format!(
            "{name} is {seconds} s, expected a time: {error}\n\nhint: 0 or more"
        ))
    })
}

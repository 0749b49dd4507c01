//! The network of one task: it binds, connects, receives, finishes and closes.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oka_ipc::{Endpoint, InvalidEndpoint};
use oka_ring::MapError;
use tokio::sync::mpsc as async_mpsc;

use crate::endpoint::rendezvous_file;
use crate::health::{Failure, Health};
use crate::inbox::Inbox;
use crate::io::{Command, run};
use crate::outbox::{Outbox, UNPOISONED};
use crate::output::SendingEnd;
use crate::security::Security;
use crate::shm::rendezvous::Bells;
use crate::shm::{RingOutput, Sleeper, finish_rings};
use crate::wait_time::WaitTime;
use crate::{
    BindError, ConnectError, Element, EndpointKind, FinishError, NetworkConfig, NetworkStatistics,
    NoInput, OutputChannel, ReceiveError,
};

/// One end of one channel: its job-wide id and where its other end listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Id of the channel, unique in the job.
    pub id: u32,
    /// Endpoint of the task at the other end, as it announced it.
    pub peer: String,
    /// Of an input channel, which input of the task it belongs to: 0 unless there are several. A
    /// batch holds records of one input.
    pub input: usize,
    /// Whether that is a side input: it tells no time, and nobody waits for its end.
    pub side: bool,
}

impl ChannelSpec {
    /// An output channel, or one of a task's only input.
    pub fn new(id: u32, peer: impl Into<String>) -> Self {
        Self {
            id,
            peer: peer.into(),
            input: 0,
            side: false,
        }
    }

    /// The same as a channel of this input.
    #[must_use]
    pub fn of_input(self, input: usize) -> Self {
        Self { input, ..self }
    }

    /// The same as one of a side input.
    #[must_use]
    pub fn aside(self) -> Self {
        Self { side: true, ..self }
    }
}

/// The network of one task: one I/O thread, one listening socket, all its channels.
///
/// Life: [`bind`](Self::bind), exchange endpoints, [`connect`](Self::connect), emit and receive,
/// [`finish`](Self::finish), [`close`](Self::close). A task that ends well receives until `Ended`
/// and finishes before it closes; then every record was processed downstream. Calls may come from
/// any thread, but batches are for one receiving thread.
///
/// ```
/// use oka_transport::{ChannelSpec, Element, Network, NetworkConfig, OpenFrame};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listen = ["tcp://127.0.0.1:0".to_owned()];
/// let source = Network::bind(NetworkConfig::default(), &listen)?;
/// let sink = Network::bind(NetworkConfig::default(), &listen)?;
/// let to = |network: &Network| vec![ChannelSpec::new(1, &network.endpoints()[0])];
/// std::thread::scope(|scope| {
///     let connecting = scope.spawn(|| source.connect(&to(&sink), &[]));
///     sink.connect(&[], &to(&source))?;
///     connecting.join().unwrap()
/// })?;
///
/// let channel = source.output(1).expect("connected above");
/// let mut frame = OpenFrame::new();
/// frame.body.extend_from_slice(b"hello");
/// frame.records = 1;
/// channel.push(&mut frame);
///
/// let Element::Batch(batch) = sink.receive(None)? else {
///     panic!("nothing else was sent");
/// };
/// assert!(batch.bodies().eq([(1, &b"hello"[..])]));
/// # drop(batch);
/// let consumer = std::thread::spawn(move || sink.receive(None));
/// source.finish(None)?;
/// assert_eq!(consumer.join().unwrap()?, Element::Ended);
/// # Ok(())
/// # }
/// ```
pub struct Network {
    state: Arc<NetworkState>,
    endpoints: Vec<String>,
    commands: async_mpsc::UnboundedSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Network {
    /// Starts the I/O thread and listens on every endpoint.
    ///
    /// Endpoints look like `shm:///directory/name`, `ipc:///directory/name` or
    /// `tcp://host:port`, where port 0 picks one.
    pub fn bind(config: NetworkConfig, listen: &[String]) -> Result<Self, BindError> {
        if listen.is_empty() {
            return Err(BindError::NoEndpoint);
        }
        for endpoint in listen {
            EndpointKind::of(endpoint)?;
        }
        let (state, bells) = NetworkState::new(config)?;
        let state = Arc::new(state);
        let (commands, inbound) = async_mpsc::unbounded_channel();
        let (bound, binding) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("oka-io".to_owned())
            .spawn({
                let state = Arc::clone(&state);
                let listen = listen.to_vec();
                move || run(&state, bells, &listen, &bound, inbound)
            })?;
        let endpoints = binding.recv().unwrap_or_else(|_| {
            let stopped = std::io::Error::other("the I/O thread stopped at once");
            Err(BindError::Thread(stopped))
        });
        match endpoints {
            Ok(endpoints) => Ok(Self {
                state,
                endpoints,
                commands,
                thread: Mutex::new(Some(thread)),
            }),
            Err(error) => {
                // The thread reported why it ends; a panic in it adds nothing.
                let _ = thread.join();
                Err(error)
            }
        }
    }

    /// The endpoints peers connect to, in the order of `bind`; TCP ones with the real port and,
    /// where they are encrypted, with this network's public key: `tcp://KEY@host:port`.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Connects every channel of the task; blocks until all peers answered.
    ///
    /// Tasks may connect in any order; where channels are encrypted, it takes until their peers
    /// call it, too, and thereby get to know each other's keys. Once per network.
    pub fn connect(
        &self,
        outputs: &[ChannelSpec],
        inputs: &[ChannelSpec],
    ) -> Result<(), ConnectError> {
        let mut ids = HashSet::new();
        for spec in outputs.iter().chain(inputs) {
            Endpoint::of_peer(&spec.peer, self.state.security.is_some())?;
            if !ids.insert(spec.id) {
                return Err(ConnectError::Duplicate(spec.id));
            }
        }
        if let Some(security) = &self.state.security {
            security.admit(outputs.iter().chain(inputs))?;
        }
        let (answer, answered) = mpsc::channel();
        let command = Command::Connect {
            outputs: without_keys(outputs)?,
            inputs: without_keys(inputs)?,
            answer,
        };
        // A thread that is gone drops the command, and with it the answer.
        let _ = self.commands.send(command);
        answered.recv().unwrap_or(Err(ConnectError::Cancelled))
    }

    /// Removes this network's own rendezvous files early.
    ///
    /// For when every peer has connected: connections stay, and a task that is killed later leaves
    /// no file behind.
    pub fn unlink_endpoints(&self) {
        for file in self.endpoints.iter().filter_map(|e| rendezvous_file(e)) {
            // It may be gone already.
            let _ = std::fs::remove_file(file);
        }
    }

    /// The sending end of an output channel; `None` for an id that is not connected.
    pub fn output(&self, id: u32) -> Option<OutputChannel> {
        let channels = self.state.channels.get()?;
        channels.iter().find(|channel| channel.id() == id).cloned()
    }

    /// Blocks for the next element, of any input: [`Element::Empty`] if none has come by the deadline,
    /// [`Element::Woken`] if none is there and [`Network::wake`] was called.
    ///
    /// Asking for one acknowledges the batch before: its sender may then send more.
    pub fn receive(&self, deadline: Option<Instant>) -> Result<Element, ReceiveError> {
        self.state.inbox.receive(deadline)
    }

    /// Has [`Network::receive`] return once, now or the next time that nothing is there; whoever calls
    /// this has made the change before that the task is to look at. From any thread, and cheap: it
    /// costs a system call if the task sleeps, and else none.
    pub fn wake(&self) {
        self.state.inbox.wake();
    }

    /// As [`Network::receive`], but never blocks, and is not woken.
    pub fn try_receive(&self) -> Result<Element, ReceiveError> {
        self.state.inbox.try_receive()
    }

    /// Hands out nothing of these input channels from the next `receive` on, until
    /// [`Network::resume`] with the same reason. Whoever waits for a barrier is held apart from that.
    ///
    /// What arrives on them stays where it is, so that credits bound it; meanwhile only those end
    /// that have nothing left.
    /// A batch that was taken before is not concerned.
    pub fn pause(&self, channels: &[u32], reason: &str) -> Result<(), NoInput> {
        self.state.inbox.pause(channels, reason).map_err(NoInput)
    }

    /// Hands out what these channels have, in the order of each, unless they are paused for another
    /// reason; wakes who waits for it. Idempotent.
    pub fn resume(&self, channels: &[u32], reason: &str) -> Result<(), NoInput> {
        self.state.inbox.resume(channels, reason).map_err(NoInput)
    }

    /// Makes all inputs alike: [`Network::receive`] gives what still comes of side inputs, to their end.
    pub fn include_side_inputs(&self) {
        self.state.inbox.include_side_inputs();
    }

    /// Ends every output channel and blocks until the tasks behind them consumed everything.
    ///
    /// Without a timeout it waits as long as those tasks are there and take their time.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<(), FinishError> {
        self.state.health.check()?; // a forked copy would end the channels of the other process, and wait at its doorbell
        let started = Instant::now();
        let deadline = timeout.map(|timeout| started + timeout);
        let outputs = self.state.outputs();
        for output in outputs {
            output.finish();
        }
        let mut channels = finish_rings(&self.state.emitting, &self.state.rings(), deadline)?;
        for output in outputs {
            if !output.wait_drained(deadline)? {
                channels.push(output.id);
            }
        }
        if channels.is_empty() {
            return Ok(());
        }
        Err(FinishError::TimedOut {
            channels,
            waited: started.elapsed(),
        })
    }

    /// Wakes every waiter with `Cancelled`, now and later. Idempotent.
    pub fn cancel(&self) {
        self.state.health.fail(Failure::Cancelled);
        self.state.wake();
    }

    /// As [`Network::cancel`], in a forked copy of the process. It takes no lock: a thread that is not in
    /// the copy may have had it. Nobody waits there, so nobody is woken.
    pub fn cancel_copy(&self) {
        self.state.health.fail_silently(Failure::Cancelled);
    }

    /// A snapshot of the counters.
    pub fn statistics(&self) -> NetworkStatistics {
        let channels = self.state.channels.get().into_iter().flatten();
        NetworkStatistics {
            outputs: channels.map(OutputChannel::statistics).collect(),
            inputs: self.state.inbox.statistics(),
            waited_ns: self.state.inbox.waited_ns(),
            blocked_ns: self.state.blocked.total_ns(),
            barrier_wait_ns: self.state.inbox.barrier_wait_ns(),
            dropped_messages: self.state.dropped_messages.load(Ordering::Relaxed),
            refused_connections: self.state.refused_connections.load(Ordering::Relaxed),
        }
    }

    /// Stops the I/O thread and removes the rendezvous files; waiters get `Cancelled`. Idempotent,
    /// and also done on drop.
    ///
    /// Credits on their way still leave, unless the network failed. Records that were not finished
    /// are lost.
    pub fn close(&self) {
        let thread = self.thread.lock().expect(UNPOISONED).take();
        if let Some(thread) = thread {
            // Either the thread takes the command or it is gone; both end in the join.
            let _ = self.commands.send(Command::Close);
            let _ = thread.join();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Network")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// The channels as everything behind `connect` knows them: peers' keys are with `Security`.
fn without_keys(specs: &[ChannelSpec]) -> Result<Vec<ChannelSpec>, InvalidEndpoint> {
    let plain = |spec: &ChannelSpec| {
        Ok(ChannelSpec {
            id: spec.id,
            peer: Endpoint::parse(&spec.peer)?.with_key(None).to_string(),
            ..*spec
        })
    };
    specs.iter().map(plain).collect()
}

/// What the handles and the I/O thread share.
pub(crate) struct NetworkState {
    pub(crate) config: NetworkConfig,
    /// Keys of the TCP channels; none if they are not encrypted.
    pub(crate) security: Option<Security>,
    pub(crate) health: Arc<Health>,
    pub(crate) inbox: Inbox,
    /// What the task sleeps on while it waits to emit, or to finish.
    pub(crate) emitting: Arc<Sleeper>,
    /// For how long it has waited to emit.
    pub(crate) blocked: Arc<WaitTime>,
    /// All output channels, in the order in which they were connected.
    pub(crate) channels: OnceLock<Vec<OutputChannel>>,
    /// Those of them that are sockets.
    pub(crate) outputs: OnceLock<Vec<Arc<Outbox>>>,
    pub(crate) dropped_messages: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
}

impl NetworkState {
    fn new(config: NetworkConfig) -> Result<(Self, Bells), MapError> {
        let health = Arc::new(Health::new());
        let (receiver, receiving) = Sleeper::new(config.nap)?;
        let (emitter, emitting) = Sleeper::new(config.nap)?;
        let state = Self {
            security: config.encryption.then(Security::generate),
            config,
            inbox: Inbox::new(receiver, Arc::clone(&health)),
            health,
            emitting: Arc::new(emitter),
            blocked: Arc::default(),
            channels: OnceLock::new(),
            outputs: OnceLock::new(),
            dropped_messages: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
        };
        let bells = Bells {
            receiving,
            emitting,
        };
        Ok((state, bells))
    }

    /// The output channels in shared memory.
    fn rings(&self) -> Vec<&Arc<RingOutput>> {
        let channels = self.channels.get().into_iter().flatten();
        let ends = channels.map(OutputChannel::end);
        ends.filter_map(SendingEnd::ring).collect()
    }

    pub(crate) fn outputs(&self) -> &[Arc<Outbox>] {
        self.outputs.get().map_or(&[], Vec::as_slice)
    }

    /// Wakes all waiters, after a failure.
    pub(crate) fn wake(&self) {
        self.inbox.receiving().ring();
        self.emitting.ring();
        for output in self.outputs() {
            output.wake();
        }
    }
}

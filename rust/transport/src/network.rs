use std::time::Duration;

use crate::{
    BindError, ConnectError, FinishError, NetworkConfig, NetworkStatistics, OutputChannel,
    ReceiveError, Received, TryReceive,
};

/// One end of one channel: its job-wide id and where its other end listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Id of the channel, unique in the job.
    pub id: u32,
    /// Endpoint of the task at the other end.
    pub peer: String,
}

/// The network of one task: one I/O thread, one listening socket, all its channels.
#[derive(Debug)]
pub struct Network {}

impl Network {
    /// Starts the I/O thread and listens on every endpoint.
    pub fn bind(_config: NetworkConfig, _listen: &[String]) -> Result<Self, BindError> {
        todo!()
    }

    /// The endpoints peers connect to, with the real TCP ports, in the order of `bind`.
    pub fn endpoints(&self) -> &[String] {
        todo!()
    }

    /// Connects every channel; blocks until all peers answered.
    pub fn connect(
        &self,
        _outputs: &[ChannelSpec],
        _inputs: &[ChannelSpec],
    ) -> Result<(), ConnectError> {
        todo!()
    }

    /// Removes this network's own rendezvous files early: after every peer has connected.
    pub fn unlink_endpoints(&self) {
        todo!()
    }

    /// The sending end of an output channel; `None` for an id that was not connected.
    pub fn output(&self, _id: u32) -> Option<OutputChannel> {
        todo!()
    }

    /// Blocks for the next batch; `None` once every input channel ended.
    pub fn receive(&self) -> Result<Option<Received>, ReceiveError> {
        todo!()
    }

    /// The next batch if there is one; never blocks.
    pub fn try_receive(&self) -> Result<TryReceive, ReceiveError> {
        todo!()
    }

    /// Ends every output channel and blocks until the peers consumed everything.
    pub fn finish(&self, _timeout: Option<Duration>) -> Result<(), FinishError> {
        todo!()
    }

    /// Wakes every waiter with `Cancelled`.
    pub fn cancel(&self) {
        todo!()
    }

    /// A snapshot of the counters.
    pub fn statistics(&self) -> NetworkStatistics {
        todo!()
    }

    /// Stops the I/O thread and removes the rendezvous files; idempotent, also done on drop.
    pub fn close(&self) {
        todo!()
    }
}

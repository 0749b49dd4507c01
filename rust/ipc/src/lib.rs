//! What the processes of a job meet by: endpoints and keys, memory without a name, descriptors over
//! Unix sockets, and how both ends of a connection prove their keys. What they say to each other then is others' business.

mod descriptors;
mod endpoint;
mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod secure;
mod system;

pub use descriptors::{receive, send};
pub use endpoint::{Endpoint, EndpointKind, InvalidEndpoint, Key};
pub use memory::Mapping;
pub use system::{
    IS_PORTABLE, MORE, QUIET, Seal, accept, allocate, clock_name, create_memory, monotonic_ns,
    packet_socket, peer_user, receive_packet, seal, sealed_size, send_packet, socket,
    use_precise_timers,
};

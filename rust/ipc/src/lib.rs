//! What the processes of a job meet by: endpoints and keys, memory without a name, descriptors over
//! Unix sockets, and how both ends of a connection prove their keys. What they say to each other then is others' business.

mod descriptors;
mod endpoint;
mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod secure;

pub use descriptors::{receive, send};
pub use endpoint::{Endpoint, EndpointKind, InvalidEndpoint, Key};
pub use memory::{Mapping, create_memory, sealed_size};

//! What the processes of a job meet by: endpoints and keys, memory without a name, and descriptors
//! over Unix sockets. What they say to each other then is others' business.

mod descriptors;
mod endpoint;
mod memory;
#[cfg(feature = "proxy")]
pub mod proxy;

pub use descriptors::{receive, send};
pub use endpoint::{Endpoint, EndpointKind, InvalidEndpoint, Key};
pub use memory::{Mapping, create_memory, sealed_size};

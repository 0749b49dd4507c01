//! The paths by which local peers meet at an endpoint.

use std::path::PathBuf;

/// The file through which local peers meet at an endpoint; none for TCP.
pub(crate) fn rendezvous_file(endpoint: &str) -> Option<PathBuf> {
    let path = endpoint.strip_prefix("ipc://").map(PathBuf::from);
    path.or_else(|| shm_path(endpoint))
}

/// The path of an endpoint in shared memory.
pub(crate) fn shm_path(endpoint: &str) -> Option<PathBuf> {
    endpoint.strip_prefix("shm://").map(PathBuf::from)
}

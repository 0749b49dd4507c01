//! What the operating system gives: Linux's own calls, and what takes their place elsewhere, behind the
//! same names.

#[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
mod linux;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;

#[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
pub use linux::*;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub use portable::*;

/// What nobody is to change of memory any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Its size. Without this, who touches a mapping of a peer's memory may be killed by a signal.
    Size,
    /// Its size, and what is in it.
    Bytes,
}

/// Whether this is compiled without what only Linux has.
pub const IS_PORTABLE: bool = cfg!(any(not(target_os = "linux"), feature = "portable"));

//! The clock of this host, and the name by which others tell whether they share it.

use std::fs;

use oka_protocol::partition::hash_str;
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in ns: the clock of markers, and of everything that the protocol is told.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Names the clock that [`now_ns`] reads: the same for processes of one boot of one machine and one
/// time namespace; 0 where that cannot be known.
pub(crate) fn clock_id() -> u64 {
    let Ok(boot) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        return 0;
    };
    // Kernels without time namespaces have one clock.
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    hash_str(&format!("{boot} {}", namespace.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_same_for_all_and_goes_forward() {
        assert_eq!(clock_id(), clock_id());
        let earlier = now_ns();
        assert!(now_ns() >= earlier && earlier > 0);
    }
}

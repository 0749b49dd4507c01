//! The clock of this host, and the name by which others tell whether they share it.

use oka_protocol::partition::hash_str;

/// The clock of markers, and of everything that the protocol is told.
pub(crate) use oka_ipc::monotonic_ns as now_ns;

/// Names the clock that [`now_ns`] reads: the same for all processes that have it; 0 where that cannot
/// be known.
pub(crate) fn clock_id() -> u64 {
    oka_ipc::clock_name().map_or(0, |name| hash_str(&name))
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

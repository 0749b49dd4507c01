//! Asks for memory before it is read.

/// Asks the processor for the line of memory that has this byte, which is read by nobody here: any address
/// will do. Nothing happens where the processor has no way to.
#[inline]
pub fn prefetch<T>(byte: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor knows the instruction, and it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}

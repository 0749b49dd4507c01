//! A pool of buffers for frames.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// Frame buffers that go round: written by a task, sent, and written again.
///
/// Holds a bounded number of buffers of bounded size; others go back to the allocator.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// An empty buffer, warm if there is one.
    pub(crate) fn take(&self) -> Vec<u8> {
        let warm = self.free.lock().expect("no panic holds this lock").pop();
        warm.unwrap_or_else(|| Vec::with_capacity(FIRST_CAPACITY))
    }

    /// The buffer as a message, which comes back here when it was sent.
    pub(crate) fn lend(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Loan {
            buffer,
            pool: Arc::clone(self),
        })
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > LARGEST_CAPACITY {
            return;
        }
        buffer.clear();
        let mut free = self.free.lock().expect("no panic holds this lock");
        if free.len() < MOST_BUFFERS {
            free.push(buffer);
        }
    }
}

/// A buffer on its way.
#[derive(Debug)]
struct Loan {
    buffer: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.buffer));
    }
}

const FIRST_CAPACITY: usize = 1024;
const LARGEST_CAPACITY: usize = 256 * 1024;
const MOST_BUFFERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sent_buffer_is_written_again() {
        let pool = Arc::new(BufferPool::default());
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"frame");
        let address = buffer.as_ptr();
        let message = pool.lend(buffer);
        assert_eq!(&message[..], b"frame");
        drop(message);
        let again = pool.take();
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn large_buffers_are_not_kept() {
        let pool = Arc::new(BufferPool::default());
        drop(pool.lend(Vec::with_capacity(LARGEST_CAPACITY + 1)));
        assert!(pool.free.lock().unwrap().is_empty());
    }
}

//! What Linux has for this, and others do not.

use std::ffi::CStr;
use std::fs;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create,
};
use rustix::io::Result;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, socket_with,
};
use rustix::process::Uid;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::Seal;
use crate::descriptors;

/// Memory that is a file without a name, and goes with the last who has it open or mapped. The name
/// is only shown in /proc.
pub fn create_memory(name: &CStr, size: u64) -> Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size)?;
    Ok(file)
}

/// The system gives the file its pages now, or says that there are none.
pub fn allocate(file: &OwnedFd, start: u64, length: u64) -> Result<()> {
    fallocate(file, FallocateFlags::empty(), start, length)
}

/// From now on no process can change that of the memory.
pub fn seal(file: &OwnedFd, what: Seal) -> Result<()> {
    fcntl_add_seals(file, seals(what))
}

/// The size of memory that is sealed so; None where it is not.
pub fn sealed_size(file: &OwnedFd, what: Seal) -> Result<Option<u64>> {
    if !fcntl_get_seals(file)?.contains(seals(what)) {
        return Ok(None);
    }
    Ok(Some(fstat(file)?.st_size as u64))
}

fn seals(what: Seal) -> SealFlags {
    let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match what {
        Seal::Size => size,
        // Not `WRITE`, which waits until nothing of it is on its way in a socket any more; without a
        // writable mapping the two are the same.
        Seal::Bytes => size | SealFlags::FUTURE_WRITE,
    }
}

/// A socket that no program inherits.
pub fn socket(family: AddressFamily, kind: SocketType, waits: bool) -> Result<OwnedFd> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, !waits);
    socket_with(family, kind, flags, None)
}

/// The next connection, which no program inherits either.
pub fn accept(listening: &OwnedFd) -> Result<OwnedFd> {
    accept_with(listening, SocketFlags::CLOEXEC)
}

/// The user whose process is at the other end of a Unix socket.
pub fn peer_user(socket: &OwnedFd) -> Result<Uid> {
    Ok(socket_peercred(socket)?.uid)
}

/// A Unix socket for packets, each of which arrives whole.
pub fn packet_socket() -> Result<OwnedFd> {
    socket(AddressFamily::UNIX, SocketType::SEQPACKET, true)
}

/// Sends a packet, perhaps with a descriptor. Never waits: an error where there is no room.
pub fn send_packet(socket: &OwnedFd, bytes: &[u8], with: Option<BorrowedFd<'_>>) -> Result<()> {
    descriptors::send(socket.as_fd(), bytes, with.as_slice(), SendFlags::DONTWAIT)?;
    Ok(())
}

/// The length of the next packet, and the descriptor that came with it; 0 once the connection has ended.
pub fn receive_packet(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>)> {
    let (length, [file]) = descriptors::receive(socket.as_fd(), bytes)?;
    Ok((length, file))
}

/// A descriptor that came along, which no program inherits.
pub(crate) fn received(descriptor: OwnedFd) -> OwnedFd {
    descriptor
}

/// `CLOCK_MONOTONIC` in ns, which is Python's `time.monotonic`.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Names the clock that [`monotonic_ns`] reads: the same for processes of one boot of one machine and
/// one time namespace.
pub fn clock_name() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Kernels without time namespaces have one clock.
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    Some(format!("{boot} {}", namespace.display()))
}

/// Makes the timers of the calling thread end within a few microseconds of their time, not 50: Linux
/// puts timers off to end several with one wake-up (timer slack).
pub fn use_precise_timers() -> Result<()> {
    set_current_timer_slack(Some(NonZeroU64::MIN))
}

/// Of what is sent: nobody is killed by a signal because the other end is gone.
pub const QUIET: SendFlags = SendFlags::NOSIGNAL;

/// As `QUIET`, of what more follows at once, so that they leave together.
pub const MORE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::MORE);

/// Of what is received: no program inherits the descriptors.
pub(crate) const CLOSING: RecvFlags = RecvFlags::CMSG_CLOEXEC;

//! What takes the place of Linux's calls on other systems, such as macOS.
//!
//! On Linux the feature `portable` has this compiled and tested.

use std::env;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, fchmod, fstat, ftruncate, open, unlink};
use rustix::io::{Errno, FdFlags, Result, fcntl_setfd, ioctl_fionbio, pwrite};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use rustix::process::Uid;

use super::Seal;
use crate::descriptors;

/// Memory that is a file without a name, and goes with the last who has it open or mapped: it is
/// created among temporary files, and its name is removed at once.
pub fn create_memory(name: &CStr, size: u64) -> Result<OwnedFd> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{number}", name.to_string_lossy(), process::id());
        let path = env::temp_dir().join(name);
        match open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                unlink(&path)?;
                ftruncate(&file, size)?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {} // of a process that was killed between the two calls
            Err(error) => return Err(error),
        }
    }
}

/// The system gives the file its pages now, or says that there are none: zeros are written, as what
/// else there is on macOS allocates behind the end of the file.
pub fn allocate(file: &OwnedFd, start: u64, length: u64) -> Result<()> {
    let zeros = vec![0; length.min(ZEROS) as usize];
    let mut written = 0;
    while written < length {
        let some = zeros.len().min((length - written) as usize);
        written += pwrite(file, &zeros[..some], start + written)? as u64;
    }
    Ok(())
}

/// Marks the memory as one that nobody is to change. That is an agreement, not a lock: descriptors
/// are handed to processes of the same user alone, and all of them are Oka's.
pub fn seal(file: &OwnedFd, _what: Seal) -> Result<()> {
    fchmod(file, Mode::RUSR)
}

/// The size of memory that is marked so; None where it is not.
pub fn sealed_size(file: &OwnedFd, _what: Seal) -> Result<Option<u64>> {
    let about = fstat(file)?;
    let is_open = Mode::from_raw_mode(about.st_mode).contains(Mode::WUSR);
    Ok((!is_open).then_some(about.st_size as u64))
}

/// A socket that no program inherits, unless another thread starts one right between the two calls.
pub fn socket(family: AddressFamily, kind: SocketType, waits: bool) -> Result<OwnedFd> {
    let socket = received(rustix::net::socket(family, kind, None)?);
    ioctl_fionbio(&socket, !waits)?;
    Ok(socket)
}

/// The next connection, which no program inherits either.
pub fn accept(listening: &OwnedFd) -> Result<OwnedFd> {
    let socket = received(rustix::net::accept(listening)?);
    set_socket_send_buffer_size(&socket, PACKETS_BYTES)?;
    Ok(socket)
}

/// The user whose process is at the other end of a Unix socket.
#[cfg(target_os = "linux")]
pub fn peer_user(socket: &OwnedFd) -> Result<Uid> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid)
}

/// The user whose process is at the other end of a Unix socket.
#[cfg(not(target_os = "linux"))]
pub fn peer_user(socket: &OwnedFd) -> Result<Uid> {
    use std::os::fd::AsRawFd;

    unsafe extern "C" {
        fn getpeereid(socket: i32, user: *mut u32, group: *mut u32) -> i32;
    }
    let (mut user, mut group) = (u32::MAX, u32::MAX);
    // SAFETY: it writes one number to each place, and the descriptor is open.
    let status = unsafe { getpeereid(socket.as_raw_fd(), &raw mut user, &raw mut group) };
    if status != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(Uid::from_raw(user))
}

/// A Unix socket for packets, each of which arrives whole: macOS has no such sockets, so each has its
/// length before it.
pub fn packet_socket() -> Result<OwnedFd> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, true)?;
    set_socket_send_buffer_size(&socket, PACKETS_BYTES)?;
    Ok(socket)
}

/// Sends a packet, perhaps with a descriptor. Never waits: an error where there is no room, after
/// which the connection is of no use any more.
pub fn send_packet(socket: &OwnedFd, bytes: &[u8], with: Option<BorrowedFd<'_>>) -> Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::MSGSIZE)?;
    let packet = [&length.to_le_bytes(), bytes].concat();
    let flags = SendFlags::DONTWAIT;
    match descriptors::send(socket.as_fd(), &packet, with.as_slice(), flags)? {
        sent if sent == packet.len() => Ok(()),
        _ => Err(Errno::AGAIN),
    }
}

/// The length of the next packet, and the descriptor that came with it; 0 once the connection has ended.
pub fn receive_packet(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>)> {
    let (mut length, mut with) = ([0; 4], None);
    if !receive_whole(socket, &mut length, &mut with)? {
        return Ok((0, None));
    }
    let length = u32::from_le_bytes(length) as usize;
    let packet = bytes.get_mut(..length).ok_or(Errno::MSGSIZE)?;
    let is_whole = receive_whole(socket, packet, &mut with)?;
    Ok((if is_whole { length } else { 0 }, with))
}

/// Whether all of it came before the connection ended.
fn receive_whole(
    socket: &OwnedFd,
    mut bytes: &mut [u8],
    with: &mut Option<OwnedFd>,
) -> Result<bool> {
    while !bytes.is_empty() {
        let (length, [file]) = descriptors::receive(socket.as_fd(), bytes)?;
        if length == 0 {
            return Ok(false);
        }
        *with = with.take().or(file);
        bytes = &mut bytes[length..];
    }
    Ok(true)
}

/// A descriptor that came along, which no program inherits from now on.
pub(crate) fn received(descriptor: OwnedFd) -> OwnedFd {
    // It fails for what is no descriptor.
    let _ = fcntl_setfd(&descriptor, FdFlags::CLOEXEC);
    descriptor
}

/// What Python's `time.monotonic` is, in ns.
#[cfg(not(target_vendor = "apple"))]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What Python's `time.monotonic` is, in ns. It stands still while a Mac sleeps, and Apple's
/// `CLOCK_MONOTONIC` does not.
#[cfg(target_vendor = "apple")]
pub fn monotonic_ns() -> u64 {
    unsafe extern "C" {
        fn clock_gettime_nsec_np(clock: u32) -> u64;
    }
    const CLOCK_UPTIME_RAW: u32 = 8; // time.h
    // SAFETY: it takes and gives a number.
    unsafe { clock_gettime_nsec_np(CLOCK_UPTIME_RAW) }
}

/// Names the clock that [`monotonic_ns`] reads: the same for processes of one boot of one machine.
#[cfg(not(target_vendor = "apple"))]
pub fn clock_name() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// Names the clock that [`monotonic_ns`] reads: the same for processes of one boot of one machine.
#[cfg(target_vendor = "apple")]
pub fn clock_name() -> Option<String> {
    use std::ffi::{c_char, c_void};

    unsafe extern "C" {
        fn sysctlbyname(
            name: *const c_char,
            value: *mut c_void,
            length: *mut usize,
            new_value: *mut c_void,
            new_length: usize,
        ) -> i32;
    }
    let mut value = [0_u8; 64];
    let mut length = value.len();
    // SAFETY: it writes at most `length` bytes to `value`, and how many these are to `length`.
    let status = unsafe {
        sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            value.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let found = CStr::from_bytes_until_nul(&value).ok()?;
    (status == 0 && !found.is_empty()).then(|| found.to_string_lossy().into_owned())
}

/// Nothing: timers are as the system has them.
#[allow(clippy::unnecessary_wraps, reason = "as that of Linux")]
pub fn use_precise_timers() -> Result<()> {
    Ok(())
}

/// Nothing: Python and programs in Rust ignore the signal of a connection that is gone.
pub const QUIET: SendFlags = SendFlags::empty();

/// Nothing: what more follows may leave later.
pub const MORE: SendFlags = SendFlags::empty();

/// Nothing: `received` does it.
pub(crate) const CLOSING: RecvFlags = RecvFlags::empty();

/// Room for packets that nobody has taken yet: macOS gives a Unix socket 8 KiB, Linux 208.
const PACKETS_BYTES: usize = 208 * 1024;

/// Zeros that are written at once.
const ZEROS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> [OwnedFd; 2] {
        let path = env::temp_dir().join(format!("oka-packets-{}", process::id()));
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        let (listening, here) = (packet_socket().unwrap(), packet_socket().unwrap());
        rustix::net::bind(&listening, &address).unwrap();
        rustix::net::listen(&listening, 1).unwrap();
        rustix::net::connect(&here, &address).unwrap();
        std::fs::remove_file(path).unwrap();
        [here, accept(&listening).unwrap()]
    }

    #[test]
    fn packets_arrive_whole_with_their_descriptors() {
        let [here, there] = pair();
        assert_eq!(
            peer_user(&there).unwrap(),
            rustix::process::geteuid(),
            "the same process is at both ends"
        );
        let memory = create_memory(c"oka-test", 5).unwrap();
        for (text, with) in [("one", None), ("", Some(memory.as_fd())), ("three", None)] {
            send_packet(&here, text.as_bytes(), with).unwrap();
        }
        let mut bytes = [0; 8];
        let mut next = || {
            let (length, file) = receive_packet(&there, &mut bytes).unwrap();
            (bytes[..length].to_vec(), file.is_some())
        };
        assert_eq!(next(), (b"one".to_vec(), false));
        assert_eq!(next(), (b"".to_vec(), true));
        assert_eq!(next(), (b"three".to_vec(), false));
        send_packet(&here, &[0; 9], None).unwrap();
        assert_eq!(
            receive_packet(&there, &mut bytes).unwrap_err(),
            Errno::MSGSIZE
        );
    }

    #[test]
    fn who_takes_nothing_keeps_nobody() {
        let [here, there] = pair();
        let error = loop {
            if let Err(error) = send_packet(&here, &[0; 4096], None) {
                break error;
            }
        };
        assert_eq!(error, Errno::AGAIN);
        drop(here);
        let mut bytes = [0; 4096];
        while receive_packet(&there, &mut bytes).unwrap().0 > 0 {}
    }

    #[test]
    fn memory_has_no_name_and_is_allocated_as_a_whole() {
        let memory = create_memory(c"oka-test", 3 * ZEROS).unwrap();
        assert_eq!(fstat(&memory).unwrap().st_nlink, 0);
        assert_eq!(sealed_size(&memory, Seal::Bytes).unwrap(), None);
        allocate(&memory, ZEROS / 2, 2 * ZEROS).unwrap();
        seal(&memory, Seal::Bytes).unwrap();
        assert_eq!(sealed_size(&memory, Seal::Bytes).unwrap(), Some(3 * ZEROS));
    }
}

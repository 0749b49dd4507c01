//! Passing descriptors over Unix sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Result, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::system::{CLOSING, QUIET, received};

/// Sends bytes over a Unix socket, and at most two descriptors along; how many bytes went.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    with: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize> {
    retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(with));
        }
        sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags | QUIET)
    })
}

/// How many bytes of one message came, and which descriptors with them; more than `N` are closed.
pub fn receive<const N: usize>(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> Result<(usize, [Option<OwnedFd>; N])> {
    retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(bytes)];
        let message = recvmsg(socket, &mut into, &mut control, CLOSING)?;
        let descriptors = control.drain().flat_map(|part| match part {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let mut descriptors = descriptors.map(received);
        Ok((message.bytes, std::array::from_fn(|_| descriptors.next())))
    })
}

const MOST: usize = 2;

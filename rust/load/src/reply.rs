//! A reply, as far as a client needs it that does not look at the body.

/// What a reply says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// Bytes up to the end of the body.
    pub length: usize,
    /// The server ends the connection behind it.
    pub closes: bool,
}

/// The bytes are no reply, or one whose end is that of the connection.
#[derive(Debug, PartialEq)]
pub struct UnreadableReply;

/// The reply at the start of these bytes; None where its head, or a chunk, is not all there yet.
pub fn parse(bytes: &[u8]) -> Result<Option<Reply>, UnreadableReply> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() < MOST_HEAD {
            Ok(None)
        } else {
            Err(UnreadableReply)
        };
    };
    let status = match bytes.get(..12) {
        Some(start) if start.starts_with(b"HTTP/1.") => {
            digits(&start[9..12]).ok_or(UnreadableReply)?
        }
        _ => return Err(UnreadableReply),
    };
    let mut body = (status < 200 || status == 204 || status == 304).then_some(0);
    let (mut closes, mut chunked) = (bytes[7] == b'0', false);
    for line in bytes[..end].split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return Err(UnreadableReply);
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            body = Some(digits(value).ok_or(UnreadableReply)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    if chunked {
        body = chunks(&bytes[end + 4..])?;
        if body.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(Reply {
        status: status as u16,
        length: end + 4 + body.ok_or(UnreadableReply)?,
        closes,
    }))
}

/// Bytes of a body in chunks, without trailers; None where they are not all there.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, UnreadableReply> {
    let mut at = 0;
    loop {
        let Some(line) = bytes[at..].windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&bytes[at..at + line])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok())
            .ok_or(UnreadableReply)?;
        at += line + 2 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

fn digits(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

const MOST_HEAD: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_length() {
        let bytes = b"HTTP/1.1 503 Service Unavailable\r\ncontent-LENGTH: 12\r\nx: y\r\n\r\nbusy";
        let head = parse(bytes).unwrap().unwrap();
        assert_eq!((head.status, head.closes), (503, false));
        assert_eq!(head.length, bytes.len() + 8);
    }

    #[test]
    fn what_closes() {
        let closing = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        assert!(parse(closing).unwrap().unwrap().closes);
        assert!(parse(b"HTTP/1.0 204 x\r\n\r\n").unwrap().unwrap().closes);
    }

    #[test]
    fn not_all_there() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{length}");
        }
    }

    #[test]
    fn chunks_end_with_an_empty_one() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(parse(whole).unwrap().unwrap().length, whole.len());
    }

    #[test]
    fn unreadable() {
        for bytes in [
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".as_slice(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 2x0 OK\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n",
            b"SMTP\r\n\r\n",
            &vec![b'x'; MOST_HEAD],
        ] {
            assert_eq!(parse(bytes), Err(UnreadableReply));
        }
    }
}

//! Any bytes are frames, credits, markers and controls, or are refused; what was read is written the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oka_protocol::{
    Control, Credit, FrameHeader, FrameKind, Frames, HEADER_BYTES, decode_markers, encode_markers,
    padded,
};

fuzz_target!(
    init: oka_fuzz::write_seeds(&seeds()),
    |message: &[u8]| {
        let mut end = 0;
        let mut frames = Frames::new(message);
        for frame in frames.by_ref() {
            let Ok((header, body)) = frame else { break };
            assert_eq!(header.encode(), message[end..end + HEADER_BYTES]);
            assert_eq!(body.len(), header.length as usize);
            assert_eq!(body, &message[end + HEADER_BYTES..][..body.len()]);
            end = padded(end + HEADER_BYTES + body.len());
            read_body(&header, body);
        }
        assert!(frames.next().is_none(), "an error is the last");
    }
);

fn read_body(header: &FrameHeader, body: &[u8]) {
    if let Some(credit) = Credit::decode(header, body) {
        let again = credit.encode(header.channel, header.attempt);
        let (header, body) = Frames::new(&again).next().expect("one").expect("valid");
        assert_eq!(Credit::decode(&header, body), Some(credit));
    }
    if let Some(control) = Control::decode(header, body) {
        let again = control.encode(header.channel, header.attempt, header.sequence);
        assert_eq!(&again[HEADER_BYTES..], body);
        let (header, body) = Frames::new(&again).next().expect("one").expect("valid");
        assert_eq!(Control::decode(&header, body), Some(control));
    }
    if let Some(stamps) = decode_markers(header.count, body) {
        let mut again = Vec::new();
        encode_markers(&stamps, &mut again);
        assert_eq!(again, body);
    }
}

/// Messages as tasks send them.
fn seeds() -> Vec<Vec<u8>> {
    let frame = |kind, sequence, count, body: &[u8]| {
        let header = FrameHeader {
            count,
            length: body.len() as u32,
            ..FrameHeader::new(kind, 7, ATTEMPT, sequence)
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(body);
        bytes.resize(padded(bytes.len()), 0);
        bytes
    };
    let mut stamps = Vec::new();
    encode_markers(&[1, 2, 3], &mut stamps);
    let data = frame(FrameKind::Data, 1, 2, b"\x92\xa4moon\x01\x92\xa3sun\x02");
    let markers = frame(FrameKind::Markers, 2, 3, &stamps);
    let end = frame(FrameKind::End, 3, 0, b"");
    let credit = Credit {
        acknowledged: 3,
        limit: 1 << 19,
    };
    vec![
        [data.clone(), markers, end.clone()].concat(),
        [data.clone(), data].concat(),
        end,
        frame(FrameKind::Closed, 3, 0, b""),
        credit.encode(7, ATTEMPT).to_vec(),
        Control::Watermark(-1).encode(7, ATTEMPT, 4).to_vec(),
        Control::Idle.encode(7, ATTEMPT, 5).to_vec(),
        Control::Barrier(1).encode(7, ATTEMPT, 6).to_vec(),
    ]
}

const ATTEMPT: u8 = 2;

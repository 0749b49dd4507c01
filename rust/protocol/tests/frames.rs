//! The frame codec: whatever was encoded is decoded, and any other bytes are refused calmly.

use bytes::Bytes;
use oka_protocol::{
    Control, Credit, Echo, Encoding, Frame, FrameError, FrameHeader, FrameKind, Frames, Probe,
    Report,
};
use proptest::prelude::*;

const ATTEMPT: u8 = 9;

fn frame(kind: FrameKind, channel: u32, sequence: u64, count: u32, body: Vec<u8>) -> Frame {
    Frame {
        header: FrameHeader {
            count,
            length: body.len() as u32,
            ..FrameHeader::new(kind, channel, ATTEMPT, sequence)
        },
        body: Bytes::from(body),
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let kind = prop_oneof![
        Just(FrameKind::Data),
        Just(FrameKind::Markers),
        Just(FrameKind::Watermark),
        Just(FrameKind::Barrier),
        Just(FrameKind::Credit),
        Just(FrameKind::End),
        Just(FrameKind::Closed),
        Just(FrameKind::Probe),
        Just(FrameKind::State)
    ];
    let encoding = prop_oneof![Just(Encoding::Msgpack), Just(Encoding::Arrow)];
    let body = prop::collection::vec(any::<u8>(), 0..100);
    (
        kind,
        encoding,
        any::<u8>(),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        body,
    )
        .prop_map(
            |(kind, encoding, attempt, channel, sequence, count, body)| {
                let mut frame = frame(kind, channel, sequence, count, body);
                frame.header.encoding = encoding;
                frame.header.attempt = attempt;
                frame
            },
        )
}

fn any_state() -> impl Strategy<Value = Report> {
    let echo = (1..=u64::MAX, any::<u64>(), any::<u64>()).prop_map(
        |(probe_ns, received_ns, answered_ns)| Echo {
            probe_ns,
            received_ns,
            answered_ns,
        },
    );
    let numbers = any::<[u64; 5]>();
    (numbers, prop::option::of(echo)).prop_map(
        |([acknowledged, limit, arrived, seen, clock], echo)| Report {
            credit: Credit {
                acknowledged,
                limit,
            },
            arrived,
            seen,
            clock,
            echo,
        },
    )
}

proptest! {
    #[test]
    fn probes_and_states_survive_the_wire(
        sequence in any::<u64>(),
        sent_ns in any::<u64>(),
        state in any_state(),
    ) {
        let probe = Probe { sequence, sent_ns };
        let mut message = probe.encode(4, ATTEMPT).to_vec();
        message.extend_from_slice(&state.encode(5, ATTEMPT));
        let frames: Vec<_> = Frames::new(&message).map(Result::unwrap).collect();
        let [(asked, question), (told, answer)] = frames[..] else {
            panic!("{} frames", frames.len());
        };
        prop_assert_eq!((asked.kind, asked.channel), (FrameKind::Probe, 4));
        prop_assert_eq!((told.kind, told.channel), (FrameKind::State, 5));
        prop_assert_eq!(Probe::decode(&asked, question), Some(probe));
        prop_assert_eq!(Report::decode(&told, answer), Some(state));
        prop_assert_eq!(Probe::decode(&asked, answer), None);
        for cut in 0..answer.len() {
            prop_assert_eq!(Report::decode(&told, &answer[..cut]), None);
        }
    }

    #[test]
    fn controls_survive_the_wire(
        control in prop_oneof![
            any::<i64>().prop_map(Control::Watermark),
            Just(Control::Idle),
            any::<u64>().prop_map(Control::Barrier),
        ],
        count in 2..=u32::MAX,
    ) {
        let message = control.encode(6, ATTEMPT, 3);
        let (mut header, body) = Frames::new(&message).next().unwrap().unwrap();
        prop_assert_eq!((header.kind, header.sequence), (control.kind(), 3));
        prop_assert_eq!(Control::decode(&header, body), Some(control));
        for cut in 0..body.len() {
            prop_assert_eq!(Control::decode(&header, &body[..cut]), None);
        }
        header.count = count;
        prop_assert_eq!(Control::decode(&header, body), None);
    }

    #[test]
    fn frames_survive_the_wire(frames in prop::collection::vec(any_frame(), 0..8)) {
        let mut message = Vec::new();
        for frame in &frames {
            frame.encode_into(&mut message);
        }
        let decoded: Result<Vec<_>, _> = Frames::new(&message).collect();
        let expected = frames.iter().map(|frame| (frame.header, &frame.body[..]));
        prop_assert_eq!(decoded, Ok(expected.collect()));
    }

    #[test]
    fn any_bytes_give_frames_or_one_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Frames::new(&bytes);
        let errors = decoder.by_ref().filter(Result::is_err).count();
        prop_assert!(errors <= 1);
        prop_assert!(decoder.next().is_none());
    }

    #[test]
    fn one_flipped_byte_never_panics(
        frames in prop::collection::vec(any_frame(), 1..4),
        place in any::<prop::sample::Index>(),
        flip in 1..=u8::MAX,
    ) {
        let mut message = Vec::new();
        for frame in &frames {
            frame.encode_into(&mut message);
        }
        let place = place.index(message.len());
        message[place] ^= flip;
        let total = message.len();
        let decoded: usize = Frames::new(&message)
            .filter_map(Result::ok)
            .map(|(_, body)| body.len())
            .sum();
        prop_assert!(decoded <= total);
    }
}

#[test]
fn bodies_are_slices_of_the_message() {
    let mut message = Vec::new();
    frame(FrameKind::Data, 1, 1, 2, vec![7; 50]).encode_into(&mut message);
    let message = Bytes::from(message);
    let start = message.as_ptr();
    let (_, body) = Frames::new(&message).next().unwrap().unwrap();
    assert_eq!(body.as_ptr(), start.wrapping_add(24));
}

#[test]
fn refusals_say_what_was_expected() {
    let mut message = Vec::new();
    frame(FrameKind::Data, 1, 1, 2, vec![7; 50]).encode_into(&mut message);
    let refused = |place: usize, value: u8| {
        let mut bytes = message.clone();
        bytes[place] = value;
        Frames::new(&bytes).next().unwrap().unwrap_err()
    };
    assert_eq!(refused(0, 1), FrameError::UnsupportedVersion(1));
    assert_eq!(refused(1, 7), FrameError::UnsupportedKind(7));
    assert_eq!(refused(2, 2), FrameError::UnsupportedEncoding(2));
    assert_eq!(
        refused(23, 1),
        FrameError::Truncated {
            expected: 24 + (1 << 24) + 50,
            got: 74
        }
    );
}

#[test]
fn credits_survive_the_wire() {
    let credit = Credit {
        acknowledged: 9,
        limit: 1 << 40,
    };
    let message = Bytes::copy_from_slice(&credit.encode(3, ATTEMPT));
    let (header, body) = Frames::new(&message).next().unwrap().unwrap();
    assert_eq!((header.kind, header.channel), (FrameKind::Credit, 3));
    assert_eq!(Credit::decode(&header, body), Some(credit));
    assert_eq!(Credit::decode(&header, &body[1..]), None);
}

#[test]
fn frames_of_another_attempt_or_channel_are_refused() {
    let mut message = Control::Watermark(5).encode(3, ATTEMPT, 1).to_vec();
    assert_eq!(Frames::new(&message).channel(ATTEMPT), Some(3));
    assert_eq!(Frames::new(&message).channel(ATTEMPT - 1), None);
    assert_eq!(Frames::new(&message).channel(ATTEMPT + 1), None);
    let whole = message.len();
    for (channel, attempt) in [(3, ATTEMPT - 1), (4, ATTEMPT)] {
        message.truncate(whole);
        message.extend_from_slice(&Control::Idle.encode(channel, attempt, 2));
        assert_eq!(Frames::new(&message).channel(ATTEMPT), None);
    }
    assert_eq!(Frames::new(&message[..whole - 1]).channel(ATTEMPT), None);
    assert_eq!(Frames::new(&[]).channel(ATTEMPT), None);
}

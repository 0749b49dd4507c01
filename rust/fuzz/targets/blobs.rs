//! Any bytes are what two nodes say about a blob, or are refused; what was read is written the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oka_blob::{ChunkHead, FailedNode, Header, Message, Refusal};

fuzz_target!(
    init: oka_fuzz::write_seeds(&seeds()),
    |bytes: &[u8]| {
        if let Ok(message) = Message::decode(bytes) {
            // A text that is longer than any that is sent is cut when it is.
            let again = encode(&message);
            assert!(again.len() <= bytes.len());
            assert!(again.len() < bytes.len() || again == bytes);
            assert!(Message::decode(&again).is_ok());
        }
    }
);

fn encode(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// One message of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let text = || "tcp://10.0.0.1:80".to_owned();
    let messages = [
        Message::Begin(Header {
            origin: 1,
            number: 2,
            size: 564_000_000,
            chunk_bytes: 1 << 20,
            position: 0,
            rest: vec![text(), text()],
        }),
        Message::Chunk(ChunkHead {
            index: 3,
            length: 1 << 20,
            hash: 4,
        }),
        Message::Alive { fed: true },
        Message::Abort(text()),
        Message::Have(5),
        Message::Landed,
        Message::Done(vec![FailedNode {
            endpoint: text(),
            reason: text(),
        }]),
        Message::Refused(Refusal::Superseded),
        Message::Refused(Refusal::Reason(text())),
    ];
    messages.iter().map(encode).collect()
}

//! Any bytes are replies of another process, and responses of HTTP, or are refused.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use oka_http::{Reply, response};

fuzz_target!(
    init: oka_fuzz::write_seeds(&seeds()),
    |bytes: &[u8]| {
        let (mut left, mut again) = (BytesMut::from(bytes), Vec::new());
        while let Some(reply) = Reply::decode(&mut left) {
            reply.encode(&mut again);
            let status = reply.status;
            let made = response(reply);
            assert!(made.status().as_u16() == status || made.status() == 500);
            assert!(!made.headers().contains_key("transfer-encoding"));
        }
        again.extend_from_slice(&left);
        assert_eq!(again, bytes);
    }
);

/// Replies as they travel.
fn seeds() -> Vec<Vec<u8>> {
    let reply = |head: &'static str, body: &'static str| {
        let mut bytes = Vec::new();
        let (head, body) = (Bytes::from(head), Bytes::from(body));
        Reply {
            id: 7,
            status: 200,
            head,
            body,
        }
        .encode(&mut bytes);
        bytes
    };
    let (plain, empty) = (
        reply("content-type: text/plain\r\nx: y\r\n", "ok"),
        reply("", ""),
    );
    vec![plain.clone(), [empty, plain].concat()]
}

//! Requests and responses, as the other side of a ring may have written them: nothing panics, and
//! what is read is written as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_evaluator_proto::{KeyRow, Request, Response, SessionRequest};

fuzz_target!(|data: &[u8]| {
    let mut bytes = Vec::new();
    if let Ok(request) = Request::parse(data) {
        request.encode(&mut bytes);
        assert_eq!(bytes, data);
        if let Request::Session(SessionRequest::LoadKeys(rows)) = request {
            assert_eq!(rows.iter().count(), rows.len());
            for row in rows.iter().filter_map(|item| KeyRow::parse(item).ok()) {
                assert_eq!(KeyRow::parse(&row.encode()), Ok(row));
            }
        }
    }
    bytes.clear();
    if let Ok(response) = Response::parse(data) {
        response.encode(&mut bytes);
        assert_eq!(bytes, data);
    }
});

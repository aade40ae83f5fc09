//! Plain values, their text, and the states of aggregates: what a client sealed, or a leader handed
//! to its workers. What decodes leads back from its bytes and its text; nothing else is panicked
//! about.

#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use pgseal_value::{
    cast, compare, extract, hash_bytes, like, like_escape, similar_to_escape, Aggregate, Field,
    Reading, Regex, Type, Value, ValueError, C,
};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let _ = Aggregate::decode(rest);
    let Some(ty) = Type::from_byte(*first) else {
        return;
    };
    if let Ok(value) = Value::decode(ty, rest) {
        leads_back(&value);
    }
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    if let Ok(value) = Value::parse(ty, text) {
        leads_back(&value);
        for to in Type::ALL {
            cast(&value, to).iter().for_each(leads_back);
        }
        for field in Field::ALL {
            extract(field, &value).iter().flatten().for_each(leads_back);
        }
    }
    pattern(text);
});

fn leads_back(value: &Value) {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    let decoded = Value::decode(value.ty(), &bytes).expect("it is a value");
    let parsed = Value::parse(value.ty(), &value.to_text()).expect("it is its text");
    for copy in [decoded, parsed] {
        assert_eq!(compare(value, &copy, &C), Ok(Ordering::Equal));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        hash_bytes(value, &mut ours);
        hash_bytes(&copy, &mut theirs);
        assert_eq!(ours, theirs);
    }
}

/// A short text against a pattern.
fn pattern(text: &str) {
    let Some((value, pattern)) = text.split_once('|') else {
        return;
    };
    let (value, pattern) = (
        Value::Text(value.to_owned()),
        Value::Text(pattern.to_owned()),
    );
    for reading in [Reading::Sensitive, Reading::Insensitive, Reading::Similar] {
        let small = || Err(ValueError::TooComplex);
        if let Ok(regex) = Regex::new(&pattern, reading, &C, small) {
            let _ = regex.matches(&value);
        }
    }
    for escape in ["\\", "e", ""] {
        let _ = similar_to_escape(&pattern, escape);
        let pattern = like_escape(&pattern, escape).expect("an escape is one character");
        let _ = like(&value, &pattern, None);
        let _ = like(&value, &pattern, Some(&C));
    }
}

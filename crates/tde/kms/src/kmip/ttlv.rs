//! The encoding of KMIP's messages: tag, type, length, value, padded to eight bytes (KMIP 1.4,
//! section 9.1). It is written here, and not taken from a crate, because a message holds the key in
//! clear: what is written is in one buffer that is wiped, and what is read is never copied.
//!
//! Invariant: no length of a server's is trusted. What does not fit is as if it were not there.

use zeroize::Zeroizing;

/// Bytes before a value: three of the tag, one of the type, four of the length.
pub const HEADER: usize = 8;
/// Values are padded to a multiple of this.
const UNIT: usize = 8;
/// The room that a message has before its buffer grows, which would leave a copy behind.
const ROOM: usize = 64 * 1024;

const STRUCTURE: u8 = 1;
const INTEGER: u8 = 2;
const ENUMERATION: u8 = 5;
const TEXT: u8 = 7;
const BYTES: u8 = 8;

/// The name of a field, as the specification numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u32);

/// A message that is written, field after field.
pub(super) struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    /// Begins an empty message.
    pub fn new() -> Self {
        Self(Zeroizing::new(Vec::with_capacity(ROOM)))
    }

    /// Returns what was written.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.0
    }

    /// Writes a structure of the fields that `fill` writes.
    pub fn structure(&mut self, tag: Tag, fill: impl FnOnce(&mut Self)) {
        self.header(tag, STRUCTURE, 0);
        let start = self.0.len();
        fill(self);
        let length = length(self.0.len() - start);
        self.0[start - 4..start].copy_from_slice(&length.to_be_bytes());
    }

    /// Writes a number.
    pub fn integer(&mut self, tag: Tag, value: i32) {
        self.value(tag, INTEGER, &value.to_be_bytes());
    }

    /// Writes one of the numbers that the specification lists.
    pub fn enumeration(&mut self, tag: Tag, value: u32) {
        self.value(tag, ENUMERATION, &value.to_be_bytes());
    }

    /// Writes a text.
    pub fn text(&mut self, tag: Tag, value: &str) {
        self.value(tag, TEXT, value.as_bytes());
    }

    /// Writes bytes.
    pub fn bytes(&mut self, tag: Tag, value: &[u8]) {
        self.value(tag, BYTES, value);
    }

    fn value(&mut self, tag: Tag, kind: u8, value: &[u8]) {
        self.header(tag, kind, length(value.len()));
        self.0.extend_from_slice(value);
        let padded = self.0.len().next_multiple_of(UNIT);
        self.0.resize(padded, 0);
    }

    fn header(&mut self, tag: Tag, kind: u8, length: u32) {
        self.0.extend_from_slice(&tag.0.to_be_bytes()[1..]);
        self.0.push(kind);
        self.0.extend_from_slice(&length.to_be_bytes());
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a message is a few kilobytes")
}

/// Returns how many bytes follow the header of a message, if it is the header of `tag`.
pub fn message_length(tag: Tag, header: [u8; HEADER]) -> Option<usize> {
    let (found, kind, length) = split(header);
    if (found, kind) != (tag, STRUCTURE) {
        return None;
    }
    usize::try_from(length).ok()
}

fn split(header: [u8; HEADER]) -> (Tag, u8, u32) {
    let [a, b, c, kind, length @ ..] = header;
    let tag = Tag(u32::from_be_bytes([0, a, b, c]));
    (tag, kind, u32::from_be_bytes(length))
}

/// The fields of a structure, not checked yet.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the first structure of this tag.
    pub fn structure(self, tag: Tag) -> Option<Fields<'a>> {
        self.find(tag, STRUCTURE).map(Fields)
    }

    /// Returns the first listed number of this tag.
    pub fn enumeration(self, tag: Tag) -> Option<u32> {
        let value = self.find(tag, ENUMERATION)?;
        Some(u32::from_be_bytes(value.try_into().ok()?))
    }

    /// Returns the first text of this tag.
    pub fn text(self, tag: Tag) -> Option<&'a str> {
        std::str::from_utf8(self.find(tag, TEXT)?).ok()
    }

    /// Returns the first bytes of this tag.
    pub fn bytes(self, tag: Tag) -> Option<&'a [u8]> {
        self.find(tag, BYTES)
    }

    fn find(self, tag: Tag, kind: u8) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let Some((header, after)) = rest.split_first_chunk() {
            let (found, found_kind, length) = split(*header);
            let length = usize::try_from(length).ok()?;
            let value = after.get(..length)?;
            if found == tag {
                return (found_kind == kind).then_some(value);
            }
            rest = after.get(length.checked_next_multiple_of(UNIT)?..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OUTER: Tag = Tag(0x42_0020);
    const INNER: Tag = Tag(0x42_0004);

    fn written(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        fill(&mut writer);
        writer.into_bytes().to_vec()
    }

    /// The examples of KMIP 1.4, section 9.1.2.
    #[test]
    fn the_examples_of_the_specification() {
        let integer = "42002002000000040000000800000000";
        assert_eq!(hex(&written(|to| to.integer(OUTER, 8))), integer);
        let enumeration = "4200200500000004000000ff00000000";
        assert_eq!(hex(&written(|to| to.enumeration(OUTER, 255))), enumeration);
        let text = "420020070000000b48656c6c6f20576f726c640000000000";
        assert_eq!(hex(&written(|to| to.text(OUTER, "Hello World"))), text);
        let bytes = "42002008000000030102030000000000";
        assert_eq!(hex(&written(|to| to.bytes(OUTER, &[1, 2, 3]))), bytes);
        let structure = written(|to| {
            to.structure(OUTER, |to| {
                to.enumeration(INNER, 254);
                to.integer(Tag(0x42_0005), 255);
            });
        });
        assert_eq!(
            hex(&structure),
            "42002001000000204200040500000004000000fe000000004200050200000004000000ff00000000"
        );
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn fields_are_found_by_tag_and_type() {
        let bytes = written(|to| {
            to.structure(OUTER, |to| {
                to.text(Tag(1), "odd");
                to.bytes(Tag(2), &[7]);
                to.enumeration(Tag(3), 9);
            });
        });
        let fields = Fields(&bytes).structure(OUTER).expect("it was written");
        assert_eq!(fields.text(Tag(1)), Some("odd"));
        assert_eq!(fields.bytes(Tag(2)), Some(&[7][..]));
        assert_eq!(fields.enumeration(Tag(3)), Some(9));
        assert_eq!(fields.bytes(Tag(1)), None);
        assert_eq!(fields.bytes(Tag(4)), None);
    }

    #[test]
    fn the_header_of_a_message() {
        let header = [0x42, 0, 0x20, 1, 0, 0, 1, 0];
        assert_eq!(message_length(OUTER, header), Some(256));
        assert_eq!(message_length(INNER, header), None);
        assert_eq!(message_length(OUTER, [0x42, 0, 0x20, 2, 0, 0, 1, 0]), None);
    }

    #[test]
    fn a_field_that_is_cut_off_is_absent() {
        let bytes = written(|to| to.bytes(OUTER, &[1; 9]));
        for end in 0..HEADER + 9 {
            assert_eq!(Fields(&bytes[..end]).bytes(OUTER), None, "{end}");
        }
    }

    proptest! {
        /// No bytes of a server's make a search fail or last.
        #[test]
        fn any_bytes_can_be_searched(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let fields = Fields(&bytes);
            let _ = (fields.structure(OUTER), fields.text(OUTER), fields.bytes(INNER));
        }
    }
}

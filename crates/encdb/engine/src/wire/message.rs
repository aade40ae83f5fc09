//! Messages whose content matters, read and written.

/// A message that does not have what its type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of type {:?} is malformed", char::from(*.0))]
pub struct MessageError(pub u8);

/// Reads the fields of one message.
pub(crate) struct Reader<'m> {
    tag: u8,
    rest: &'m [u8],
}

impl<'m> Reader<'m> {
    /// Reads a whole message, of which the header is known to be right.
    pub(crate) fn new(message: &'m [u8]) -> Self {
        let (header, rest) = message.split_at(super::frames::HEADER.min(message.len()));
        let tag = header.first().copied().unwrap_or_default();
        Self { tag, rest }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'m [u8], MessageError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(MessageError(self.tag))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, MessageError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn int16(&mut self) -> Result<u16, MessageError> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn int32(&mut self) -> Result<u32, MessageError> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads bytes up to a zero byte, which is passed over.
    pub(crate) fn string(&mut self) -> Result<&'m [u8], MessageError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let bytes = self.bytes(end.ok_or(MessageError(self.tag))?)?;
        self.byte()?;
        Ok(bytes)
    }

    /// Reads a value behind its length; -1 is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'m [u8]>, MessageError> {
        match self.int32()? {
            u32::MAX => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| MessageError(self.tag))?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// Reads a number of items, then each of them.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, MessageError>,
    ) -> Result<Vec<T>, MessageError> {
        let count = self.int16()?;
        (0..count).map(|_| item(self)).collect()
    }

    /// Returns what is left.
    pub(crate) fn rest(self) -> &'m [u8] {
        self.rest
    }
}

/// A start packet: whose connection it is, to which database.
pub(crate) struct Start {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Whether it is one of replication
    pub(crate) replicates: bool,
    /// Settings, by their names
    pub(crate) settings: Vec<(String, String)>,
}

/// Reads a start packet, which has no type before its length.
pub(crate) fn start(packet: &[u8]) -> Result<Start, MessageError> {
    let mut reader = Reader {
        tag: 0,
        rest: packet.get(8..).ok_or(MessageError(0))?,
    };
    let (mut user, mut database, mut replicates) = (None, None, false);
    let mut settings = Vec::new();
    loop {
        let name = reader.string()?;
        if name.is_empty() {
            break;
        }
        let value = String::from_utf8_lossy(reader.string()?).into_owned();
        match name {
            b"user" => user = Some(value),
            b"database" => database = Some(value),
            b"replication" => replicates = !matches!(value.as_str(), "false" | "off" | "no" | "0"),
            name => settings.push((String::from_utf8_lossy(name).to_ascii_lowercase(), value)),
        }
    }
    let user = user.ok_or(MessageError(0))?;
    Ok(Start {
        database: database.unwrap_or_else(|| user.clone()),
        user,
        replicates,
        settings,
    })
}

/// `Parse`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parse<'m> {
    pub(crate) name: &'m [u8],
    pub(crate) text: &'m [u8],
    /// The types that the driver declares; 0 leaves one to the server.
    pub(crate) types: Vec<u32>,
}

impl<'m> Parse<'m> {
    pub(crate) fn read(message: &'m [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(message);
        Ok(Self {
            name: reader.string()?,
            text: reader.string()?,
            types: reader.list(Reader::int32)?,
        })
    }
}

/// `Bind`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind<'m> {
    pub(crate) portal: &'m [u8],
    pub(crate) statement: &'m [u8],
    pub(crate) formats: Vec<u16>,
    pub(crate) values: Vec<Option<&'m [u8]>>,
    /// The formats of results, as they came
    pub(crate) results: &'m [u8],
}

impl<'m> Bind<'m> {
    pub(crate) fn read(message: &'m [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(message);
        Ok(Self {
            portal: reader.string()?,
            statement: reader.string()?,
            formats: reader.list(Reader::int16)?,
            values: reader.list(Reader::value)?,
            results: reader.rest(),
        })
    }

    /// Returns the format of a parameter, which counts from 0: one format may be that of all.
    pub(crate) fn format(&self, place: usize) -> u16 {
        format_of(&self.formats, place)
    }

    /// Returns the values as they came.
    pub(crate) fn as_given(&self) -> Values {
        let values = self.values.iter().enumerate();
        values
            .map(|(at, value)| (self.format(at), value.map(<[u8]>::to_vec)))
            .collect()
    }

    /// Returns the formats of results.
    pub(crate) fn result_formats(&self) -> Vec<u16> {
        let numbers = self.results.get(2..).unwrap_or_default().chunks_exact(2);
        numbers
            .map(|it| u16::from_be_bytes([it[0], it[1]]))
            .collect()
    }
}

/// Returns the format of a value, as a list of none, one or all formats has it: 0 text, 1 binary.
pub(crate) fn format_of(formats: &[u16], place: usize) -> u16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(place).copied().unwrap_or_default(),
    }
}

/// Writes messages.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a message.
    pub(crate) fn new(tag: u8) -> Self {
        Self {
            bytes: vec![tag, 0, 0, 0, 0],
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn string(&mut self, text: &[u8]) -> &mut Self {
        self.bytes(text).bytes(&[0])
    }

    pub(crate) fn int16(&mut self, number: u16) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn int32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Writes a value behind its length. Fails if no message can hold it.
    pub(crate) fn value(&mut self, value: Option<&[u8]>) -> Result<&mut Self, MessageError> {
        let Some(value) = value else {
            return Ok(self.int32(u32::MAX));
        };
        let length = i32::try_from(value.len()).map_err(|_| MessageError(self.bytes[0]))?;
        Ok(self.int32(length.unsigned_abs()).bytes(value))
    }

    /// Ends the message. Fails if it is too long for one.
    pub(crate) fn end(mut self) -> Result<Vec<u8>, MessageError> {
        let length =
            i32::try_from(self.bytes.len() - 1).map_err(|_| MessageError(self.bytes[0]))?;
        self.bytes[1..5].copy_from_slice(&length.to_be_bytes());
        Ok(self.bytes)
    }
}

/// Returns a message with these bytes.
pub(crate) fn message(tag: u8, body: &[u8]) -> Result<Vec<u8>, MessageError> {
    let mut writer = Writer::new(tag);
    writer.bytes(body);
    writer.end()
}

/// Returns `Describe` of a statement.
pub(crate) fn describe_statement(name: &[u8]) -> Result<Vec<u8>, MessageError> {
    let mut writer = Writer::new(b'D');
    writer.bytes(b"S").string(name);
    writer.end()
}

/// Returns `Parse`.
pub(crate) fn parse(name: &[u8], text: &[u8], types: &[u32]) -> Result<Vec<u8>, MessageError> {
    let mut writer = Writer::new(b'P');
    writer.string(name).string(text);
    writer.int16(u16::try_from(types.len()).map_err(|_| MessageError(b'P'))?);
    types.iter().for_each(|oid| _ = writer.int32(*oid));
    writer.end()
}

/// The values of a `Bind`, each with its format; none is NULL.
pub(crate) type Values = Vec<(u16, Option<Vec<u8>>)>;

/// Returns `Bind` with other values, and other formats of results if some are given.
pub(crate) fn bind(
    bind: &Bind<'_>,
    values: &[(u16, Option<Vec<u8>>)],
    results: Option<&[u16]>,
) -> Result<Vec<u8>, MessageError> {
    let count = u16::try_from(values.len()).map_err(|_| MessageError(b'B'))?;
    let mut writer = Writer::new(b'B');
    writer
        .string(bind.portal)
        .string(bind.statement)
        .int16(count);
    values
        .iter()
        .for_each(|(format, _)| _ = writer.int16(*format));
    writer.int16(count);
    for (_, value) in values {
        writer.value(value.as_deref())?;
    }
    match results {
        None => _ = writer.bytes(bind.results),
        Some(formats) => {
            writer.int16(u16::try_from(formats.len()).map_err(|_| MessageError(b'B'))?);
            formats.iter().for_each(|format| _ = writer.int16(*format));
        }
    }
    writer.end()
}

/// Returns `ErrorResponse`.
pub fn error(sqlstate: &str, text: &str) -> Vec<u8> {
    error_of(&[(b'C', sqlstate), (b'M', text)])
}

/// Returns the SQLSTATE of an `ErrorResponse`.
pub(crate) fn sqlstate(message: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    loop {
        let (field, value) = (reader.byte().ok()?, reader.string().ok()?);
        if field == b'C' {
            return Some(value);
        }
    }
}

/// Returns `ErrorResponse` with these fields.
pub(crate) fn error_of(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut writer = Writer::new(b'E');
    for (field, value) in [(b'S', "ERROR"), (b'V', "ERROR")].iter().chain(fields) {
        writer.bytes(&[*field]).string(value.as_bytes());
    }
    writer.bytes(&[0]);
    writer.end().unwrap_or_default()
}

//! Rows as the extension takes them: fields one behind the other, each a byte 1 and a text with a
//! null byte behind it, or a byte 0 for NULL. The reader knows how many fields a row has.

/// Rows of one table.
#[derive(Default)]
pub struct Rows(Vec<u8>);

impl Rows {
    /// Adds a field.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.0.push(1);
        let bytes = text.as_ref().iter().filter(|&&byte| byte != 0);
        self.0.extend(bytes);
        self.0.push(0);
        self
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.text(number.to_string())
    }

    /// Adds a boolean.
    pub fn flag(&mut self, flag: bool) -> &mut Self {
        self.text(if flag { "t" } else { "f" })
    }

    /// Adds NULL.
    pub fn null(&mut self) -> &mut Self {
        self.0.push(0);
        self
    }

    /// Adds a field that may be NULL.
    pub fn option<T: ToString>(&mut self, value: Option<T>) -> &mut Self {
        match value {
            Some(value) => self.text(value.to_string()),
            None => self.null(),
        }
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_fields() {
        let mut rows = Rows::default();
        rows.text("a\0b")
            .null()
            .number(7)
            .flag(true)
            .option(Some(1u8));
        assert_eq!(rows.into_bytes(), b"\x01ab\0\0\x017\0\x01t\0\x011\0");
    }
}

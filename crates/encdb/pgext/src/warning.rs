//! The warning that a backend gives once in its life: why its parallel workers get no session.

use std::ffi::{CStr, CString};
use std::io;

#[derive(Default)]
pub(crate) struct Warning {
    /// The first reason; C reads it after it is taken.
    text: Option<CString>,
    taken: bool,
}

impl Warning {
    pub(crate) fn raise(&mut self, error: &io::Error) {
        self.text
            .get_or_insert_with(|| CString::new(error.to_string()).unwrap_or_default());
    }

    /// Returns the reason, unless there is none or it was taken before.
    pub(crate) fn take(&mut self) -> Option<&CStr> {
        let text = self.text.as_deref().filter(|_| !self.taken)?;
        self.taken = true;
        Some(text)
    }
}

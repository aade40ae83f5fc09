//! The bytes of PostgreSQL's protocol, version 3.

mod description;
mod frames;
mod message;

pub(crate) use description::describe_plain;
pub use frames::FrameError;
pub(crate) use frames::{Frame, Frames, Take, HEADER};
pub use message::error;
pub use message::MessageError;
pub(crate) use message::{
    bind, describe_statement, error_of, format_of, message, parse, sqlstate, start,
};
pub(crate) use message::{Bind, Parse, Reader, Values, Writer};

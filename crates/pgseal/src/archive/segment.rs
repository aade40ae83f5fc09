//! One WAL segment: in which form it is stored, and the same records in another form.

use std::fs::File;
use std::io;

use pgseal_crypto::{FileCipher, UNIT};
use pgseal_keys::unlock::Unlocked;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::Spec;
use pgseal_storage::restore::{copy, Stored};
use pgseal_storage::scratch::Scratch;
use pgseal_storage::wal::{LongHeader, WalName};
use pgseal_storage::{Errno, SealedFile};

use super::on_disk::OnDisk;
use super::{ArchiveError, Source};

/// A segment that is read.
pub struct Segment<'a> {
    name: WalName,
    source: &'a Source,
    /// Its first page, as it is stored.
    first: [u8; UNIT],
}

/// A way to store a segment.
#[derive(Clone, Copy)]
pub enum Form<'k> {
    Clear,
    Sealed(&'k Unlocked),
}

impl Form<'_> {
    /// Are the bytes the same?
    fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Clear, Self::Clear) => true,
            (Self::Sealed(Unlocked { header: one, .. }), Self::Sealed(other)) => {
                one.key_id == other.header.key_id && one.length == other.header.length
            }
            _ => false,
        }
    }
}

impl<'a> Segment<'a> {
    /// Reads the first page.
    pub fn new(name: WalName, source: &'a Source) -> Result<Self, ArchiveError> {
        let mut first = [0; UNIT];
        read_full(&OnDisk(&source.file), &mut first, 0)
            .map_err(|errno| ArchiveError::Read(source.path.clone(), error(errno)))?;
        Ok(Self {
            name,
            source,
            first,
        })
    }

    /// The first of these forms that the segment is stored in, and its header.
    pub fn form_among<'k>(
        &self,
        forms: impl IntoIterator<Item = Form<'k>>,
    ) -> Option<(Form<'k>, LongHeader)> {
        let mut forms = forms.into_iter();
        forms.find_map(|form| Some((form, self.header(form)?)))
    }

    fn header(&self, form: Form) -> Option<LongHeader> {
        let mut page = self.first;
        if let Form::Sealed(key) = form {
            sealed(key, &self.spec()?).open_in_place(&mut page, 0);
        }
        self.name.header(&page)
    }

    /// Writes the segment, which is stored as `from`, to the empty file `target`, stored as `to`.
    pub fn store(&self, from: Form, target: &File, to: Form) -> io::Result<()> {
        if from.equals(to) {
            return self.source.copy(target);
        }
        let spec = self.spec().ok_or(io::ErrorKind::InvalidData)?;
        let (from, to) = (opened(from, &spec), opened(to, &spec));
        let from = from.as_ref().map_or(Stored::Clear, Stored::Sealed);
        let to = to.as_ref().map_or(Stored::Clear, Stored::Sealed);
        let (source, target) = (OnDisk(&self.source.file), OnDisk(target));
        let (mut scratch, mut page) = (Box::new(Scratch::new()), [0; UNIT]);
        copy((&source, &from), (&target, &to), &mut scratch, &mut page).map_err(error)
    }

    fn spec(&self) -> Option<Spec> {
        self.name.spec(self.source.size)
    }
}

fn sealed<'k>(key: &'k Unlocked, spec: &Spec) -> SealedFile<'k> {
    let cipher = FileCipher::new(&key.master, key.header.length, &spec.id);
    SealedFile::new(cipher, spec.layout)
}

fn opened<'k>(form: Form<'k>, spec: &Spec) -> Option<SealedFile<'k>> {
    match form {
        Form::Clear => None,
        Form::Sealed(key) => Some(sealed(key, spec)),
    }
}

fn error(Errno(code): Errno) -> io::Error {
    io::Error::from_raw_os_error(code)
}

//! The facts of a name that is opened, for [`crate::policy`]. Each is found out when it is asked
//! for; the target of the name, once.

use super::names::moving::Name;
use crate::clusters::Cluster;
use crate::place::{self, Place};
use crate::policy::{lacks_images, Facts, Foreign, Opens, Target, Who};
use crate::process::PROCESS;
use crate::received::{self, Form};
use crate::receivers::guard;
use crate::{control, receivers};
use libc::c_int;
use pgseal_storage::classify::Class;
use std::cell::OnceCell;
use std::ffi::CStr;

/// A call of `open`.
pub struct Opening<'a> {
    /// The directory that a relative path starts from.
    pub directory: c_int,
    /// The path that the caller gave.
    pub path: &'a CStr,
    /// The flags that the caller gave.
    pub flags: c_int,
    /// Why it must not be a protected file.
    pub unprotectable: Option<Unprotectable>,
    spelled: OnceCell<Option<Place>>,
    followed: OnceCell<Place>,
}

/// Why a call cannot be given a protected file. It is asked before anything is opened or emptied.
#[derive(Clone, Copy)]
pub struct Unprotectable {
    /// The errno to answer with.
    pub errno: c_int,
    /// The line on stderr.
    pub line: &'static str,
}

/// Returns the process that opens.
pub fn who() -> Who {
    Who {
        role: PROCESS.role(),
        connection: PROCESS.connection(),
    }
}

impl<'a> Opening<'a> {
    /// Describes the call. Nothing is looked at yet.
    pub fn new(directory: c_int, path: &'a CStr, flags: c_int) -> Self {
        Self {
            directory,
            path,
            flags,
            unprotectable: None,
            spelled: OnceCell::new(),
            followed: OnceCell::new(),
        }
    }

    /// Returns the cluster and the class of the target that was asked for last, if it is sealed.
    pub fn sealed(&self) -> Option<(&'static Cluster, &Class)> {
        let spelled = || self.spelled.get()?.as_ref();
        match self.followed.get().or_else(spelled)? {
            Place::Sealed(cluster, class) => Some((cluster, class)),
            Place::Clear | Place::Denied(_) => None,
        }
    }

    /// Returns the form of the WAL that the program is about to store there.
    pub fn form(&self) -> Option<Form> {
        received::form(self.path, self.flags)
    }

    fn name(&self) -> Name<'a> {
        Name::at(self.directory, self.path)
    }
}

fn target(place: &Place) -> Target<'_> {
    match place {
        Place::Clear => Target::Clear,
        Place::Denied(errno) => Target::Denied(*errno),
        Place::Sealed(_, class) => Target::Sealed(class),
    }
}

impl Foreign for Opening<'_> {
    fn is_foreign(&self) -> bool {
        self.name().is_foreign()
    }

    fn is_set(&self) -> bool {
        self.name().is_set()
    }

    fn is_archiver(&self) -> bool {
        self.name().is_archiver()
    }
}

impl Facts for Opening<'_> {
    fn backup(&self) -> Opens {
        guard::opens(self.path, self.flags)
    }

    fn spelled(&self) -> Option<Target<'_>> {
        let spelled = || place::by_spelling(self.directory, self.path);
        self.spelled.get_or_init(spelled).as_ref().map(target)
    }

    fn followed(&self) -> Target<'_> {
        target(
            self.followed
                .get_or_init(|| place::at(self.directory, self.path)),
        )
    }

    fn is_in_cluster(&self) -> bool {
        !matches!(place::owner(self.directory, self.path), Ok(None))
    }

    fn lacks_images(&self) -> bool {
        place::is_class(self.directory, self.path, lacks_images)
    }

    fn takes_received_wal(&self) -> bool {
        self.form().is_some()
    }

    fn allows_server(&self) -> bool {
        self.sealed()
            .is_some_and(|(cluster, _)| control::allows_server(cluster))
    }

    fn streams_to_sql(&self) -> bool {
        receivers::hides_from_sql()
    }
}

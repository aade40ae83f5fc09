//! The remedies for findings, which decide the words that the summary ends with.

use serde::Serialize;

use super::Fault;

/// The remedy that the operator applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Nothing but a copy has these bytes.
    Restore,
    /// PostgreSQL takes a damaged page of these forks for an empty one, and fills it again.
    Vacuum,
    /// PostgreSQL makes what it needs of these files anew when it starts.
    Start,
    /// Something else, which the finding itself says.
    AsSaid,
}

impl Remedy {
    pub const ALL: [Self; 4] = [Self::Restore, Self::Vacuum, Self::Start, Self::AsSaid];

    /// Against this fault of this file.
    pub fn of(file: &str, fault: &Fault) -> Self {
        match fault {
            Fault::Dangling
            | Fault::Unmounted
            | Fault::Refused(_)
            | Fault::Control(_)
            | Fault::HeaderCopy(_) => Self::AsSaid,
            // A disk that cannot be read is not repaired by writing to other places of it.
            Fault::Unreadable(_) => Self::Restore,
            _ if is_rebuilt_fork(file) => Self::Vacuum,
            _ if is_made_anew(file) => Self::Start,
            _ => Self::Restore,
        }
    }

    /// A sentence about so many findings. A server that was not shut down comes first.
    pub fn sentence(self, count: usize, shut_down: bool) -> String {
        let (findings, files, maps) = match count {
            1 => ("1 finding".to_owned(), "this file", "this map"),
            n => (format!("{n} findings"), "these files", "these maps"),
        };
        let advice = match self {
            Self::Restore if shut_down => format!("restore {files} from a backup or a standby"),
            Self::Restore => format!(
                "start the server, stop it, and verify again: restore {files} from a backup or a \
                 standby only if that does not help"
            ),
            Self::Vacuum => format!(
                "no row is lost: VACUUM writes {maps} of free space and visibility anew, or remove \
                 the files while the server is stopped"
            ),
            Self::Start => format!("the server makes what it needs of {files} anew when it starts"),
            Self::AsSaid => "do what is said there".to_owned(),
        };
        format!("{findings}: {advice}")
    }
}

/// The forks for free space and visibility, in whatever segment.
fn is_rebuilt_fork(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    ["_vm", "_fsm"].iter().any(|fork| stem.ends_with(fork))
}

/// Subtransactions of transactions that are over, notifications, and what serializable ones left.
fn is_made_anew(file: &str) -> bool {
    let areas = ["pg_subtrans/", "pg_notify/", "pg_serial/"];
    areas.iter().any(|area| file.starts_with(area))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_file_and_fault() {
        for (file, remedy) in [
            ("base/5/16384", Remedy::Restore),
            ("base/5/16384_vm", Remedy::Vacuum),
            (
                "pg_tblspc/16390/PG_15_202209061/5/16384_fsm.1",
                Remedy::Vacuum,
            ),
            ("base/5/16384_init", Remedy::Restore),
            ("pg_xact/0000", Remedy::Restore),
            ("pg_multixact/members/0000", Remedy::Restore),
            ("pg_subtrans/0000", Remedy::Start),
        ] {
            assert_eq!(Remedy::of(file, &Fault::Noise), remedy, "{file}");
        }
        let unreadable = Fault::Unreadable("input/output error");
        assert_eq!(Remedy::of("base/5/16384_vm", &unreadable), Remedy::Restore);
        assert_eq!(Remedy::of("base/5", &Fault::Dangling), Remedy::AsSaid);
    }
}

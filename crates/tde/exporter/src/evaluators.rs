//! The audit logs of the evaluators of this machine: each start of an evaluator begins a file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pgseal_check::metrics::{name, Metrics};

/// The directory of the packaged unit.
const DEFAULT: &str = "/var/lib/pgseal-evaluator";

/// Returns the logs in these directories, or in the default one if none is given and it is there.
/// Directories that cannot be read are among the complaints.
pub fn logs(
    given: &[PathBuf],
    to: &mut Metrics,
    complaints: &mut BTreeSet<String>,
) -> BTreeSet<PathBuf> {
    let default = [PathBuf::from(DEFAULT)];
    let is_default = given.is_empty();
    let directories = if is_default { &default } else { given };
    let mut logs = BTreeSet::new();
    for directory in directories {
        let found = in_directory(directory);
        if is_default && matches!(&found, Err(error) if error.kind() == ErrorKind::NotFound) {
            continue;
        }
        let label = directory.to_string_lossy();
        to.add(
            &name::EVALUATOR_LOGS,
            &[("directory", &*label)],
            found.is_ok(),
        );
        match found {
            Ok(found) => logs.extend(found),
            Err(error) => {
                complaints.insert(format!(
                    "{label} cannot be read ({error}), so the logs of evaluators in it are not \
                     counted: add the exporter's user to the evaluator's group"
                ));
            }
        }
    }
    logs
}

fn in_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut found = entries.collect::<io::Result<Vec<_>>>()?;
    found.retain(|path| is_log(path));
    Ok(found)
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"evaluator-") && name.ends_with(b".log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_every_start_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for name in [
            "evaluator-1.log",
            "evaluator-2.log",
            "identity",
            "evaluator-2.log.gz",
        ] {
            fs::write(at(name), "").expect("it is new");
        }
        let (mut metrics, mut complaints) = (Metrics::default(), BTreeSet::new());
        let given = [directory.path().to_owned(), at("absent")];
        let logs = logs(&given, &mut metrics, &mut complaints);
        assert_eq!(logs, ["evaluator-1.log", "evaluator-2.log"].map(at).into());
        assert_eq!(complaints.len(), 1);
        let text = metrics.to_string();
        assert!(text.contains("absent\"} 0\n"), "{text}");
        assert_eq!(text.matches("} 1\n").count(), 1, "{text}");
    }
}

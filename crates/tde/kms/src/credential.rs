//! Credentials come from files, systemd's credentials and the environment. A file of a secret
//! that other users can read is refused, as PostgreSQL refuses such an `ssl_key_file`.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::error::KmsError;

/// The longest secret that is read from a file.
const MAX: u64 = 64 * 1024;

/// A secret that is a text.
pub type Text = Zeroizing<String>;

/// Reads the secret in a file, without white space around it.
pub fn file(path: &Path) -> Result<Text, KmsError> {
    let failed = |error| KmsError::File(path.to_owned(), error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A file of root's may be readable by the group of the server, as a service's token is.
    let excess = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    if metadata.is_file() && metadata.mode() & excess != 0 && !is_of_the_platform(path) {
        return Err(KmsError::Readable(path.to_owned()));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MAX).read_to_string(&mut text).map_err(failed)?;
    match text.trim() {
        "" => Err(KmsError::Content(path.to_owned(), "secret")),
        trimmed => Ok(Zeroizing::new(trimmed.to_owned())),
    }
}

/// Returns whether a platform lays the file, with its own mode: a pod's service account token
/// is readable by everybody in the pod.
fn is_of_the_platform(path: &Path) -> bool {
    const DIRECTORIES: [&str; 2] = ["/var/run/secrets", "/run/secrets"];
    DIRECTORIES
        .iter()
        .any(|directory| path.starts_with(directory))
}

/// Reads the credential `name` that systemd passes, if it passes one.
pub fn of_systemd(name: &str) -> Result<Option<Text>, KmsError> {
    let Some(directory) = env::var_os("CREDENTIALS_DIRECTORY") else {
        return Ok(None);
    };
    let path = PathBuf::from(directory).join(name);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => file(&path).map(Some),
    }
}

/// Returns the secret that a variable holds, if it is set.
pub fn of_environment(name: &str) -> Option<Text> {
    let text = env::var(name).ok().map(Zeroizing::new)?;
    (!text.trim().is_empty()).then(|| Zeroizing::new(text.trim().to_owned()))
}

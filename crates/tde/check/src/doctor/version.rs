//! Judges the versions of this command, of the library that wrappers load, and of the library in
//! the running server. An upgrade replaces the files; a server keeps its library until it is
//! started again.

use pgseal_wrapper::installed::are_of_two_versions;

use super::Finding;
use crate::versions::{Library, Loaded, NOT_KNOWN};

/// States the version of the command.
pub fn command(version: &str) -> Finding {
    Finding::good("command", version)
}

/// Judges the version of the library that wrappers load: it comes from the same build as the
/// command.
pub fn library(library: &Library, command: &str) -> Finding {
    let about = "library version";
    match library.version.as_deref() {
        Some(version) if version == command => Finding::good(about, command),
        version => Finding::advice(
            about,
            format_args!(
                "{}, but the command is {command}: install both from one build",
                version.unwrap_or(NOT_KNOWN)
            ),
        ),
    }
}

/// Judges the library of a server that runs sealed: the file, and its version.
pub fn server(loaded: &Loaded, installed: Option<&Library>) -> [Finding; 2] {
    [file(loaded, installed), version(loaded, installed)]
}

fn file(loaded: &Loaded, installed: Option<&Library>) -> Finding {
    let about = "server";
    let is_older = |library: &Library| are_of_two_versions(&loaded.path, &library.path);
    if loaded.is_replaced || installed.is_some_and(is_older) {
        return Finding::advice(
            about,
            "runs sealed, with a library that was replaced since: restart it to load the new one",
        );
    }
    match installed.is_some_and(|library| loaded.is(&library.path)) {
        true => Finding::good(about, "runs sealed, with the library that is installed"),
        false => Finding::good(
            about,
            format_args!("runs sealed, with the library {}", loaded.path.display()),
        ),
    }
}

fn version(loaded: &Loaded, installed: Option<&Library>) -> Finding {
    let about = "server library";
    let installed = installed.and_then(|library| library.version.as_deref());
    match (loaded.version.as_deref(), installed) {
        (Some(running), Some(installed)) if running != installed => Finding::advice(
            about,
            format_args!("{running}: restart the server to use {installed}"),
        ),
        (Some(running), _) => Finding::good(about, running),
        (None, Some(installed)) => Finding::advice(
            about,
            format_args!("{NOT_KNOWN}: restart the server to use {installed}"),
        ),
        (None, None) => Finding::advice(about, NOT_KNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    const COMMAND: &str = "0.1.0 (commit 0f04deb9a1b2, release build)";
    const PATH: &str = "/opt/pgseal/lib/libpgseal.so";

    fn installed(version: Option<&str>) -> Library {
        Library {
            path: PATH.into(),
            version: version.map(str::to_owned),
        }
    }

    fn loaded(version: Option<&str>, is_replaced: bool) -> Loaded {
        Loaded {
            path: PATH.into(),
            is_replaced,
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn command_and_library_are_of_one_build() {
        assert_eq!(
            library(&installed(Some(COMMAND)), COMMAND).verdict,
            Verdict::Good
        );
        let other = library(&installed(Some("0.0.9 (release build)")), COMMAND);
        let sentence = format!(
            "0.0.9 (release build), but the command is {COMMAND}: install both from one build"
        );
        assert_eq!((other.verdict, other.text), (Verdict::Advice, sentence));
        let older = library(&installed(None), COMMAND);
        assert_eq!(older.verdict, Verdict::Advice);
        assert!(older.text.starts_with("not known, but"), "{}", older.text);
    }

    #[test]
    fn a_server_that_is_older_than_what_is_installed() {
        let cases = [
            (Some("1"), Some("1"), Verdict::Good, "1"),
            (Some("1"), None, Verdict::Good, "1"),
            (
                Some("1"),
                Some("2"),
                Verdict::Advice,
                "1: restart the server to use 2",
            ),
            (
                None,
                Some("2"),
                Verdict::Advice,
                "not known: restart the server to use 2",
            ),
            (None, None, Verdict::Advice, "not known"),
        ];
        for (running, present, verdict, text) in cases {
            let found = version(&loaded(running, false), Some(&installed(present)));
            assert_eq!((found.verdict, found.text.as_str()), (verdict, text));
        }
    }

    #[test]
    fn the_file_of_a_server() {
        let judged = |replaced, library: Option<&Library>| file(&loaded(None, replaced), library);
        let here = installed(None);
        let good = judged(false, Some(&here));
        assert_eq!(good.text, "runs sealed, with the library that is installed");
        assert_eq!(judged(true, Some(&here)).verdict, Verdict::Advice);
        let mut newer = installed(None);
        newer.path = "/opt/2/lib/libpgseal.so".into();
        assert_eq!(judged(false, Some(&newer)).verdict, Verdict::Advice);
        let other = judged(false, None);
        assert_eq!(other.text, format!("runs sealed, with the library {PATH}"));
    }
}

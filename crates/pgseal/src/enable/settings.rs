//! The texts that start a sealed server: Debian's `environment` file of a cluster, and a drop-in of
//! a systemd unit. Pure.

use std::collections::BTreeMap;

use pgseal_contract::{file, variable};

const PASSPHRASE_FILE: &str = pgseal_keys::passphrase::FILE;
const EXPECT_KEY: &str = variable::EXPECT_KEY.as_str();
const PRELOAD: &str = "LD_PRELOAD";
const MARK: &str = "# Written by `pgseal enable`; `pgseal disable` removes it.";

/// The settings that a sealed server is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// None: the key opens by what its slot says.
    pub passphrase_file: Option<String>,
    pub key_id: String,
}

/// Can the path stand in an environment file and in a unit as it is?
pub fn is_simple(path: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@:".contains(&byte);
    path.starts_with('/') && path.bytes().all(letter)
}

/// The variables of an `environment` file, as pg_ctlcluster reads it.
pub fn variables(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(assignment).collect()
}

fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let end = line.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let value = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next()?,
        None => rest.split(['#', ' ', '\t']).next()?,
    };
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// Is this a line that only a sealed cluster has?
fn is_ours(line: &str) -> bool {
    let named = assignment(line).is_some_and(|(name, value)| {
        name == PASSPHRASE_FILE || name == EXPECT_KEY || preloads(&name, &value)
    });
    named || line == MARK
}

fn preloads(name: &str, value: &str) -> bool {
    name == PRELOAD && value.contains(file::LIBRARY.as_str())
}

/// Does this environment load the library without wrappers?
pub fn loads_library(text: &str) -> bool {
    variables(text)
        .iter()
        .any(|(name, value)| preloads(name, value))
}

/// Returns the `environment` file without what a sealed cluster has.
pub fn without(text: &str) -> String {
    lines(text, |line| !is_ours(line))
}

/// Has it anything of that?
pub fn has_any(text: &str) -> bool {
    text.lines().any(is_ours)
}

/// Returns the `environment` file with the settings of a sealed cluster; a line that loads the
/// library stays.
pub fn with(text: &str, settings: &Settings) -> String {
    let is_kept = |line: &str| !is_ours(line) || loads_library(line);
    let mut out = lines(text, is_kept);
    out.push_str(MARK);
    out.push('\n');
    for (name, value) in settings.pairs() {
        out.push_str(&format!("{name} = '{value}'\n"));
    }
    out
}

fn lines(text: &str, is_kept: impl Fn(&str) -> bool) -> String {
    let kept = text.lines().filter(|line| is_kept(line));
    kept.flat_map(|line| [line, "\n"]).collect()
}

impl Settings {
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let passphrase = self.passphrase_file.as_deref();
        let passphrase = passphrase.map(|path| (PASSPHRASE_FILE, path));
        passphrase
            .into_iter()
            .chain([(EXPECT_KEY, self.key_id.as_str())])
            .collect()
    }

    /// Returns the drop-in of a unit that starts the wrapper with these settings.
    pub fn drop_in(&self, start: &str) -> String {
        let pairs = self.pairs().into_iter();
        let pairs = pairs.map(|(name, value)| format!("Environment={name}={value}\n"));
        let pairs: String = pairs.collect();
        format!("{MARK}\n[Service]\nExecStart=\nExecStart={start}\n{pairs}LimitCORE=0\n")
    }
}

/// The program of a unit and the arguments after it.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecStart {
    pub program: String,
    pub arguments: String,
}

impl ExecStart {
    /// Reads what `systemctl show --property ExecStart --value` says. None: there is not exactly
    /// one command, or systemd would read its words in another way when they are written down
    /// again.
    pub fn parse(shown: &str) -> Option<Self> {
        let mut lines = shown.lines().filter(|line| !line.trim().is_empty());
        let only = lines.next().filter(|_| lines.next().is_none())?;
        let command = only.split("argv[]=").nth(1)?.split(" ; ").next()?.trim();
        let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
        let is_plain = !command.contains(['"', '\'', '\\', '%', ';']);
        (is_simple(program) && is_plain).then(|| Self {
            program: program.to_owned(),
            arguments: arguments.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "# comment\nVAULT_ADDR = 'https://vault'\n\nTZ=UTC # here\n";

    fn settings(passphrase: Option<&str>) -> Settings {
        Settings {
            passphrase_file: passphrase.map(str::to_owned),
            key_id: "07c3".into(),
        }
    }

    #[test]
    fn lines_come_and_go_and_others_stay() {
        let one = with(OTHERS, &settings(Some("/etc/pgseal/15-main.passphrase")));
        let expected = format!(
            "{OTHERS}{MARK}\nPGSEAL_PASSPHRASE_FILE = '/etc/pgseal/15-main.passphrase'\n\
             PGSEAL_EXPECT_KEY = '07c3'\n"
        );
        assert_eq!(one, expected);
        assert!(has_any(&one) && !has_any(OTHERS));
        assert_eq!(without(&one), OTHERS);
        let again = with(&one, &settings(None));
        assert_eq!(
            again,
            format!("{OTHERS}{MARK}\nPGSEAL_EXPECT_KEY = '07c3'\n")
        );
        assert_eq!(with(&again, &settings(None)), again);
    }

    #[test]
    fn the_library_stays_until_the_cluster_is_plain() {
        let text = "LD_PRELOAD = '/usr/local/lib/libpgseal.so'\nPGSEAL_EXPECT_KEY='old'\n";
        let set = with(text, &settings(None));
        assert!(loads_library(&set) && !set.contains("old"));
        assert_eq!(without(&set), "");
        assert_eq!(
            without("LD_PRELOAD = '/lib/other.so'\n"),
            "LD_PRELOAD = '/lib/other.so'\n"
        );
    }

    #[test]
    fn variables_as_debian_reads_them() {
        let read = variables("A = 'x y'\n  B=c # d\n#C = 'no'\nD 'e'\n");
        let pairs: Vec<_> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, [("A", "x y"), ("B", "c"), ("D", "e")]);
    }

    #[test]
    fn a_units_command() {
        let shown = "{ path=/usr/pgsql-17/bin/postgres ; argv[]=/usr/pgsql-17/bin/postgres -D \
                     ${PGDATA} ; ignore_errors=no ; start_time=[n/a] ; pid=0 }\n";
        let start = ExecStart::parse(shown).expect("one command");
        assert_eq!(start.program, "/usr/pgsql-17/bin/postgres");
        assert_eq!(start.arguments, "-D ${PGDATA}");
        let text = settings(None).drop_in("/w/postgres -D ${PGDATA}");
        assert!(text.contains("\nExecStart=\nExecStart=/w/postgres -D ${PGDATA}\nEnvironment="));
        for other in [
            "",
            "{ argv[]=a ; }",
            "{ argv[]=/a 'b c' ; }",
            &shown.repeat(2),
        ] {
            assert_eq!(ExecStart::parse(other), None, "{other}");
        }
    }

    #[test]
    fn paths_that_need_no_quotes() {
        assert!(is_simple("/etc/pgseal/15-main.passphrase"));
        for other in ["", "relative", "/a b", "/a'b", "/a\nb", "/a%b"] {
            assert!(!is_simple(other), "{other:?}");
        }
    }
}

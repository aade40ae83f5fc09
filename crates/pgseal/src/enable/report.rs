//! The texts of `pgseal enable` and `pgseal disable`: the steps before, and what is left to do
//! after.

use std::fmt::Write;
use std::fs;

use indicatif::HumanBytes;

use super::facts::Outlook;
use super::plan::{self, Step};
use super::Run;

/// The steps, their downtime, and what is in their way.
pub fn plan(run: &Run, steps: &[Step], outlook: &Outlook) -> String {
    let mut text = head(run, outlook);
    for (number, step) in steps.iter().enumerate() {
        let words = words(run, *step, outlook);
        let _ = writeln!(text, "{:3}. {words}", number + 1);
    }
    text.push_str(&downtime(run, steps, outlook));
    if steps.contains(&Step::Passphrase) || run.found.facts.lacks_passphrase {
        text.push_str(PROTECTS);
    }
    if !outlook.unlisted.is_empty() {
        let names = outlook.unlisted.join(", ");
        let _ = writeln!(text, "not files of PostgreSQL, and not encrypted: {names}");
    }
    for obstacle in &outlook.obstacles {
        let _ = writeln!(text, "blocker: {obstacle}");
    }
    text
}

/// One honest sentence.
const PROTECTS: &str = "\
The passphrase is a file of this machine: it protects copies of the data
directory, backups, archives and a data disk of its own, and nothing on a disk
or snapshot that holds both.
";

fn head(run: &Run, outlook: &Outlook) -> String {
    let host = run.host;
    let version = fs::read_to_string(host.data.join("PG_VERSION")).unwrap_or_default();
    let runs = match run.found.facts.runs {
        true => "running",
        false => "stopped",
    };
    let size = match outlook.bytes {
        0 => String::new(),
        bytes => format!(", {}", HumanBytes(bytes)),
    };
    format!(
        "{}: PostgreSQL {} in {}, user {}{size}, {runs}\n",
        host.name(),
        version.trim(),
        host.data.display(),
        host.owner.name
    )
}

/// One step.
pub fn words(run: &Run, step: Step, outlook: &Outlook) -> String {
    let (host, size) = (run.host, HumanBytes(outlook.bytes));
    let file = || host.settings_file().display().to_string();
    match step {
        Step::Passphrase => {
            let path = run.found.protection.passphrase_file.as_deref();
            let path = path.unwrap_or_else(|| "".as_ref()).display();
            format!("make a random passphrase in {path}")
        }
        Step::Wrappers => {
            let command = host.wrappers_command("add");
            format!("put wrappers into {}{command}", host.wrappers().display())
        }
        Step::Stop => "stop the server".to_owned(),
        Step::Checksums => format!("turn data checksums on (pg_checksums --enable, {size})"),
        Step::Seal => format!("encrypt {} files in place ({size})", outlook.files),
        Step::Settings => format!("write what opens the key, and its id, to {}", file()),
        Step::Start => "start the server".to_owned(),
        Step::Check => "check that it runs sealed".to_owned(),
        Step::Unseal => match run.found.facts.state {
            plan::State::Sealed => format!("decrypt {} files in place ({size})", outlook.files),
            _ => "decrypt all files in place".to_owned(),
        },
        Step::RemoveSettings => format!("remove what opens the key from {}", file()),
        Step::RemoveWrappers => {
            let command = host.wrappers_command("remove");
            format!(
                "remove the wrappers from {}{command}",
                host.wrappers().display()
            )
        }
    }
}

fn downtime(run: &Run, steps: &[Step], outlook: &Outlook) -> String {
    let Some((first, last)) = plan::downtime(steps, run.found.facts.runs) else {
        return "The server runs on meanwhile.\n".to_owned();
    };
    let time = outlook.seconds.map(|seconds| {
        let seconds = seconds_down(run, steps, seconds);
        format!(" for at least {seconds:.1} s, and longer if the disk writes slowly")
    });
    let time = time.unwrap_or_default();
    format!("The server is down from step {first} to step {last}{time}.\n")
}

/// The time of all passes over the data, one of which takes `pass`, and of the passphrase, by which
/// a key opens in about a second.
fn seconds_down(run: &Run, steps: &[Step], pass: f64) -> f64 {
    let has_passphrase = run.found.protection.passphrase_file.is_some();
    let seconds = |step: &Step| match (step, has_passphrase) {
        (Step::Checksums, _) => pass,
        // A new key is opened as a test.
        (Step::Seal, true) => pass + 2.0,
        (Step::Unseal, true) => pass + 1.0,
        (Step::Seal | Step::Unseal, false) => pass,
        (Step::Start, true) if steps.contains(&Step::Check) => 1.0,
        _ => 0.0,
    };
    steps.iter().map(seconds).sum()
}

/// Says what was done, and what is left to do.
pub fn summary(run: &Run) -> String {
    match run.command {
        "enable" => enabled(run),
        _ => disabled(run),
    }
}

fn enabled(run: &Run) -> String {
    let data = run.host.data.display();
    let passphrase = run.found.protection.passphrase_file.as_deref();
    let copies = match passphrase {
        Some(path) => format!("{} and of\n   {data}/pg_encryption/key.bin", path.display()),
        None => format!("{data}/pg_encryption/key.bin"),
    };
    // Root's shell does not have the server's variables.
    let opened = passphrase.map(|path| format!(" \\\n    --passphrase-file {}", path.display()));
    let opened = opened.unwrap_or_default();
    format!(
        "{name} is sealed, and its server runs. This checks the result:
  pgseal doctor -D {data}{opened}
Do this now:
 - Keep a copy of {copies}
   elsewhere: if you lose the key, you lose the data.
 - Add a second key slot: pgseal key add -D {data}{opened}
 - Take a base backup. Backups and archived WAL from before are not encrypted.
 - Make standbys anew, as copies of this cluster.
 - Old bytes stay in free blocks and snapshots of the medium until they are
   overwritten.
pgseal disable {arguments} takes it back.
",
        name = run.host.name(),
        arguments = run.host.arguments(),
    )
}

fn disabled(run: &Run) -> String {
    format!(
        "{} is plain, and its server runs. Key files stay: WAL archives and backups of
the sealed cluster need them.
",
        run.host.name()
    )
}

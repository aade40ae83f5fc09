//! Reads what `doctor` judges: files of the kernel, the data directory, the key, the server.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_format::KeyImage;
use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::conversion::refuse_converting;
use pgseal_keys::exit::Failure;
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::machine::Machine;
use pgseal_keys::notes::Notebook;
use pgseal_keys::passphrase;
use pgseal_keys::postgres;
use pgseal_keys::server::{self, Server};
use pgseal_keys::unlock::{unlock, Unlocked, Unlocker, Ways};
use pgseal_keys::writer;
use serde::Serialize;

use super::{key, siblings, version, Checklist, Finding, Profile, Verdict};
use crate::unlisted::{logs, unlisted};
use crate::versions::{Library, Loaded, Versions};

/// All that was looked at.
#[derive(Serialize)]
pub struct Report {
    versions: Versions,
    findings: Vec<Finding>,
}

impl Report {
    /// Whether something must be changed.
    pub fn is_wrong(&self) -> bool {
        let wrong = |found: &Finding| found.verdict == Verdict::Wrong;
        self.findings.iter().any(wrong)
    }

    /// Returns the checklist of a standard.
    pub fn checklist(&self, profile: Profile) -> Checklist {
        Checklist::new(profile, &self.findings)
    }

    /// Returns all that was found.
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }
}

/// The clusters and logs that are examined.
pub struct Question<'a> {
    /// The version of the command.
    pub command: &'static str,
    /// The data directory, if more than the machine is to be examined.
    pub pgdata: Option<&'a Path>,
    pub ways: Ways,
    /// Whether the key is to be opened: without it fewer things are found.
    pub opens_key: bool,
    /// The age in seconds that no slot should be above; it is found with the key only.
    pub max_age: Option<u64>,
}

/// Examines this machine, and the cluster if there is one.
pub fn examine(question: &Question) -> Result<Report, Failure> {
    let command = question.command;
    let library = Library::installed();
    let mut findings = of_machine(command, &library);
    let mut loaded = None;
    match question.pgdata {
        None => findings.push(core_dumps("/proc/self/limits")),
        Some(pgdata) => {
            let root = Root::required(pgdata)?;
            refuse_converting(&root.path)?;
            let server = server::of(&root.path)?;
            loaded = Loaded::of(&server);
            let (cluster, key_id) = of_cluster(root, &server, question)?;
            findings.extend(cluster);
            let installed = library.as_ref().ok();
            findings.extend(of_server(&server, loaded.as_ref(), installed, &key_id));
        }
    }
    let versions = Versions::of(command, &library, loaded.as_ref());
    Ok(Report { versions, findings })
}

fn of_machine(command: &str, library: &Result<Library, Failure>) -> Vec<Finding> {
    let external = Machine::this().is_external();
    let policy = external.map(|external| match external {
        true => "no command from a data directory runs",
        false => "commands from key files of the server's own user run",
    });
    let path = library.as_ref().map(|library| library.path.display());
    let mut findings = vec![version::command(command), Finding::of("library", path)];
    findings.extend(
        library
            .as_ref()
            .ok()
            .map(|library| version::library(library, command)),
    );
    findings.extend([
        Finding::of("policy", policy),
        super::processor(&text("/proc/cpuinfo")),
        super::swap(&text("/proc/swaps"), |device| {
            super::shown_on(device, &of_device)
        }),
    ]);
    findings
}

/// Returns the findings on what is in the data directory, and the key's id.
fn of_cluster(
    root: Root,
    server: &Server,
    question: &Question,
) -> Result<(Vec<Finding>, String), Failure> {
    let (data, dir) = (root.path.clone(), KeyDir::of(&root.path));
    let (image, source) = dir.open()?;
    let (slots, header) = match &image {
        KeyImage::File(file) => (file.slots(), file.header().clone()),
        KeyImage::Raw(_) => (&[][..], dir.header()?),
    };
    let (count, key_id) = (slots.len(), header.key_id.to_string());
    let mut files = Unlocker::new(&header, None, &data, &question.ways)?.secret_files(slots);
    files.extend(passphrase_file_of(server));
    let unlocked = question.opens_key.then(|| unlock(root, &question.ways));
    let opened = unlocked
        .as_ref()
        .and_then(|unlocked| unlocked.as_ref().ok());
    let blocks = opened.map(blocks);
    let noted = opened.map(|opened| noted(opened, question.max_age));
    let noted = noted.unwrap_or_default();
    let copy = opened.map(|opened| {
        let checked = dir.check_copy(&opened.header);
        Finding::of("pgseal.toml", checked.map(|()| "says the key's header"))
    });
    let opens = unlocked.map(|unlocked| {
        let opens = unlocked.map(|_| format!("{key_id} opens"));
        Finding::of("key", opens)
    });
    let written = writer::check(&source, &data);
    let written = written.map(|_| "all around it is the server's user's or root's");
    let mut findings = vec![Finding::of(
        "version",
        postgres::check_cluster(&data).map(|()| "supported"),
    )];
    findings.extend(opens);
    findings.extend([
        super::ways(count),
        key::slots(&image),
        key::kinds(&image),
        Finding::of("key file", written),
    ]);
    findings.extend(clear_files(&data));
    findings.extend([
        super::logs(&logs(&data)),
        siblings::look(&data, header.key_id),
    ]);
    findings.extend(noted);
    findings.extend(copy);
    findings.extend(secret_files(files, &data));
    findings.extend(blocks);
    Ok((findings, key_id))
}

/// Returns the findings on what is noted of slots, and on what `pg_control` says of pages.
fn noted(unlocked: &Unlocked, max_age: Option<u64>) -> Vec<Finding> {
    let (data, master) = (&unlocked.root.path, &unlocked.master);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_secs());
    let mut findings = Vec::new();
    if let Some((_, file)) = &unlocked.file {
        let notebook = Notebook::open(data, file, master);
        let lost = notebook.lost();
        findings.extend(lost.map(|why| Finding::wrong("notes about slots", why)));
        findings.extend(key::proofs(notebook.slots(), max_age, now));
    }
    let control = control_file::read(data, master, unlocked.header.length);
    let control = control.ok().and_then(|read| read.said.ok());
    findings.extend(control.as_ref().map(key::page_changes));
    findings
}

/// Checks the block size in `pg_control`; any other error in that file is reported too.
fn blocks(unlocked: &Unlocked) -> Finding {
    let (data, header) = (&unlocked.root.path, &unlocked.header);
    let checked = control_file::read(data, &unlocked.master, header.length)
        .map_err(Failure::from)
        .and_then(|read| Ok(read.said?.check_blocks()?));
    Finding::of("blocks", checked.map(|()| "8 kB (supported)"))
}

fn clear_files(data: &Path) -> Vec<Finding> {
    match unlisted(data) {
        Ok(names) => super::clear_files(names),
        Err(error) => {
            let why = format_args!("{} cannot be read ({error})", data.display());
            vec![Finding::wrong("clear files", why)]
        }
    }
}

fn of_server(
    server: &Server,
    loaded: Option<&Loaded>,
    installed: Option<&Library>,
    key_id: &str,
) -> Vec<Finding> {
    let process = |pid: u32, name: &str| format!("/proc/{pid}/{name}");
    match server {
        Server::Stopped => vec![
            Finding::good("server", "not running"),
            core_dumps("/proc/self/limits"),
        ],
        Server::RunningSealed { pid } => {
            let library = loaded.map(|loaded| version::server(loaded, installed));
            let mut findings: Vec<Finding> = library.into_iter().flatten().collect();
            findings.extend([
                key::memory(&text(process(*pid, "maps")), &text(process(*pid, "status"))),
                core_dumps(process(*pid, "limits")),
                super::pin(
                    &fs::read(process(*pid, "environ")).unwrap_or_default(),
                    key_id,
                ),
            ]);
            findings
        }
        Server::RunningUnsealed { pid } | Server::RunningPlain { pid } => vec![Finding::wrong(
            "server",
            format_args!(
                "process {pid} runs without the library: stop it, and start it by its wrapper"
            ),
        )],
        Server::RunningUnknown { pid } => vec![Finding::advice(
            "server",
            format_args!("process {pid} cannot be inspected: run this as root"),
        )],
    }
}

/// Returns the findings on files that hold a secret, or one that says that nothing is wrong.
fn secret_files(mut files: Vec<PathBuf>, data: &Path) -> Vec<Finding> {
    let about = "secret files";
    files.sort();
    files.dedup();
    let user = fs::metadata(data).map_or(0, |metadata| metadata.uid());
    let judged = files.iter().filter_map(|file| match fs::metadata(file) {
        Ok(metadata) => key::secret_file(file, &metadata, user),
        // Whether it opens the cluster, unlocking shows.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Finding::advice(
            about,
            format_args!(
                "{} cannot be checked ({error}): run this as root",
                file.display()
            ),
        )),
    });
    let found: Vec<_> = judged.collect();
    match found.is_empty() {
        true => vec![Finding::good(about, "no other user can read them")],
        false => found,
    }
}

/// The file of the passphrase in the environment of a server.
fn passphrase_file_of(server: &Server) -> Option<PathBuf> {
    let environ = fs::read(format!("/proc/{}/environ", server.pid()?)).ok()?;
    super::variable(&environ, passphrase::FILE).map(|value| OsStr::from_bytes(value).into())
}

fn core_dumps(limits: impl AsRef<Path>) -> Finding {
    super::core_dumps(&text(limits), &text("/proc/sys/kernel/core_pattern"))
}

/// Reads a file of a device in /sys/class/block; `device` may be a link.
fn of_device(device: &str, file: &str) -> String {
    let device = fs::canonicalize(device).unwrap_or_else(|_| device.into());
    let name = device.file_name().unwrap_or_default();
    text(Path::new("/sys/class/block").join(name).join(file))
}

/// Reads a file of the kernel; one that cannot be read gives an empty text.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|found| found.fmt(f))
    }
}

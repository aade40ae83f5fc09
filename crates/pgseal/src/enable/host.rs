//! How this machine runs a cluster: by Debian's scripts, or by a systemd unit. What the two have in
//! common: a name, a data directory and its owner, programs, a start and a stop, wrappers, and a
//! text with settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use pgseal_keys::exit::Failure;
use pgseal_keys::keybin::DIR;
use pgseal_wrapper::launch;

use super::child::{read, replace, Owner, Program};
use super::settings::{self, ExecStart, Settings};
use super::EnableError;
use crate::cli::enable::TargetOptions;
use crate::cmd::bindir;

const DIVERT: &str = "pgseal-divert";
/// This file makes new clusters of Debian's sealed ones.
const CREATE_SEALED: &str = "/etc/postgresql-common/createcluster.d/pgseal.conf";

/// A cluster of this machine.
pub struct Host {
    pub data: PathBuf,
    pub owner: Owner,
    kind: Kind,
}

enum Kind {
    Debian { version: String, cluster: String },
    Unit { unit: String, start: ExecStart },
}

impl Host {
    pub fn of(target: &TargetOptions) -> Result<Self, EnableError> {
        match (
            &target.version,
            &target.cluster,
            &target.pgdata,
            &target.unit,
        ) {
            (Some(version), Some(cluster), ..) => debian(version, cluster),
            (_, _, Some(data), Some(unit)) => of_unit(data, unit),
            _ => unreachable!("clap requires one of the two"),
        }
    }

    /// `15/main`, or the unit.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Debian { version, cluster } => format!("{version}/{cluster}"),
            Kind::Unit { unit, .. } => unit.clone(),
        }
    }

    /// The name as a part of file names.
    pub fn file_name(&self) -> String {
        match &self.kind {
            Kind::Debian { version, cluster } => format!("{version}-{cluster}"),
            Kind::Unit { unit, .. } => unit.trim_end_matches(".service").to_owned(),
        }
    }

    /// The mark of a server that a run of ours has stopped, or was about to. It ends with the
    /// machine's uptime: after a boot the machine decides what runs.
    pub fn stop_mark(&self) -> PathBuf {
        PathBuf::from(format!("/run/pgseal-enable.{}", self.file_name()))
    }

    /// The words after `pgseal enable` and `pgseal disable`.
    pub fn arguments(&self) -> String {
        match &self.kind {
            Kind::Debian { version, cluster } => format!("{version} {cluster}"),
            Kind::Unit { unit, .. } => format!("--pgdata {} --unit {unit}", self.data.display()),
        }
    }

    /// The directory of PostgreSQL's programs, which may be wrappers.
    pub fn programs(&self) -> PathBuf {
        match &self.kind {
            Kind::Debian { version, .. } => debian_programs(version),
            Kind::Unit { start, .. } => directory(&start.program),
        }
    }

    /// The file with the settings that the server is started with.
    pub fn settings_file(&self) -> PathBuf {
        match &self.kind {
            Kind::Debian { version, cluster } => environment_file(version, cluster),
            Kind::Unit { unit, .. } => {
                Path::new("/etc/systemd/system").join(format!("{unit}.d/pgseal-enable.conf"))
            }
        }
    }

    /// Its text; none without one.
    pub fn settings_text(&self) -> Result<String, EnableError> {
        let path = self.settings_file();
        let text = match &self.kind {
            Kind::Debian { .. } => self.owner.act(|| read(&path)),
            Kind::Unit { .. } => read(&path),
        };
        let text = text.map_err(|error| EnableError::Read(path, error))?;
        Ok(text.unwrap_or_default())
    }

    /// The text with the settings of a sealed cluster.
    pub fn wanted_text(&self, present: &str, settings: &Settings) -> String {
        match &self.kind {
            Kind::Debian { .. } => settings::with(present, settings),
            Kind::Unit { start, .. } => {
                let program = Path::new(&start.program).file_name().unwrap_or_default();
                let wrapper = self.wrappers().join(program);
                let command = format!("{} {}", wrapper.display(), start.arguments);
                settings.drop_in(command.trim_end())
            }
        }
    }

    /// The variables that the server is started with.
    pub fn variables(&self, text: &str) -> Result<BTreeMap<String, String>, EnableError> {
        match &self.kind {
            Kind::Debian { .. } => Ok(settings::variables(text)),
            Kind::Unit { unit, .. } => {
                let shown = show(unit, "Environment")?;
                let words = shlex::split(&shown).unwrap_or_default();
                let pairs = words.iter().filter_map(|word| word.split_once('='));
                Ok(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
            }
        }
    }

    pub fn write_settings(&self, text: &str) -> Result<(), EnableError> {
        let path = self.settings_file();
        let written = match &self.kind {
            Kind::Debian { .. } => self.owner.act(|| replace(&path, text, 0o644)),
            Kind::Unit { .. } => fs::create_dir_all(path.parent().expect("it is absolute"))
                .and_then(|()| replace(&path, text, 0o644)),
        };
        written.map_err(|error| EnableError::Write(path, error))?;
        self.reload()
    }

    /// Takes the settings of a sealed cluster away.
    pub fn remove_settings(&self) -> Result<(), EnableError> {
        let path = self.settings_file();
        if let Kind::Debian { .. } = self.kind {
            return self.write_settings(&settings::without(&self.settings_text()?));
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(EnableError::Write(path, error))
            }
            _ => {
                let _ = fs::remove_dir(path.parent().expect("it is absolute"));
                self.reload()
            }
        }
    }

    fn reload(&self) -> Result<(), EnableError> {
        match self.kind {
            Kind::Debian { .. } => Ok(()),
            Kind::Unit { .. } => systemctl(&["daemon-reload"]),
        }
    }

    pub fn start(&self) -> Result<(), EnableError> {
        self.control("start")
    }

    pub fn stop(&self) -> Result<(), EnableError> {
        self.control("stop")
    }

    fn control(&self, action: &str) -> Result<(), EnableError> {
        match &self.kind {
            Kind::Debian { version, cluster } => Program::root("pg_ctlcluster")
                .arg(version)
                .arg(cluster)
                .arg(action)
                .named(&format!("{} {action}", self.arguments()))
                .run(),
            Kind::Unit { unit, .. } => systemctl(&[action, unit]),
        }
    }

    /// The directory that wrappers go to.
    pub fn wrappers(&self) -> PathBuf {
        match &self.kind {
            Kind::Debian { .. } => self.programs(),
            Kind::Unit { .. } => Path::new("/usr/local/lib/pgseal").join(self.file_name()),
        }
    }

    /// Are all wrappers there, or does the server load the library without them?
    pub fn has_wrappers(&self, text: &str) -> bool {
        let into = self.wrappers();
        let wraps = |name: &OsStr| bindir::is_wrapper(&into.join(name)).unwrap_or(false);
        let all = match &self.kind {
            Kind::Debian { version, .. } => {
                names_in(&stock(version)).iter().all(|name| wraps(name))
            }
            Kind::Unit { .. } => true,
        };
        let loads = matches!(self.kind, Kind::Debian { .. }) && settings::loads_library(text);
        loads || all && wraps(OsStr::new("postgres"))
    }

    /// Is there something that `remove_wrappers` takes away?
    pub fn has_some_wrappers(&self) -> bool {
        match &self.kind {
            Kind::Debian { version, .. } => stock(version).exists(),
            Kind::Unit { .. } => self.wrappers().exists(),
        }
    }

    /// Has the text what only a sealed cluster is started with?
    pub fn has_leftovers(&self, text: &str) -> bool {
        match self.kind {
            Kind::Debian { .. } => settings::has_any(text),
            Kind::Unit { .. } => !text.is_empty(),
        }
    }

    pub fn add_wrappers(&self) -> Result<(), Failure> {
        let made = match &self.kind {
            Kind::Debian { version, .. } => Program::root(DIVERT)
                .arg("add")
                .arg(version)
                .named(&format!("add {version}")),
            Kind::Unit { .. } => {
                let (pg, into) = (self.own_programs()?, self.wrappers());
                Program::root(&launch::pgseal()?.to_string_lossy())
                    .args(["bindir".into(), "--pg".into(), pg.into()])
                    .args(["--into".into(), into.into()])
            }
        };
        Ok(made.run()?)
    }

    /// PostgreSQL's own programs, also where the unit starts a wrapper already.
    fn own_programs(&self) -> Result<PathBuf, EnableError> {
        let postgres = self.programs().join("postgres");
        match bindir::wrapped(&postgres) {
            Some(own) => Ok(directory(&own)),
            None => Ok(self.programs()),
        }
    }

    pub fn remove_wrappers(&self) -> Result<(), EnableError> {
        match &self.kind {
            Kind::Debian { version, .. } => Program::root(DIVERT)
                .arg("remove")
                .arg(version)
                .named(&format!("remove {version}"))
                .run(),
            Kind::Unit { .. } => {
                let into = self.wrappers();
                bindir::remove_wrappers(&into).map_err(|error| EnableError::Write(into, error))
            }
        }
    }

    /// Does another sealed cluster run by the same wrappers, or shall new ones be sealed?
    pub fn shares_wrappers(&self) -> Result<bool, EnableError> {
        let Kind::Debian { version, cluster } = &self.kind else {
            return Ok(false);
        };
        if Path::new(CREATE_SEALED).exists() {
            return Ok(true);
        }
        for other in clusters(version).filter(|other| other != cluster) {
            let data = data_directory(version, &other)?;
            let text = fs::read_to_string(environment_file(version, &other)).unwrap_or_default();
            if data.join(DIR).exists() && !settings::loads_library(&text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the command that puts the wrappers there, for the operator.
    pub fn wrappers_command(&self, verb: &str) -> String {
        match &self.kind {
            Kind::Debian { version, .. } => format!(" ({DIVERT} {verb} {version})"),
            Kind::Unit { .. } => String::new(),
        }
    }
}

fn debian(version: &str, cluster: &str) -> Result<Host, EnableError> {
    let name = || format!("{version}/{cluster}");
    let is_name = |name: &str| settings::is_simple(&format!("/{name}")) && !name.contains('/');
    if !is_name(version) || !is_name(cluster) {
        return Err(EnableError::NoCluster(name()));
    }
    let conf = configuration(version, cluster);
    let owner =
        |path: &Path| fs::metadata(path).map(|file| std::os::unix::fs::MetadataExt::uid(&file));
    if !conf.join("postgresql.conf").exists() {
        return Err(EnableError::NoCluster(name()));
    }
    let data = data_directory(version, cluster)?;
    let found = Owner::of(&data)?;
    if owner(&conf).ok() != Some(found.uid.as_raw()) {
        return Err(EnableError::OtherOwner(conf, data));
    }
    Ok(Host {
        data,
        owner: found,
        kind: Kind::Debian {
            version: version.to_owned(),
            cluster: cluster.to_owned(),
        },
    })
}

fn of_unit(data: &Path, unit: &str) -> Result<Host, EnableError> {
    let unit = match unit.ends_with(".service") {
        true => unit.to_owned(),
        false => format!("{unit}.service"),
    };
    let unreadable = |error| EnableError::Data(data.to_owned(), error);
    let data = data.canonicalize().map_err(unreadable)?;
    let owner = Owner::of(&data)?;
    if !settings::is_simple(&format!("/{unit}")) || show(&unit, "LoadState")? != "loaded" {
        return Err(EnableError::NoUnit(unit));
    }
    if show(&unit, "User")? != owner.name {
        return Err(EnableError::UnitUser(unit, owner.name));
    }
    let start = ExecStart::parse(&show(&unit, "ExecStart")?);
    let start = start.ok_or_else(|| EnableError::UnitCommand(unit.clone()))?;
    if !directory(&start.program).join("postgres").exists() {
        return Err(EnableError::UnitCommand(unit));
    }
    Ok(Host {
        data,
        owner,
        kind: Kind::Unit { unit, start },
    })
}

fn show(unit: &str, property: &str) -> Result<String, EnableError> {
    Program::root("systemctl")
        .args(["show".into(), unit.into(), "--value".into()])
        .arg(format!("--property={property}"))
        .named(&format!("show {unit}"))
        .answer()
}

fn systemctl(arguments: &[&str]) -> Result<(), EnableError> {
    Program::root("systemctl")
        .args(arguments.iter().map(Into::into))
        .named(&arguments.join(" "))
        .run()
}

fn directory(program: &str) -> PathBuf {
    let directory = Path::new(program).parent();
    directory.unwrap_or(Path::new("/")).to_owned()
}

fn debian_programs(version: &str) -> PathBuf {
    PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"))
}

/// The directory that pgseal-divert moves the package's own programs to.
fn stock(version: &str) -> PathBuf {
    PathBuf::from(format!("/usr/lib/postgresql/{version}/stock"))
}

fn names_in(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

fn configuration(version: &str, cluster: &str) -> PathBuf {
    PathBuf::from(format!("/etc/postgresql/{version}/{cluster}"))
}

fn environment_file(version: &str, cluster: &str) -> PathBuf {
    configuration(version, cluster).join("environment")
}

/// The names of the clusters of a version.
fn clusters(version: &str) -> impl Iterator<Item = String> {
    let all = fs::read_dir(format!("/etc/postgresql/{version}"));
    let all = all.into_iter().flatten().flatten();
    let made = all.filter(|entry| entry.path().join("postgresql.conf").exists());
    made.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn data_directory(version: &str, cluster: &str) -> Result<PathBuf, EnableError> {
    let answer = Program::root("pg_conftool")
        .args(["--short".into(), version.into(), cluster.into()])
        .args(["show".into(), "data_directory".into()])
        .named(&format!("{version} {cluster} show data_directory"))
        .answer()?;
    let data = PathBuf::from(answer);
    let unreadable = |error| EnableError::Data(data.clone(), error);
    data.canonicalize().map_err(unreadable)
}

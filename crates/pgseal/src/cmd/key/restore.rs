//! `pgseal key restore`: key.bin made anew from a copy, a recovery sheet, shares, or the running
//! server.
//!
//! Invariants: nothing is written before the key was seen to open the cluster's own pg_control; a
//! key.bin that may open the cluster is replaced only with `--force`, and never under a running
//! server. A restore that is killed leaves the old key.bin or the new one.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_crypto::{equal, MasterKey};
use pgseal_format::{AddError, ClusterId, Header, KeyFile, KeyFileError, KeyImage};
use pgseal_keys::audit::{self, Event};
use pgseal_keys::check::{check_key, CheckError};
use pgseal_keys::cluster::{ClusterError, Root};
use pgseal_keys::control_file;
use pgseal_keys::conversion::refuse_converting;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::keybin::{KeyBinError, KeyDir, Locked, DIR};
use pgseal_keys::new_slot::Ready;
use pgseal_keys::notes::Notebook;
use pgseal_keys::unlock::{unlock_copy, unlock_from, SlotError};
use pgseal_keys::{server, Store};
use zeroize::Zeroizing;

use super::slots::{new_slot, write_notes, ChangeError};
use super::{from_server, sheet};
use crate::cli::key::{NewOptions, RestoreArgs};
use crate::output;

/// Why key.bin is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("{0} does not exist: give the path of a copy of key.bin")]
    NoCopy(PathBuf),
    #[error("{from} holds the key of cluster {cluster}, which does not open {control}: give the copy, sheet or shares of this cluster, or restore pg_control if it is damaged")]
    OtherKey {
        from: PathBuf,
        cluster: ClusterId,
        control: PathBuf,
    },
    #[error("{0} is whole and holds this very key: leave it, or give --force to replace it with all its slots")]
    Whole(PathBuf),
    #[error("{0} is one raw wrapped key, which may open the cluster: try `pgseal key check`, or give --force to replace it")]
    Raw(PathBuf),
    #[error("a server runs here (process {0}) and key.bin is whole: stop the server before you replace key.bin")]
    Running(u32),
    #[error("a copy brings its own slots: leave out the options of a new one, and change the slots afterwards with `pgseal key rotate`")]
    CopyAndMore,
    #[error(transparent)]
    Add(#[from] AddError),
    #[error("the new slot does not open, so key.bin was left as it was: {0}")]
    Shut(SlotError),
    #[error("{0} cannot be read back as it was written, so key.bin was left as it was: check the file system")]
    ReadBack(PathBuf),
}

impl Exit for RestoreError {
    fn code(&self) -> Code {
        match self {
            Self::NoCopy(_) | Self::ReadBack(_) => Code::Io,
            Self::OtherKey { .. } => Code::WrongKey,
            Self::Running(_) => Code::Busy,
            Self::Whole(_) | Self::Raw(_) | Self::CopyAndMore | Self::Add(_) => Code::Usage,
            Self::Shut(error) => error.code(),
        }
    }
}

/// A key that was found, and the key file that it came in.
struct Found {
    /// the file that is named if it is the wrong one
    path: PathBuf,
    /// the audit log's word
    from: &'static str,
    header: Header,
    master: MasterKey,
    copy: Option<Zeroizing<Vec<u8>>>,
}

/// The bytes that become key.bin. What was made for them goes again unless it is kept.
struct Image {
    bytes: Zeroizing<Vec<u8>>,
    made: Option<(Ready, KeyFile, u8)>,
}

pub fn run(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let root = data_directory(&args.cluster.pgdata)?;
    refuse_converting(&root.path)?;
    let found = found(args)?;
    prove(&root.path, &found)?;
    let dir = KeyDir::of(&root.path);
    refuse_whole(&dir, &root.path, &found.master, args.force)?;
    let mut image = image(args, &found, &root.path)?;
    dir.make()?;
    let mut locked = dir.lock()?;
    refuse_whole(&dir, &root.path, &found.master, args.force)?;
    write(&mut locked, &dir, &image.bytes, &found.header)?;
    if let Some((ready, ..)) = &mut image.made {
        ready.keep();
    }
    let (header, from) = (Some(&found.header), found.from);
    audit::record(&root.path, header, Event::Restored { from });
    let text = told(&root.path, &found, &image, &args.new, &locked);
    output::print_done(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the data directory at `path` itself, which may lack its key directory.
fn data_directory(path: &Path) -> Result<Root, ClusterError> {
    let root = Root::pending(path)?;
    let missing = |error: io::Error| match (error.kind(), root.path.is_dir()) {
        (ErrorKind::NotFound, false) => ClusterError::Missing(path.to_owned()),
        (ErrorKind::NotFound | ErrorKind::NotADirectory, _) => {
            ClusterError::NotACluster(path.to_owned())
        }
        _ => ClusterError::Unreadable(control_file::path(&root.path), error),
    };
    let sealed = control_file::is_sealed(&root.path).map_err(missing)?;
    match sealed || root.path.join(DIR).is_dir() {
        true => Ok(root),
        false => Err(ClusterError::NotSealed(path.to_owned())),
    }
}

fn found(args: &RestoreArgs) -> Result<Found, Failure> {
    if let Some(path) = &args.from {
        return match args.new.is_any() {
            true => Err(RestoreError::CopyAndMore.into()),
            false => in_copy(args, path),
        };
    }
    if args.from_server {
        let path = Root::pending(&args.cluster.pgdata)?.path;
        let (header, master) = from_server::take(&path)?;
        return Ok(Found {
            path,
            from: "server",
            header,
            master,
            copy: None,
        });
    }
    let (paths, from) = match &args.sheet {
        Some(path) => (std::slice::from_ref(path), "sheet"),
        None => (&args.share[..], "shares"),
    };
    let (header, master) = sheet::take(paths, args.sheet.is_none())?;
    let path = paths.first().cloned().unwrap_or_default();
    Ok(Found {
        path,
        from,
        header,
        master,
        copy: None,
    })
}

/// Opens a copy. A raw one needs the `pgseal.toml` beside it.
fn in_copy(args: &RestoreArgs, path: &Path) -> Result<Found, Failure> {
    let (root, ways) = (
        Root::pending(&args.cluster.pgdata)?,
        args.cluster.unlock.ways(),
    );
    let path = std::path::absolute(path).unwrap_or(path.to_owned());
    let dir = KeyDir::around(&path);
    let read = dir.open().map_err(|error| match error {
        KeyBinError::Missing(path) => Failure::from(RestoreError::NoCopy(path)),
        error => error.into(),
    });
    let (opened, bytes) = match read? {
        (KeyImage::File(file), source) => {
            let bytes = Zeroizing::new(file.bytes().to_vec());
            (unlock_copy(file, &path, source, root, &ways)?, bytes)
        }
        (KeyImage::Raw(_), _) => (unlock_from(&dir, root, &ways)?, dir.bytes()?),
    };
    let mut master = Zeroizing::new(*opened.master.expose());
    Ok(Found {
        path,
        from: "copy",
        header: opened.header,
        master: MasterKey::from_bytes(&mut master),
        copy: Some(bytes),
    })
}

/// Checks that the key opens the cluster's own pg_control.
fn prove(data: &Path, found: &Found) -> Result<(), Failure> {
    let checked = check_key(data, &found.master, found.header.length);
    checked.map_err(|failure| match failure.cause() {
        Some(CheckError::WrongKey(control, _)) => RestoreError::OtherKey {
            from: found.path.clone(),
            cluster: found.header.cluster,
            control: control.clone(),
        }
        .into(),
        _ => failure,
    })
}

/// Refuses to replace a key file that may open the cluster, unless that is wanted. One that is
/// damaged, or is of a key that does not open the cluster, is worth nothing.
fn refuse_whole(dir: &KeyDir, data: &Path, master: &MasterKey, force: bool) -> Result<(), Failure> {
    let whole = match dir.read() {
        Err(KeyBinError::Missing(_)) => return Ok(()),
        Err(KeyBinError::Format(_, error)) if is_damage(error) => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(KeyImage::File(file)) => match file.authenticate(master) {
            Ok(_) => RestoreError::Whole(dir.key_bin()),
            Err(_) => return Ok(()),
        },
        Ok(KeyImage::Raw(_)) => RestoreError::Raw(dir.key_bin()),
    };
    match (force, server::of(data)?.pid()) {
        (false, _) => Err(whole.into()),
        (true, Some(pid)) => Err(RestoreError::Running(pid).into()),
        (true, None) => Ok(()),
    }
}

/// Whether no version of pgseal opens such a file: one of a later version may be good.
fn is_damage(error: KeyFileError) -> bool {
    use KeyFileError::{Damaged, Empty, TooLong, Truncated};
    matches!(error, Empty | Truncated { .. } | TooLong | Damaged(_))
}

/// Takes the copy as it is, or makes a key file with the slot that is asked for.
fn image(args: &RestoreArgs, found: &Found, data: &Path) -> Result<Image, Failure> {
    if let Some(bytes) = &found.copy {
        return Ok(Image {
            bytes: bytes.clone(),
            made: None,
        });
    }
    let (header, master) = (&found.header, &found.master);
    let way = new_slot(&args.new, None, None)?;
    let mut ready = way.ready(data).map_err(ChangeError::from)?;
    let kind = ready.make(header, master, data);
    let mut file = KeyFile::anew(header.clone());
    let id = file.add(kind.map_err(ChangeError::from)?);
    let id = id.map_err(RestoreError::from)?;
    let bytes = file.write(master);
    for slot in file.slots() {
        let opened = ready.open(header, slot, data).map_err(RestoreError::Shut)?;
        if !equal(opened.expose(), master.expose()) {
            return Err(RestoreError::ReadBack(data.join(DIR)).into());
        }
    }
    Ok(Image {
        bytes,
        made: Some((ready, file, id)),
    })
}

fn write(
    locked: &mut Locked<'_>,
    dir: &KeyDir,
    image: &[u8],
    header: &Header,
) -> Result<(), Failure> {
    let written = aside(locked, dir, image, header);
    if written.is_err() {
        // The first error says more than that of cleaning up.
        let _ = locked.store.discard();
    }
    written?;
    Ok(locked.store.publish()?)
}

/// Writes the key file aside, and the copy of its header in place.
fn aside(
    locked: &mut Locked<'_>,
    dir: &KeyDir,
    image: &[u8],
    header: &Header,
) -> Result<(), Failure> {
    locked.store.write_aside(image)?;
    if Zeroizing::new(locked.store.read_aside()?)[..] != *image {
        return Err(RestoreError::ReadBack(dir.key_bin()).into());
    }
    Ok(locked.store.restore_copy(header)?)
}

fn told(
    data: &Path,
    found: &Found,
    image: &Image,
    new: &NewOptions,
    locked: &Locked<'_>,
) -> String {
    let key = found.header.key_id;
    let done = format!(
        "{} was made anew from {}: key {key} opens the cluster\n",
        KeyDir::of(data).key_bin().display(),
        found.path.display()
    );
    let Some((_, file, id)) = &image.made else {
        return done;
    };
    let mut notebook = Notebook::open(data, file, &found.master);
    notebook.made(file, *id, new.label.as_deref());
    let warning = write_notes(notebook, locked, data, file, &found.master);
    format!("{done}slot {id} opens it\n{warning}")
}

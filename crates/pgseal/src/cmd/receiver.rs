//! `pgseal receiver …`: tokens for receivers that do not hold the cluster's key. Anyone who shows
//! one to the server, as its role and before its time, is given clear pages and WAL, until it is
//! revoked.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgseal_format::{ListedToken, ReceiverList, ReceiverToken, TokenError, TokenId};
use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::{sentence, Code, Exit, Failure};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::receivers::{self, ReceiversError};
use pgseal_keys::unlock::{unlock, Unlocked};
use serde::Serialize;

use crate::cli::receiver::{GrantArgs, ReceiverListArgs, RevokeArgs};
use crate::output;

/// How long tokens that expired stay in the list, in seconds.
const KEPT: u64 = 90 * 24 * 3600;

/// Why nothing was revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    #[error("there is no token {0} in the list: `pgseal receiver list` lists them; of others give the token itself with --token-file")]
    NotListed(TokenId),
    #[error("the list has no token of role {0}: `pgseal receiver list` lists all")]
    NoneOfRole(String),
    #[error("{0} cannot be read ({1}): check its path, owner and mode")]
    File(PathBuf, io::Error),
    #[error("{0} holds no token of this cluster: {1}")]
    NoToken(PathBuf, TokenError),
    #[error("the list of tokens is full: revoke a role, or change the cluster's key")]
    Full,
}

impl Exit for RevokeError {
    fn code(&self) -> Code {
        match self {
            Self::NotListed(_) | Self::NoneOfRole(_) | Self::NoToken(..) | Self::Full => {
                Code::Usage
            }
            Self::File(..) => Code::Io,
        }
    }
}

pub fn grant(args: &GrantArgs) -> Result<ExitCode, Failure> {
    let cluster = &args.cluster;
    let opened = unlock(Root::required(&cluster.pgdata)?, &cluster.unlock.ways())?;
    let (master, length) = (&opened.master, opened.header.length);
    let control = control_file::read(&opened.root.path, master, length)?.said?;
    let role = args.role.as_bytes();
    let token = ReceiverToken::grant(master, control.system_id, role, args.until);
    let id = TokenId::of(&token);
    enter(&opened, id, args)?;
    let granted = Event::Granted {
        token: id.0,
        expiry: args.until,
    };
    audit::record(&opened.root.path, Some(&opened.header), granted);
    output::print(format_args!("{}\n", String::from_utf8_lossy(&token)))?;
    Ok(ExitCode::SUCCESS)
}

/// Enters a new token into the list. It counts without, as those that holders of the key make; but
/// under a list that cannot be used it would be useless.
fn enter(opened: &Unlocked, id: TokenId, args: &GrantArgs) -> Result<(), Failure> {
    let token = ListedToken {
        id,
        expiry: args.until,
        granted: now(),
        revoked: 0,
        role: args.role.clone().into_bytes(),
    };
    let entered = change(opened, |list| match list.add(token) {
        true => Ok(()),
        false => Err(RevokeError::Full),
    });
    match entered {
        Err(failure) if is_unwritable(&failure) => {
            let failure = sentence(&failure);
            let _ = writeln!(
                io::stderr(),
                "pgseal: warning: the token is not in the list of `pgseal receiver list`: {failure}"
            );
            Ok(())
        }
        entered => entered,
    }
}

fn is_unwritable(failure: &Failure) -> bool {
    let write = failure.cause::<ReceiversError>();
    matches!(write, Some(ReceiversError::Write(..)))
}

/// Changes the list under the lock on the key file.
fn change<T>(
    opened: &Unlocked,
    change: impl FnOnce(&mut ReceiverList) -> Result<T, RevokeError>,
) -> Result<T, Failure> {
    let (data, master) = (&opened.root.path, &opened.master);
    let dir = KeyDir::of(data);
    let locked = dir.lock()?;
    let mut list = receivers::read(data, master)?;
    list.forget_expired(now().saturating_sub(KEPT));
    let changed = change(&mut list)?;
    receivers::write(&locked, data, &mut list, master)?;
    Ok(changed)
}

pub fn revoke(args: &RevokeArgs) -> Result<ExitCode, Failure> {
    let cluster = &args.cluster;
    let opened = unlock(Root::required(&cluster.pgdata)?, &cluster.unlock.ways())?;
    let named = match &args.token_file {
        Some(file) => Some(token_of(&opened, file.clone())?),
        None => None,
    };
    let revoked = change(&opened, |list| {
        let ids = ids(list, args, named)?;
        let missing = ids.iter().find(|id| !list.revoke(**id, now()));
        match missing {
            Some(id) => Err(RevokeError::NotListed(*id)),
            None => Ok(ids),
        }
    })?;
    for id in &revoked {
        let event = Event::Revoked { token: id.0 };
        audit::record(&opened.root.path, Some(&opened.header), event);
    }
    let lines = revoked.iter().map(|id| format!("token {id} is revoked\n"));
    output::print_done(lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the ids to revoke, and enters a token that was given itself.
fn ids(
    list: &mut ReceiverList,
    args: &RevokeArgs,
    named: Option<ListedToken>,
) -> Result<Vec<TokenId>, RevokeError> {
    if let Some(token) = named {
        let id = token.id;
        return match list.add(token) {
            true => Ok(vec![id]),
            false => Err(RevokeError::Full),
        };
    }
    let Some(role) = &args.role else {
        return Ok(args.id.clone());
    };
    let of_role = |token: &&ListedToken| token.role == role.as_bytes();
    let ids: Vec<_> = list
        .tokens()
        .iter()
        .filter(of_role)
        .map(|token| token.id)
        .collect();
    match ids.is_empty() {
        true => Err(RevokeError::NoneOfRole(role.clone())),
        false => Ok(ids),
    }
}

/// Reads a token of this cluster from a file.
fn token_of(opened: &Unlocked, file: PathBuf) -> Result<ListedToken, Failure> {
    let text = fs::read(&file).map_err(|error| RevokeError::File(file.clone(), error))?;
    let text = text.trim_ascii();
    let (master, length) = (&opened.master, opened.header.length);
    let control = control_file::read(&opened.root.path, master, length)?.said?;
    let token = ReceiverToken::parse(text).and_then(|token| {
        // Whether it has expired is no matter here.
        token.verify(master, control.system_id, token.role(), 0)?;
        Ok(token)
    });
    let token = token.map_err(|error| RevokeError::NoToken(file, error))?;
    Ok(ListedToken {
        id: TokenId::of(text),
        expiry: token.expiry(),
        granted: 0,
        revoked: 0,
        role: token.role().to_vec(),
    })
}

/// All tokens of the list.
#[derive(Serialize)]
struct Listing {
    tokens: Vec<View>,
}

#[derive(Serialize)]
struct View {
    id: String,
    role: String,
    state: &'static str,
    expires: Option<String>,
    granted: Option<String>,
    revoked: Option<String>,
}

pub fn list(args: &ReceiverListArgs) -> Result<ExitCode, Failure> {
    let cluster = &args.cluster;
    let opened = unlock(Root::required(&cluster.pgdata)?, &cluster.unlock.ways())?;
    let list = receivers::read(&opened.root.path, &opened.master)?;
    let now = now();
    let tokens = list.tokens().iter().map(|token| view(token, now));
    let tokens = tokens.collect();
    output::report(&Listing { tokens }, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn view(token: &ListedToken, now: u64) -> View {
    View {
        id: token.id.to_string(),
        role: String::from_utf8_lossy(&token.role).into_owned(),
        state: match token {
            ListedToken { revoked, .. } if *revoked != 0 => "revoked",
            ListedToken { expiry, .. } if now >= *expiry => "expired",
            _ => "good",
        },
        expires: time(token.expiry),
        granted: time(token.granted),
        revoked: time(token.revoked),
    }
}

/// Returns a time in words; 0 is none, and later years have no RFC 3339.
fn time(seconds: u64) -> Option<String> {
    let known = (1..253_402_300_800).contains(&seconds);
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let time = time.filter(|_| known)?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl Display for Listing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.tokens.is_empty() {
            return writeln!(f, "no token was granted by `pgseal receiver grant` here");
        }
        self.tokens.iter().try_for_each(|token| token.fmt(f))
    }
}

impl Display for View {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let until = self.expires.as_deref().unwrap_or("not known");
        writeln!(
            f,
            "{}  {:<7}  until {until}  {:?}",
            self.id, self.state, self.role
        )
    }
}

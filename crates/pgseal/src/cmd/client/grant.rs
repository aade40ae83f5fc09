//! `pgseal client grant add|list|revoke`.

use pgseal_client::grants::Wanted;
use pgseal_client::{Grant, KeyScope, Operation, Operations, PublicKey, Serial, Session, Subject};

use super::print::{fields, table, time};
use super::{bytes, not, now, warn, ClientFailure, Purpose};
use crate::cli::client::{GrantAddArgs, GrantListArgs, GrantRestoreArgs, GrantRevokeArgs};
use crate::output;

const SUBJECTS: &str = "owner, background, or a subject of 64 hexadecimal digits";

pub async fn add(args: &GrantAddArgs) -> Result<(), ClientFailure> {
    let (subject, operations) = (subject(&args.to)?, operations(&args.allow)?);
    let mut session = args.client.session(&args.trust, None).await?;
    let database = match args.this_database {
        true => Some(session.database().await?),
        false => None,
    };
    let wanted = Wanted {
        subject,
        operations,
        keys: scope(args, &session)?,
        database,
        not_before: args.valid_from.unwrap_or_else(now),
        not_after: args.valid_until,
    };
    let grant = session.grant(wanted).await?;
    Ok(output::print_done(fields(&[
        ("serial", grant.terms().serial.to_string()),
        ("until", time(grant.terms().not_after)),
    ]))?)
}

fn scope(args: &GrantAddArgs, session: &Session) -> Result<KeyScope, ClientFailure> {
    if !args.group.is_empty() {
        return Ok(KeyScope::Groups(args.group.clone()));
    }
    if args.key.is_empty() {
        return Ok(KeyScope::All);
    }
    let ids = args
        .key
        .iter()
        .map(|name| Ok(session.keys().named(name)?.id));
    Ok(KeyScope::Keys(ids.collect::<Result<_, ClientFailure>>()?))
}

fn subject(text: &str) -> Result<Subject, ClientFailure> {
    match text {
        "owner" => Ok(Subject::Owner),
        "background" => Ok(Subject::Background),
        key => {
            let key = bytes(key).ok_or_else(|| not(key, SUBJECTS))?;
            Ok(Subject::Client(PublicKey(key)))
        }
    }
}

fn operations(names: &[String]) -> Result<Operations, ClientFailure> {
    let add = |set: Operations, name: &String| match name.as_str() {
        "all" => Ok(Operations::ALL),
        name => match Operation::from_name(name) {
            Some(operation) => Ok(set.with(operation)),
            None => Err(not(
                name,
                "an operation: all, compare-derived, compare-plain, arithmetic, text, aggregate, \
                 cast, extract, limit, words, trigrams, convert-in, convert-out, key-generate, \
                 share",
            )),
        },
    };
    names.iter().try_fold(Operations::NONE, add)
}

pub async fn list(args: &GrantListArgs) -> Result<(), ClientFailure> {
    let (file, database) = (args.client.file()?, args.client.database()?);
    let client = args.client.connect().await?;
    let list = file.kept.database(&database);
    let grants = pgseal_client::grants_of(&client, &file.identity, &list).await?;
    let row = |(grant, revoked): &(Grant, bool)| {
        let terms = grant.terms();
        vec![
            terms.serial.to_string(),
            to_whom(&terms.subject),
            names(terms.operations),
            keys(&terms.keys),
            time(terms.not_before),
            time(terms.not_after),
            state(grant, *revoked).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = grants.iter().map(row).collect();
    let head = [
        "serial",
        "subject",
        "operations",
        "keys",
        "from",
        "until",
        "state",
    ];
    Ok(output::print(table(&head, &rows))?)
}

fn to_whom(subject: &Subject) -> String {
    match subject {
        Subject::Owner => "owner".to_owned(),
        Subject::Background => "background".to_owned(),
        Subject::Client(key) => key.to_string(),
    }
}

fn names(operations: Operations) -> String {
    if operations == Operations::ALL {
        return "all".to_owned();
    }
    let held = Operation::ALL
        .into_iter()
        .filter(|operation| operations.has(*operation));
    held.map(Operation::name).collect::<Vec<_>>().join(",")
}

fn keys(scope: &KeyScope) -> String {
    let list = |what: &str, items: Vec<String>| format!("{what} {}", items.join(","));
    match scope {
        KeyScope::All => "all".to_owned(),
        KeyScope::Groups(groups) => list("groups", groups.iter().map(u32::to_string).collect()),
        KeyScope::Keys(keys) => list("keys", keys.iter().map(ToString::to_string).collect()),
    }
}

fn state(grant: &Grant, revoked: bool) -> &'static str {
    let terms = grant.terms();
    match () {
        () if revoked => "revoked",
        () if now() >= terms.not_after => "expired",
        () if now() < terms.not_before => "not yet",
        () => "holds",
    }
}

pub async fn revoke(args: &GrantRevokeArgs) -> Result<(), ClientFailure> {
    let serial = |text: &String| match bytes(text) {
        Some(serial) => Ok(Serial(serial)),
        None => Err(not(
            text,
            "a serial of 32 hexadecimal digits, as grant list shows it",
        )),
    };
    let serials: Vec<Serial> = args.serials.iter().map(serial).collect::<Result<_, _>>()?;
    args.client.revoke(&serials).await?;
    // The evaluator gets the owner's list with the session.
    let opened = args.client.session(&args.trust, None).await;
    if opened.is_err() {
        warn(
            "the grants are revoked in the database, but the evaluator does not know yet: a session \
             that is open keeps them until it ends; run the command again when it answers",
        );
    }
    opened.map(|_| ())
}

pub async fn restore(args: &GrantRestoreArgs) -> Result<(), ClientFailure> {
    let purpose = Purpose {
        restores: true,
        ..Purpose::default()
    };
    let mut session = args.client.session_for(&args.trust, None, purpose).await?;
    session.restore().await?;
    args.client.keep(&session)
}

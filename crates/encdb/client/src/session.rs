//! An open session: a connection whose backend's evaluator holds the owner's keys, and this side of
//! it, which seals what goes there and opens what comes back.
//!
//! States: a plain `tokio_postgres::Client`, then a [`Session`]. When the evaluator was restarted,
//! statements fail with PE009 and [`Session::reopen`] runs the exchange again on the connection.

mod catalog;
mod copying;
mod objects;
mod prepared;
mod protecting;
mod row;
mod settling;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::try_join;
use pgseal_cell::grant::{DatabaseId, Grant, Serial, VerifiedRevocations};
use pgseal_evaluator_proto::message::{ClientSession, Command, Hello, Offer, OpenTerms, Reply};
use tokio_postgres::Client;

use crate::grants::{self, Papers, Wanted};
use crate::list::{ColumnName, ListError, OwnersList};
use crate::statement::Statement as Read;
use crate::{Argument, ClientError, Identity, KeyRing, NewKey, Policy, Resolver};
pub use catalog::{
    encrypted_columns, encrypted_names, encrypted_types, order_of_row, shown_columns, table_orders,
};
pub use objects::encrypted_objects;
pub use prepared::Prepared;
use prepared::{as_sql, Target};
pub use protecting::{
    online_protection, other_connections, protection, take_back, Keeper, OnlineState, ProtectError,
    ProtectOptions, Protected, Step, TakenBack,
};
pub use row::Row;
use settling::Settling;

/// The lifetime of a session for which none is given.
const LIFETIME: Duration = Duration::from_secs(8 * 3600);
/// The number of times that a list of revocations is signed anew, if other clients come first.
const REVOCATIONS: usize = 5;

/// The options by which a session is opened.
pub struct SessionOptions {
    /// The lifetime that is asked for; the evaluator may make it shorter
    pub lifetime: Duration,
    /// The data keys that seal
    pub resolver: Resolver,
    /// Grants to show beside those in the database
    pub grants: Vec<Grant>,
    /// The list that the identity keeps of this database; a server that says otherwise gets no
    /// keys
    pub list: OwnersList,
    /// Whether the server's word alone may say which columns are encrypted. Otherwise a database
    /// without a list gets no keys.
    pub trusts_server_types: bool,
    /// Whether to show the list of revoked grants that the identity keeps, where the server has an
    /// older one
    pub restores: bool,
}

impl SessionOptions {
    /// Returns options for a session of eight hours whose values are sealed under these keys.
    pub fn new(resolver: Resolver) -> Self {
        Self {
            lifetime: LIFETIME,
            resolver,
            grants: Vec::new(),
            list: OwnersList::default(),
            trusts_server_types: false,
            restores: false,
        }
    }
}

/// The evidence that the evaluator showed, and that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The number of its back end: 0 software, 1 SEV-SNP, 2 TDX, 3 Nitro
    pub back_end: u8,
    /// The hash of the rules that it follows
    pub rules: [u8; 32],
    /// The evidence in the back end's own form
    pub bytes: Vec<u8>,
    /// The end of the offer, in seconds since 1970
    pub offer_expires: u64,
}

/// An open session.
pub struct Session {
    client: Client,
    identity: Arc<Identity>,
    policy: Arc<Policy>,
    lifetime: Duration,
    shown: Vec<Grant>,
    resolver: Resolver,
    list: OwnersList,
    restores: bool,
    keys: KeyRing,
    settling: Settling,
    channel: ClientSession,
    evidence: Evidence,
}

impl Session {
    /// Opens a session on a connection: asks for evidence, hands the keys to an evaluator that the
    /// policy accepts, shows the grants that the database holds, and fetches the data keys. A
    /// server that contradicts the owner's list is refused first, and so is one for which there is
    /// no list, unless the options trust the server.
    pub async fn open(
        client: Client,
        identity: Arc<Identity>,
        policy: Arc<Policy>,
        options: SessionOptions,
    ) -> Result<Self, ClientError> {
        if !options.list.is_made() && !options.trusts_server_types {
            return Err(ListError::Missing.into());
        }
        let (lifetime, shown) = (options.lifetime, options.grants);
        let (mut list, restores) = (options.list, options.restores);
        let columns = shown_columns(&client, list.columns().map(|(name, _)| name));
        let (columns, last) = try_join(columns, last_list(&client, &identity)).await?;
        list.agrees(&columns, None)?;
        let last = list.latest(&identity.owner(), last, restores)?;
        let papers = papers(&client, &identity, &shown, last.as_ref()).await?;
        let opened = exchange(&client, &identity, &policy, lifetime, papers).await?;
        last.iter().for_each(|last| _ = list.saw(last));
        let (channel, evidence) = opened;
        let mut session = Self {
            resolver: options.resolver,
            client,
            identity,
            policy,
            lifetime,
            shown,
            list,
            restores,
            keys: KeyRing::new(),
            settling: Settling::default(),
            channel,
            evidence,
        };
        session.fetch_keys().await?;
        Ok(session)
    }

    /// Runs the exchange again: the evaluator has forgotten the session, or its time is over.
    pub async fn reopen(&mut self) -> Result<(), ClientError> {
        let (client, identity) = (&self.client, &self.identity);
        let last = self.last_list().await?;
        let papers = papers(client, identity, &self.shown, last.as_ref()).await?;
        let opened = exchange(client, identity, &self.policy, self.lifetime, papers).await?;
        (self.channel, self.evidence) = opened;
        last.iter().for_each(|last| _ = self.list.saw(last));
        self.fetch_keys().await
    }

    /// Fetches the owner's list in the database. Fails if it is older than what was seen.
    async fn last_list(&self) -> Result<Option<VerifiedRevocations>, ClientError> {
        let shown = last_list(&self.client, &self.identity).await?;
        let owner = self.identity.owner();
        Ok(self.list.latest(&owner, shown, self.restores)?)
    }

    /// Returns the list of the database, with the revocations that were seen, for the identity to
    /// keep.
    pub fn list(&self) -> &OwnersList {
        &self.list
    }

    /// Puts the list of revoked grants that was seen back into the evaluator and the database. If
    /// these have another list of the same number, the next number is for both together.
    pub async fn restore(&mut self) -> Result<(), ClientError> {
        let owner = self.identity.owner();
        let Some(kept) = self.list.revocations().cloned() else {
            return Ok(());
        };
        let mut list = kept.verify(&owner)?;
        let shown = last_list(&self.client, &self.identity).await?;
        let is_other = |shown: &VerifiedRevocations| {
            shown.sequence() == list.sequence() && shown.list() != list.list()
        };
        if let Some(shown) = shown.filter(is_other) {
            let both = grants::revoke(&self.identity, Some(&shown), list.serials())?;
            list = both.verify(&owner)?;
        }
        let signed = list.list().encode();
        self.command(&Command::Revoke(&signed)).await?;
        store::add_revocations(&self.client, &signed).await?;
        self.list.saw(&list);
        Ok(())
    }

    /// Returns the connection, for what needs no sealing.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the identity that opened it.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the evidence of the evaluator.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Returns the time when it ends, in seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.channel.expires()
    }

    /// Returns its public name.
    pub fn id(&self) -> [u8; 16] {
        self.channel.id()
    }

    /// Returns the data keys. Statements check that a key which was made in a transaction is still
    /// there; a caller that seals with this ring does not.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Fetches the data keys: other clients may have made more.
    pub async fn fetch_keys(&mut self) -> Result<(), ClientError> {
        for row in store::data_keys(&self.client).await? {
            let known = self.keys.named(&row.name).is_ok();
            let taken = self.keys.take(&self.identity, &row.name, &row.wrapped);
            if taken && !known && !row.settled {
                self.settling.watch(&row.name);
            }
        }
        Ok(())
    }

    /// Makes a data key here, stores it wrapped, and takes it into use. In a transaction the key
    /// can be used at once, and no longer if that is rolled back.
    pub async fn new_key(&mut self, key: NewKey<'_>) -> Result<(), ClientError> {
        let wrapped = key.generate(&self.identity)?;
        self.add_key(key.name, &wrapped).await
    }

    /// Takes a key of 16 bytes that another program made into use, for its cells of version 0.
    pub async fn import_key(
        &mut self,
        key: NewKey<'_>,
        bytes: &mut [u8; 16],
    ) -> Result<(), ClientError> {
        let wrapped = key.import(&self.identity, bytes)?;
        self.add_key(key.name, &wrapped).await
    }

    async fn add_key(&mut self, name: &str, wrapped: &[u8]) -> Result<(), ClientError> {
        store::add_data_key(&self.client, name, wrapped).await?;
        self.keys.take(&self.identity, name, wrapped);
        self.settling.watch(name);
        self.settle([name]).await
    }

    /// Checks those of these keys that a transaction may have taken back.
    async fn settle<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), ClientError> {
        for name in self.settling.watched(names) {
            let id = self.keys.named(&name)?.id;
            match store::settled(&self.client, &name, id).await? {
                None => return Err(ClientError::NoKey(name)),
                Some(true) => self.settling.settled(&name),
                Some(false) => {}
            }
        }
        Ok(())
    }

    /// Lets the evaluator make a data key, which needs the grant key-generate, and stores it.
    pub async fn generate_key(&mut self, key: NewKey<'_>) -> Result<(), ClientError> {
        let command = Command::GenerateKey {
            name: key.name,
            group: key.group,
            deterministic: key.deterministic,
        };
        let wrapped = self.command(&command).await?;
        self.add_key(key.name, &wrapped).await
    }

    /// Makes a grant, keeps it in the database, and shows it to this session's evaluator.
    pub async fn grant(&mut self, wanted: Wanted) -> Result<Grant, ClientError> {
        let grant = wanted.sign(&self.identity)?;
        store::add_grant(&self.client, &grant).await?;
        self.show(&grant).await?;
        Ok(grant)
    }

    /// Shows a grant to this session's evaluator, for as long as the session lasts.
    pub async fn show(&mut self, grant: &Grant) -> Result<(), ClientError> {
        let signed = grant.encode();
        self.command(&Command::AddGrant(&signed)).await?;
        Ok(())
    }

    /// Takes grants back: in the database, and at once in all sessions of this evaluator.
    pub async fn revoke(&mut self, serials: &[Serial]) -> Result<(), ClientError> {
        let (list, restores) = (&mut self.list, self.restores);
        let kept = revoke(&self.client, &self.identity, list, restores, serials).await?;
        let signed = kept.list().encode();
        self.command(&Command::Revoke(&signed)).await?;
        Ok(())
    }

    /// Returns the owner's grants in the database, and whether each was taken back.
    pub async fn grants(&self) -> Result<Vec<(Grant, bool)>, ClientError> {
        grants_of(&self.client, &self.identity, &self.list).await
    }

    /// Returns the database's id, by which a grant for it alone names it.
    pub async fn database(&self) -> Result<DatabaseId, ClientError> {
        store::database_id(&self.client).await
    }

    async fn command(&mut self, command: &Command<'_>) -> Result<Vec<u8>, ClientError> {
        let message = self.channel.command(command);
        let answer = store::relay(&self.client, &message).await?;
        let reply = self.channel.reply(&answer)?;
        match reply.reply()? {
            Reply::Done => Ok(Vec::new()),
            Reply::WrappedKey(wrapped) => Ok(wrapped.to_vec()),
            Reply::Refused(report) => Err(report.into()),
        }
    }

    /// Ends the session in the evaluator; the connection stays.
    pub async fn close(mut self) -> Result<Client, ClientError> {
        self.command(&Command::Close).await?;
        Ok(self.client)
    }

    /// Asks the server for a statement's types; everything is sealed under the default key.
    pub async fn prepare(&self, sql: &str) -> Result<Prepared, ClientError> {
        self.prepare_for(sql, &[]).await
    }

    /// Asks the server for a statement's types. `columns` names the column that each parameter is
    /// for, as the resolver names it, which finds the key; those that are left out have the
    /// default.
    pub async fn prepare_for(&self, sql: &str, columns: &[&str]) -> Result<Prepared, ClientError> {
        let read = Read::new(sql);
        let named: Vec<&ColumnName> = self.list.tables_in(&read).collect();
        let shown = shown_columns(&self.client, named).await?;
        self.list.agrees(&shown, Some(&read))?;
        let statement = self.client.prepare(sql).await?;
        let target = |place: usize| self.target(columns.get(place).copied().unwrap_or_default());
        let targets = (0..statement.params().len()).map(target).collect();
        Ok(Prepared { statement, targets })
    }

    /// Returns the key and the listed column of a parameter: the key is the resolver's, or else
    /// that of the owner's list.
    fn target(&self, column: &str) -> Target {
        let listed: Option<ColumnName> = column.parse().ok();
        let listed = listed.filter(|name| self.list.column(name).is_some());
        let known = listed.as_ref().and_then(|name| self.list.column(name));
        let keyname = match known {
            Some(known) if !self.resolver.knows(column) => &known.keyname,
            _ => self.resolver.keyname(column),
        };
        Target {
            keyname: keyname.to_owned(),
            listed,
        }
    }

    /// Runs a statement; the rows are opened as they are read.
    pub async fn query<'s>(
        &'s self,
        prepared: &Prepared,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row<'s>>, ClientError> {
        self.settle(prepared.sealing()).await?;
        let wires = prepared.wires(arguments, &self.keys, &self.list)?;
        let rows = self
            .client
            .query(&prepared.statement, &as_sql(&wires))
            .await?;
        let row = |row| Row::new(row, &self.keys);
        Ok(rows.into_iter().map(row).collect())
    }

    /// Runs a statement that gives no rows. Returns how many rows it touched.
    pub async fn execute(
        &self,
        prepared: &Prepared,
        arguments: &[Argument<'_>],
    ) -> Result<u64, ClientError> {
        self.settle(prepared.sealing()).await?;
        let wires = prepared.wires(arguments, &self.keys, &self.list)?;
        Ok(self
            .client
            .execute(&prepared.statement, &as_sql(&wires))
            .await?)
    }
}

/// Returns the owner's grants in a database, and whether each was taken back, even if the server
/// has forgotten that.
pub async fn grants_of(
    client: &Client,
    identity: &Identity,
    list: &OwnersList,
) -> Result<Vec<(Grant, bool)>, ClientError> {
    let owner = identity.owner();
    let last = list.latest(&owner, last_list(client, identity).await?, true)?;
    let with_state = |grant: Grant| {
        let serial = grant.terms().serial;
        let last = last.as_ref();
        let revoked = last.is_some_and(|list| list.revokes(owner, serial));
        (grant, revoked)
    };
    let all = store::grants_by(client, owner).await?;
    Ok(all.into_iter().map(with_state).collect())
}

/// Takes grants back in a database, and returns the owner's list there. This needs no session, and
/// so no evaluator that answers: an evaluator gets the list with the next session that is opened.
///
/// `list` is what the identity has seen. The server must show as much, unless the caller `restores`
/// what it lost. Grants that the list has already are not signed anew.
///
/// # Errors
///
/// [`ClientError::NotTheOwner`] for the identity of an application, [`ClientError::List`] for a
/// server that withholds a list, [`ClientError::RevocationNotKept`] if other clients of this owner
/// come first again and again.
pub async fn revoke(
    client: &Client,
    identity: &Identity,
    list: &mut OwnersList,
    restores: bool,
    serials: &[Serial],
) -> Result<VerifiedRevocations, ClientError> {
    let owner = identity.owner();
    for _ in 0..REVOCATIONS {
        let last = list.latest(&owner, last_list(client, identity).await?, restores)?;
        let revokes = |list: &VerifiedRevocations| {
            let mut serials = serials.iter();
            serials.all(|serial| list.revokes(owner, *serial))
        };
        // What another client of this owner stored under the same number may come first.
        if let Some(kept) = last
            .as_ref()
            .filter(|last| identity.is_owner() && revokes(last))
        {
            list.saw(kept);
            return Ok(kept.clone());
        }
        let signed = grants::revoke(identity, last.as_ref(), serials)?.encode();
        store::add_revocations(client, &signed).await?;
    }
    Err(ClientError::RevocationNotKept)
}

/// Fetches the owner's list in a database. Anyone who keeps the database can withhold the list, but
/// cannot make one.
async fn last_list(
    client: &Client,
    identity: &Identity,
) -> Result<Option<VerifiedRevocations>, ClientError> {
    let owner = identity.owner();
    let lists = store::revocations(client, &BTreeSet::from([owner]), i32::MAX).await?;
    let list = lists.into_values().next().flatten();
    Ok(list.and_then(|list| list.verify(&owner).ok()))
}

/// The data keys of a database, for a client that needs no evaluator: it opens and makes them
/// itself.
pub struct KeyStore {
    /// The keys of this owner
    pub keys: KeyRing,
}

impl KeyStore {
    /// Fetches and opens them.
    pub async fn fetch(client: &Client, identity: &Identity) -> Result<Self, ClientError> {
        let mut keys = KeyRing::new();
        for row in store::data_keys(client).await? {
            keys.take(identity, &row.name, &row.wrapped);
        }
        Ok(Self { keys })
    }

    /// Makes one more, and stores it wrapped.
    pub async fn add(
        &mut self,
        client: &Client,
        identity: &Identity,
        key: NewKey<'_>,
    ) -> Result<(), ClientError> {
        let wrapped = key.generate(identity)?;
        store::add_data_key(client, key.name, &wrapped).await?;
        self.keys.take(identity, key.name, &wrapped);
        Ok(())
    }
}

/// Runs the exchange with the evaluator: hello, evidence, open, opened.
async fn exchange(
    client: &Client,
    identity: &Identity,
    policy: &Policy,
    lifetime: Duration,
    papers: Papers,
) -> Result<(ClientSession, Evidence), ClientError> {
    let hello = Hello::new()?;
    let offer = hello.message();
    let offer = hello.offer(&store::relay(client, &offer).await?)?;
    let evidence = evidence_of(&offer);
    let trusted = offer.verify(&policy.at(now()))?;
    let (opening, message) = trusted.open(&OpenTerms {
        master: identity.master(),
        owner: identity.owner(),
        client: identity.signing(),
        expires: now().saturating_add(lifetime.as_secs()),
        grants: &papers.grants,
        revocations: &papers.lists,
    })?;
    let session = opening.opened(&store::relay(client, &message).await?)?;
    Ok((session, evidence))
}

/// Collects what is shown at the opening: the owner's grants and those that the caller names, with
/// the lists of their signers, of which the owner's is `last`; then what other owners stored for
/// this subject, as far as it fits.
async fn papers(
    client: &Client,
    identity: &Identity,
    shown: &[Grant],
    last: Option<&VerifiedRevocations>,
) -> Result<Papers, ClientError> {
    let own = store::grants_by(client, identity.owner());
    let (own, others) = try_join(own, store::grants_to(client, identity)).await?;
    let mut grants = shown.to_vec();
    grants.extend(own.into_iter().rev());
    let (signers, other_signers) = (grants::owners(&grants), grants::owners(&others));
    let lists = store::revocations(client, &signers, i32::MAX);
    let other_lists = store::revocations(client, &other_signers, grants::MAX_LIST);
    let (mut lists, other_lists) = try_join(lists, other_lists).await?;
    if let Some(last) = last {
        lists.insert(identity.owner(), Some(last.list().clone()));
    }
    let mut papers = Papers {
        grants,
        lists: lists.into_values().flatten().collect(),
    };
    papers.add_others(others, other_lists);
    papers.grants = grants::shown(papers.grants, now());
    Ok(papers)
}

fn evidence_of(offer: &Offer) -> Evidence {
    let claims = offer.claims();
    Evidence {
        back_end: claims.terms.backend,
        rules: claims.terms.policy,
        bytes: claims.evidence.to_vec(),
        offer_expires: claims.terms.expires,
    }
}

/// Returns the time in seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

//! The list that an owner's client keeps of each database, so that no server can say otherwise:
//! which columns are encrypted, and which grants were taken back.
//!
//! The module is pure. The list decides, not the server's word: [`OwnersList::agrees`] compares
//! what the server says of columns, [`OwnersList::argument`] says whether an argument may be
//! plain, and [`OwnersList::latest`] which list of revocations holds. An identity keeps the list,
//! signed (`docs/format/identity.md`).

mod bytes;
mod object;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use pgseal_cell::grant::{Revocations, VerifiedRevocations};
use pgseal_cell::PublicKey;

use crate::column::Encrypted;
use crate::statement::Statement;
pub use object::ListedObject;
pub use order::{PlacedColumn, TableName};

/// Why a server is not believed, or the list not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The owner has not said which columns are encrypted.
    #[error(
        "this identity has no list of the encrypted columns of the database: make it with pgseal \
         client column add --all and the same connection options, or say --trust-server-types to \
         let the server decide which values are encrypted; nothing was sent"
    )]
    Missing,
    /// A table has another order of columns than the list.
    #[error(
        "table {0} has other columns on the server than in the owner's list, or another order of \
         them: name the columns in the statement, or if you changed the table, run pgseal client \
         column add --all; nothing was sent"
    )]
    Order(String),
    /// The column is gone.
    #[error(
        "the server has no column {0}, which the owner's list has: if you dropped or renamed it, \
         run pgseal client column forget {0}; nothing was sent"
    )]
    Vanished(String),
    /// The column is of another type.
    #[error(
        "column {column} is of type {shown} on the server, and of type {listed} in the owner's \
         list: if pgseal client protect was interrupted, run it again; if you changed it, run \
         pgseal client column forget {column}; nothing was sent"
    )]
    Changed {
        /// The column's name
        column: String,
        /// As the list has it
        listed: String,
        /// As the server has it
        shown: String,
    },
    /// Another table or view is found first.
    #[error(
        "{1} in the statement is another table than {0} of the owner's list, for the search path \
         of the server finds it first: write {0}; nothing was sent"
    )]
    Hidden(String, String),
    /// An argument for a listed column was called plain.
    #[error("column {0} is encrypted by the owner's list: do not call its value plain")]
    NotPlain(String),
    /// A literal, which the server and its log see.
    #[error(
        "the statement has a literal and names {0}, which is encrypted: the server and its log \
         would see it. Write $1 in its place, or say --literals if none is a secret; nothing was \
         sent"
    )]
    Literal(String),
    /// A literal for code that may do anything with it.
    #[error(
        "the statement has a literal, nothing says what {0} does with it, and the database has \
         encrypted columns: the server and its log would see it. Say --literals if none is a \
         secret; nothing was sent"
    )]
    Code(&'static str),
    /// Fewer revocations than there were.
    #[error(
        "the server shows list {shown} of revoked grants, and this identity has seen list {kept}: \
         somebody put an older one back; the owner runs pgseal client grant restore"
    )]
    Withheld {
        /// The highest that was seen
        kept: u64,
        /// Its number; 0 is none
        shown: u64,
    },
    /// Two lists of one number, each without something that was revoked.
    #[error(
        "the server shows another list {0} of revoked grants than this identity has seen: what \
         one of them revokes the other does not; the owner runs pgseal client grant restore, \
         which signs both as one"
    )]
    Forked(u64),
    /// A name that is none.
    #[error("give a column as schema.table.column, in double quotes what SQL would have so")]
    Name,
    /// A table's or a column's name that is none.
    #[error(
        "give the table as table or schema.table and the columns with commas between them, in \
         double quotes what SQL would have so"
    )]
    TableName,
    /// A type of no column that is encrypted.
    #[error("column {0} is not of an encrypted type, but of {1}")]
    Plain(String, String),
}

/// A column, by the names that the catalog has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ColumnName {
    /// Its schema
    pub schema: String,
    /// Its table, or view
    pub table: String,
    /// Its own name
    pub column: String,
}

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [schema, table, column] = [&self.schema, &self.table, &self.column].map(|n| quoted(n));
        write!(f, "{schema}.{table}.{column}")
    }
}

impl FromStr for ColumnName {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let statement = Statement::new(text);
        match &statement.qualified_name()[..] {
            [schema, table, column] => Ok(Self {
                schema: schema.clone(),
                table: table.clone(),
                column: column.clone(),
            }),
            _ => Err(ListError::Name),
        }
    }
}

/// Writes a name as a reader expects it, and as [`Statement`] reads it. SQL quotes its key words
/// too.
pub(crate) fn quoted(name: &str) -> String {
    let is_small = |c: char| c == '_' || c.is_ascii_lowercase();
    let is_bare =
        name.starts_with(is_small) && name.chars().all(|c| is_small(c) || c.is_ascii_digit());
    match is_bare {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The entry of a column in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedColumn {
    /// The type that its domains and arrays are made of, with `[]` for an array: `enc_text[]`
    pub ty: String,
    /// The data key that seals for it
    pub keyname: String,
}

/// A column as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownColumn {
    /// The column's name
    pub name: ColumnName,
    /// The type as in [`ListedColumn::ty`]; none if the column is not there
    pub ty: Option<String>,
    /// Schema of the table that the search path finds by this table's name; none finds none
    pub found: Option<String>,
}

/// The list of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnersList {
    /// The owner has said so, even if it is empty.
    made: bool,
    columns: BTreeMap<ColumnName, ListedColumn>,
    orders: BTreeMap<TableName, Vec<PlacedColumn>>,
    objects: BTreeSet<ListedObject>,
    revocations: Option<Revocations>,
}

impl OwnersList {
    /// Returns the columns that are encrypted.
    pub fn columns(&self) -> impl Iterator<Item = (&ColumnName, &ListedColumn)> {
        self.columns.iter()
    }

    /// Returns the entry of a column.
    pub fn column(&self, name: &ColumnName) -> Option<&ListedColumn> {
        self.columns.get(name)
    }

    /// Takes a column in, in place of an earlier entry.
    pub fn add(&mut self, name: ColumnName, column: ListedColumn) -> Result<(), ListError> {
        if Encrypted::from_name(column.ty.trim_end_matches("[]")).is_none() {
            return Err(ListError::Plain(name.to_string(), column.ty));
        }
        self.columns.insert(name, column);
        Ok(())
    }

    /// Forgets a column, and the order of a table that has no other one. Returns whether it was
    /// there.
    pub fn forget(&mut self, name: &ColumnName) -> bool {
        let was_there = self.columns.remove(name).is_some();
        let listed = self.tables();
        self.orders.retain(|table, _| listed.contains(table));
        was_there
    }

    /// Returns the columns whose tables a statement names.
    pub(crate) fn tables_in<'l>(
        &'l self,
        statement: &'l Statement<'_>,
    ) -> impl Iterator<Item = &'l ColumnName> {
        self.columns
            .keys()
            .filter(|name| statement.names(&name.table))
    }

    /// Refuses columns that the server shows otherwise than the list has them. `statement` is the
    /// one that meets them; without one no table is named yet, and no search path matters.
    pub fn agrees(
        &self,
        shown: &[ShownColumn],
        statement: Option<&Statement<'_>>,
    ) -> Result<(), ListError> {
        shown.iter().try_for_each(|shown| {
            let Some(listed) = self.columns.get(&shown.name) else {
                return Ok(());
            };
            match &shown.ty {
                None => Err(ListError::Vanished(shown.name.to_string())),
                Some(ty) if *ty != listed.ty => Err(ListError::Changed {
                    column: shown.name.to_string(),
                    listed: listed.ty.clone(),
                    shown: ty.clone(),
                }),
                Some(_) => statement.map_or(Ok(()), |statement| self.is_found(shown, statement)),
            }
        })
    }

    /// Checks that a table which is named without its schema is one of the list.
    fn is_found(&self, shown: &ShownColumn, statement: &Statement<'_>) -> Result<(), ListError> {
        let ColumnName { schema, table, .. } = &shown.name;
        let Some(found) = &shown.found else {
            return Ok(());
        };
        let mut listed = self.columns.keys().filter(|name| name.table == *table);
        let is_listed = listed.any(|name| name.schema == *found);
        if is_listed || !statement.names_bare(schema, table) {
            return Ok(());
        }
        let full = format!("{}.{}", quoted(schema), quoted(table));
        Err(ListError::Hidden(full, quoted(table)))
    }

    /// Refuses a statement with literals that names something encrypted: a table or a column of
    /// the list, one of the names that the server says ([`crate::encrypted_names`]), or a type of
    /// encdb. Refuses one that runs code, too, if there is any of these names. Nothing says what
    /// a literal is for, and a statement that fails is in the server's log as it was sent.
    pub fn literals(&self, statement: &Statement<'_>, names: &[String]) -> Result<(), ListError> {
        if !statement.has_literals() {
            return Ok(());
        }
        let listed = self
            .columns
            .keys()
            .flat_map(|name| [&name.table, &name.column]);
        let objects = self.objects.iter().map(ListedObject::name);
        let mut encrypted = listed.chain(objects).chain(names).peekable();
        let code = statement.runs_code().filter(|_| encrypted.peek().is_some());
        let named = encrypted.find(|name| statement.names(name));
        match (named.cloned().or_else(|| statement.encrypted_type()), code) {
            (Some(name), _) => Err(ListError::Literal(quoted(&name))),
            (None, Some(code)) => Err(ListError::Code(code)),
            (None, None) => Ok(()),
        }
    }

    /// Refuses an argument for this column that is to be sent in clear.
    pub fn argument(&self, column: &ColumnName, is_plain: bool) -> Result<(), ListError> {
        match is_plain && self.columns.contains_key(column) {
            true => Err(ListError::NotPlain(column.to_string())),
            false => Ok(()),
        }
    }

    /// Returns the last list of revoked grants that was seen.
    pub fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref()
    }

    /// Keeps a list of revoked grants if it is a later one. Returns whether it is.
    pub fn saw(&mut self, list: &VerifiedRevocations) -> bool {
        let is_later = list.sequence() > self.sequence();
        if is_later {
            self.revocations = Some(list.list().clone());
        }
        is_later
    }

    fn sequence(&self) -> u64 {
        self.revocations.as_ref().map_or(0, Revocations::sequence)
    }

    /// Returns the list of revoked grants that holds: the one that the server shows. Fails if that
    /// has less than was seen, or something else; a client that restores gets the list that was
    /// seen.
    pub fn latest(
        &self,
        owner: &PublicKey,
        shown: Option<VerifiedRevocations>,
        restores: bool,
    ) -> Result<Option<VerifiedRevocations>, ListError> {
        let number = shown.as_ref().map_or(0, VerifiedRevocations::sequence);
        let is_kept = shown.as_ref().map(VerifiedRevocations::list) == self.revocations();
        if number > self.sequence() || is_kept {
            return Ok(shown);
        }
        let kept = self.revocations.clone();
        match kept.and_then(|kept| kept.verify(owner).ok()) {
            Some(kept) if restores => Ok(Some(kept)),
            _ if number == self.sequence() => Err(ListError::Forked(number)),
            _ => Err(ListError::Withheld {
                kept: self.sequence(),
                shown: number,
            }),
        }
    }
}

/// The lists that an identity keeps: one for each database, by the name that its clients connect
/// to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept(BTreeMap<String, OwnersList>);

impl Kept {
    /// Returns the list of a database; an empty one if none is kept.
    pub fn database(&self, name: &str) -> OwnersList {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Returns the list of a database, to be changed.
    pub fn database_mut(&mut self, name: &str) -> &mut OwnersList {
        self.0.entry(name.to_owned()).or_default()
    }

    /// Whether all lists are empty.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|list| *list == OwnersList::default())
    }
}

/// The lists of the example in `docs/format/identity.md`.
#[cfg(test)]
mod example {
    use super::{ColumnName, Kept, ListedColumn, PlacedColumn, TableName};
    use crate::{grants, Identity};
    use pgseal_cell::grant::Serial;

    impl Kept {
        /// Returns the lists of the example in `docs/format/identity.md`.
        pub(crate) fn for_tests() -> Self {
            let mut kept = Self::default();
            let shop = kept.database_mut("shop");
            let name: ColumnName = "public.test1.c".parse().expect("it is a name");
            let column = ListedColumn {
                ty: "enc_text".to_owned(),
                keyname: "|ada|shop|".to_owned(),
            };
            let table = TableName::of(&name);
            shop.add(name, column).expect("it is encrypted");
            let placed = [("id", false), ("c", false), ("sum", true)];
            let placed = placed.map(|(name, is_generated)| PlacedColumn {
                name: name.to_owned(),
                is_generated,
            });
            shop.order(table, placed.to_vec());
            let identity = Identity::for_tests(1);
            let serial = Serial([2; 16]);
            let list = grants::revoke(&identity, None, &[serial]).expect("it is the owner");
            shop.saw(&list.verify(&identity.owner()).expect("it signed it"));
            kept.database_mut("crm").make();
            kept
        }
    }
}

#[cfg(test)]
mod tests {
    use pgseal_cell::grant::Serial;

    use super::*;
    use crate::{grants, Identity};

    fn name(text: &str) -> ColumnName {
        text.parse().expect("it is a name")
    }

    fn listed(names: &[&str]) -> OwnersList {
        let mut list = OwnersList::default();
        for column in names {
            let known = ListedColumn {
                ty: "enc_text".to_owned(),
                keyname: "k".to_owned(),
            };
            list.add(name(column), known).expect("it is encrypted");
        }
        list
    }

    fn shown(column: &str, ty: Option<&str>, found: &str) -> [ShownColumn; 1] {
        [ShownColumn {
            name: name(column),
            ty: ty.map(str::to_owned),
            found: Some(found.to_owned()),
        }]
    }

    #[test]
    fn names_are_sqls() {
        assert_eq!(name("Public.T.\"C d\"").to_string(), "public.t.\"C d\"");
        for text in ["t.c", "a.b.c.d", "a.b.", "a.b.c d", "a.b.1", "a.b.'c'", ""] {
            assert_eq!(text.parse::<ColumnName>(), Err(ListError::Name), "{text}");
        }
    }

    #[test]
    fn plain_columns_are_not_listed() {
        let known = ListedColumn {
            ty: "text".to_owned(),
            keyname: String::new(),
        };
        let refused = OwnersList::default().add(name("s.t.c"), known);
        assert!(matches!(refused, Err(ListError::Plain(..))));
    }

    #[test]
    fn a_server_that_says_otherwise_is_refused() {
        let list = listed(&["s.t.c"]);
        let agrees = |ty, found| list.agrees(&shown("s.t.c", ty, found), None);
        assert_eq!(agrees(Some("enc_text"), "s"), Ok(()));
        assert!(matches!(
            agrees(Some("text"), "s"),
            Err(ListError::Changed { .. })
        ));
        assert!(matches!(
            agrees(Some("enc_text[]"), "s"),
            Err(ListError::Changed { .. })
        ));
        assert!(matches!(agrees(None, "s"), Err(ListError::Vanished(_))));
        assert_eq!(
            list.agrees(&shown("s.t.other", Some("text"), "s"), None),
            Ok(())
        );
    }

    #[test]
    fn another_table_is_not_found_first() {
        let agrees = |list: &OwnersList, found, sql| {
            let columns = shown("s.t.c", Some("enc_text"), found);
            list.agrees(&columns, Some(&Statement::new(sql)))
        };
        let list = listed(&["s.t.c"]);
        assert_eq!(agrees(&list, "s", "SELECT c FROM t"), Ok(()));
        for sql in [
            "SELECT c FROM t",
            "SELECT t.c FROM s.t",
            "SELECT c FROM other.t, s.t",
        ] {
            let refused = agrees(&list, "evil", sql);
            assert!(matches!(refused, Err(ListError::Hidden(..))), "{sql}");
        }
        assert_eq!(agrees(&list, "evil", "SELECT c FROM s.t AS u"), Ok(()));
        let both = listed(&["s.t.c", "two.t.c"]);
        assert_eq!(agrees(&both, "two", "SELECT c FROM t"), Ok(()));
    }

    #[test]
    fn what_is_listed_is_not_plain() {
        let list = listed(&["s.t.c"]);
        assert_eq!(list.argument(&name("s.t.c"), false), Ok(()));
        assert_eq!(list.argument(&name("s.t.d"), true), Ok(()));
        let refused = ListError::NotPlain("s.t.c".to_owned());
        assert_eq!(list.argument(&name("s.t.c"), true), Err(refused));
    }

    #[test]
    fn literals_beside_what_is_encrypted_are_refused() {
        let list = listed(&["s.t.secret"]);
        let view = ["view".to_owned()];
        let check = |sql| list.literals(&Statement::new(sql), &view);
        for sql in [
            "SELECT * FROM t WHERE secret = 'x'",
            "select * from s.T where n = 1",
            "SELECT secret FROM alias WHERE $$x$$ = secret",
            "SELECT * FROM view LIMIT (1)",
            "SELECT 'x'::enc_text",
            "SELECT encdb.enc_int4_encrypt(1)",
            "SELECT '{x}'::_enc_text",
        ] {
            assert!(matches!(check(sql), Err(ListError::Literal(_))), "{sql}");
        }
        assert_eq!(check("DO $$ $$"), Err(ListError::Code("DO")));
        let nothing = OwnersList::default().literals(&Statement::new("DO $$ $$"), &[]);
        assert_eq!(nothing, Ok(()));
        for sql in [
            "SELECT * FROM t WHERE secret = $1 LIMIT 3",
            "SELECT * FROM plain WHERE c = 'x'",
            "CREATE TABLE new (c enc_text)",
            "-- 'x'\nSELECT * FROM t",
        ] {
            assert_eq!(check(sql), Ok(()), "{sql}");
        }
    }

    #[test]
    fn revocations_do_not_become_fewer() {
        let identity = Identity::for_tests(1);
        let owner = identity.owner();
        let next = |last: Option<&VerifiedRevocations>, serial| {
            let list = grants::revoke(&identity, last, &[Serial([serial; 16])]);
            list.and_then(|list| Ok(list.verify(&owner)?))
                .expect("it is signed")
        };
        let (first, mut list) = (next(None, 1), OwnersList::default());
        let second = next(Some(&first), 2);
        let latest = |list: &OwnersList, shown: Option<&VerifiedRevocations>, restores| {
            let latest = list.latest(&owner, shown.cloned(), restores);
            latest.map(|list| list.map_or(0, |list| list.sequence()))
        };
        assert_eq!(latest(&list, None, false), Ok(0));
        assert!(list.saw(&second));
        assert!(!list.saw(&first));
        assert_eq!(latest(&list, Some(&second), false), Ok(2));
        for (shown, number) in [(None, 0), (Some(&first), 1)] {
            let withheld = ListError::Withheld {
                kept: 2,
                shown: number,
            };
            assert_eq!(latest(&list, shown, false), Err(withheld));
            assert_eq!(latest(&list, shown, true), Ok(2));
        }
        let other = next(Some(&first), 4);
        assert_eq!(
            latest(&list, Some(&other), false),
            Err(ListError::Forked(2))
        );
        let restored = list.latest(&owner, Some(other), true).ok().flatten();
        assert_eq!(
            restored.map(|list| list.list().clone()),
            Some(second.list().clone())
        );
        assert_eq!(latest(&list, Some(&next(Some(&second), 3)), false), Ok(3));
    }
}

//! The online form: new columns beside the plain ones are filled in short transactions, a trigger
//! marks the rows that change meanwhile, and the columns are exchanged under one short lock.
//!
//! A row is *dirty* if one of its plain columns has a value and the new one beside it is NULL. The
//! trigger makes all new columns of a row NULL when the row changes.
//!
//! No statement of an application may compare cells, for which its connection has no keys. A
//! B-tree compares the keys that it has when a page is split, whatever is inserted. So applications
//! must not insert into indexes of cells: until the exchange such an index has the condition that
//! the columns are not NULL, which is enough to find values and to keep them unique. After it,
//! when all connections have keys, the final index is built.
//!
//! The state of a run is in the catalogs alone, under names that [`names`] makes of OIDs: a run
//! that was killed is continued by the next one. States: nothing, or *unfinished* (the trigger is
//! there), then *exchanged* (the columns are encrypted), in which indexes and constraints may be
//! left that the next run finishes.

pub(crate) mod left;
pub(crate) mod names;
mod obstacle;
pub(crate) mod sql;

pub use obstacle::OnlineObstacle;

use super::{Facts, Obstacle, Plan, Wanted};
use crate::list::quoted;
use crate::OwnersList;

/// A run that was begun and is neither finished nor taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The numbers of its columns, in ascending order
    pub columns: Vec<i16>,
    /// The data key that seals
    pub keyname: String,
}

impl Unfinished {
    /// Writes it as the comment that the trigger's function has.
    pub fn to_comment(&self) -> String {
        let numbers: Vec<String> = self.columns.iter().map(i16::to_string).collect();
        format!(
            "pgseal client protect --online\n{}\n{}",
            numbers.join(" "),
            self.keyname
        )
    }

    /// Reads such a comment; none if it is another.
    pub fn from_comment(comment: &str) -> Option<Self> {
        let rest = comment.strip_prefix("pgseal client protect --online\n")?;
        let (numbers, keyname) = rest.split_once('\n')?;
        let columns: Result<_, _> = numbers.split(' ').map(str::parse).collect();
        Some(Self {
            columns: columns.ok()?,
            keyname: keyname.to_owned(),
        })
    }
}

/// The facts of a table that the online form needs beyond [`Facts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnlineFacts {
    /// Statements that give the new columns privileges, comments and statistics, after the
    /// exchange
    pub columns: Vec<String>,
    /// `NOT NULL` and `CHECK` constraints of the columns that are to be encrypted
    pub constraints: Vec<KeptConstraint>,
    /// The indexes that have one of them
    pub indexes: Vec<KeptIndex>,
    /// The facts that are in the way
    pub obstacles: Vec<OnlineObstacle>,
    /// Functions that insert rows without a list of columns
    pub by_order: Vec<String>,
    /// Whether the table has triggers that each update fires, unless the role of replication is
    /// a replica's
    pub has_triggers: bool,
    /// Returns whether an exchange has left a constraint that is not proved
    pub is_unproved: bool,
    /// The names of the indexes that runs have made, with whether each is whole
    pub made: Vec<(String, bool)>,
}

/// A constraint that the new columns get. Every row would be read under the lock to know that it
/// holds, so it waits for that; from the exchange on it holds for what applications write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptConstraint {
    /// The name that it has until it is proved
    pub name: String,
    /// The statement of the exchange that adds it
    pub add: String,
    /// The statements after the exchange: the first proves it, or is empty; the others make it
    /// what the plain columns had
    pub after: Vec<String>,
}

/// An index that is built for the new columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptIndex {
    /// The OID of the index of the plain columns
    pub oid: u32,
    /// Whether it is unique
    pub is_unique: bool,
    /// Whether applications insert nothing that it compares, so that the final index can be built
    /// before the exchange
    pub is_early: bool,
    /// The statement that builds it before the exchange
    pub create: String,
    /// The statements after the exchange: the first builds the final index, or is empty; the
    /// others give it its name, constraint and comment
    pub after: Vec<String>,
}

impl KeptIndex {
    /// Returns the name under which it is built before the exchange.
    pub(crate) fn name(&self) -> String {
        match self.is_early {
            true => names::finished(self.oid),
            false => names::interim(self.oid),
        }
    }
}

/// The plan of the online form.
pub struct OnlinePlan {
    /// The plan that both forms have
    pub plan: Plan,
    /// The facts that the online form needs beyond it
    pub(crate) kept: OnlineFacts,
    /// Whether a run was begun
    pub is_begun: bool,
    /// Whether a run has exchanged the columns, and left indexes or constraints
    pub is_exchanged: bool,
    /// The columns that change their place among the table's columns
    pub moved: Vec<String>,
}

impl OnlinePlan {
    /// Makes the plan, or returns each obstacle.
    pub fn new(
        (facts, kept): (&Facts, OnlineFacts),
        wanted: &Wanted,
        list: &OwnersList,
    ) -> Result<Self, Vec<Obstacle>> {
        let (plan, mut obstacles) = match Plan::new(facts, wanted, list) {
            Ok(plan) => (Some(plan), Vec::new()),
            Err(found) => (None, found),
        };
        let moved = moved(facts);
        if plan.as_ref().is_none_or(|plan| !plan.columns.is_empty()) {
            obstacles.extend(obstacles_of(facts, &kept, wanted));
            let functions = kept.by_order.iter().filter(|_| !moved.is_empty());
            obstacles.extend(
                functions.map(|name| Obstacle::Online(OnlineObstacle::Order(name.clone()))),
            );
        }
        match plan.filter(|_| obstacles.is_empty()) {
            Some(plan) => Ok(Self {
                moved,
                is_begun: facts.unfinished.is_some(),
                is_exchanged: facts.unfinished.is_none()
                    && (kept.is_unproved || !kept.made.is_empty()),
                plan,
                kept,
            }),
            None => Err(obstacles),
        }
    }

    /// Whether one of the indexes is unique, and so may be the target of a foreign key.
    pub(crate) fn has_unique(&self) -> bool {
        self.kept.indexes.iter().any(|index| index.is_unique)
    }

    /// Whether each index of the plain columns has one for the new columns.
    pub(crate) fn is_built(&self) -> bool {
        let mut indexes = self.kept.indexes.iter();
        indexes.all(|index| self.made(&index.name()) == Some(true))
    }

    /// Returns whether an index of this name is whole; none if there is none.
    pub(crate) fn made(&self, name: &str) -> Option<bool> {
        let mut made = self.kept.made.iter();
        made.find(|(made, _)| made == name)
            .map(|(_, is_whole)| *is_whole)
    }
}

fn obstacles_of(facts: &Facts, kept: &OnlineFacts, wanted: &Wanted) -> Vec<Obstacle> {
    let mut found = kept.obstacles.clone();
    let stays = facts.foreign_keys.iter();
    found.extend(stays.map(|key| OnlineObstacle::ForeignKey(quoted(&key.name))));
    let publications = facts.publications.iter();
    found.extend(publications.map(|name| OnlineObstacle::Publication(quoted(name))));
    found.extend(other_run(facts, Some(&wanted.keyname)));
    found.into_iter().map(Obstacle::Online).collect()
}

/// Returns the run that was begun if it is of other columns, or of another key than a given one.
pub(crate) fn other_run(facts: &Facts, keyname: Option<&str>) -> Option<OnlineObstacle> {
    let begun = facts.unfinished.as_ref()?;
    let mut numbers: Vec<i16> = facts.columns.iter().map(|column| column.number).collect();
    numbers.sort_unstable();
    let is_same = begun.columns == numbers && keyname.is_none_or(|name| begun.keyname == name);
    (!is_same).then(|| OnlineObstacle::Other {
        columns: begun.columns.clone(),
        keyname: begun.keyname.clone(),
    })
}

/// The new columns come last. Returns the columns that do not stand there now.
fn moved(facts: &Facts) -> Vec<String> {
    let columns = facts.columns.iter().filter(|_| !facts.behind.is_empty());
    columns.map(|column| column.name.clone()).collect()
}

#[cfg(test)]
mod tests;

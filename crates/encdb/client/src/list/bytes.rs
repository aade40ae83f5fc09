//! The bytes of what an identity keeps, as `docs/format/identity.md` has them.

use std::collections::BTreeMap;

use pgseal_cell::grant::Revocations;
use pgseal_format::Reader;

use super::{ColumnName, Kept, ListedColumn, ListedObject, OwnersList, PlacedColumn, TableName};

const MAGIC: &[u8; 8] = b"PGSEALOL";
/// The version with types and functions, of a list that has some.
const OBJECTS: u8 = 3;
/// The version with orders of columns.
const ORDERED: u8 = 2;
/// The version without them, which is read.
const UNORDERED: u8 = 1;

impl Kept {
    /// The bytes, which the identity signs; none if a name or a number is too long for them.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let version = match self.0.values().all(|list| list.objects.is_empty()) {
            true => ORDERED,
            false => OBJECTS,
        };
        let mut out = [&MAGIC[..], &[version]].concat();
        out.extend_from_slice(&u16::try_from(self.0.len()).ok()?.to_le_bytes());
        for (name, list) in &self.0 {
            text(name, &mut out)?;
            list.encode(version, &mut out)?;
        }
        Some(out)
    }

    /// Reads the bytes, of an earlier version too; none if they are something else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.strip_prefix(&MAGIC[..])?.split_first()?;
        let known = [UNORDERED, ORDERED, OBJECTS];
        let version = Some(*version).filter(|it| known.contains(it))?;
        let mut reader = Reader::new(rest);
        let databases = ascending(&mut reader, |reader| {
            Some((name(reader)?, OwnersList::read(version, reader)?))
        })?;
        reader.is_empty().then_some(Self(databases))
    }
}

impl OwnersList {
    fn encode(&self, version: u8, out: &mut Vec<u8>) -> Option<()> {
        out.push(u8::from(self.made));
        out.extend_from_slice(&u16::try_from(self.orders.len()).ok()?.to_le_bytes());
        for (table, columns) in &self.orders {
            text(&table.schema, out)?;
            text(&table.table, out)?;
            out.extend_from_slice(&u16::try_from(columns.len()).ok()?.to_le_bytes());
            for column in columns {
                text(&column.name, out)?;
                out.push(u8::from(column.is_generated));
            }
        }
        out.extend_from_slice(&u16::try_from(self.columns.len()).ok()?.to_le_bytes());
        for (at, column) in &self.columns {
            for part in [
                &at.schema,
                &at.table,
                &at.column,
                &column.ty,
                &column.keyname,
            ] {
                text(part, out)?;
            }
        }
        if version == OBJECTS {
            out.extend_from_slice(&u16::try_from(self.objects.len()).ok()?.to_le_bytes());
            for (kind, parts) in self.objects.iter().map(ListedObject::parts) {
                out.push(kind);
                parts.into_iter().try_for_each(|part| text(part, out))?;
            }
        }
        let list = self.revocations.as_ref().map(Revocations::encode);
        let list = list.unwrap_or_default();
        out.extend_from_slice(&u32::try_from(list.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&list);
        Some(())
    }

    fn read(version: u8, reader: &mut Reader<'_>) -> Option<Self> {
        let (made, orders) = match version > UNORDERED {
            true => (flag(reader)?, ascending(reader, order)?),
            false => Default::default(),
        };
        let columns = ascending(reader, |reader| {
            let at = ColumnName {
                schema: name(reader)?,
                table: name(reader)?,
                column: name(reader)?,
            };
            let column = ListedColumn {
                ty: name(reader)?,
                keyname: name(reader)?,
            };
            Some((at, column))
        })?;
        let objects = match version {
            OBJECTS => ascending(reader, |reader| Some((object(reader)?, ())))?,
            _ => BTreeMap::new(),
        };
        let length = usize::try_from(reader.u32()?).ok()?;
        let revocations = match reader.take(length)? {
            [] => None,
            list => Some(Revocations::parse(list).ok()?),
        };
        let list = Self {
            made,
            columns,
            orders,
            objects: objects.into_keys().collect(),
            revocations,
        };
        // An order is of a listed table.
        let tables = list.tables();
        let is_listed = |table: &TableName| tables.contains(table);
        list.orders.keys().all(is_listed).then_some(list)
    }
}

fn order(reader: &mut Reader<'_>) -> Option<(TableName, Vec<PlacedColumn>)> {
    let table = TableName {
        schema: name(reader)?,
        table: name(reader)?,
    };
    let number = reader.u16()?;
    let column = |_| {
        Some(PlacedColumn {
            name: name(reader)?,
            is_generated: flag(reader)?,
        })
    };
    let columns = (0..number).map(column);
    Some((table, columns.collect::<Option<_>>()?))
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.take(1)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// A number of two bytes, and so many entries whose names ascend.
fn ascending<'a, K: Ord, V>(
    reader: &mut Reader<'a>,
    entry: impl Fn(&mut Reader<'a>) -> Option<(K, V)>,
) -> Option<BTreeMap<K, V>> {
    let mut entries = BTreeMap::new();
    for _ in 0..reader.u16()? {
        let (key, value) = entry(reader)?;
        if entries
            .last_key_value()
            .is_some_and(|(last, _)| *last >= key)
        {
            return None;
        }
        entries.insert(key, value);
    }
    Some(entries)
}

fn object(reader: &mut Reader<'_>) -> Option<ListedObject> {
    let [kind] = *reader.take(1)? else {
        return None;
    };
    let parts = [name(reader)?, name(reader)?, name(reader)?];
    ListedObject::from_parts(kind, parts)
}

fn text(text: &str, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&u16::try_from(text.len()).ok()?.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn name(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(reader.counted()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lead_there_and_back_and_nothing_else_does() {
        let kept = Kept::for_tests();
        let bytes = kept.encode().expect("it is short");
        assert_eq!(Kept::parse(&bytes), Some(kept));
        for cut in 0..bytes.len() {
            assert_eq!(Kept::parse(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Kept::parse(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(
            Kept::parse(&Kept::default().encode().expect("short")),
            Some(Kept::default())
        );
        // The second database before the first.
        let swapped = b"PGSEALOL\x01\x02\0\x01\0b\0\0\0\0\0\0\x01\0a\0\0\0\0\0\0";
        assert_eq!(Kept::parse(swapped), None);
    }

    #[test]
    fn an_earlier_list_is_read() {
        let column = b"\x01\0s\x01\0t\x01\0c\x08\0enc_text\x01\0k";
        let old = [&b"PGSEALOL\x01\x01\0\x01\0a\x01\0"[..], column, &[0; 4]].concat();
        let list = Kept::parse(&old).expect("it is one").database("a");
        assert_eq!((list.columns().count(), list.orders().count()), (1, 0));
        assert!(list.is_made());
        let of_none = b"PGSEALOL\x01\x01\0\x01\0a\0\0\0\0\0\0";
        let kept = Kept::parse(of_none).expect("it is one");
        assert!(
            !kept.database("a").is_made(),
            "it may be there for revocations"
        );
        assert_eq!(Kept::parse(b"PGSEALOL\x04\0\0"), None);
    }

    #[test]
    fn an_order_is_of_a_listed_table() {
        let order = b"\x01\0s\x01\0t\0\0";
        let bytes = [&b"PGSEALOL\x02\x01\0\x01\0a\x01\x01\0"[..], order, &[0; 6]].concat();
        assert_eq!(Kept::parse(&bytes), None);
    }
}

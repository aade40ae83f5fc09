//! Objects that hold or take encrypted values, beside columns of encdb's own types. An owner's list
//! has them, so that no server hides them.

use std::fmt;

use super::{quoted, ColumnName, OwnersList};

/// Something other than a column of encdb's own types that has encrypted values in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedObject {
    /// A column of a composite or a range with cells in it
    Column(ColumnName),
    /// A domain, a composite or a range
    Type {
        /// Its schema
        schema: String,
        /// Its name
        name: String,
    },
    /// A function or procedure that takes or gives something encrypted
    Function {
        /// Its schema
        schema: String,
        /// Its name
        name: String,
        /// The types of its arguments, with commas between them: `enc_text`, `enc_text[]`, `-` for
        /// a plain one, `?` for one that has cells in it
        arguments: String,
    },
}

impl ListedObject {
    /// Returns the name by which a statement calls it, without its schema.
    pub(super) fn name(&self) -> &String {
        match self {
            Self::Column(it) => &it.table,
            Self::Type { name, .. } | Self::Function { name, .. } => name,
        }
    }

    /// Returns the number of its kind, its schema, its name and the rest, as its bytes have them.
    pub(super) fn parts(&self) -> (u8, [&str; 3]) {
        match self {
            Self::Column(it) => (1, [&it.schema, &it.table, &it.column]),
            Self::Type { schema, name } => (2, [schema, name, ""]),
            Self::Function {
                schema,
                name,
                arguments,
            } => (3, [schema, name, arguments]),
        }
    }

    /// Returns what these parts are; none if they are nothing.
    pub(crate) fn from_parts(kind: u8, [schema, name, rest]: [String; 3]) -> Option<Self> {
        match kind {
            1 => Some(Self::Column(ColumnName {
                schema,
                table: name,
                column: rest,
            })),
            2 if rest.is_empty() => Some(Self::Type { schema, name }),
            3 => Some(Self::Function {
                schema,
                name,
                arguments: rest,
            }),
            _ => None,
        }
    }
}

impl fmt::Display for ListedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(f, "column {name}"),
            Self::Type { schema, name } => write!(f, "type {}.{}", quoted(schema), quoted(name)),
            Self::Function {
                schema,
                name,
                arguments,
            } => {
                let (schema, name) = (quoted(schema), quoted(name));
                write!(f, "function {schema}.{name}({arguments})")
            }
        }
    }
}

impl OwnersList {
    /// Returns what has encrypted values in it beside the columns.
    pub fn objects(&self) -> impl Iterator<Item = &ListedObject> {
        self.objects.iter()
    }

    /// Takes an object in. Returns whether it is new.
    pub fn add_object(&mut self, object: ListedObject) -> bool {
        self.objects.insert(object)
    }

    /// Forgets the object that is shown as this text. Returns whether it was there.
    pub fn forget_object(&mut self, shown: &str) -> bool {
        let before = self.objects.len();
        self.objects.retain(|object| object.to_string() != shown);
        self.objects.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kept;
    use super::*;

    fn objects() -> [ListedObject; 3] {
        let text = |text: &str| text.to_owned();
        [
            ListedObject::Column("s.house.addr".parse().expect("a name")),
            ListedObject::Type {
                schema: text("public"),
                name: text("E Mail"),
            },
            ListedObject::Function {
                schema: text("public"),
                name: text("store"),
                arguments: text("-,enc_text"),
            },
        ]
    }

    #[test]
    fn objects_are_shown_as_they_are_forgotten() {
        let mut list = OwnersList::default();
        assert!(objects().into_iter().all(|object| list.add_object(object)));
        assert!(!list.add_object(objects()[0].clone()));
        let shown: Vec<String> = list.objects().map(ToString::to_string).collect();
        let expected = [
            "column s.house.addr",
            "type public.\"E Mail\"",
            "function public.store(-,enc_text)",
        ];
        assert_eq!(shown, expected);
        assert!(!list.forget_object("function public.store()"));
        assert!(expected.into_iter().all(|shown| list.forget_object(shown)));
        assert_eq!(list, OwnersList::default());
    }

    #[test]
    fn a_list_with_objects_is_of_version_three() {
        let mut kept = Kept::for_tests();
        let two = kept.encode().expect("it is short");
        for object in objects() {
            kept.database_mut("shop").add_object(object);
        }
        let three = kept.encode().expect("it is short");
        assert_eq!((two[8], three[8]), (2, 3));
        assert_eq!(Kept::parse(&three), Some(kept));
        for cut in 0..three.len() {
            assert_eq!(Kept::parse(&three[..cut]), None, "{cut}");
        }
        let mut as_two = three;
        as_two[8] = 2;
        assert_eq!(Kept::parse(&as_two), None);
    }
    #[test]
    fn the_vector_with_objects_is_read() {
        let vectors = include_str!("../../../../../vectors/identity.json");
        let (_, vector) = vectors.split_once("\"with objects\"").expect("it is there");
        let (_, digits) = vector.split_once("\"list\": \"").expect("it has a list");
        let (digits, _) = digits.split_once('"').expect("it ends");
        let bytes = crate::from_hex(digits).expect("hexadecimal digits");
        let kept = Kept::parse(&bytes).expect("it is a list");
        let list = kept.database("shop");
        let shown: Vec<String> = list.objects().map(ToString::to_string).collect();
        assert_eq!(
            shown.join(" | "),
            "column public.house.at | type public.mail | function public.store(-,enc_text)"
        );
        assert_eq!(kept.encode(), Some(bytes.to_vec()));
    }
}

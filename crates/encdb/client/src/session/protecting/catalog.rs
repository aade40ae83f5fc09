//! Reads the facts of a table that is to be encrypted. The server's word is enough here: a server
//! that says false things of its own table gets cells, or nothing.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::column::NAMES;
use crate::protect::{
    ColumnFacts, Facts, ForeignKey, IndexFacts, Object, ObjectKind, TriggerFacts, Unfinished,
    Wanted,
};
use crate::ClientError;

/// Whether a collation `co` is ICU's, by itself or as the database's default.
const IS_ICU: &str = "(co.collprovider = 'i' OR co.collprovider = 'd' AND 'i' = (SELECT \
    datlocprovider FROM pg_catalog.pg_database \
    WHERE datname = pg_catalog.current_database()))";

/// Returns the facts; none if there is no such table.
pub(super) async fn facts(client: &Client, wanted: &Wanted) -> Result<Option<Facts>, ClientError> {
    let Some((oid, mut facts)) = table(client, wanted).await? else {
        return Ok(None);
    };
    facts.oid = oid;
    facts.columns = columns(client, oid, wanted, &facts.types).await?;
    let numbers: Vec<i16> = facts.columns.iter().map(|column| column.number).collect();
    let asked = Asked {
        client,
        oid,
        numbers,
    };
    facts.indexes = asked.indexes().await?;
    facts.foreign_keys = asked.foreign_keys().await?;
    facts.objects = asked.objects().await?;
    facts.triggers = asked.triggers().await?;
    facts.publications = asked.publications().await?;
    facts.behind = asked.behind().await?;
    facts.unfinished = asked.unfinished().await?;
    Ok(Some(facts))
}

async fn table(client: &Client, wanted: &Wanted) -> Result<Option<(u32, Facts)>, ClientError> {
    let sql = "SELECT c.oid, n.nspname::pg_catalog.text, c.relname::pg_catalog.text, \
            c.relkind::pg_catalog.text, c.relpersistence::pg_catalog.text, \
            pg_catalog.pg_has_role(c.relowner, 'USAGE'), \
            c.relispartition OR EXISTS (SELECT FROM pg_catalog.pg_inherits \
                WHERE c.oid IN (inhrelid, inhparent)), \
            c.reloftype <> 0, c.reltuples::pg_catalog.int8, pg_catalog.pg_table_size(c.oid), \
            types.nspname::pg_catalog.text \
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
        LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'encdb' \
        LEFT JOIN pg_catalog.pg_namespace types ON types.oid = e.extnamespace \
        WHERE c.relname = $2 AND CASE WHEN $1::pg_catalog.text IS NULL \
            THEN c.oid = pg_catalog.to_regclass(pg_catalog.quote_ident($2)) \
            ELSE n.nspname = $1 END";
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&wanted.schema, Type::TEXT), (&wanted.table, Type::TEXT)];
    let Some(row) = client.query_typed_opt(sql, &values).await? else {
        return Ok(None);
    };
    let types: Option<String> = row.try_get(10)?;
    let facts = Facts {
        schema: row.try_get(1)?,
        table: row.try_get(2)?,
        kind: letter(&row, 3)?,
        persistence: letter(&row, 4)?,
        is_owned: row.try_get(5)?,
        is_related: row.try_get(6)?,
        is_typed: row.try_get(7)?,
        rows: row.try_get(8)?,
        bytes: u64::try_from(row.try_get::<_, i64>(9)?).unwrap_or_default(),
        types: types.ok_or(ClientError::NotInstalled)?,
        ..Facts::default()
    };
    Ok(Some((row.try_get(0)?, facts)))
}

fn letter(row: &Row, place: usize) -> Result<char, ClientError> {
    let text: &str = row.try_get(place)?;
    Ok(text.chars().next().unwrap_or_default())
}

async fn columns(
    client: &Client,
    oid: u32,
    wanted: &Wanted,
    types: &str,
) -> Result<Vec<ColumnFacts>, ClientError> {
    let sql = format!(
        "SELECT a.attname::pg_catalog.text, a.attnum, a.atttypid, \
            pg_catalog.format_type(a.atttypid, a.atttypmod), \
            pg_catalog.format_type(a.atttypid, NULL), \
            CASE WHEN tn.nspname = $3 AND t.typname = ANY($4) THEN t.typname::pg_catalog.text END, \
            CASE WHEN a.attcollation <> t.typcollation THEN pg_catalog.quote_ident(cn.nspname) \
                || '.' || pg_catalog.quote_ident(co.collname) END, \
            coalesce({IS_ICU}, false), \
            pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity <> '', a.attgenerated <> '' \
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace \
        LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation \
        LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace \
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
        WHERE a.attrelid = $1 AND a.attname = ANY($2) AND a.attnum > 0 AND NOT a.attisdropped \
        ORDER BY a.attnum"
    );
    let own: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&oid, Type::OID),
        (&wanted.columns, Type::TEXT_ARRAY),
        (&types, Type::TEXT),
        (&own, Type::TEXT_ARRAY),
    ];
    let rows = client.query_typed(&sql, &values).await?;
    let column = |row: &Row| {
        Ok(ColumnFacts {
            name: row.try_get(0)?,
            number: row.try_get(1)?,
            ty: row.try_get(2)?,
            type_name: row.try_get(3)?,
            bare_type: row.try_get(4)?,
            encrypted: row.try_get(5)?,
            collation: row.try_get(6)?,
            is_icu: row.try_get(7)?,
            default: row.try_get(8)?,
            is_identity: row.try_get(9)?,
            is_generated: row.try_get(10)?,
        })
    };
    rows.iter().map(column).collect()
}

/// A table and the numbers of its columns, of which the server is asked.
struct Asked<'c> {
    client: &'c Client,
    oid: u32,
    numbers: Vec<i16>,
}

impl Asked<'_> {
    async fn rows(&self, sql: &str) -> Result<Vec<Row>, ClientError> {
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.oid, Type::OID), (&self.numbers, Type::INT2_ARRAY)];
        Ok(self.client.query_typed(sql, &values).await?)
    }

    async fn indexes(&self) -> Result<Vec<IndexFacts>, ClientError> {
        let part = |of: &str| {
            format!(
                "pg_catalog.unnest({of}) WITH ORDINALITY k(id, place) \
                 WHERE i.indkey[k.place::pg_catalog.int4 - 1] = ANY($2)"
            )
        };
        let sql = format!(
            "SELECT c.relname::pg_catalog.text, am.amname::pg_catalog.text, \
                (SELECT o.opcname::pg_catalog.text FROM pg_catalog.pg_opclass o \
                    WHERE NOT o.opcdefault AND o.oid IN (SELECT k.id FROM {}) LIMIT 1), \
                EXISTS (SELECT FROM pg_catalog.pg_collation co \
                    WHERE {IS_ICU} AND co.oid IN (SELECT k.id FROM {})), \
                {expression}, {predicate}, i.indisexclusion \
            FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
            JOIN pg_catalog.pg_am am ON am.oid = c.relam \
            WHERE i.indrelid = $1 AND c.relname <> 'pgseal_protect_' || $1 || '_dirty' \
                AND (i.indkey::pg_catalog.int2[] && $2 OR {expression} OR {predicate}) \
            ORDER BY 1",
            part("i.indclass::pg_catalog.oid[]"),
            part("i.indcollation::pg_catalog.oid[]"),
            expression = reads("i.indexprs"),
            predicate = reads("i.indpred"),
        );
        let index = |row: &Row| {
            Ok(IndexFacts {
                name: row.try_get(0)?,
                method: row.try_get(1)?,
                class: row.try_get(2)?,
                is_icu: row.try_get(3)?,
                has_expression: row.try_get(4)?,
                has_predicate: row.try_get(5)?,
                is_exclusion: row.try_get(6)?,
            })
        };
        self.rows(&sql).await?.iter().map(index).collect()
    }

    async fn foreign_keys(&self) -> Result<Vec<ForeignKey>, ClientError> {
        let sql = "SELECT conname::pg_catalog.text, \
                conrelid::pg_catalog.regclass::pg_catalog.text, conrelid = confrelid, conkey, \
                confkey \
            FROM pg_catalog.pg_constraint \
            WHERE contype = 'f' AND (conrelid = $1 AND conkey && $2 \
                OR confrelid = $1 AND confkey && $2) ORDER BY 1";
        let key = |row: &Row| {
            Ok(ForeignKey {
                name: row.try_get(0)?,
                table: row.try_get(1)?,
                is_own: row.try_get(2)?,
                from: row.try_get(3)?,
                to: row.try_get(4)?,
            })
        };
        self.rows(sql).await?.iter().map(key).collect()
    }

    /// Constraints of other kinds than `CHECK`, and indexes, are looked at by themselves. A whole
    /// row depends on no column.
    async fn objects(&self) -> Result<Vec<Object>, ClientError> {
        let sql = format!(
            "SELECT DISTINCT class.relname::pg_catalog.text, CASE \
                    WHEN con.contype = 'c' AND NOT {reads_values} THEN 'null' \
                    ELSE coalesce(con.contype::pg_catalog.text, rel.relkind::pg_catalog.text, '') \
                END, \
                pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid), \
                a.attname::pg_catalog.text \
            FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class class ON class.oid = d.classid \
            JOIN pg_catalog.pg_attribute a ON a.attrelid = $1 AND a.attnum = d.refobjsubid \
            LEFT JOIN pg_catalog.pg_constraint con ON con.oid = d.objid \
                AND d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass \
            LEFT JOIN pg_catalog.pg_class rel ON rel.oid = d.objid \
                AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
            WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = $1 \
                AND d.refobjsubid = ANY($2) AND NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef f \
                    WHERE f.oid = d.objid AND f.adrelid = $1 AND f.adnum = d.refobjsubid \
                        AND d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass) \
            UNION SELECT 'pg_constraint', 'row', pg_catalog.pg_describe_object( \
                    'pg_catalog.pg_constraint'::pg_catalog.regclass, oid, 0), '' \
            FROM pg_catalog.pg_constraint \
            WHERE conrelid = $1 AND contype = 'c' AND 0 = ANY(conkey) \
            UNION SELECT 'pg_attribute', '', pg_catalog.pg_describe_object( \
                    'pg_catalog.pg_class'::pg_catalog.regclass, r.oid, a.attnum), '' \
            FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a \
                ON a.atttypid IN (t.oid, t.typarray) AND a.attnum > 0 AND NOT a.attisdropped \
            JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
                AND r.relkind IN ('r', 'p', 'm', 'f', 'c') \
            WHERE t.typrelid = $1 AND $2 <> '{{}}' ORDER BY 1, 3",
            reads_values = reads(&without_null_tests("con.conbin")),
        );
        let mut objects = Vec::new();
        for row in self.rows(&sql).await? {
            let Some(kind) = kind(row.try_get(0)?, row.try_get(1)?) else {
                continue;
            };
            let (name, column) = (row.try_get(2)?, row.try_get(3)?);
            objects.push(Object { kind, name, column });
        }
        Ok(objects)
    }

    /// The arguments of a trigger are part of what may name a column.
    async fn triggers(&self) -> Result<Vec<TriggerFacts>, ClientError> {
        let sql = "SELECT t.tgname::pg_catalog.text, p.prosrc || ' ' || pg_catalog.replace( \
                pg_catalog.encode(t.tgargs, 'escape'), '\\000', ' ') \
            FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
            WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND $2 IS NOT NULL \
                AND p.proname <> 'pgseal_protect_' || $1 ORDER BY 1";
        let trigger = |row: &Row| {
            let (name, body) = (row.try_get(0)?, row.try_get(1)?);
            Ok(TriggerFacts { name, body })
        };
        self.rows(sql).await?.iter().map(trigger).collect()
    }

    async fn behind(&self) -> Result<Vec<String>, ClientError> {
        let sql = "SELECT attname::pg_catalog.text FROM pg_catalog.pg_attribute \
            WHERE attrelid = $1 AND NOT attisdropped AND attnum <> ALL($2) AND attnum > \
                (SELECT pg_catalog.min(n) FROM pg_catalog.unnest($2) n) \
                AND NOT pg_catalog.starts_with(attname::pg_catalog.text, 'pgseal_protect_c') \
            ORDER BY attnum";
        let rows = self.rows(sql).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn unfinished(&self) -> Result<Option<Unfinished>, ClientError> {
        let sql = "SELECT pg_catalog.obj_description(p.oid, 'pg_proc') \
            FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
            WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND $2 IS NOT NULL \
                AND p.proname = 'pgseal_protect_' || $1";
        for row in self.rows(sql).await? {
            let comment: Option<&str> = row.try_get(0)?;
            if let Some(begun) = comment.and_then(Unfinished::from_comment) {
                return Ok(Some(begun));
            }
        }
        Ok(None)
    }

    async fn publications(&self) -> Result<Vec<String>, ClientError> {
        let sql = "SELECT DISTINCT p.pubname::pg_catalog.text \
            FROM pg_catalog.pg_publication_tables p \
            JOIN pg_catalog.pg_class c ON c.oid = $1 AND c.relname = p.tablename \
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = p.schemaname \
            WHERE $2 IS NOT NULL ORDER BY 1";
        let rows = self.rows(sql).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

/// Returns an expression that says whether a tree of the server's reads one of the columns, or the
/// whole row, whose number is 0: `varattno` says which column is read.
fn reads(tree: &str) -> String {
    format!(
        "EXISTS (SELECT FROM pg_catalog.unnest($2 || 0::pg_catalog.int2) n \
            WHERE {tree}::pg_catalog.text LIKE '%:varattno ' || n || ' %')"
    )
}

/// Returns an expression for a tree without the parts that ask only whether a column is NULL, which
/// cells answer as values do.
fn without_null_tests(tree: &str) -> String {
    format!(
        "pg_catalog.regexp_replace(pg_catalog.regexp_replace({tree}::pg_catalog.text, \
            {NULL_TEST}, '', 'g'), {NULL_COUNT}, '', 'g')"
    )
}

/// `IS NULL` and `IS NOT NULL`, in a tree.
const NULL_TEST: &str = "'[{]NULLTEST :arg [{]VAR [^{}]*[}][^{}]*[}]'";

/// `num_nulls` and `num_nonnulls`, in a tree.
const NULL_COUNT: &str = "'[{]FUNCEXPR :funcid (' \
    || 'pg_catalog.num_nulls(\"any\")'::pg_catalog.regprocedure::pg_catalog.oid || '|' \
    || 'pg_catalog.num_nonnulls(\"any\")'::pg_catalog.regprocedure::pg_catalog.oid \
    || ') [^{}]*:args [(]([{]VAR [^{}]*[}] ?)*[)][^{}]*[}]'";

/// Returns the kind of an object by its catalog, and there by its own kind; none if it stays, or
/// is looked at by itself.
fn kind(catalog: &str, kind: &str) -> Option<ObjectKind> {
    Some(match (catalog, kind) {
        ("pg_constraint", "c") => ObjectKind::Check,
        ("pg_constraint", "row") => ObjectKind::WholeRow,
        ("pg_constraint", _) | ("pg_class", "i") => return None,
        ("pg_class", "S") => ObjectKind::Sequence,
        ("pg_attrdef", _) => ObjectKind::Generated,
        ("pg_rewrite", _) => ObjectKind::Rule,
        ("pg_proc", _) => ObjectKind::Function,
        ("pg_policy", _) => ObjectKind::Policy,
        ("pg_trigger", _) => ObjectKind::Trigger,
        ("pg_publication_rel", _) => ObjectKind::Publication,
        ("pg_statistic_ext", _) => ObjectKind::Statistics,
        ("pg_attribute", _) => ObjectKind::RowType,
        _ => ObjectKind::Other,
    })
}

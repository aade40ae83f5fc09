//! Reads what the online form has to know of a table. The statements that a column, a constraint or
//! an index keeps are written by the server, which has the functions that quote names.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::protect::online::names;
use crate::protect::{Facts, KeptConstraint, KeptIndex, OnlineFacts, OnlineObstacle};
use crate::ClientError;

/// Returns the facts of a table whose other facts are known.
pub(super) async fn read(client: &Client, facts: &Facts) -> Result<OnlineFacts, ClientError> {
    let numbers: Vec<i16> = facts.columns.iter().map(|column| column.number).collect();
    let asked = Asked {
        client,
        facts,
        numbers,
    };
    Ok(OnlineFacts {
        columns: asked.columns().await?,
        constraints: asked.constraints().await?,
        indexes: asked.indexes().await?,
        obstacles: asked.obstacles().await?,
        by_order: asked.by_order().await?,
        has_triggers: asked.has_triggers().await?,
        is_unproved: asked.is_unproved().await?,
        made: asked.made().await?,
    })
}

/// A table, with the numbers of its columns, of which the server is asked.
struct Asked<'c> {
    client: &'c Client,
    facts: &'c Facts,
    numbers: Vec<i16>,
}

impl Asked<'_> {
    async fn rows(&self, sql: &str) -> Result<Vec<Row>, ClientError> {
        let values: [(&(dyn ToSql + Sync), Type); 2] = [
            (&self.facts.oid, Type::OID),
            (&self.numbers, Type::INT2_ARRAY),
        ];
        Ok(self.client.query_typed(sql, &values).await?)
    }

    /// Of the options of a column only those are kept that users set.
    async fn columns(&self) -> Result<Vec<String>, ClientError> {
        let sql = "SELECT ARRAY(SELECT pg_catalog.format( \
                    'GRANT %s (%I) ON TABLE %s TO %s%s', \
                    acl.privilege_type, a.attname, own.name, CASE acl.grantee WHEN 0 THEN 'PUBLIC' \
                    ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(acl.grantee)) END, \
                    CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) \
                FROM pg_catalog.aclexplode(a.attacl) acl) \
            || CASE WHEN a.attstattarget >= 0 THEN ARRAY[pg_catalog.format( \
                'ALTER TABLE ONLY %s ALTER COLUMN %I SET STATISTICS %s', own.name, a.attname, \
                a.attstattarget)] ELSE '{}' END \
            || ARRAY(SELECT pg_catalog.format( \
                    'ALTER TABLE ONLY %s ALTER COLUMN %I SET (%s)', own.name, a.attname, option) \
                FROM pg_catalog.unnest(a.attoptions) option \
                WHERE pg_catalog.starts_with(option, 'n_distinct')) \
            || coalesce(pg_catalog.format('COMMENT ON COLUMN %s.%I IS ', own.name, a.attname) \
                || pg_catalog.quote_literal(pg_catalog.col_description($1, a.attnum)), \
                '')::pg_catalog.text \
        FROM pg_catalog.pg_attribute a, (SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) \
            AS name FROM pg_catalog.pg_class c \
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1) own \
        WHERE a.attrelid = $1 AND a.attnum = ANY($2) ORDER BY a.attnum";
        let rows = self.rows(sql).await?;
        let all: Result<Vec<_>, _> = rows.iter().map(|row| statements(row, 0)).collect();
        Ok(all?.concat())
    }

    /// From PostgreSQL 18 on `NOT NULL` is a constraint with a name, which stays.
    async fn constraints(&self) -> Result<Vec<KeptConstraint>, ClientError> {
        let constraint = |row: &Row| {
            Ok(KeptConstraint {
                name: row.try_get(0)?,
                add: row.try_get(1)?,
                after: [vec![row.try_get(2)?], statements(row, 3)?].concat(),
            })
        };
        let rows = self.rows(&constraints_sql()).await?;
        rows.iter().map(constraint).collect()
    }

    async fn indexes(&self) -> Result<Vec<KeptIndex>, ClientError> {
        let sql = format!(
            "SELECT i.indexrelid, i.indisunique, {IS_EARLY}, {early}, \
                CASE WHEN {IS_EARLY} THEN '' ELSE {last} END, {AFTER} \
            FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
            JOIN pg_catalog.pg_am am ON am.oid = c.relam \
            LEFT JOIN pg_catalog.pg_tablespace ts ON ts.oid = c.reltablespace \
            LEFT JOIN pg_catalog.pg_constraint con ON con.conindid = i.indexrelid \
                AND con.conrelid = $1 AND con.contype IN ('p', 'u'), \
            (SELECT n.nspname, pg_catalog.format('%I.%I', n.nspname, t.relname) AS name \
                FROM pg_catalog.pg_class t \
                JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace WHERE t.oid = $1) own \
            WHERE i.indrelid = $1 AND i.indkey::pg_catalog.int2[] && $2 ORDER BY 1",
            early = create(true),
            last = create(false),
        );
        let index = |row: &Row| {
            Ok(KeptIndex {
                oid: row.try_get(0)?,
                is_unique: row.try_get(1)?,
                is_early: row.try_get(2)?,
                create: row.try_get(3)?,
                after: [vec![row.try_get(4)?], statements(row, 5)?].concat(),
            })
        };
        self.rows(&sql).await?.iter().map(index).collect()
    }

    async fn made(&self) -> Result<Vec<(String, bool)>, ClientError> {
        let sql = format!(
            "SELECT c.relname::pg_catalog.text, i.indisvalid AND i.indisready \
            FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
            WHERE i.indrelid = $1 AND $2 IS NOT NULL \
                AND pg_catalog.starts_with(c.relname::pg_catalog.text, '{}') ORDER BY 1",
            names::KEPT
        );
        let rows = self.rows(&sql).await?;
        let made = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        rows.iter().map(made).collect()
    }

    async fn is_unproved(&self) -> Result<bool, ClientError> {
        let sql = format!(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = $1 \
                AND $2 IS NOT NULL AND contype = 'c' AND pg_catalog.starts_with( \
                    conname::pg_catalog.text, '{}'))",
            names::KEPT
        );
        Ok(self.rows(&sql).await?[0].try_get(0)?)
    }

    async fn has_triggers(&self) -> Result<bool, ClientError> {
        let sql = format!("SELECT EXISTS (SELECT {UPDATE_TRIGGERS} AND t.tgenabled <> 'D')");
        Ok(self.rows(&sql).await?[0].try_get(0)?)
    }

    /// A list of columns is between the table's name and what follows it, in parentheses.
    async fn by_order(&self) -> Result<Vec<String>, ClientError> {
        let sql = "SELECT pg_catalog.pg_describe_object( \
                'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, 0) \
            FROM pg_catalog.pg_proc p, pg_catalog.pg_class c WHERE c.oid = $1 AND $2 <> '{}' \
                AND p.prosrc ~* ('(insert\\s+into|copy)\\s+([^\\s();]+\\.)?\"?' \
                    || pg_catalog.regexp_replace(c.relname, '(\\W)', '\\\\\\1', 'g') \
                    || '\"?\\s+(as\\s+\\w+\\s+)?(values|select|table|with|overriding|from|to)\\M') \
            ORDER BY 1";
        let rows = self.rows(sql).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn obstacles(&self) -> Result<Vec<OnlineObstacle>, ClientError> {
        let mut found = Vec::new();
        for row in self.rows(&obstacles_sql()).await? {
            let (kind, name) = (row.try_get(0)?, row.try_get(1)?);
            found.extend(obstacle(kind, name, row.try_get(2)?));
        }
        let new = self.rows(TAKEN).await?;
        if self.facts.unfinished.is_none() && !new.is_empty() {
            let names = new.iter().map(|row| row.try_get(0));
            let names: Result<Vec<String>, _> = names.collect();
            found.extend(names?.into_iter().map(OnlineObstacle::Taken));
        }
        Ok(found)
    }
}

/// Each row is a constraint's name until it is proved, the statement that adds it, the one that
/// proves it, and those that make it what it was.
fn constraints_sql() -> String {
    format!(
        "WITH own AS (SELECT pg_catalog.format('%I.%I', n.nspname, t.relname) AS name \
            FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace \
            WHERE t.oid = $1), \
        kept AS (SELECT '{REQUIRED}' || a.attnum AS name, a.attname, con.*, \
                pg_catalog.format('CHECK (%I IS NOT NULL)', a.attname) AS holds \
            FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_constraint con \
                ON con.conrelid = $1 AND con.contype = 'n' AND con.conkey[1] = a.attnum \
            WHERE a.attrelid = $1 AND a.attnum = ANY($2) AND a.attnotnull \
            UNION ALL SELECT '{CHECK}' || con.oid, NULL, con.*, \
                pg_catalog.pg_get_constraintdef(con.oid) \
            FROM pg_catalog.pg_constraint con WHERE con.conrelid = $1 AND con.contype = 'c' \
                AND con.conkey && $2 AND NOT pg_catalog.starts_with( \
                    con.conname::pg_catalog.text, '{KEPT}')) \
        SELECT kept.name, pg_catalog.format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s%s', \
                own.name, kept.name, holds, CASE WHEN convalidated IS DISTINCT FROM false \
                    THEN ' NOT VALID' ELSE '' END), \
            CASE WHEN convalidated IS DISTINCT FROM false THEN pg_catalog.format( \
                'ALTER TABLE ONLY %s VALIDATE CONSTRAINT %I', own.name, kept.name) ELSE '' END, \
            ARRAY[CASE WHEN attname IS NULL THEN pg_catalog.format( \
                    'ALTER TABLE ONLY %s RENAME CONSTRAINT %I TO %I', own.name, kept.name, \
                    conname) \
                WHEN conname IS NULL THEN pg_catalog.format( \
                    'ALTER TABLE ONLY %s ALTER COLUMN %I SET NOT NULL', own.name, attname) \
                ELSE pg_catalog.format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s', own.name, \
                    conname, pg_catalog.pg_get_constraintdef(oid)) END, \
                CASE WHEN attname IS NOT NULL THEN pg_catalog.format( \
                    'ALTER TABLE ONLY %s DROP CONSTRAINT %I', own.name, kept.name) END, \
                'COMMENT ON CONSTRAINT ' || pg_catalog.quote_ident(conname) || ' ON ' || own.name \
                    || ' IS ' || pg_catalog.quote_nullable( \
                        pg_catalog.obj_description(kept.oid, 'pg_constraint'))] \
        FROM kept, own ORDER BY 1",
        REQUIRED = names::REQUIRED,
        CHECK = names::CHECK,
        KEPT = names::KEPT,
    )
}

/// Columns whose names the new columns would have.
const TAKEN: &str = "SELECT attname::pg_catalog.text FROM pg_catalog.pg_attribute \
    WHERE attrelid = $1 AND NOT attisdropped AND attname IN (SELECT 'pgseal_protect_c' || n \
        FROM pg_catalog.unnest($2) n)";

/// The table's triggers that an update of the new columns fires.
const UPDATE_TRIGGERS: &str = "t.tgname::pg_catalog.text FROM pg_catalog.pg_trigger t \
    WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND t.tgname <> '~pgseal_protect' \
        AND t.tgtype & 16 <> 0 AND pg_catalog.cardinality(t.tgattr::pg_catalog.int2[]) = 0 \
        AND $2 IS NOT NULL";

/// How the body of a trigger's function compares a row before a change with the one after it.
const COMPARES_ROWS: &str = "'\\m(old|new)(\\.\\*)?\\s*(is\\s+(not\\s+)?distinct|=|<>|!=)'";

/// Each row is the kind of an obstacle, and one or two names.
fn obstacles_sql() -> String {
    format!(
        "SELECT 'fires', {name}, '' {update} AND t.tgenabled = 'O' \
            AND NOT pg_catalog.has_parameter_privilege('session_replication_role', 'SET') \
        UNION SELECT 'always', {name}, '' {update} AND t.tgenabled IN ('A', 'R') \
        UNION SELECT 'disabled', '', '' FROM pg_catalog.pg_trigger \
            WHERE tgrelid = $1 AND tgname = '~pgseal_protect' AND tgenabled <> 'A' \
        UNION SELECT 'later', pg_catalog.quote_ident(tgname), '' FROM pg_catalog.pg_trigger \
            WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3 \
                AND tgtype & 20 <> 0 AND tgname > '~pgseal_protect' \
        UNION SELECT 'rows', {name}, '' FROM pg_catalog.pg_trigger t \
            JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
            WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND t.tgenabled <> 'D' \
                AND (t.tgqual::pg_catalog.text LIKE '%:varattno 0 %' \
                    OR p.prosrc ~* {COMPARES_ROWS}) \
        UNION SELECT 'rule', pg_catalog.quote_ident(rulename), '' FROM pg_catalog.pg_rewrite \
            WHERE ev_class = $1 \
        UNION SELECT 'nulls', pg_catalog.quote_ident(c.relname), '' FROM pg_catalog.pg_index i \
            JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1 \
                AND i.indnullsnotdistinct AND i.indkey::pg_catalog.int2[] && $2 \
        UNION SELECT 'unproved', pg_catalog.quote_ident(conname), '' \
            FROM pg_catalog.pg_constraint \
            WHERE conrelid = $1 AND contype IN ('c', 'n') AND NOT convalidated \
                AND pg_catalog.pg_get_constraintdef(oid) NOT LIKE '% NOT ENFORCED' \
                AND NOT pg_catalog.starts_with(conname::pg_catalog.text, '{kept}') \
        UNION SELECT 'referred', pg_catalog.quote_ident(k.conname), \
                pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_constraint k \
            JOIN pg_catalog.pg_index i ON i.indexrelid = k.conindid \
            JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
            WHERE k.contype = 'f' AND i.indrelid = $1 AND i.indkey::pg_catalog.int2[] && $2 \
                AND NOT k.confkey && $2 \
        UNION SELECT 'grantor', pg_catalog.quote_ident(a.attname), '' \
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid, \
                pg_catalog.aclexplode(a.attacl) acl \
            WHERE c.oid = $1 AND a.attnum = ANY($2) AND acl.grantor <> c.relowner \
        UNION SELECT 'label', pg_catalog.quote_ident(a.attname), '' \
            FROM pg_catalog.pg_seclabel l JOIN pg_catalog.pg_attribute a \
                ON a.attrelid = l.objoid AND a.attnum = l.objsubid \
            WHERE l.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND l.objoid = $1 \
                AND l.objsubid = ANY($2) \
        UNION SELECT 'schema', pg_catalog.quote_ident(n.nspname), '' FROM pg_catalog.pg_class c \
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            WHERE c.oid = $1 AND NOT pg_catalog.has_schema_privilege(n.oid, 'CREATE') \
        ORDER BY 1, 2",
        kept = names::KEPT,
        name = "pg_catalog.quote_ident(t.tgname)",
        update = &UPDATE_TRIGGERS["t.tgname::pg_catalog.text ".len()..],
    )
}

fn obstacle(kind: &str, name: String, other: String) -> Option<OnlineObstacle> {
    Some(match kind {
        "fires" => OnlineObstacle::Fires(name),
        "always" => OnlineObstacle::FiresAlways(name),
        "disabled" => OnlineObstacle::Disabled,
        "later" => OnlineObstacle::Later(name),
        "rows" => OnlineObstacle::Rows(name),
        "rule" => OnlineObstacle::Rule(name),
        "unproved" => OnlineObstacle::Unproved(name),
        "nulls" => OnlineObstacle::EqualNulls(name),
        "referred" => OnlineObstacle::Referred {
            key: name,
            index: other,
        },
        "grantor" => OnlineObstacle::Grantor(name),
        "label" => OnlineObstacle::Label(name),
        "schema" => OnlineObstacle::Schema(name),
        _ => return None,
    })
}

/// Whether an index compares nothing that applications insert: no key is one of the columns, or a
/// hash index, which has no NULLs and compares nothing when it grows.
const IS_EARLY: &str = "(am.amname = 'hash' OR NOT (SELECT pg_catalog.bool_or( \
    i.indkey[k - 1] = ANY($2)) FROM pg_catalog.generate_series(1, i.indnkeyatts) k))";

/// Returns an expression for the statement that builds an index, before or after the exchange. Each
/// part is as the plain index has it. `indoption` has a bit for `DESC` and one for `NULLS FIRST`,
/// which B-trees know only.
fn create(is_before: bool) -> String {
    let column = match is_before {
        true => "'pgseal_protect_c' || i.indkey[k - 1]",
        false => "pg_catalog.pg_get_indexdef(i.indexrelid, k, false)",
    };
    let (name, condition) = match is_before {
        true => (
            format!("CASE WHEN {IS_EARLY} THEN 'pgseal_protect_f' ELSE 'pgseal_protect_i' END"),
            format!(
                "CASE WHEN NOT {IS_EARLY} THEN (SELECT pg_catalog.string_agg( \
                    'pgseal_protect_c' || i.indkey[k - 1] || ' IS NOT NULL', ' AND ') \
                    FROM pg_catalog.generate_series(1, i.indnkeyatts) k \
                    WHERE i.indkey[k - 1] = ANY($2)) END"
            ),
        ),
        false => ("'pgseal_protect_f'".to_owned(), "NULL".to_owned()),
    };
    format!(
        "pg_catalog.format('CREATE %sINDEX CONCURRENTLY %I ON %s USING %I (%s)', \
            CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, {name} || i.indexrelid, own.name, \
            am.amname, (SELECT pg_catalog.string_agg(CASE WHEN i.indkey[k - 1] = ANY($2) \
                    THEN {column} WHEN i.indkey[k - 1] = 0 THEN '(' || {plain} || ')' \
                    ELSE {plain} END {OPTIONS}, ', ' ORDER BY k) \
                FROM pg_catalog.generate_series(1, i.indnkeyatts) k)) \
        || coalesce((SELECT ' INCLUDE (' || pg_catalog.string_agg(CASE \
                WHEN i.indkey[k - 1] = ANY($2) THEN {column} ELSE {plain} END, ', ' ORDER BY k) \
                || ')' FROM pg_catalog.generate_series(i.indnkeyatts + 1, i.indnatts) k), '') \
        || coalesce(' WITH (' || pg_catalog.array_to_string(c.reloptions, ', ') || ')', '') \
        || coalesce(' TABLESPACE ' || pg_catalog.quote_ident(ts.spcname), '') \
        || coalesce(' WHERE ' || nullif(pg_catalog.concat_ws(' AND ', {condition}, \
            pg_catalog.pg_get_expr(i.indpred, i.indrelid)), ''), '')",
        plain = "pg_catalog.pg_get_indexdef(i.indexrelid, k, false)",
    )
}

/// The options after a key in an index.
const OPTIONS: &str =
    "|| coalesce((SELECT pg_catalog.format(' COLLATE %I.%I', n.nspname, co.collname) \
        FROM pg_catalog.pg_collation co \
        JOIN pg_catalog.pg_namespace n ON n.oid = co.collnamespace \
        WHERE co.oid = i.indcollation[k - 1]), '') \
    || coalesce((SELECT pg_catalog.format(' %I.%I', n.nspname, o.opcname) \
        FROM pg_catalog.pg_opclass o \
        JOIN pg_catalog.pg_namespace n ON n.oid = o.opcnamespace \
        WHERE o.oid = i.indclass[k - 1] AND i.indkey[k - 1] <> ALL($2)), '') \
    || CASE WHEN am.amname <> 'btree' THEN '' \
        WHEN i.indoption[k - 1] & 1 = 1 THEN ' DESC' ELSE ' ASC' END \
    || CASE WHEN am.amname <> 'btree' THEN '' \
        WHEN i.indoption[k - 1] & 2 = 2 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END";

/// The statements after the exchange: name or constraint, comments, and what the table says of
/// the index.
const AFTER: &str = "ARRAY[CASE WHEN con.oid IS NULL THEN pg_catalog.format( \
        'ALTER INDEX %I.%I RENAME TO %I', own.nspname, 'pgseal_protect_f' || i.indexrelid, \
        c.relname) \
    ELSE pg_catalog.format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s USING INDEX %I%s', own.name, \
        con.conname, CASE con.contype WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END, \
        'pgseal_protect_f' || i.indexrelid, CASE WHEN con.condeferred \
            THEN ' DEFERRABLE INITIALLY DEFERRED' WHEN con.condeferrable THEN ' DEFERRABLE' \
            ELSE '' END) END, \
    pg_catalog.format('COMMENT ON INDEX %I.%I IS ', own.nspname, c.relname) \
        || pg_catalog.quote_literal(pg_catalog.obj_description(i.indexrelid, 'pg_class')), \
    'COMMENT ON CONSTRAINT ' || pg_catalog.quote_ident(con.conname) || ' ON ' || own.name \
        || ' IS ' || pg_catalog.quote_literal( \
            pg_catalog.obj_description(con.oid, 'pg_constraint')), \
    CASE WHEN i.indisclustered THEN pg_catalog.format( \
        'ALTER TABLE ONLY %s CLUSTER ON %I', own.name, c.relname) END, \
    CASE WHEN i.indisreplident THEN pg_catalog.format( \
        'ALTER TABLE ONLY %s REPLICA IDENTITY USING INDEX %I', own.name, c.relname) END]";

/// Reads an array of statements, in which NULL and nothing stand for none.
fn statements(row: &Row, place: usize) -> Result<Vec<String>, ClientError> {
    let all: Vec<Option<String>> = row.try_get(place)?;
    let all = all.into_iter().flatten();
    Ok(all.filter(|statement| !statement.is_empty()).collect())
}

//! TPC-H's queries, from our own text of them.

const TEXT: &str = include_str!("queries.sql");
const BEGIN: &str = "\n-- Q";

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// From 1.
    pub(super) number: u32,
    /// As its report names it: `Q1: price summary`.
    pub(super) name: String,
    /// Its SQL, with the semicolon.
    pub(super) sql: String,
}

/// Returns all queries. The scale is in one of them.
pub(super) fn all(scale: f64) -> Vec<Query> {
    let fraction = format!("{:.10}", 0.0001 / scale);
    let sections = TEXT.split(BEGIN).skip(1);
    sections
        .filter_map(|section| {
            let (head, sql) = section.split_once('\n')?;
            let (number, _) = head.split_once(':')?;
            Some(Query {
                number: number.parse().ok()?,
                name: format!("Q{head}"),
                sql: sql.trim().replace("{fraction}", &fraction),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_whole_queries() {
        let all = all(0.02);
        let numbers: Vec<_> = all.iter().map(|query| query.number).collect();
        assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
        for query in &all {
            assert_eq!(query.sql.matches(';').count(), 1, "{}", query.name);
            assert!(query.sql.ends_with(';') && !query.sql.contains('{'));
        }
        assert!(all[10].sql.contains("* 0.0050000000"), "{}", all[10].sql);
    }
}

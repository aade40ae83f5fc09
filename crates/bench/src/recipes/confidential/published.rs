//! Figures that were published for the load on encrypted columns: PostgreSQL 13, 32 tables of
//! 1,000,000 rows, a client of 64 cores and a server of 32 cores with an enclave.

use super::Kind;
use crate::model::{transaction_us, Origin, Published};

/// The numbers of threads of the published columns.
const THREADS: [u32; 4] = [8, 16, 24, 32];

/// Thousand transactions per second, by threads.
type Row = [f64; 4];

/// A published row: plain, encrypted, and with the vendor's index extension.
struct Rows {
    plain: Row,
    encrypted: Row,
    indexed: Option<Row>,
}

const POINT: Row = [46.99, 91.07, 132.78, 173.58];
const RANGE: Row = [14.81, 28.88, 41.62, 54.27];
const WRITE: Row = [6.62, 11.36, 15.05, 19.13];

const fn rows(plain: Row, encrypted: Row) -> Rows {
    Rows {
        plain,
        encrypted,
        indexed: None,
    }
}

fn of(scenario: u32, kind: Kind) -> Rows {
    match (scenario, kind) {
        (1, Kind::Point) => rows(POINT, [39.94, 79.86, 117.64, 154.28]),
        (1, Kind::Range) => rows(RANGE, [12.09, 23.22, 33.12, 42.48]),
        (1, Kind::Write) => rows(WRITE, [6.37, 10.91, 14.68, 17.74]),
        (3, Kind::Point) => Rows {
            plain: [47.27, 90.41, 132.66, 172.96],
            encrypted: [18.49, 35.85, 49.97, 63.32],
            indexed: Some([27.86, 54.4, 78.21, 99.38]),
        },
        (3, _) => Rows {
            plain: [14.97, 28.89, 42.38, 54.8],
            encrypted: [2.83, 5.53, 7.15, 8.75],
            indexed: Some([7.8, 15.2, 20.09, 24.86]),
        },
        (_, Kind::Point) => rows(POINT, [18.31, 35.66, 49.85, 63.34]),
        (_, Kind::Range) => rows(RANGE, [2.83, 5.52, 7.12, 8.71]),
        (_, Kind::Write) => rows(WRITE, [2.67, 4.62, 5.92, 7.04]),
    }
}

/// Returns the published figures at the nearest number of threads.
pub(super) fn nearest(scenario: u32, kind: Kind, threads: u32) -> Vec<Published> {
    let column = (0..THREADS.len()).min_by_key(|at| THREADS[*at].abs_diff(threads));
    let (rows, column) = (of(scenario, kind), column.unwrap_or(0));
    let threads = THREADS[column];
    let published = |variant: &str, row: &Row| {
        let (stock, own) = (rows.plain[column] * 1e3, row[column] * 1e3);
        let wait = |tps| transaction_us(threads.into(), tps);
        Published {
            origin: Origin::Published,
            source: "always-confidential, PostgreSQL 13".to_owned(),
            variant: format!("{variant}, {threads} threads"),
            stock: Some(stock),
            encrypted: Some(own),
            loss: 1.0 - own / stock,
            added_us: Some(wait(own) - wait(stock)),
        }
    };
    let mut all = vec![published("encrypted", &rows.encrypted)];
    all.extend(
        rows.indexed
            .iter()
            .map(|row| published("with encdb_btree", row)),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_microseconds_follow_from_the_published_rates() {
        let added = |scenario, kind| {
            let all = nearest(scenario, kind, 1);
            let each = all
                .iter()
                .map(|one| one.added_us.expect("threads are known").round());
            each.collect::<Vec<_>>()
        };
        assert_eq!(added(1, Kind::Point), [30.0]);
        assert_eq!(added(1, Kind::Range), [122.0]);
        assert_eq!(added(1, Kind::Write), [47.0]);
        assert_eq!(added(2, Kind::Point), [267.0]);
        assert_eq!(added(2, Kind::Range), [2287.0]);
        assert_eq!(added(2, Kind::Write), [1788.0]);
        assert_eq!(added(3, Kind::Point)[1], 118.0);
        assert_eq!(added(3, Kind::Range)[1], 491.0);
    }

    #[test]
    fn the_nearest_threads_are_named() {
        let of = |threads| nearest(1, Kind::Point, threads)[0].variant.clone();
        assert_eq!(of(1), "encrypted, 8 threads");
        assert_eq!(of(21), "encrypted, 24 threads");
        assert_eq!(of(99), "encrypted, 32 threads");
    }
}

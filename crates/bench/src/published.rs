//! Figures that others published, to stand beside ours: whole tables, as data.
//!
//! pgbench on PostgreSQL 13.1 with a TDE patch, 16 cores, 64 GB, shared_buffers 16GB; one row of
//! its scale-500 read-only table is misprinted at its source and left out. The table of TDE by
//! checksums is of PostgreSQL 17.6, scale 50, shared_buffers 1MB, 3 clients.

use crate::model::{transaction_us, Origin, Published};

/// Transactions per second at so many connections: stock packages, and the TDE build with
/// encryption off and on, by gcc 4.8 ("4") and by gcc 9.3 with -march ("9").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// pgbench's clients.
    pub connections: u32,
    /// Stock, TDE-4 off, TDE-4-e on, TDE-9 off, TDE-9-e on.
    pub tps: [f64; 5],
}

/// One published table: a scale, and its rows.
pub type Table = (u32, &'static [Row]);

const fn row(connections: u32, tps: [f64; 5]) -> Row {
    Row { connections, tps }
}

/// `pgbench -S`.
pub const READ_ONLY: [Table; 3] = [
    (
        50,
        &[
            row(12, [598005.0, 652871.0, 640868.0, 651162.0, 668317.0]),
            row(16, [717081.0, 806152.0, 795300.0, 794495.0, 821915.0]),
            row(20, [735584.0, 813589.0, 801139.0, 807197.0, 829892.0]),
            row(24, [757834.0, 818350.0, 809894.0, 817333.0, 832810.0]),
            row(28, [865626.0, 911021.0, 896977.0, 909858.0, 916804.0]),
            row(32, [1095158.0, 1212919.0, 1175538.0, 1182331.0, 1233931.0]),
            row(36, [885520.0, 958733.0, 931092.0, 967514.0, 986631.0]),
            row(40, [847389.0, 943701.0, 915369.0, 919076.0, 964899.0]),
            row(44, [830018.0, 914697.0, 901861.0, 913789.0, 954813.0]),
            row(48, [818142.0, 916199.0, 894018.0, 901936.0, 964656.0]),
        ],
    ),
    (
        500,
        &[
            row(16, [723460.0, 772852.0, 750083.0, 761129.0, 782628.0]),
            row(20, [750054.0, 782334.0, 770650.0, 778394.0, 795200.0]),
            row(24, [755796.0, 792365.0, 773745.0, 787904.0, 802165.0]),
            row(28, [842270.0, 890584.0, 872163.0, 886265.0, 895722.0]),
            row(32, [1087754.0, 1166293.0, 1124810.0, 1133027.0, 1170395.0]),
            row(36, [881376.0, 926521.0, 901508.0, 914466.0, 948293.0]),
            row(40, [860762.0, 911309.0, 875479.0, 911961.0, 912369.0]),
            row(44, [857354.0, 895126.0, 863349.0, 878028.0, 916855.0]),
            row(48, [853063.0, 881193.0, 858567.0, 882463.0, 910616.0]),
        ],
    ),
    (
        5000,
        &[
            row(12, [78859.0, 75226.0, 74969.0, 80914.0, 82064.0]),
            row(16, [104880.0, 99975.0, 99922.0, 106415.0, 107763.0]),
            row(20, [126329.0, 120898.0, 119139.0, 124200.0, 125980.0]),
            row(24, [143740.0, 139041.0, 134917.0, 136938.0, 140408.0]),
            row(28, [156814.0, 152443.0, 147755.0, 148286.0, 152065.0]),
            row(32, [170999.0, 162930.0, 156528.0, 157811.0, 164181.0]),
            row(36, [180937.0, 171578.0, 165513.0, 167661.0, 172849.0]),
            row(40, [189501.0, 180439.0, 173085.0, 174143.0, 179936.0]),
            row(44, [196615.0, 187608.0, 178765.0, 179045.0, 185213.0]),
            row(48, [201491.0, 192716.0, 183125.0, 183379.0, 190149.0]),
        ],
    ),
];

/// `pgbench` as it is, reindexed before each run.
pub const TPC_B: [Table; 3] = [
    (
        50,
        &[
            row(12, [3580.0, 3521.0, 2015.0, 2014.0, 2024.0]),
            row(16, [4538.0, 4494.0, 2548.0, 2566.0, 2547.0]),
            row(20, [5311.0, 5374.0, 3003.0, 5091.0, 2996.0]),
            row(24, [6192.0, 6209.0, 3432.0, 4998.0, 3421.0]),
            row(28, [6905.0, 6767.0, 3785.0, 4923.0, 3804.0]),
            row(32, [7626.0, 7473.0, 4135.0, 4725.0, 4139.0]),
            row(36, [8041.0, 7839.0, 4457.0, 5474.0, 4463.0]),
            row(40, [8390.0, 8409.0, 4698.0, 7043.0, 4714.0]),
            row(44, [8971.0, 8854.0, 4984.0, 4983.0, 4966.0]),
            row(48, [9246.0, 9085.0, 5192.0, 7752.0, 5170.0]),
        ],
    ),
    (
        500,
        &[
            row(12, [4089.0, 4099.0, 2201.0, 3107.0, 3080.0]),
            row(16, [5418.0, 5373.0, 2818.0, 3401.0, 3279.0]),
            row(20, [6717.0, 6688.0, 3438.0, 3712.0, 3673.0]),
            row(24, [7793.0, 7903.0, 4021.0, 4484.0, 4576.0]),
            row(28, [9061.0, 7850.0, 4631.0, 4926.0, 5151.0]),
            row(32, [10400.0, 10429.0, 5235.0, 5515.0, 5818.0]),
            row(36, [11632.0, 11737.0, 5812.0, 6056.0, 6382.0]),
            row(40, [12999.0, 12986.0, 6349.0, 6911.0, 6526.0]),
            row(44, [14202.0, 14302.0, 6914.0, 7360.0, 7472.0]),
            row(48, [14908.0, 15260.0, 7489.0, 8097.0, 7650.0]),
        ],
    ),
    (
        5000,
        &[
            row(12, [4233.0, 4351.0, 2176.0, 2184.0, 2167.0]),
            row(16, [5466.0, 5259.0, 2908.0, 2961.0, 2909.0]),
            row(20, [4791.0, 6855.0, 3385.0, 3415.0, 3381.0]),
            row(24, [4677.0, 5968.0, 3984.0, 3993.0, 3995.0]),
            row(28, [4569.0, 4545.0, 4515.0, 4548.0, 4537.0]),
            row(32, [5152.0, 5086.0, 5058.0, 5088.0, 5030.0]),
            row(36, [5659.0, 5718.0, 5507.0, 5617.0, 5511.0]),
            row(40, [6139.0, 6167.0, 5952.0, 5948.0, 6007.0]),
            row(44, [6438.0, 6569.0, 6453.0, 6356.0, 6433.0]),
            row(48, [6969.0, 7012.0, 6808.0, 6846.0, 6792.0]),
        ],
    ),
];

/// Key length (0: no TDE), tps without and with data checksums.
pub const CHECKSUMS: [(u16, [f64; 2]); 4] = [
    (0, [2455.6, 2449.7]),
    (128, [2440.9, 2443.3]),
    (192, [2439.6, 2446.1]),
    (256, [2450.3, 2443.1]),
];

/// Returns the published figures for a pgbench case: the table's nearest scale, and its nearest
/// row.
pub fn nearest(tables: &[Table], scale: u32, connections: u32) -> Vec<Published> {
    let far = |a: u32, b: u32| (f64::from(a) / f64::from(b)).ln().abs();
    let closer = |a: f64, b: f64| a.total_cmp(&b);
    let Some((scale, rows)) = tables
        .iter()
        .min_by(|a, b| closer(far(a.0, scale), far(b.0, scale)))
    else {
        return Vec::new();
    };
    let row = rows.iter().min_by(|a, b| {
        closer(
            far(a.connections, connections),
            far(b.connections, connections),
        )
    });
    row.map_or_else(Vec::new, |row| of_row(*scale, row))
}

fn of_row(scale: u32, row: &Row) -> Vec<Published> {
    let [stock, _, on_4, _, on_9] = row.tps;
    let place = format!("scale {scale}, {} connections", row.connections);
    let published = |build: &str, on: f64| Published {
        origin: Origin::Published,
        source: "TDE patch, PostgreSQL 13.1".to_owned(),
        variant: format!("{build} on, {place}"),
        stock: Some(stock),
        encrypted: Some(on),
        loss: 1.0 - on / stock,
        added_us: added(row.connections, stock, on),
    };
    vec![published("TDE-9", on_9), published("TDE-4", on_4)]
}

/// The microseconds that each of so many clients waits longer.
fn added(clients: u32, stock: f64, own: f64) -> Option<f64> {
    let of = |tps| transaction_us(clients.into(), tps);
    Some(of(own) - of(stock))
}

/// Returns the published figures for a column of the table of checksums: each key length against
/// no TDE.
pub fn checksums(on: bool) -> Vec<Published> {
    let (_, stock) = CHECKSUMS[0];
    let column = usize::from(on);
    let published = |(bits, tps): &(u16, [f64; 2])| Published {
        origin: Origin::Published,
        source: "TDE in PostgreSQL 17.6".to_owned(),
        variant: format!("{bits} bits"),
        stock: Some(stock[column]),
        encrypted: Some(tps[column]),
        loss: 1.0 - tps[column] / stock[column],
        added_us: None,
    };
    CHECKSUMS[1..].iter().map(published).collect()
}

/// open_pg_tde, in memory at scale 30: a loss without the figures that it came from.
pub fn open_pg_tde(loss: f64) -> Published {
    Published {
        origin: Origin::Published,
        source: "open_pg_tde".to_owned(),
        variant: "scale 30, in memory".to_owned(),
        stock: None,
        encrypted: None,
        loss,
        added_us: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        let counts = |tables: [Table; 3]| tables.map(|(scale, rows)| (scale, rows.len()));
        assert_eq!(counts(READ_ONLY), [(50, 10), (500, 9), (5000, 10)]);
        assert_eq!(counts(TPC_B), [(50, 10), (500, 10), (5000, 10)]);
    }

    #[test]
    fn the_nearest_row_says_which_it_is() {
        let exact = nearest(&TPC_B, 5000, 20);
        assert_eq!(exact[0].variant, "TDE-9 on, scale 5000, 20 connections");
        assert_eq!(
            (exact[0].stock, exact[0].encrypted),
            (Some(4791.0), Some(3381.0))
        );
        assert!((exact[0].loss - 0.294).abs() < 0.001);
        let small = nearest(&READ_ONLY, 10, 2);
        assert_eq!(small[1].variant, "TDE-4 on, scale 50, 12 connections");
        assert_eq!(nearest(&[], 1, 1), []);
    }

    #[test]
    fn checksums_are_compared_within_their_column() {
        let on = checksums(true);
        assert_eq!(on.len(), 3);
        assert_eq!(on[2].variant, "256 bits");
        assert!((on[2].loss - 0.00269).abs() < 1e-5, "{}", on[2].loss);
    }
}

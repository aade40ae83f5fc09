//! `pgseal bench tpcb`: pgbench as it is, by scale and connections, after a REINDEX each time.

use clap::Args;

use crate::options::RunOptions;
use crate::published::{nearest, open_pg_tde, TPC_B};
use crate::recipes::pgbench::{Cells, Load, Pgbench, Script};

/// Options of `tpcb`.
#[derive(Debug, Args)]
pub struct TpcB {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(flatten)]
    cells: Cells,
}

impl TpcB {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> Pgbench {
        let load = Load {
            name: "tpcb",
            script: Script::TpcB,
            limit: 0.01,
            published: |scale, connections| {
                let mut published = nearest(&TPC_B, scale, connections);
                published.push(open_pg_tde(0.0));
                published
            },
        };
        self.cells.recipe(load, self.run.quick)
    }
}

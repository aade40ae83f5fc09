//! `pgseal bench readonly`: pgbench -S by scale and connections.

use clap::Args;

use crate::options::RunOptions;
use crate::published::{nearest, open_pg_tde, READ_ONLY};
use crate::recipes::pgbench::{Cells, Load, Pgbench, Script};

/// Options of `readonly`.
#[derive(Debug, Args)]
pub struct Readonly {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(flatten)]
    cells: Cells,
}

impl Readonly {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> Pgbench {
        let load = Load {
            name: "readonly",
            script: Script::Select,
            limit: 0.01,
            published: |scale, connections| {
                let mut published = nearest(&READ_ONLY, scale, connections);
                published.push(open_pg_tde(0.17));
                published
            },
        };
        self.cells.recipe(load, self.run.quick)
    }
}

//! One benchmark on a machine at a time: an abstract unix socket, which needs no file and ends with
//! the process, however that ends. Tests, which measure nothing and run beside each other, name
//! sockets of their own in `PGSEAL_BENCH_LOCK`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::error::BenchError;

const NAME_OF_TESTS: &str = "PGSEAL_BENCH_LOCK";

/// Held as long as it measures.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] UnixListener);

/// Takes the machine, or hears that another has it.
pub fn take() -> Result<Lock, BenchError> {
    let name = std::env::var(NAME_OF_TESTS);
    take_named(name.as_deref().unwrap_or("pgseal-bench"))
}

fn take_named(name: &str) -> Result<Lock, BenchError> {
    SocketAddr::from_abstract_name(name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map(Lock)
        .map_err(|_| BenchError::Busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_has_ended() {
        let name = format!("pgseal-bench-test-{}", std::process::id());
        let first = take_named(&name).expect("nobody has it");
        assert!(matches!(take_named(&name), Err(BenchError::Busy)));
        drop(first);
        take_named(&name).expect("it is free again");
    }
}

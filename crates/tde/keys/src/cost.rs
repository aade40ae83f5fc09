//! The cost of a passphrase: memory for about one second of Argon2id on this machine, never below
//! the floor, and never more than an eighth of what this process may use.

use std::fs;
use std::time::Instant;

use pgseal_crypto::passphrase::{derive, Argon2Params, SALT};

const TARGET_MILLIS: u64 = 1000;

/// Returns the cost for a new passphrase slot.
pub fn calibrated() -> Argon2Params {
    let floor = Argon2Params::FLOOR;
    let start = Instant::now();
    if derive(b"calibration", &[0; SALT], floor).is_err() {
        return floor;
    }
    let millis = u64::try_from(start.elapsed().as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    let by_time = u64::from(floor.memory_kib()).saturating_mul(TARGET_MILLIS) / millis;
    let memory = within(by_time, available_kib());
    Argon2Params::for_writing(memory, floor.passes(), floor.lanes()).unwrap_or(floor)
}

fn within(by_time: u64, available_kib: u64) -> u32 {
    let floor = Argon2Params::FLOOR.memory_kib();
    let ceiling = Argon2Params::CEILING.memory_kib();
    let wanted = u32::try_from(by_time.min(available_kib / 8)).unwrap_or(u32::MAX);
    wanted.clamp(floor, ceiling)
}

/// Returns the memory in KiB of the machine or of the control group, whichever is less.
fn available_kib() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total_kib(&text));
    let group = fs::read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| {
            let path = text
                .lines()
                .find_map(|line| line.strip_prefix("0::"))?
                .to_owned();
            let limit = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.max")).ok()?;
            Some(limit.trim().parse::<u64>().ok()? / 1024)
        });
    machine.unwrap_or(0).min(group.unwrap_or(u64::MAX))
}

fn total_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_floor_and_an_eighth_of_memory() {
        let mib = 1024;
        assert_eq!(within(10 * mib, 100_000 * mib), 64 * 1024);
        assert_eq!(within(200 * mib, 100_000 * mib), 200 * 1024);
        assert_eq!(within(200 * mib, 1024 * mib), 128 * 1024);
        assert_eq!(within(200 * mib, 0), 64 * 1024);
        assert_eq!(within(u64::MAX, u64::MAX), 4096 * 1024);
    }

    #[test]
    fn meminfo() {
        assert_eq!(
            total_kib("MemTotal:       16342480 kB\nMemFree: 1 kB\n"),
            Some(16_342_480)
        );
        assert_eq!(total_kib("MemFree: 1 kB\n"), None);
    }
}

//! The cost of a passphrase: memory for about one second of Argon2id on this machine, never below
//! the floor, and never more than an eighth of what this process may use. A FIPS build takes
//! PBKDF2, with iterations for about one second.

use std::fs;
use std::time::Instant;

use pgseal_crypto::fips_module;
use pgseal_crypto::passphrase::{derive, Argon2Params, SALT};
use pgseal_crypto::pbkdf2::{self, Pbkdf2Params};
use pgseal_format::Cost;

const TARGET_MILLIS: u64 = 1000;

/// The least memory in KiB of a new passphrase slot.
pub const LEAST_KIB: u32 = Argon2Params::FLOOR.memory_kib();

/// The most memory in KiB of a passphrase slot.
pub const MOST_KIB: u32 = Argon2Params::CEILING.memory_kib();

/// Returns the least cost, for a secret that is a key already.
pub fn least() -> Cost {
    match fips_module() {
        Some(_) => Cost::Pbkdf2(Pbkdf2Params::FLOOR),
        None => Cost::Argon2id(Argon2Params::FLOOR),
    }
}

/// Returns the cost for a new passphrase slot. `memory_kib` is for Argon2id; without it, a slot
/// costs what this machine can spare.
pub fn asked(memory_kib: Option<u32>) -> Cost {
    match fips_module() {
        Some(_) => Cost::Pbkdf2(iterations()),
        None => Cost::Argon2id(memory(memory_kib)),
    }
}

/// Returns the iterations of PBKDF2 that take about a second here.
fn iterations() -> Pbkdf2Params {
    let (floor, start) = (Pbkdf2Params::FLOOR, Instant::now());
    if pbkdf2::derive(&[0; pbkdf2::LEAST_SECRET], &[0; SALT], floor).is_err() {
        return floor;
    }
    let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let by_time = by_time(floor.iterations(), millis);
    Pbkdf2Params::for_writing(u32::try_from(by_time).unwrap_or(u32::MAX))
}

fn memory(memory_kib: Option<u32>) -> Argon2Params {
    let floor = Argon2Params::FLOOR;
    match memory_kib {
        None => calibrated(),
        Some(memory) => {
            let memory = memory.clamp(LEAST_KIB, MOST_KIB);
            Argon2Params::for_writing(memory, floor.passes(), floor.lanes()).unwrap_or(floor)
        }
    }
}

/// Reads an amount of memory in KiB: a number and KiB, MiB or GiB, as PostgreSQL's kB, MB and GB
/// are meant.
pub fn memory_kib(text: &str) -> Result<u32, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "kB" | "KiB" => Some(1),
        "MB" | "MiB" => Some(1024),
        "GB" | "GiB" => Some(1024 * 1024),
        _ => None,
    };
    let kib = factor.and_then(|factor| number.parse::<u32>().ok()?.checked_mul(factor));
    kib.filter(|kib| (LEAST_KIB..=MOST_KIB).contains(kib))
        .ok_or_else(|| "give a number with MiB or GiB, from 64MiB to 4GiB".to_owned())
}

/// Returns the cost that takes about a second here.
fn calibrated() -> Argon2Params {
    let floor = Argon2Params::FLOOR;
    let start = Instant::now();
    if derive(b"calibration", &[0; SALT], floor).is_err() {
        return floor;
    }
    let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let memory = within(by_time(LEAST_KIB, millis), available_kib());
    Argon2Params::for_writing(memory, floor.passes(), floor.lanes()).unwrap_or(floor)
}

/// Returns the memory or the iterations for a second, if the floor's take so many milliseconds.
fn by_time(floor: u32, millis: u64) -> u64 {
    u64::from(floor).saturating_mul(TARGET_MILLIS) / millis.max(1)
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
            limit_kib(&limit)
        });
    machine.unwrap_or(0).min(group.unwrap_or(u64::MAX))
}

/// Reads the limit of a control group, in bytes or `max`.
fn limit_kib(memory_max: &str) -> Option<u64> {
    Some(memory_max.trim().parse::<u64>().ok()? / 1024)
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

    /// The machine that runs this has a gigabyte at least, and less than an exabyte.
    #[test]
    fn the_memory_of_this_machine_is_known() {
        assert!(
            (1 << 20..1 << 50).contains(&available_kib()),
            "{}",
            available_kib()
        );
    }

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
    fn a_faster_machine_does_more_in_a_second() {
        assert_eq!(by_time(LEAST_KIB, 1000), 64 * 1024);
        assert_eq!(by_time(LEAST_KIB, 250), 256 * 1024);
        assert_eq!(by_time(LEAST_KIB, 4000), 16 * 1024);
        assert_eq!(
            by_time(LEAST_KIB, 0),
            64 * 1024 * 1000,
            "too fast for the clock"
        );
        assert_eq!(by_time(600_000, 400), 1_500_000, "of PBKDF2");
    }

    #[test]
    fn limits_of_a_control_group() {
        assert_eq!(limit_kib("1073741824\n"), Some(1024 * 1024));
        assert_eq!(limit_kib("max\n"), None);
    }

    #[test]
    fn memory_that_an_option_asks_for() {
        for (text, kib) in [
            ("64MiB", Some(64 * 1024)),
            ("64 MB", Some(64 * 1024)),
            ("1GiB", Some(1024 * 1024)),
            ("4GB", Some(4096 * 1024)),
            ("65536kB", Some(64 * 1024)),
            ("63MiB", None),
            ("5GiB", None),
            ("64", None),
            ("MiB", None),
            ("-64MiB", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(memory_kib(text).ok(), kib, "{text}");
        }
        assert_eq!(memory(Some(128 * 1024)).memory_kib(), 128 * 1024);
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

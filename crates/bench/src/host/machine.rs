//! The machine's description, read from /proc.

use std::path::Path;
use std::{fs, thread};

use crate::model::Machine;

/// Describes the machine; `data` is where clusters are made.
pub fn describe(data: &Path) -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or(std::env::consts::ARCH, |(_, name)| name);
    Machine {
        cpu: cpu.trim().to_owned(),
        cores: thread::available_parallelism().map_or(1, usize::from),
        memory: memory("MemTotal:"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        file_system: file_system(&read("/proc/self/mounts"), data),
        load: load(&read("/proc/loadavg")),
    }
}

/// Bytes of a line of /proc/meminfo; 0 if it has none.
pub fn memory(name: &str) -> u64 {
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The type of the mount that holds `path`: the last of the longest.
fn file_system(mounts: &str, path: &Path) -> String {
    let fields = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    fields
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn load(text: &str) -> [f64; 3] {
    let mut numbers = text.split(' ').map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /srv tmpfs rw 0 0\n/dev/b /srv/pg xfs rw 0 0\n";
        let of = |path| file_system(mounts, Path::new(path));
        assert_eq!(of("/srv/pg/data"), "xfs");
        assert_eq!(of("/srv/pgx"), "tmpfs");
        assert_eq!(of("/home"), "ext4");
        assert_eq!(file_system("", Path::new("/")), "unknown");
    }

    #[test]
    fn this_machine_is_described() {
        let machine = describe(Path::new("/"));
        assert!(machine.memory > 1 << 20 && machine.cores > 0, "{machine:?}");
        assert!(
            !machine.cpu.is_empty() && !machine.kernel.is_empty(),
            "{machine:?}"
        );
        assert_eq!(load("0.5 0.25 1.0 2/3 4\n"), [0.5, 0.25, 1.0]);
    }
}

//! Reads from /proc what a server's processes have cost so far, while they live.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::{fs, str};

use nix::unistd::{sysconf, SysconfVar};

use crate::host::process::Cpu;

/// The fields of /proc/PID/stat, counted after the program's name.
const PARENT: usize = 1;
const UTIME: usize = 11;
const STIME: usize = 12;
const CUTIME: usize = 13;
const CSTIME: usize = 14;

/// The postmaster, its living children, and those that it has waited for.
pub fn of_server(postmaster: u32) -> io::Result<Cpu> {
    let ticks = ticks_per_second();
    let mut sum = Cpu::default();
    for pid in descendants(postmaster)? {
        // A process that has just ended is in its parent's account.
        if let Ok(cpu) = of_process(pid) {
            sum = sum.plus(cpu);
        }
    }
    let fields = stat(postmaster)?;
    Ok(sum.plus(Cpu {
        user_s: number(&fields, CUTIME) / ticks,
        system_s: number(&fields, CSTIME) / ticks,
    }))
}

/// A process and every living one below it.
pub fn descendants(root: u32) -> io::Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let parent = stat(pid).map(|fields| fields.get(PARENT).and_then(|p| p.parse().ok()));
        if let Ok(Some(parent)) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    Ok(found)
}

/// The scheduler's nanoseconds of all threads that live, in the parts that stat has in ticks.
fn of_process(pid: u32) -> io::Result<Cpu> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
    // A thread may end meanwhile.
    let total: f64 = threads.flatten().filter_map(|task| ran(&task.path())).sum();
    let fields = stat(pid)?;
    let (user, system) = (number(&fields, UTIME), number(&fields, STIME));
    let share = if user + system > 0.0 {
        user / (user + system)
    } else {
        0.5
    };
    Ok(Cpu {
        user_s: total * share,
        system_s: total * (1.0 - share),
    })
}

/// Seconds that a thread ran.
fn ran(task: &Path) -> Option<f64> {
    let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
    let ran: f64 = schedstat.split(' ').next()?.parse().ok()?;
    Some(ran / 1e9)
}

/// The fields after the program's name, which may hold anything.
fn stat(pid: u32) -> io::Result<Vec<String>> {
    let text = fs::read(Path::new("/proc").join(pid.to_string()).join("stat"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

fn number(fields: &[String], place: usize) -> f64 {
    let field = fields.get(place).and_then(|field| field.parse().ok());
    field.unwrap_or(0.0)
}

fn ticks_per_second() -> f64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks.map_or(100.0, |ticks| ticks as f64)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn threads_count_as_long_as_they_live() {
        let (done, worked) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let worker = thread::spawn(move || {
            // Its own time, and not the clock's: other work may have the processors.
            let mine = || ran(Path::new("/proc/thread-self"));
            while mine().is_some_and(|worked| worked <= 0.1) {
                std::hint::spin_loop();
            }
            let _ = done.send(mine());
            let _ = ended.recv();
        });
        let worked = worked.recv().expect("it works").expect("it ran");
        // The main thread of a test's program does next to nothing.
        let spent = of_process(std::process::id()).expect("/proc is mounted");
        drop(end);
        worker.join().expect("it ends");
        assert!(worked > 0.1 && spent.user_s + spent.system_s >= worked);
    }

    #[test]
    fn a_shell_its_child_and_what_it_waited_for_count() {
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let script = format!("(sh -c '{spin}'); sleep 60 & echo ready; wait");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let mut line = [0; 6];
        let mut out = shell.stdout.take().expect("it is a pipe");
        io::Read::read_exact(&mut out, &mut line).expect("it says ready");
        let cpu = of_server(shell.id()).expect("/proc is mounted");
        let below = descendants(shell.id()).expect("/proc is mounted");
        for pid in below.iter().rev() {
            let pid = i32::try_from(*pid).expect("a process id fits pid_t");
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        shell.wait().expect("it was ours");
        assert_eq!(below.len(), 2);
        let total = cpu.user_s + cpu.system_s;
        assert!(total > 0.01 && total < 60.0, "{cpu:?}");
    }
}

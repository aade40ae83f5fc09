//! The user who runs this process: the number whose rights it has, and the name of the user who
//! logged in, which `sudo` leaves as it was.

use std::fs;

use nix::unistd::getuid;
use pgseal_format::plain_text;

/// The number that the kernel gives the login of a process that nobody logged in for.
const NOBODY_LOGGED_IN: u32 = u32::MAX;

/// A user, for records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    /// the login name; the number's name in /etc/passwd if nobody logged in, as for services
    pub login: String,
}

impl Who {
    /// Returns the user who runs this process.
    pub fn now() -> Self {
        let uid = getuid().as_raw();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let login = fs::read_to_string("/proc/self/loginuid").unwrap_or_default();
        Self {
            uid,
            login: login_name(uid, &login, &passwd),
        }
    }
}

/// Returns the name of the login's number, else that of `uid`, else the number itself. The static
/// wrapper asks no name service, which would have to be loaded.
fn login_name(uid: u32, login: &str, passwd: &str) -> String {
    let login = login.trim().parse().ok();
    let number = login
        .filter(|login| *login != NOBODY_LOGGED_IN)
        .unwrap_or(uid);
    let named = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    });
    named.map_or_else(|| number.to_string(), plain_text)
}

#[cfg(test)]
mod tests {
    use super::login_name;

    #[test]
    fn a_login_stands_before_the_user_that_sudo_made() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbad\n";
        for (uid, login, expected) in [
            (0, "1000", "ann"),
            (0, "4294967295", "root"),
            (0, "", "root"),
            (1000, "4294967295\n", "ann"),
            (77, "4294967295", "77"),
        ] {
            assert_eq!(login_name(uid, login, passwd), expected, "{uid} {login}");
        }
    }
}

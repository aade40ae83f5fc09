//! The command that opens a slot: the order of sources, and the policy on stored commands.
//!
//! A command stored in a data directory is code that runs for the user who wrote the directory.
//! That is accepted for one's own directory (as `archive_command` is), not for a restored or
//! foreign one: under `policy = "external"` a stored command never runs.

/// The place where a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option.
    CommandLine,
    /// PGDATAKEYUNWRAPCMD.
    Environment,
    /// A root-owned file of this machine.
    Machine,
    /// The key file.
    KeyFile,
}

impl Origin {
    /// Returns the name that is shown to the operator.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "command line",
            Self::Environment => "environment",
            Self::Machine => "/etc/pgseal",
            Self::KeyFile => "key.bin",
        }
    }
}

/// The thing that opens a slot, where a command line may name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A command that unwraps the key.
    #[default]
    UnwrapCommand,
    /// A command that prints a key-encryption key.
    KeyCommand,
    /// The URI of a key provider.
    Provider,
}

impl Kind {
    /// Returns why the stored one does not count, and the option that names one.
    fn refusal(self) -> (&'static str, &'static str) {
        match self {
            Self::UnwrapCommand => (
                "runs no command from a data directory",
                "key-unwrap-command",
            ),
            Self::KeyCommand => (
                "runs no command from a data directory",
                "encryption-key-command",
            ),
            Self::Provider => (
                "asks no provider that only a data directory names",
                "key-provider",
            ),
        }
    }
}

/// Why there is no command to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Only a stored command is there.
    #[error("the policy of this machine {}: read it with `pgseal key check --show`, and if you trust it give it with --{}", .0.refusal().0, .0.refusal().1)]
    External(Kind),
    /// No command is there.
    #[error(
        "no unwrap command is known: give one with --key-unwrap-command or PGDATAKEYUNWRAPCMD"
    )]
    None,
}

/// The commands that may override a stored one, in the order of their rank.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The thing that all of them name.
    pub kind: Kind,
    /// The command of an option.
    pub command_line: Option<String>,
    /// The command of `PGDATAKEYUNWRAPCMD`.
    pub environment: Option<String>,
    /// The command of a root-owned file of this machine.
    pub machine: Option<String>,
    /// Whether a stored command must not run.
    pub external: bool,
}

impl Sources {
    /// Returns the command that opens a slot whose own command is `stored`.
    pub fn choose<'a>(&'a self, stored: Option<&'a str>) -> Result<(&'a str, Origin), SourceError> {
        let ranked = [
            (&self.command_line, Origin::CommandLine),
            (&self.environment, Origin::Environment),
            (&self.machine, Origin::Machine),
        ];
        let given = ranked
            .into_iter()
            .find_map(|(command, origin)| Some((command.as_deref()?, origin)));
        match (given, stored) {
            (Some(found), _) => Ok(found),
            (None, Some(_)) if self.external => Err(SourceError::External(self.kind)),
            (None, Some(stored)) => Ok((stored, Origin::KeyFile)),
            (None, None) => Err(SourceError::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_option() {
        for (kind, reason, option) in [
            (
                Kind::UnwrapCommand,
                "runs no command",
                "--key-unwrap-command",
            ),
            (
                Kind::KeyCommand,
                "runs no command",
                "--encryption-key-command",
            ),
            (Kind::Provider, "asks no provider", "--key-provider"),
        ] {
            let text = SourceError::External(kind).to_string();
            assert!(text.contains(reason) && text.ends_with(option), "{text}");
        }
    }

    #[test]
    fn the_order_of_sources() {
        let some = |text: &str| Some(text.to_owned());
        let mut sources = Sources {
            kind: Kind::UnwrapCommand,
            command_line: some("line"),
            environment: some("environment"),
            machine: some("machine"),
            external: true,
        };
        assert_eq!(
            sources.choose(Some("stored")),
            Ok(("line", Origin::CommandLine))
        );
        sources.command_line = None;
        assert_eq!(
            sources.choose(None),
            Ok(("environment", Origin::Environment))
        );
        sources.environment = None;
        assert_eq!(
            sources.choose(Some("stored")),
            Ok(("machine", Origin::Machine))
        );
        sources.machine = None;
        assert_eq!(
            sources.choose(Some("stored")),
            Err(SourceError::External(Kind::UnwrapCommand))
        );
        assert_eq!(sources.choose(None), Err(SourceError::None));
        sources.external = false;
        assert_eq!(
            sources.choose(Some("stored")),
            Ok(("stored", Origin::KeyFile))
        );
    }
}

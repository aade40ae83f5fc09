//! The variants: what is between sysbench and the columns.

use clap::ValueEnum;

use crate::host::contender::Contender;
use crate::model::STOCK;

/// A variant, from the client to the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stack {
    /// Plain columns.
    #[value(skip)]
    Stock,
    /// Plain columns through the proxy.
    Proxy,
    /// Encrypted columns through the proxy; backends compute on cells.
    Inline,
    /// Encrypted columns through the proxy; a process of its own computes on cells.
    Isolated,
    /// Like `inline`, with the engine inside sysbench in place of the proxy.
    InlineInProcess,
    /// Like `isolated`, with the engine inside sysbench in place of the proxy.
    IsolatedInProcess,
    /// Like `inline`, with `encdb.page_requests` off.
    InlineNoPages,
    /// Like `isolated`, with `encdb.page_requests` off.
    IsolatedNoPages,
}

impl Stack {
    /// All that stand beside stock.
    pub const ALL: [Self; 7] = [
        Self::Proxy,
        Self::Inline,
        Self::Isolated,
        Self::InlineInProcess,
        Self::IsolatedInProcess,
        Self::InlineNoPages,
        Self::IsolatedNoPages,
    ];
    /// Those that a short run compares.
    pub const QUICK: [Self; 4] = [
        Self::Proxy,
        Self::Inline,
        Self::Isolated,
        Self::IsolatedInProcess,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Stock => STOCK,
            Self::Proxy => "proxy",
            Self::Inline => "inline",
            Self::Isolated => "isolated",
            Self::InlineInProcess => "inline-in-process",
            Self::IsolatedInProcess => "isolated-in-process",
            Self::InlineNoPages => "inline-no-pages",
            Self::IsolatedNoPages => "isolated-no-pages",
        }
    }

    /// Returns the contender that stores its data as `stored` does.
    pub fn contender(self, stored: &Contender) -> Contender {
        let mut contender = stored.clone();
        let name = match stored.variant.bits {
            Some(_) => format!("{}-{}", stored.name(), self.name()),
            None => self.name().to_owned(),
        };
        contender.variant.name = name;
        contender
    }

    /// Returns the variant of a contender that [`Stack::contender`] made; stock otherwise.
    pub fn of(contender: &Contender) -> Self {
        let name = contender.name();
        let own = match contender.variant.bits {
            Some(bits) => name
                .strip_prefix(&format!("sealed-{bits}-"))
                .unwrap_or(name),
            None => name,
        };
        let found = Self::ALL.into_iter().find(|stack| stack.name() == own);
        found.unwrap_or(Self::Stock)
    }

    /// Are its columns encrypted?
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Stock | Self::Proxy)
    }

    /// Does sysbench connect to a proxy?
    pub fn is_proxied(self) -> bool {
        self != Self::Stock && !self.is_in_process()
    }

    /// Has sysbench the engine inside?
    pub fn is_in_process(self) -> bool {
        matches!(self, Self::InlineInProcess | Self::IsolatedInProcess)
    }

    /// Does a process of its own compute on cells?
    pub fn is_isolated(self) -> bool {
        let isolated = [
            Self::Isolated,
            Self::IsolatedInProcess,
            Self::IsolatedNoPages,
        ];
        isolated.contains(&self)
    }

    /// Does an index ask for whole pages?
    pub fn has_page_requests(self) -> bool {
        !matches!(self, Self::InlineNoPages | Self::IsolatedNoPages)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::host::contender::Kind;
    use crate::model::Variant;

    fn stored(name: &str, bits: Option<u16>) -> Contender {
        Contender {
            variant: Variant {
                name: name.to_owned(),
                bits,
                postgres: String::new(),
            },
            kind: Kind::Stock,
            bindir: PathBuf::new(),
            initdb: Vec::new(),
        }
    }

    #[test]
    fn a_contender_knows_its_variant() {
        let (plain, sealed) = (stored(STOCK, None), stored("sealed-256", Some(256)));
        assert_eq!(Stack::of(&plain), Stack::Stock);
        for stack in Stack::ALL {
            assert_eq!(Stack::of(&stack.contender(&plain)), stack);
            assert_eq!(Stack::of(&stack.contender(&sealed)), stack);
        }
        let name = Stack::Isolated.contender(&sealed).variant.name;
        assert_eq!(name, "sealed-256-isolated");
    }

    #[test]
    fn names_on_the_command_line_are_those_of_the_report() {
        for stack in Stack::ALL {
            let value = stack.to_possible_value().expect("it can be asked for");
            assert_eq!(value.get_name(), stack.name());
        }
    }
}

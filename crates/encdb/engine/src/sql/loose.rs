//! Literals and parameters that stay plain, and why they may.
//!
//! In a statement that seals something, a value may be sent in clear if it meets a column that is
//! certainly plain, or is where no value of a column comes from. All others are loose: an
//! application that builds `'ada' = '' OR name = 'ada'` gives its secret twice. Such a comparison
//! is refused, and any other loose value must not be one that is sealed.

use pg_query::protobuf::{a_const, AConst, Boolean, Node, NullTest, NullTestType};
use pg_query::NodeEnum;

use super::literal::Cast;
use super::parts::{is_open, leaves};
use super::scope::Scope;
use super::{Parameter, Rewriter};
use crate::catalog::Cells;
use crate::literals::{Literals, Plain};
use crate::refusal::Refusal;
use crate::times::SessionTimes;

/// The place of a literal or a parameter that stays plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// It meets nothing that is known.
    #[default]
    Loose,
    /// It meets nothing, and is the only result of a query, a result of CASE or a whole condition:
    /// there, 0, 1 and truth values are no values of columns.
    Mark,
    /// It meets something that is certainly plain.
    Anchored,
}

/// The loose values of a statement, and the sealed ones that they must differ from.
#[derive(Debug, Default)]
pub(super) struct Loose {
    /// The place of what is gone through now
    place: Place,
    /// The loose literals, and those that are sealed
    pub(super) literals: Literals,
    /// Whether a parameter is sealed
    seals_parameter: bool,
    /// Whether literals or parameters are compared with each other
    compares: bool,
    /// The parameters that are cast where it is asked whether they are null
    cast: Vec<i32>,
}

impl Loose {
    fn seals(&self) -> bool {
        self.seals_parameter || self.literals.seals()
    }

    /// Notes that a parameter is sealed.
    pub(super) fn seal_parameter(&mut self) {
        self.seals_parameter = true;
    }

    /// Returns the parameters whose casts must be left out: they are sealed, or only asked for
    /// null.
    pub(super) fn cast_in_vain(&self, parameters: &[Parameter]) -> Vec<i32> {
        let is_it = |number: &&i32| {
            let at = usize::try_from(**number)
                .unwrap_or_default()
                .wrapping_sub(1);
            let parameter = parameters.get(at);
            matches!(
                parameter,
                Some(Parameter::Cells(..) | Parameter::OnlyNull(_))
            )
        };
        self.cast.iter().filter(is_it).copied().collect()
    }

    /// Decides on the loose values of a whole text.
    pub(super) fn decide(&self, times: SessionTimes<'_>) -> Result<(), Refusal> {
        match self.seals() && (self.compares || self.literals.are_twice(times)) {
            true => Err(Refusal::Loose),
            false => Ok(()),
        }
    }

    /// Decides on parameters: where nothing is sealed, all that meet nothing are plain.
    pub(super) fn settle(&self, parameters: &mut [Parameter]) {
        for parameter in parameters.iter_mut().filter(|_| !self.seals()) {
            if parameter.is_loose() || matches!(parameter, Parameter::OnlyNull(_)) {
                *parameter = Parameter::Plain;
            }
        }
    }
}

impl Parameter {
    /// Whether it meets nothing that is known.
    pub(crate) fn is_loose(&self) -> bool {
        matches!(self, Self::Loose | Self::Mark)
    }

    /// Returns the cells that it is for.
    pub(super) fn cells(&self) -> Option<&Cells> {
        match self {
            Self::Cells(cells, _) => Some(cells),
            _ => None,
        }
    }

    /// Returns the use that two uses of one parameter are together, if they agree.
    pub(super) fn and(&self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Unused, other) => Some(other),
            (Self::OnlyNull(None), other @ Self::OnlyNull(_)) => Some(other),
            (known @ Self::OnlyNull(_), Self::OnlyNull(_)) => Some(known.clone()),
            (Self::OnlyNull(_), other) => Some(other),
            (known, Self::OnlyNull(_)) => Some(known.clone()),
            (known, Self::Plain) if known.is_loose() => Some(Self::Plain),
            (Self::Plain, other) if other.is_loose() => Some(Self::Plain),
            (known, other) if known.is_loose() && other.is_loose() && *known != other => {
                Some(Self::Loose)
            }
            (Self::Cells(known, first), Self::Cells(other, second)) if *known == other => {
                first.and(second).map(|both| Self::Cells(other, both))
            }
            (known, other) => (*known == other).then_some(other),
        }
    }
}

impl Rewriter<'_> {
    /// Goes through something that meets a certainly plain value, or none of a column.
    pub(super) fn anchored<T>(&mut self, go: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Place::Anchored, go)
    }

    /// Goes through something that meets nothing that is known.
    pub(super) fn loosely<T>(&mut self, go: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Place::Loose, go)
    }

    /// Goes through something that meets nothing, and may be a mark.
    pub(super) fn as_mark<T>(&mut self, go: impl FnOnce(&mut Self) -> T) -> T {
        match self.loose.place {
            Place::Anchored => go(self),
            _ => self.within(Place::Mark, go),
        }
    }

    /// Goes through the parts of something that is no literal and no parameter, and so no mark.
    pub(super) fn in_parts<T>(&mut self, go: impl FnOnce(&mut Self) -> T) -> T {
        match self.loose.place {
            Place::Mark => self.within(Place::Loose, go),
            _ => go(self),
        }
    }

    fn within<T>(&mut self, place: Place, go: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.loose.place, place);
        let result = go(self);
        self.loose.place = before;
        result
    }

    /// Notes a comparison of values of which none is that of a column or of the server. Numbers are
    /// no secret if none is sealed.
    pub(super) fn compare_alone(&mut self, nodes: &[&mut Node]) {
        let all: Option<Vec<_>> = nodes.iter().map(|node| leaves(node)).collect();
        let mut all = all.into_iter().flatten().flatten();
        self.loose.compares |= all.any(|leaf| !is_number(leaf));
    }

    /// Returns the cells that literals and parameters are compared as, one of which is a parameter
    /// that is sealed elsewhere.
    pub(super) fn cells_elsewhere(&self, nodes: &[&mut Node]) -> Option<Cells> {
        if self.sealed_elsewhere.is_empty() || !nodes.iter().all(|node| is_open(node)) {
            return None;
        }
        let mut leaves = nodes.iter().filter_map(|node| leaves(node)).flatten();
        let cells = leaves.find_map(|leaf| match &leaf.node {
            Some(NodeEnum::ParamRef(parameter)) => self.sealed_elsewhere.get(&parameter.number),
            _ => None,
        });
        cells.filter(|cells| !cells.is_array).cloned()
    }

    /// Notes a literal that stays.
    pub(super) fn plain_literal(&mut self, literal: &AConst) {
        self.open += usize::from(!literal.isnull);
        let (plain, is_mark) = match &literal.val {
            Some(a_const::Val::Sval(text)) => (Plain::Text(text.sval.clone()), false),
            Some(a_const::Val::Bsval(bits)) => (Plain::Text(bits.bsval.clone()), false),
            Some(a_const::Val::Ival(number)) => {
                let is_mark = matches!(number.ival, 0 | 1);
                (Plain::Number(number.ival.to_string()), is_mark)
            }
            Some(a_const::Val::Fval(number)) => (Plain::Number(number.fval.clone()), false),
            Some(a_const::Val::Boolval(truth)) => (Plain::Truth(truth.boolval), true),
            None => return,
        };
        let stays = match self.loose.place {
            Place::Loose => true,
            Place::Mark => !is_mark,
            Place::Anchored => false,
        };
        if stays && !literal.isnull {
            self.loose.literals.add_loose(plain);
        }
    }

    /// Notes a parameter that stays.
    pub(super) fn plain_parameter(&mut self, number: i32) -> Result<(), Refusal> {
        self.open += 1;
        let used = match self.loose.place {
            Place::Loose => Parameter::Loose,
            Place::Mark => Parameter::Mark,
            Place::Anchored => Parameter::Plain,
        };
        self.use_parameter(number, used)
    }

    /// Goes through `a IS NULL`, which a literal answers by itself, and for which the value of a
    /// parameter is not needed. Returns what is in place of it.
    pub(super) fn null_test(
        &mut self,
        test: &mut NullTest,
        scope: &Scope<'_>,
    ) -> Result<Option<NodeEnum>, Refusal> {
        let Some(arg) = test.arg.as_deref_mut() else {
            return Ok(None);
        };
        if !is_open(arg) {
            return self.loosely(|this| this.walk(arg, scope)).map(|()| None);
        }
        let (mut inner, mut by) = (&*arg, None);
        while let Some(NodeEnum::TypeCast(cast)) = &inner.node {
            by = cast
                .type_name
                .as_ref()
                .and_then(|name| Cast::read(name, false).ok())
                .or(by);
            match cast.arg.as_deref() {
                Some(next) => inner = next,
                None => break,
            }
        }
        let parameter = match &inner.node {
            Some(NodeEnum::ParamRef(parameter)) => *parameter,
            // A literal is not null.
            _ => {
                self.is_changed = true;
                let is_not = test.nulltesttype() == NullTestType::IsNotNull;
                return Ok(Some(truth(is_not)));
            }
        };
        self.use_parameter(parameter.number, Parameter::OnlyNull(by))?;
        if matches!(arg.node, Some(NodeEnum::TypeCast(_))) {
            match self.bare_parameters.contains(&parameter.number) {
                true => {
                    self.is_changed = true;
                    arg.node = Some(NodeEnum::ParamRef(parameter));
                }
                false => self.loose.cast.push(parameter.number),
            }
        }
        Ok(None)
    }
}

impl Rewriter<'_> {
    /// Puts a truth value in place of one that is only asked for null.
    pub(super) fn only_null(&mut self, value: &mut Node) -> Result<(), Refusal> {
        let is_null = matches!(&value.node, Some(NodeEnum::AConst(literal)) if literal.isnull);
        if !is_null && !is_open(value) {
            return Err(Refusal::Undecided("a parameter of EXECUTE"));
        }
        if !is_null {
            self.is_changed = true;
            value.node = Some(truth(true));
        }
        Ok(())
    }
}

fn truth(boolval: bool) -> NodeEnum {
    NodeEnum::AConst(AConst {
        val: Some(a_const::Val::Boolval(Boolean { boolval })),
        ..AConst::default()
    })
}

fn is_number(node: &Node) -> bool {
    let literal = match &node.node {
        Some(NodeEnum::AConst(literal)) => literal,
        _ => return false,
    };
    literal.isnull || !matches!(literal.val, Some(a_const::Val::Sval(_)))
}

//! One requirement on a label key: upstream Karpenter's algebra of sets, complements and integer bounds.

use karpenter_capi_api::names::labels;
use std::fmt;
use std::sync::Arc;

mod operator;

pub use operator::Operator;

/// What a label may be: a set of values, or everything but a set, within optional inclusive integer bounds.
///
/// `In` is a plain set; `NotIn`, `Exists`, `Gt`, `Lt` are complements; `DoesNotExist` is the empty plain set.
/// Beyond upstream a requirement remembers whether the label may be absent, so that `Exists` with `NotIn` still needs the
/// label, and a set that became empty (`In [a]` with `In [b]`) is a contradiction and not `DoesNotExist`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub(crate) key: Arc<str>,
    pub(crate) complement: bool,
    /// Sorted, without duplicates.
    pub(crate) values: Vec<Arc<str>>,
    pub(crate) greater_than_or_equal: Option<i64>,
    pub(crate) less_than_or_equal: Option<i64>,
    pub(crate) min_values: Option<u32>,
    pub(crate) absence_allowed: bool,
}

/// A requirement that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} {operator} {values:?}: {reason}")]
pub struct InvalidRequirement {
    /// The key.
    pub key: String,
    /// The operator as written.
    pub operator: String,
    /// The values as written.
    pub values: Vec<String>,
    /// What is wrong and what would be right.
    pub reason: &'static str,
}

impl Requirement {
    /// Reads a requirement as it is written in manifests. The key is normalised (`beta.kubernetes.io/arch` and its like).
    pub fn parse(key: &str, operator: &str, values: &[String]) -> Result<Self, InvalidRequirement> {
        let invalid = |reason| InvalidRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.to_vec(),
            reason,
        };
        if key.is_empty() {
            return Err(invalid("the key is empty"));
        }
        let parsed = operator.parse::<Operator>().map_err(|()| {
            invalid("the operator is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte")
        })?;
        let key = labels::normalized(key);
        match parsed {
            Operator::In if values.is_empty() => Err(invalid("In needs at least one value")),
            Operator::NotIn if values.is_empty() => Err(invalid("NotIn needs at least one value")),
            Operator::In => Ok(Self::one_of(key, values)),
            Operator::NotIn => Ok(Self::none_of(key, values)),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Err(invalid("Exists and DoesNotExist take no values"))
            }
            Operator::Exists => Ok(Self::exists(key)),
            Operator::DoesNotExist => Ok(Self::does_not_exist(key)),
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                let bound = match values {
                    [value] => value.parse::<i64>().ok(),
                    _ => None,
                };
                let bound =
                    bound.ok_or_else(|| invalid("Gt, Lt, Gte and Lte take exactly one whole number"))?;
                Ok(Self::bounded(key, parsed, bound))
            }
        }
    }

    fn plain(key: &str, complement: bool, absence_allowed: bool) -> Self {
        Self {
            key: Arc::from(key),
            complement,
            values: Vec::new(),
            greater_than_or_equal: None,
            less_than_or_equal: None,
            min_values: None,
            absence_allowed,
        }
    }

    /// `In`: one of the values. Without values it is a contradiction.
    pub fn one_of(key: &str, values: &[impl AsRef<str>]) -> Self {
        Self { values: sorted(values), ..Self::plain(key, false, false) }
    }

    /// `NotIn`: absent, or none of the values.
    pub fn none_of(key: &str, values: &[impl AsRef<str>]) -> Self {
        Self { values: sorted(values), ..Self::plain(key, true, true) }
    }

    /// `Exists`.
    pub fn exists(key: &str) -> Self {
        Self::plain(key, true, false)
    }

    /// `DoesNotExist`.
    pub fn does_not_exist(key: &str) -> Self {
        Self::plain(key, false, true)
    }

    /// `Gt`, `Lt`, `Gte`, `Lte`; a bound that no integer meets gives a contradiction. Other operators give `Exists`.
    pub fn bounded(key: &str, operator: Operator, bound: i64) -> Self {
        let exists = Self::exists(key);
        match operator {
            Operator::Gte => Self { greater_than_or_equal: Some(bound), ..exists },
            Operator::Lte => Self { less_than_or_equal: Some(bound), ..exists },
            Operator::Gt => match bound.checked_add(1) {
                Some(bound) => Self { greater_than_or_equal: Some(bound), ..exists },
                None => Self::plain(key, false, false),
            },
            Operator::Lt => match bound.checked_sub(1) {
                Some(bound) => Self { less_than_or_equal: Some(bound), ..exists },
                None => Self::plain(key, false, false),
            },
            _ => exists,
        }
    }

    /// The same with `minValues`.
    #[must_use]
    pub const fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// `minValues`.
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The values of an `In`; the excluded values of a `NotIn`; sorted.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    /// Whether it lists what the label may be, rather than what it may not be.
    pub const fn is_enumerated(&self) -> bool {
        !self.complement
    }

    /// The only value that the label may have.
    pub fn single_value(&self) -> Option<&str> {
        match self.values.as_slice() {
            [value] if !self.complement => Some(value),
            _ => None,
        }
    }

    /// Values that are possible; `usize::MAX` less the excluded ones for complements, as upstream counts.
    pub fn len(&self) -> usize {
        if self.complement { usize::MAX - self.values.len() } else { self.values.len() }
    }

    /// Whether no value is possible: `DoesNotExist`, or a contradiction.
    pub const fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// Whether nothing meets it: no value is possible, and the label must be there.
    pub const fn is_contradiction(&self) -> bool {
        self.is_empty() && !self.absence_allowed
    }

    /// Whether a node without the label meets it: `DoesNotExist`, or `NotIn` and nothing that asks for presence.
    pub const fn allows_absence(&self) -> bool {
        self.absence_allowed
    }

    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; bounds are `Exists`, or `NotIn` where values are excluded.
    pub const fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Whether a node that carries this value meets it.
    pub fn has(&self, value: &str) -> bool {
        let listed = self.values.binary_search_by(|own| (**own).cmp(value)).is_ok();
        listed != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.greater_than_or_equal.is_none() && self.less_than_or_equal.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.greater_than_or_equal.is_none_or(|bound| number >= bound)
                && self.less_than_or_equal.is_none_or(|bound| number <= bound)
        })
    }

    /// What meets both; the key is this one's. `minValues` is the larger.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self {
            key: Arc::clone(&self.key),
            complement: self.complement && other.complement,
            values: Vec::new(),
            greater_than_or_equal: self.greater_than_or_equal.max(other.greater_than_or_equal),
            less_than_or_equal: lower(self.less_than_or_equal, other.less_than_or_equal),
            min_values: self.min_values.max(other.min_values),
            absence_allowed: self.absence_allowed && other.absence_allowed,
        };
        if both.bounds_cross() {
            both.complement = false;
        } else {
            let values: Vec<&Arc<str>> = match (self.complement, other.complement) {
                (true, true) => self.values.iter().chain(&other.values).collect(),
                (true, false) => other.values.iter().filter(|value| self.has(value)).collect(),
                (false, true | false) => self.values.iter().filter(|value| other.has(value)).collect(),
            };
            both.values = values.into_iter().filter(|value| both.within_bounds(value)).cloned().collect();
            both.values.sort_unstable();
            both.values.dedup();
        }
        if !both.complement {
            both.greater_than_or_equal = None;
            both.less_than_or_equal = None;
        }
        both
    }

    /// Whether some value meets both; a label that is absent under both doesn't count. Allocates nothing.
    pub fn intersects(&self, other: &Self) -> bool {
        let (greatest, least) = (
            self.greater_than_or_equal.max(other.greater_than_or_equal),
            lower(self.less_than_or_equal, other.less_than_or_equal),
        );
        if greatest.zip(least).is_some_and(|(from, to)| from > to) {
            return false;
        }
        match (self.complement, other.complement) {
            (true, true) => true,
            (true, false) => other.values.iter().any(|value| self.has(value)),
            (false, _) => self.values.iter().any(|value| other.has(value)),
        }
    }

    /// Whether a label may meet both: some value does, or both allow its absence.
    pub fn meets(&self, other: &Self) -> bool {
        (self.absence_allowed && other.absence_allowed) || self.intersects(other)
    }

    /// Whether everything that meets this one meets `other` as well.
    pub fn implies(&self, other: &Self) -> bool {
        if self.absence_allowed && !other.absence_allowed {
            return false;
        }
        if !self.complement {
            return self.values.iter().all(|value| other.has(value));
        }
        // Everything but a set implies only another such, with no more excluded and wider bounds.
        let excluded = |value: &Arc<str>| !self.has(value);
        other.complement
            && other.values.iter().all(excluded)
            && other.greater_than_or_equal.is_none_or(|bound| self.greater_than_or_equal >= Some(bound))
            && other
                .less_than_or_equal
                .is_none_or(|bound| self.less_than_or_equal.is_some_and(|own| own <= bound))
    }

    fn bounds_cross(&self) -> bool {
        self.greater_than_or_equal.zip(self.less_than_or_equal).is_some_and(|(from, to)| from > to)
    }

    /// A value for the label that meets it: the smallest of an `In`, else the lower bound (0 without one), moved up past
    /// excluded values. None where nothing does, or where the label has to stay away.
    pub fn any(&self) -> Option<String> {
        if !self.complement {
            return self.values.first().map(ToString::to_string);
        }
        let start =
            self.greater_than_or_equal.or_else(|| self.less_than_or_equal.map(|to| to.min(0))).unwrap_or(0);
        let tries = i64::try_from(self.values.len()).unwrap_or(i64::MAX).saturating_add(1);
        (start..start.saturating_add(tries)).map(|number| number.to_string()).find(|value| self.has(value))
    }

    /// Back to what is written in manifests: one operator and its values each, together meaning the same.
    ///
    /// Bounds come back as `Gt` and `Lt`, which every version of the CRDs knows, and as `Gte 0` where `Gt` would need a
    /// negative number, which the CRDs refuse. (No label value is a negative number: a label begins with a letter or digit.)
    pub fn written(&self) -> Vec<(Operator, Vec<String>)> {
        let values = || self.values.iter().map(ToString::to_string).collect::<Vec<_>>();
        if !self.complement {
            let operator = if self.values.is_empty() { Operator::DoesNotExist } else { Operator::In };
            return vec![(operator, values())];
        }
        let mut written = Vec::new();
        if let Some(from) = self.greater_than_or_equal {
            written.push(if from > 0 {
                (Operator::Gt, vec![(from - 1).to_string()])
            } else {
                (Operator::Gte, vec!["0".to_owned()])
            });
        }
        if let Some(to) = self.less_than_or_equal {
            written.push(match to.checked_add(1) {
                Some(bound) => (Operator::Lt, vec![bound.max(0).to_string()]),
                None => (Operator::Lte, vec![to.to_string()]),
            });
        }
        if written.is_empty() && !self.absence_allowed {
            written.push((Operator::Exists, Vec::new()));
        }
        if !self.values.is_empty() {
            written.push((Operator::NotIn, values()));
        }
        written
    }
}

/// Upstream's form: `k In [a b]`, `k NotIn [5] >=2 <=9 minValues 3`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.operator())?;
        if !self.values.is_empty() {
            write!(f, " [")?;
            for (index, value) in self.values.iter().enumerate() {
                write!(f, "{}{value}", if index == 0 { "" } else { " " })?;
            }
            write!(f, "]")?;
        }
        if let Some(bound) = self.greater_than_or_equal {
            write!(f, " >={bound}")?;
        }
        if let Some(bound) = self.less_than_or_equal {
            write!(f, " <={bound}")?;
        }
        if let Some(count) = self.min_values {
            write!(f, " minValues {count}")?;
        }
        Ok(())
    }
}

fn lower(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn sorted(values: &[impl AsRef<str>]) -> Vec<Arc<str>> {
    let mut values: Vec<Arc<str>> = values.iter().map(|value| Arc::from(value.as_ref())).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests;

//! Everything that can be wrong with a configuration, worded for the operator who has to mend it.
//!
//! All faults of a configuration are told in one message, each with its place. A value is never shown where its key may
//! hold a secret. Upstream counterpart: `ConfigException`, which stops at the first fault.

use std::fmt;

use thiserror::Error;

use super::raw::Origin;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A file that can't be read.
    #[error("{file}: {reason}")]
    Unreadable { file: String, reason: String },
    /// A line that Java would refuse as well.
    #[error("{origin}: {reason}")]
    Malformed { origin: Origin, reason: String },
    /// An override that is not `key=value`; only the text before `=` is kept.
    #[error("--override {key}: expected key=value")]
    MalformedOverride { key: String },
    /// A key that klamm can't do without.
    #[error("{key} is missing: {explanation}")]
    Missing {
        key: &'static str,
        explanation: String,
    },
    /// A value outside of what the key takes. `shown` is the value, or `[hidden]`.
    #[error("{origin}: {key}={shown}: {reason}")]
    Invalid {
        key: String,
        origin: Origin,
        shown: String,
        reason: String,
    },
    /// A `klamm.*` key that does not exist.
    #[error("{origin}: {key} is no key of klamm's{}", did_you_mean(.suggestion.as_deref()))]
    UnknownKlammKey {
        key: String,
        origin: Origin,
        suggestion: Option<&'static str>,
    },
    /// A key that asks for what klamm can't do and may not ignore.
    #[error("{origin}: {key}: {why}; {remedy}")]
    CannotHonour {
        key: String,
        origin: Origin,
        why: String,
        remedy: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(key) => format!("; did you mean {key}?"),
        None => format!("; its keys are {}", super::keys::KLAMM.join(", ")),
    }
}

/// All faults of a configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// None where there is no fault.
    #[must_use]
    pub fn from_faults(faults: Vec<ConfigError>) -> Option<Self> {
        (!faults.is_empty()).then_some(Self(faults))
    }

    #[must_use]
    pub fn faults(&self) -> &[ConfigError] {
        &self.0
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(fault: ConfigError) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unhonoured, faults): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .partition(|fault| matches!(fault, ConfigError::CannotHonour { .. }));
        let mut between = "";
        if !faults.is_empty() {
            out.write_str("The configuration is not usable:")?;
            faults
                .iter()
                .try_for_each(|fault| write!(out, "\n  - {fault}"))?;
            between = "\n";
        }
        if !unhonoured.is_empty() {
            write!(
                out,
                "{between}The configuration asks for what klamm can't do and will not ignore:"
            )?;
            unhonoured
                .iter()
                .try_for_each(|fault| write!(out, "\n  - {fault}"))?;
        }
        Ok(())
    }
}

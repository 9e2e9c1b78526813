//! SCRAM mechanisms and credentials, as far as a controller keeps them: it never sees a password.
//!
//! Must never show a credential: who has it can try passwords. Upstream: `ScramMechanism.java`, `ScramCredential.java`.

use std::fmt;

/// A mechanism, under the numbers of the protocol (KIP-554).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Every one.
    pub const ALL: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];

    /// The mechanism of a number in a request.
    pub fn from_code(code: i8) -> Option<ScramMechanism> {
        match code {
            1 => Some(ScramMechanism::Sha256),
            2 => Some(ScramMechanism::Sha512),
            _ => None,
        }
    }

    /// Its name, which is also the key of the credential in the user's configuration.
    pub fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// A credential as it stands in a user's configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential(String);

impl ScramCredential {
    /// The text that brokers read.
    pub fn new(text: String) -> ScramCredential {
        ScramCredential(text)
    }

    /// As it is to be written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramCredential(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mechanisms_are_known_and_a_credential_is_not_shown() {
        let known: Vec<i8> = (i8::MIN..=i8::MAX)
            .filter(|code| ScramMechanism::from_code(*code).is_some())
            .collect();
        assert_eq!(known, [1, 2]);
        let shown = format!("{:?}", ScramCredential::new("salt=c2FsdA==".to_owned()));
        assert!(!shown.contains("c2FsdA"), "{shown}");
    }
}

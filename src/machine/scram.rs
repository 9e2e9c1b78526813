//! AlterUserScramCredentials: which changes are possible, and what a user's configuration is like after them.
//!
//! All that a request wants of a user is done, or nothing of it. What else stands in the configuration, as quotas do, stays.
//! Must never let a credential in that a broker can't use. Upstream: `ZkAdminManager.alterUserScramCredentials` (KIP-554).

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{ScramAlteration, ScramChange};
use crate::model::{ApiError, EntityConfig, KafkaError, SanitizedName, ScramMechanism};

/// Iterations that a credential may have, as in every release.
pub const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;

/// Changes that one request may ask for: each is a node to be written while all else waits.
pub const ALTERATIONS_IN_REQUEST_MAX: usize = 20_000;

/// Whether a request asks for no more than one may.
///
/// # Errors
/// It does: nothing of it is looked at.
pub fn check_length(alterations: usize) -> Result<(), KafkaError> {
    if alterations > ALTERATIONS_IN_REQUEST_MAX {
        return Err(KafkaError::INVALID_REQUEST);
    }
    Ok(())
}

/// All that a request wants of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAlterations {
    /// The name, as asked for.
    pub user: String,
    /// What is to be done, or why nothing is.
    pub changes: Result<Vec<Change>, ApiError>,
}

/// One change that is sound by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    mechanism: ScramMechanism,
    change: ScramChange,
}

/// Sorts a request by users, in the order in which it names them first.
pub fn by_user(asked: &[ScramAlteration]) -> Vec<UserAlterations> {
    let mut order: Vec<&str> = Vec::new();
    let mut of: BTreeMap<&str, Vec<&ScramAlteration>> = BTreeMap::new();
    for alteration in asked {
        let user = alteration.user.as_str();
        of.entry(user)
            .or_insert_with(|| {
                order.push(user);
                Vec::new()
            })
            .push(alteration);
    }
    let each = order.into_iter();
    each.map(|user| UserAlterations {
        user: user.to_owned(),
        changes: admit(user, of.get(user).map_or(&[][..], Vec::as_slice)),
    })
    .collect()
}

/// What needs no look at the user's configuration. Of several faults the one is told that upstream tells: of the upsertions
/// before the deletions, of each the last.
fn admit(user: &str, asked: &[&ScramAlteration]) -> Result<Vec<Change>, ApiError> {
    check_name(user)?;
    let (deletions, upsertions): (Vec<&ScramAlteration>, Vec<&ScramAlteration>) = asked
        .iter()
        .copied()
        .partition(|asked| asked.change == ScramChange::Delete);
    for alteration in upsertions.iter().rev().chain(deletions.iter().rev()) {
        check(user, alteration)?;
    }
    let mut seen = BTreeSet::new();
    let mut changes = Vec::with_capacity(asked.len());
    for alteration in asked {
        let Some(mechanism) = ScramMechanism::from_code(alteration.mechanism) else {
            return Err(unknown_mechanism(user, alteration.mechanism));
        };
        if !seen.insert(mechanism) {
            return Err(ApiError::new(
                KafkaError::DUPLICATE_RESOURCE,
                format!(
                    "user {user}: the request changes the {} credential more than once; name it once",
                    mechanism.name()
                ),
            ));
        }
        changes.push(Change {
            mechanism,
            change: alteration.change.clone(),
        });
    }
    Ok(changes)
}

fn check_name(user: &str) -> Result<(), ApiError> {
    let why = match user {
        "" => "a credential needs a user: the name is empty; name one".to_owned(),
        "." | ".." => {
            format!("user {user}: ZooKeeper can't hold a node of this name; choose another one")
        }
        _ if SanitizedName::of(user).is_too_long() => {
            let begin: String = user.chars().take(40).collect();
            let most = SanitizedName::LENGTH_MAX;
            format!(
                "user {begin}…: the name is longer than the {most} bytes that it may have in ZooKeeper; choose another one"
            )
        }
        _ => return Ok(()),
    };
    Err(ApiError::new(KafkaError::UNACCEPTABLE_CREDENTIAL, why))
}

fn check(user: &str, alteration: &ScramAlteration) -> Result<(), ApiError> {
    if ScramMechanism::from_code(alteration.mechanism).is_none() {
        return Err(unknown_mechanism(user, alteration.mechanism));
    }
    let ScramChange::Upsert {
        iterations,
        credential,
    } = &alteration.change
    else {
        return Ok(());
    };
    let why = if !ITERATIONS.contains(iterations) {
        format!(
            "user {user}: {iterations} iterations; ask for {} to {}",
            ITERATIONS.start(),
            ITERATIONS.end()
        )
    } else if credential.is_none() {
        format!(
            "user {user}: the salt or the salted password is empty, so that anybody could log in; give both"
        )
    } else {
        return Ok(());
    };
    Err(ApiError::new(KafkaError::UNACCEPTABLE_CREDENTIAL, why))
}

fn unknown_mechanism(user: &str, code: i8) -> ApiError {
    ApiError::new(
        KafkaError::UNSUPPORTED_SASL_MECHANISM,
        format!(
            "user {user}: no SCRAM mechanism has number {code}; ask for 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)"
        ),
    )
}

/// A user's configuration after the changes; `current` is what stands there.
///
/// # Errors
/// A credential that is to be deleted isn't there: none of the user's are changed.
pub fn apply(
    user: &str,
    changes: &[Change],
    current: &EntityConfig,
) -> Result<EntityConfig, ApiError> {
    let mut config = current.clone();
    for Change { mechanism, change } in changes {
        let key = mechanism.name();
        match change {
            ScramChange::Delete if config.0.remove(key).is_none() => {
                return Err(ApiError::new(
                    KafkaError::RESOURCE_NOT_FOUND,
                    format!(
                        "user {user} has no {key} credential (/config/users/{}), so that it can't be deleted; leave it out of the request",
                        SanitizedName::of(user)
                    ),
                ));
            }
            ScramChange::Delete
            | ScramChange::Upsert {
                credential: None, ..
            } => {}
            ScramChange::Upsert {
                credential: Some(credential),
                ..
            } => {
                config
                    .0
                    .insert(key.to_owned(), credential.as_str().to_owned());
            }
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ScramCredential;

    const SHA_256: i8 = 1;
    const SHA_512: i8 = 2;

    fn delete(user: &str, mechanism: i8) -> ScramAlteration {
        ScramAlteration {
            user: user.to_owned(),
            mechanism,
            change: ScramChange::Delete,
        }
    }

    fn upsert(user: &str, mechanism: i8, iterations: i32) -> ScramAlteration {
        ScramAlteration {
            change: ScramChange::Upsert {
                iterations,
                credential: Some(ScramCredential::new(format!("of {mechanism}"))),
            },
            ..delete(user, mechanism)
        }
    }

    fn empty(user: &str) -> ScramAlteration {
        ScramAlteration {
            change: ScramChange::Upsert {
                iterations: 4096,
                credential: None,
            },
            ..delete(user, SHA_256)
        }
    }

    /// `u ok`, `v DUPLICATE_RESOURCE(92)` …
    fn said(asked: &[ScramAlteration]) -> Vec<String> {
        let line = |of: UserAlterations| match of.changes {
            Ok(_) => format!("{} ok", of.user),
            Err(refused) => format!("{} {}", of.user, refused.error),
        };
        by_user(asked).into_iter().map(line).collect()
    }

    #[test]
    fn each_fault_costs_its_user_alone() {
        let unacceptable = "UNACCEPTABLE_CREDENTIAL(93)";
        let unknown = "UNSUPPORTED_SASL_MECHANISM(33)";
        for (wrong, expected) in [
            (vec![upsert("u", SHA_256, 4095)], unacceptable),
            (vec![upsert("u", SHA_512, 4095)], unacceptable),
            (vec![upsert("u", SHA_256, 16_385)], unacceptable),
            (vec![upsert("u", SHA_256, i32::MIN)], unacceptable),
            (vec![empty("u")], unacceptable),
            (vec![upsert("u", 0, 4096)], unknown),
            (vec![upsert("u", 3, 4096)], unknown),
            (vec![upsert("u", -1, 1)], unknown),
            (vec![delete("u", 0)], unknown),
            (vec![delete("u", 7), upsert("u", SHA_256, 1)], unacceptable),
            (
                vec![delete("u", SHA_256), delete("u", SHA_256)],
                "DUPLICATE_RESOURCE(92)",
            ),
            (
                vec![delete("u", SHA_256), upsert("u", SHA_256, 4096)],
                "DUPLICATE_RESOURCE(92)",
            ),
        ] {
            let mut asked = vec![upsert("good", SHA_256, 4096)];
            asked.extend(wrong);
            asked.push(delete("good", SHA_512));
            let refused = format!("u {expected}");
            assert_eq!(said(&asked), ["good ok", refused.as_str()]);
        }
        assert_eq!(
            said(&[
                delete("", 9),
                upsert(".", 1, 4096),
                upsert("..", 1, 4096),
                upsert("...", 1, 16_384),
            ]),
            [
                " UNACCEPTABLE_CREDENTIAL(93)",
                ". UNACCEPTABLE_CREDENTIAL(93)",
                ".. UNACCEPTABLE_CREDENTIAL(93)",
                "... ok"
            ]
        );
        assert!(said(&[]).is_empty());
    }

    #[test]
    fn neither_a_name_nor_a_request_is_longer_than_zookeeper_takes() {
        for (name, refused) in [
            ("x".repeat(SanitizedName::LENGTH_MAX), false),
            ("é".repeat(SanitizedName::LENGTH_MAX / 6), false),
            ("x".repeat(SanitizedName::LENGTH_MAX + 1), true),
            ("é".repeat(SanitizedName::LENGTH_MAX / 5), true),
        ] {
            let changes = by_user(&[upsert(&name, SHA_256, 4096)]).remove(0).changes;
            assert_eq!(changes.is_err(), refused, "{}", name.len());
            if let Err(why) = changes {
                assert!(why.message.len() < 200, "{why}");
            }
        }
        assert_eq!(check_length(ALTERATIONS_IN_REQUEST_MAX), Ok(()));
        let more = check_length(ALTERATIONS_IN_REQUEST_MAX + 1);
        assert_eq!(more, Err(KafkaError::INVALID_REQUEST));
    }

    #[test]
    fn every_message_names_the_user_and_what_to_do() {
        let asked = [
            upsert("a", SHA_256, 5),
            empty("b"),
            upsert("c", 9, 4096),
            delete("d", 1),
            delete("d", 1),
        ];
        let said: Vec<String> = by_user(&asked)
            .into_iter()
            .map(|of| of.changes.unwrap_err().message)
            .collect();
        for ((message, user), advice) in said
            .iter()
            .zip(["user a:", "user b:", "user c:", "user d:"])
            .zip([
                "ask for 4096 to 16384",
                "give both",
                "ask for 1",
                "name it once",
            ])
        {
            assert!(message.starts_with(user), "{message}");
            assert!(message.contains(advice), "{message}");
        }
    }

    fn changes(asked: &[ScramAlteration]) -> Vec<Change> {
        by_user(asked).remove(0).changes.unwrap()
    }

    fn config(entries: &[(&str, &str)]) -> EntityConfig {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        EntityConfig(entries.iter().map(owned).collect())
    }

    #[test]
    fn a_credential_comes_or_goes_and_all_else_stays() {
        let current = config(&[("SCRAM-SHA-256", "old"), ("producer_byte_rate", "5")]);
        let both = changes(&[delete("u", SHA_256), upsert("u", SHA_512, 4096)]);
        assert_eq!(
            apply("u", &both, &current).unwrap(),
            config(&[("SCRAM-SHA-512", "of 2"), ("producer_byte_rate", "5")])
        );
        let replaced = changes(&[upsert("u", SHA_256, 4096)]);
        assert_eq!(
            apply("u", &replaced, &current).unwrap(),
            config(&[("SCRAM-SHA-256", "of 1"), ("producer_byte_rate", "5")])
        );
        let first = apply("u", &replaced, &EntityConfig::default());
        assert_eq!(first.unwrap(), config(&[("SCRAM-SHA-256", "of 1")]));
    }

    #[test]
    fn what_is_not_there_cant_be_deleted_and_nothing_else_is_done_then() {
        let asked = changes(&[upsert("u v", SHA_256, 4096), delete("u v", SHA_512)]);
        let current = config(&[("consumer_byte_rate", "5")]);
        let refused = apply("u v", &asked, &current).unwrap_err();
        assert_eq!(refused.error, KafkaError::RESOURCE_NOT_FOUND);
        assert!(refused.message.contains("/config/users/u%20v"), "{refused}");
    }
}

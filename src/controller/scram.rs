//! AlterUserScramCredentials: users' credentials are written where brokers read them.
//!
//! Must never write a configuration from an older read: what else stands there, as quotas do, belongs to others.
//! Upstream: `handleAlterUserScramCredentialsRequest` in `KafkaApis.scala`, `ZkAdminManager.alterUserScramCredentials`.

use std::collections::BTreeMap;

use tracing::{info, warn};

use super::{KafkaController, log};
use crate::effect::{Answer, Read, ReplyTo, ScramResult, ZkOutcome, ZkWrite};
use crate::event::ScramAlteration;
use crate::machine::scram::{self, Change};
use crate::model::{ApiError, ConfigEntity, EntityConfig, KafkaError, SanitizedName};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// How often a node that somebody else keeps writing is read again.
const TRIES: usize = 5;

/// A user, and what is to be done.
type Wanted = (String, Vec<Change>);

type Results = BTreeMap<String, Result<(), ApiError>>;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_alter_user_scram_credentials(
        &mut self,
        alterations: Vec<ScramAlteration>,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = scram::check_length(alterations.len()) {
            self.answer(reply_to, Answer::AlterUserScramCredentials(Err(error)));
            return Ok(());
        }
        let outcome = self.alter_credentials(&alterations).await;
        let answer = match &outcome {
            Ok(results) => Ok(results.clone()),
            // What was written before is there, as a client that asks again finds out.
            Err(fault) => fault.to_refusal().map(|error| {
                let users = scram::by_user(&alterations).into_iter();
                let refused = users.map(|of| (of.user, Err(error.clone())));
                refused.collect()
            }),
        };
        self.answer(reply_to, Answer::AlterUserScramCredentials(answer));
        outcome.map(drop)
    }

    async fn alter_credentials(
        &mut self,
        alterations: &[ScramAlteration],
    ) -> Result<Vec<ScramResult>, ZkFault> {
        let mut results = Results::new();
        let mut order = Vec::new();
        let mut pending: Vec<Wanted> = Vec::new();
        for of in scram::by_user(alterations) {
            order.push(of.user.clone());
            match of.changes {
                Ok(changes) => pending.push((of.user, changes)),
                Err(refused) => _ = results.insert(of.user, Err(refused)),
            }
        }
        for _ in 0..TRIES {
            if pending.is_empty() {
                break;
            }
            pending = self.alter_once(pending, &mut results).await?;
        }
        for (user, _) in pending {
            let why = format!(
                "/config/users/{} is written or deleted by others all the time, or /config/users is missing; see to that, and try again",
                SanitizedName::of(&user)
            );
            let refused = ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why);
            results.insert(user, Err(refused));
        }
        let each = order.into_iter();
        let each = each.filter_map(|user| results.remove(&user).map(|result| (user, result)));
        Ok(each.collect())
    }

    /// One round: reads the configurations and writes those that can be. Returns the users whose node was changed meanwhile.
    async fn alter_once(
        &mut self,
        pending: Vec<Wanted>,
        results: &mut Results,
    ) -> Result<Vec<Wanted>, ZkFault> {
        let entities: Vec<ConfigEntity> = pending
            .iter()
            .map(|(user, _)| ConfigEntity::User(SanitizedName::of(user)))
            .collect();
        let reads = self.ports.zk.entity_configs(&entities).await?;
        let mut planned = Vec::new();
        let mut writes = Vec::new();
        for ((user, changes), read) in pending.into_iter().zip(reads) {
            match write_of(&user, &changes, read) {
                Ok(write) => {
                    planned.push((user, changes));
                    writes.push(write);
                }
                Err(refused) => _ = results.insert(user, Err(refused)),
            }
        }
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        let mut again = Vec::new();
        for ((user, changes), outcome) in planned.into_iter().zip(outcomes) {
            let result = match outcome {
                ZkOutcome::Written { .. } => {
                    info!(target: log::CONTROLLER, "SCRAM credentials of user {user:?} were changed, as a client asked for");
                    Ok(())
                }
                // Missing: it was deleted meanwhile, or its parent is, as the last refusal says.
                ZkOutcome::VersionConflict | ZkOutcome::AlreadyExists | ZkOutcome::Missing => {
                    again.push((user, changes));
                    continue;
                }
                ZkOutcome::Refused(why) => Err(why),
            };
            let result = result.map_err(|why: String| {
                warn!(target: log::CONTROLLER, "SCRAM credentials of user {user:?} are not changed, as a client asked for: {why}");
                ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why)
            });
            results.insert(user, result);
        }
        Ok(again)
    }
}

fn write_of(
    user: &str,
    changes: &[Change],
    read: Read<(EntityConfig, i32)>,
) -> Result<ZkWrite, ApiError> {
    let (current, expected) = match read {
        Read::Found((current, version)) => (current, Some(version)),
        Read::Missing => (EntityConfig::default(), None),
        Read::Broken(why) => return Err(ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why)),
    };
    Ok(ZkWrite::WriteUserConfig {
        user: SanitizedName::of(user),
        config: scram::apply(user, changes, &current)?,
        expected,
    })
}

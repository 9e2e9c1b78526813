//! What clients ask of the controller: each question becomes an event, each answer a frame.
//!
//! Must never answer in the controller's place: where it ended, or the role is lost meanwhile, clients are sent to look for
//! the next one. Upstream: the handlers of these requests in `KafkaApis.scala`.

use std::time::Duration;

use bytes::Bytes;
use klamm_codec::{ApiKey, CodecError, Frame, RequestHeader};

use super::handlers::{KafkaApis, Outcome, Unserved, other_answer};
use super::wire::{admin, scram, topics};
use crate::effect::Answer;
use crate::event::{Claimant, ControllerEvent, QuotaEnforcement};
use crate::model::{ApiError, KafkaError, TopicName};

impl KafkaApis {
    /// Answers CreateTopics, CreatePartitions, DeleteTopics, ElectLeaders, UpdateFeatures, AlterUserScramCredentials and the
    /// two requests about reassignments.
    pub(super) async fn ask_for_client(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        match header.key {
            ApiKey::CREATE_TOPICS => return self.create_topics(header, payload).await,
            ApiKey::CREATE_PARTITIONS => return self.create_partitions(header, payload).await,
            ApiKey::DELETE_TOPICS => return self.delete_topics(header, payload).await,
            ApiKey::ELECT_LEADERS => return self.elect_leaders(header, payload).await,
            ApiKey::ALTER_PARTITION_REASSIGNMENTS => self.reassign(header, payload).await,
            ApiKey::ALTER_USER_SCRAM_CREDENTIALS => self.alter_credentials(header, payload).await,
            ApiKey::UPDATE_FEATURES => self.update_features(header, payload).await,
            _ => self.list_reassignments(header, payload).await,
        }
        .map(Outcome::Reply)
    }

    async fn create_topics(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        let request = topics::create_topics_request(header, payload)?;
        let asked: Vec<TopicName> = request.topics.iter().map(|new| new.name.clone()).collect();
        let claimant = claimant(header, CREATION_IS_STRICT);
        let event = |reply_to| ControllerEvent::CreateTopics {
            request,
            claimant,
            reply_to,
        };
        let (answer, throttle_time_ms) = throttle(self.put_and_wait(event).await);
        let answer = match answer {
            Some(Answer::CreateTopics(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        let frame = topics::create_topics_response(header, &asked, answer, throttle_time_ms)?;
        Ok(reply(frame, throttle_time_ms))
    }

    async fn create_partitions(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        let request = topics::create_partitions_request(header, payload)?;
        let asked: Vec<TopicName> = request
            .topics
            .iter()
            .map(|more| more.topic.clone())
            .collect();
        let claimant = claimant(header, GROWTH_IS_STRICT);
        let event = |reply_to| ControllerEvent::CreatePartitions {
            request,
            claimant,
            reply_to,
        };
        let (answer, throttle_time_ms) = throttle(self.put_and_wait(event).await);
        let answer = match answer {
            Some(Answer::CreatePartitions(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        let frame = topics::create_partitions_response(header, &asked, answer, throttle_time_ms)?;
        Ok(reply(frame, throttle_time_ms))
    }

    async fn delete_topics(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        let asked = admin::delete_topics_request(header, payload)?;
        if asked.is_ambiguous {
            let refusal = Err(KafkaError::INVALID_REQUEST);
            return admin::delete_topics_response(header, &asked, refusal, 0).map(Outcome::Reply);
        }
        let (topics, timeout_ms) = (asked.references(), asked.timeout_ms);
        let claimant = claimant(header, DELETION_IS_STRICT);
        let event = |reply_to| ControllerEvent::DeleteTopics {
            topics,
            timeout_ms,
            claimant,
            reply_to,
        };
        let (answer, throttle_time_ms) = throttle(self.put_and_wait(event).await);
        let answer = match answer {
            Some(Answer::DeleteTopics(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        let frame = admin::delete_topics_response(header, &asked, answer, throttle_time_ms)?;
        Ok(reply(frame, throttle_time_ms))
    }

    /// Java's client takes NOT_CONTROLLER in this answer for final. A closed connection makes it look for the controller.
    async fn elect_leaders(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        let asked = admin::elect_leaders_request(header, payload)?;
        let Some(election) = asked.election else {
            let message = "no such type of election: 0 elects preferred leaders, 1 unclean ones";
            let refusal = Err(ApiError::new(KafkaError::INVALID_REQUEST, message));
            return admin::elect_leaders_response(header, &asked, refusal).map(Outcome::Reply);
        };
        let partitions = asked.partitions.clone();
        let timeout_ms = asked.timeout_ms;
        let event = |reply_to| ControllerEvent::ElectLeaders {
            partitions,
            election,
            timeout_ms,
            reply_to,
        };
        match self.put_and_wait(event).await {
            Some(Answer::ElectLeaders(Ok(results))) => {
                admin::elect_leaders_response(header, &asked, Ok(results)).map(Outcome::Reply)
            }
            Some(Answer::ElectLeaders(Err(KafkaError::NOT_CONTROLLER))) | None => {
                Ok(Outcome::Close(Unserved::StandingBy(header.key)))
            }
            Some(Answer::ElectLeaders(Err(error))) => {
                let message =
                    "the request names more partitions than one may; ask for fewer at a time";
                let refusal = Err(ApiError::new(error, message));
                admin::elect_leaders_response(header, &asked, refusal).map(Outcome::Reply)
            }
            Some(other) => Err(other_answer(header, &other)),
        }
    }

    async fn reassign(&self, header: &RequestHeader, payload: &Bytes) -> Result<Frame, CodecError> {
        let targets = admin::alter_partition_reassignments_request(header, payload)?;
        let event = |reply_to| ControllerEvent::AlterPartitionReassignments { targets, reply_to };
        let answer = match self.put_and_wait(event).await {
            Some(Answer::AlterPartitionReassignments(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        admin::alter_partition_reassignments_response(header, answer)
    }

    async fn list_reassignments(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Frame, CodecError> {
        let partitions = admin::list_partition_reassignments_request(header, payload)?;
        let event = |reply_to| ControllerEvent::ListPartitionReassignments {
            partitions,
            reply_to,
        };
        let answer = match self.put_and_wait(event).await {
            Some(Answer::ListPartitionReassignments(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        admin::list_partition_reassignments_response(header, answer)
    }

    async fn alter_credentials(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Frame, CodecError> {
        let alterations = scram::alter_user_scram_credentials_request(header, payload)?;
        let asked: Vec<String> = alterations.iter().map(|one| one.user.clone()).collect();
        let event = |reply_to| ControllerEvent::AlterUserScramCredentials {
            alterations,
            reply_to,
        };
        let answer = match self.put_and_wait(event).await {
            Some(Answer::AlterUserScramCredentials(answer)) => answer,
            None => Err(KafkaError::NOT_CONTROLLER),
            Some(other) => return Err(other_answer(header, &other)),
        };
        scram::alter_user_scram_credentials_response(header, asked, answer)
    }

    /// Java ignores in ZooKeeper mode that nothing is to be changed; here such a request is refused.
    async fn update_features(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Frame, CodecError> {
        let asked = admin::update_features_request(header, payload)?;
        if asked.validate_only {
            let message = "a controller in ZooKeeper mode can't try an update without making it";
            let refusal = ApiError::new(KafkaError::INVALID_REQUEST, message);
            return admin::update_features_response(header, Err(refusal));
        }
        let updates = asked.updates;
        let event = |reply_to| ControllerEvent::UpdateFeatures { updates, reply_to };
        let answer = match self.put_and_wait(event).await {
            Some(Answer::UpdateFeatures(answer)) => answer,
            None => Err(ApiError::new(
                KafkaError::NOT_CONTROLLER,
                "the controller ended",
            )),
            Some(other) => return Err(other_answer(header, &other)),
        };
        admin::update_features_response(header, answer)
    }
}

/// The user of every client, as long as klamm's listeners ask for no name.
const ANONYMOUS: &str = "ANONYMOUS";
/// The versions from which on clients understand that a quota is used up (KIP-599).
const CREATION_IS_STRICT: i16 = 6;
const GROWTH_IS_STRICT: i16 = 3;
const DELETION_IS_STRICT: i16 = 5;

/// Whose quota a request is charged to.
fn claimant(header: &RequestHeader, strict_from: i16) -> Claimant {
    Claimant {
        user: ANONYMOUS.to_owned(),
        client_id: header.client_id.clone().unwrap_or_default(),
        enforcement: match header.version >= strict_from {
            true => QuotaEnforcement::Strict,
            false => QuotaEnforcement::Permissive,
        },
    }
}

/// An answer, and for how long its client is to ask for nothing more.
fn throttle(answer: Option<Answer>) -> (Option<Answer>, i32) {
    match answer {
        Some(Answer::Throttled {
            throttle_time_ms,
            answer,
        }) => {
            let throttle_time_ms = i32::try_from(throttle_time_ms).unwrap_or(i32::MAX);
            (Some(*answer), throttle_time_ms)
        }
        other => (other, 0),
    }
}

fn reply(frame: Frame, throttle_time_ms: i32) -> Outcome {
    match u64::try_from(throttle_time_ms) {
        Ok(ms) if ms > 0 => Outcome::ReplyAndMute(frame, Duration::from_millis(ms)),
        _ => Outcome::Reply(frame),
    }
}

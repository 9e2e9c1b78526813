//! UpdateFeatures: an operator wants finalized features changed. (`failover` sets `/feature` up and keeps brokers out.)
//!
//! Must never leave the request without an answer. Upstream: `processFeatureUpdates`.

use tracing::{info, warn};

use super::{KafkaController, Stop, log};
use crate::effect::{Answer, ReplyTo, ZkOutcome};
use crate::event::FeatureUpdate;
use crate::machine::{features, request_length};
use crate::model::{ApiError, KafkaError};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// UpdateFeatures (KIP-584). Every way out answers; Java leaves a request open whose queue is cleared.
    pub(super) async fn process_update_features(
        &mut self,
        updates: Vec<FeatureUpdate>,
        reply_to: ReplyTo,
    ) -> Result<Option<Stop>, ZkFault> {
        if let Err(error) = request_length::check_features(updates.len()) {
            self.answer(reply_to, Answer::UpdateFeatures(Err(error)));
            return Ok(None);
        }
        let outcome = self.update_features(&updates).await;
        let (answer, changed) = match &outcome {
            Ok((results, changed)) => (results.clone(), *changed),
            Err(fault @ ZkFault::Refused { .. }) => {
                let error = KafkaError::FEATURE_UPDATE_FAILED;
                (Err(ApiError::new(error, fault.to_string())), false)
            }
            Err(ZkFault::Fenced | ZkFault::SessionLost) => (Err(not_controller()), false),
        };
        self.answer(reply_to, Answer::UpdateFeatures(answer));
        outcome.map(drop)?;
        if changed {
            // Brokers that lacked what was finalized are welcome now.
            return self.process_broker_change().await;
        }
        Ok(None)
    }

    /// The answer, and whether `/feature` was changed.
    async fn update_features(
        &mut self,
        updates: &[FeatureUpdate],
    ) -> Result<(FeatureAnswer, bool), ZkFault> {
        loop {
            let current = self.ports.zk.feature().await?;
            let plan = match features::update(self.context.protocol(), &current, updates) {
                Ok(plan) => plan,
                Err(refusal) => return Ok((Err(refusal), false)),
            };
            let Some(write) = plan.write else {
                return Ok((Ok(plan.results), false));
            };
            match self.ports.zk.write(&self.term()?, &[write]).await?.pop() {
                Some(ZkOutcome::Written { .. }) => {
                    info!(target: log::CONTROLLER, "/feature was changed as asked for: {updates:?}");
                    return Ok((Ok(plan.results), true));
                }
                Some(ZkOutcome::VersionConflict | ZkOutcome::Missing) => {}
                other => {
                    warn!(target: log::CONTROLLER, "/feature could not be changed: {other:?}");
                    let failed = |result: Result<(), ApiError>| match result {
                        Ok(()) => Err(ApiError::new(
                            KafkaError::FEATURE_UPDATE_FAILED,
                            "ZooKeeper refused the change of /feature; see klamm's log",
                        )),
                        refused => refused,
                    };
                    let results = plan.results.into_iter();
                    let results = results.map(|(name, result)| (name, failed(result)));
                    return Ok((Ok(results.collect()), false));
                }
            }
        }
    }
}

type FeatureAnswer = Result<Vec<(String, Result<(), ApiError>)>, ApiError>;

fn not_controller() -> ApiError {
    ApiError::new(
        KafkaError::NOT_CONTROLLER,
        "this node is not the controller",
    )
}

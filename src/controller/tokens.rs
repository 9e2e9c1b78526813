//! Delegation tokens expire: a duty of the active controller that no request asks for.
//!
//! Upstream: the timer `delete-expired-tokens` in `onControllerFailover`, `DelegationTokenManagerZk.expireTokens`. Unlike
//! there, a token that was renewed after it was read is not removed: the removal is conditional on what was read.

use tracing::{info, warn};

use super::{KafkaController, log};
use crate::effect::{ZkOutcome, ZkWrite};
use crate::event::ControllerEvent;
use crate::machine::tokens;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_expire_delegation_tokens(&mut self) -> Result<(), ZkFault> {
        let Some(interval_ms) = self.settings.token_expiry_check_interval_ms else {
            return Ok(());
        };
        let now_ms = self.ports.clock.now_ms();
        // A timer of an earlier term: the one that was set last counts.
        if self
            .token_check_due_at_ms
            .is_none_or(|due_ms| now_ms < due_ms)
        {
            return Ok(());
        }
        // Before anything that may fail: a look that fails must not be the last one.
        self.schedule_token_check(interval_ms);
        let tokens = self.ports.zk.delegation_tokens().await?;
        let expiry = tokens::expired(tokens, self.ports.clock.unix_time_ms());
        self.warn_broken(expiry.broken);
        if expiry.writes.is_empty() {
            return Ok(());
        }
        let outcomes = self.ports.zk.write(&self.term()?, &expiry.writes).await?;
        for (write, outcome) in expiry.writes.iter().zip(outcomes) {
            let ZkWrite::ExpireDelegationToken { token, .. } = write else {
                continue;
            };
            match outcome {
                ZkOutcome::Written { .. } => {
                    info!(target: log::CONTROLLER, "Delegation token expired: {}", token.0);
                }
                // Renewed meanwhile, or removed by a broker.
                ZkOutcome::VersionConflict | ZkOutcome::Missing | ZkOutcome::AlreadyExists => {}
                ZkOutcome::Refused(why) => {
                    warn!(target: log::CONTROLLER, "/delegation_token/tokens/{} has expired and can't be removed; it is tried again in {interval_ms} ms: {why}", token.0);
                }
            }
        }
        Ok(())
    }

    /// Looks at once, and again and again as long as the term lasts; only where the cluster has tokens.
    pub(super) fn start_token_checks(&mut self) {
        if self.settings.token_expiry_check_interval_ms.is_some() {
            self.schedule_token_check(0);
        }
    }

    fn schedule_token_check(&mut self, delay_ms: u64) {
        let now_ms = self.ports.clock.now_ms();
        self.token_check_due_at_ms = Some(now_ms.saturating_add(delay_ms));
        let look = ControllerEvent::ExpireDelegationTokens;
        self.ports.clock.schedule(delay_ms, look);
    }
}

//! Says where klamm's own settings differ from the brokers'; nothing depends on it.
//!
//! Upstream has no counterpart.

use tracing::warn;

use super::{KafkaController, log};
use crate::machine::shared_settings;
use crate::port::{Brokers, Clock, Replies, Zk};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// A line for each setting that differs, once everybody was asked. Said again when a broker differs that did not before.
    pub(super) fn report_differing_settings(&mut self) {
        if !self.survey.is_complete() {
            return;
        }
        let said = self.survey.shared_settings();
        for difference in shared_settings::differences(&self.settings.shared, said) {
            let mut is_new = false;
            for (value, ids) in &difference.theirs {
                for id in ids.iter() {
                    let differing = (difference.setting, id, value.clone());
                    is_new |= self.differing_settings.insert(differing);
                }
            }
            if is_new {
                warn!(target: log::CONTROLLER, "{difference}");
            }
        }
    }
}

//! Asks a broker what it is, before klamm relies on it: on a connection of its own, outside the loop, within 5 s.
//!
//! Must never hold a broker back: one that can't be asked is reported so. No upstream counterpart: the Java controller
//! takes its own `inter.broker.protocol.version` for everybody's.

use std::sync::Arc;
use std::time::Duration;

use klamm_codec::version::{BrokerVersions, VersionCaps};
use klamm_codec::{ApiKey, CodecError};
use tokio::time::{Instant, timeout_at};
use tracing::info;

use super::connection::{Connection, ConnectionError, NoListener};
use super::wire::{self, BrokerSettings};
use super::{BrokerRanges, SurveyQuestions};
use crate::effect::Incarnation;
use crate::model::{BrokerId, Endpoint, InterBrokerProtocol};
use crate::observe::CaptureTap;
use crate::port::{BrokerSurvey, SurveyOutcome};

const TARGET: &str = "kafka.controller.ControllerChannelManager";

/// One survey of one incarnation of a broker.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) incarnation: Incarnation,
    pub(super) endpoint: Result<Endpoint, NoListener>,
    pub(super) client_id: Arc<str>,
    pub(super) questions: SurveyQuestions,
    pub(super) within: Duration,
    pub(super) ranges: BrokerRanges,
    pub(super) capture: CaptureTap,
}

/// What was learned before time was up.
#[derive(Debug, Default)]
struct Learned {
    versions: Option<BrokerVersions>,
    settings: Option<BrokerSettings>,
}

impl Survey {
    /// Asks. Always ends within the time, and always with an outcome.
    pub(super) async fn run(self) -> BrokerSurvey {
        let mut learned = Learned::default();
        let deadline = Instant::now() + self.within;
        let asked = timeout_at(deadline, self.ask(&mut learned)).await;
        let failure = match asked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} ms", self.within.as_millis())),
        };
        BrokerSurvey {
            incarnation: self.incarnation,
            outcome: self.outcome(learned, failure),
        }
    }

    async fn ask(&self, learned: &mut Learned) -> Result<(), ConnectionError> {
        let broker = self.incarnation.broker;
        let endpoint = self.endpoint.clone()?;
        let mut connection =
            Connection::open(&endpoint, &self.client_id, self.within, &self.capture).await?;
        let versions = connection.ask_versions(self.within).await?;
        self.ranges.set(broker, versions.clone());
        let can_be_asked = wire::describe_configs_version(&versions);
        learned.versions = Some(versions);
        match (self.questions, can_be_asked) {
            (SurveyQuestions::VersionsProtocolAndAuthorizer, Ok(version)) => {
                learned.settings =
                    Some(settings(&mut connection, version, broker, self.within).await?);
            }
            (SurveyQuestions::VersionsOnly, _) | (_, Err(_)) => {}
        }
        Ok(())
    }

    fn outcome(&self, learned: Learned, failure: Option<String>) -> SurveyOutcome {
        let broker = self.incarnation.broker;
        let Some(versions) = learned.versions else {
            return SurveyOutcome::Silent(failure.unwrap_or_default());
        };
        match versions.control(VersionCaps::NONE) {
            Err(CodecError::KRaftBroker { .. }) => return SurveyOutcome::NotZooKeeperMode,
            Err(error) => return SurveyOutcome::Silent(error.to_string()),
            Ok(_) => {}
        }
        if let Some(why) = failure {
            info!(target: TARGET, "Broker {broker} does not say which inter-broker protocol it runs: {why}");
        }
        let settings = learned.settings.unwrap_or_default();
        SurveyOutcome::Answered {
            protocol: settings
                .protocol
                .and_then(|text| known_protocol(broker, &text)),
            authorizer: settings.authorizer,
            shared: settings.shared,
        }
    }
}

async fn settings(
    connection: &mut Connection,
    version: i16,
    broker: BrokerId,
    within: Duration,
) -> Result<BrokerSettings, ConnectionError> {
    let asked = connection.exchange(
        ApiKey::DESCRIBE_CONFIGS,
        version,
        within,
        |correlation_id, client_id| {
            wire::describe_configs(version, correlation_id, client_id, broker)
        },
    );
    match wire::broker_settings(version, &asked.await?)? {
        Ok(settings) => Ok(settings),
        Err(code) => {
            info!(target: TARGET, "Broker {broker} refuses to describe its settings: {code}");
            Ok(BrokerSettings::default())
        }
    }
}

fn known_protocol(broker: BrokerId, text: &str) -> Option<InterBrokerProtocol> {
    match text.parse() {
        Ok(protocol) => Some(protocol),
        Err(unknown) => {
            info!(target: TARGET, "Broker {broker} runs an inter-broker protocol that is not known here: {unknown}");
            None
        }
    }
}

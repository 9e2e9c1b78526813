//! `klamm check`: looks at everything that a takeover needs, writes nothing, and tells what it found.
//!
//! Must never leave anything behind: its session has no node, it opens no listener, and brokers are only asked. Upstream
//! has no counterpart.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{NOBODY, RunError, channel_config, controller_settings, session_settings};
use crate::broker::ControllerChannelManager;
use crate::cli::ExitStatus;
use crate::config::{Config, ConfigErrors};
use crate::controller::preflight;
use crate::effect::Read;
use crate::event::{ControllerEvent, EventSink};
use crate::machine::candidacy::Survey;
use crate::machine::preflight::{Report, Standing, Terms, assess};
use crate::model::{BrokerId, BrokerRegistration};
use crate::observe::{CaptureTap, Metrics};
use crate::port::{BrokerSurvey, Brokers, ZkFault};
use crate::zk::{Session, StartError, UnusableId, ZkClient};

/// What a configuration that `klamm run` would not start with comes to.
pub fn refused(errors: &ConfigErrors) -> Report {
    let mut report = Report::default();
    for fault in errors.faults() {
        report.add(Standing::Forbids, "configuration", fault.to_string());
    }
    let text = "nothing else was looked at: it takes a configuration that klamm could start with";
    report.add(Standing::Note, "configuration", text);
    report
}

/// Looks, and tells what a process should end with: what `klamm run` would end with where something forbids a takeover.
///
/// # Errors
/// When the process itself could not be set up.
pub fn check(config: &Config) -> Result<(Report, ExitStatus), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut report = Report::default();
    report_configuration(config, &mut report);
    let status = runtime.block_on(look(config, &mut report));
    Ok((report, status))
}

fn report_configuration(config: &Config, report: &mut Report) {
    report.add(Standing::Fine, "configuration", config.summary());
    for notice in &config.notices {
        report.add(Standing::Note, "configuration", notice.clone());
    }
}

async fn look(config: &Config, report: &mut Report) -> ExitStatus {
    let connect = &config.zookeeper.connect;
    let session = match Session::start_to_read(session_settings(config)).await {
        Ok(session) => session,
        Err(why) => return unreachable(why, report),
    };
    let version = session.server_version();
    let text = format!("{connect}, version {version}");
    report.add(Standing::Fine, "ZooKeeper", text);
    let outcome = look_at_cluster(config, session.client(), report).await;
    session.close().await;
    match outcome {
        Err(fault) => {
            report.add(Standing::Forbids, "ZooKeeper", fault.to_string());
            ExitStatus::Failed
        }
        Ok(()) if report.allows_takeover() => ExitStatus::Done,
        Ok(()) => ExitStatus::Refused,
    }
}

fn unreachable(why: StartError, report: &mut Report) -> ExitStatus {
    report.add(Standing::Forbids, "ZooKeeper", why.to_string());
    RunError::ZooKeeper(why).exit_status()
}

async fn look_at_cluster(
    config: &Config,
    client: &ZkClient,
    report: &mut Report,
) -> Result<(), ZkFault> {
    report_cluster(config, client, report).await?;
    let own_id = usable_id(config, client, report).await?;
    let settings = controller_settings(config);
    let seen = preflight::read(client, own_id).await?;
    let names = settings.listeners.iter();
    let mut survey = Survey::new(names.map(|it| it.listener.to_string()).collect());
    ask_brokers(config, seen.brokers.clone(), &mut survey).await;
    let terms = Terms {
        own_id,
        listeners: settings.listeners,
        takeover: settings.takeover,
        protocol: settings.protocol,
        delete_topic_enable: settings.delete_topic_enable,
        shared: settings.shared,
    };
    assess(&terms, &seen, &survey, report);
    Ok(())
}

async fn report_cluster(
    config: &Config,
    client: &ZkClient,
    report: &mut Report,
) -> Result<(), ZkFault> {
    if let Some(chroot) = &config.zookeeper.connect.chroot
        && !client.root_exists().await?
    {
        let text = format!(
            "{chroot} doesn't exist in ZooKeeper; klamm creates it, as a first broker does. Is zookeeper.connect right?"
        );
        report.add(Standing::Note, "ZooKeeper", text);
    }
    match client.cluster_id().await? {
        Read::Found(id) => report.add(Standing::Fine, "cluster", format!("id {id}")),
        Read::Missing => {
            let text = "no broker has ever started here: /cluster/id doesn't exist";
            report.add(Standing::Note, "cluster", text);
        }
        Read::Broken(why) => report.add(Standing::Broken, "cluster", why),
    }
    Ok(())
}

/// `klamm.id`; nobody's where it can't be ours, so that the rest is told as to a klamm with an id of its own.
async fn usable_id(
    config: &Config,
    client: &ZkClient,
    report: &mut Report,
) -> Result<BrokerId, ZkFault> {
    let id = config.klamm_id;
    match client.vet_own_id().await {
        Ok(()) => {
            report.add(Standing::Fine, "klamm.id", format!("{id} is no broker's"));
            return Ok(id);
        }
        Err(UnusableId::Zk(fault @ ZkFault::Refused { .. })) => {
            report.add(Standing::Forbids, "klamm.id", fault.to_string());
        }
        Err(UnusableId::Zk(fault)) => return Err(fault),
        Err(unusable) => report.add(Standing::Forbids, "klamm.id", unusable.to_string()),
    }
    Ok(NOBODY)
}

/// The survey of a klamm that begins. Each broker answers or lets its time go by.
async fn ask_brokers(config: &Config, brokers: Vec<BrokerRegistration>, survey: &mut Survey) {
    let (sender, mut answers) = mpsc::unbounded_channel();
    let mut channels = ControllerChannelManager::new(
        channel_config(config, CaptureTap::default()),
        tokio::runtime::Handle::current(),
        Arc::new(Answers(sender)),
        Arc::new(Metrics::default()),
    );
    let unasked = survey.register(brokers);
    channels.survey(&unasked);
    while !survey.is_complete() {
        match answers.recv().await {
            Some(answer) => survey.answered(answer),
            None => return,
        }
    }
}

/// Takes the brokers' answers out of what would go to a controller.
struct Answers(mpsc::UnboundedSender<BrokerSurvey>);

impl EventSink for Answers {
    fn put(&self, event: ControllerEvent) {
        if let ControllerEvent::BrokerSurveyed(survey) = event {
            // Whoever no longer listens has what it needs.
            self.0.send(survey).ok();
        }
    }

    fn clear_and_put(&self, event: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.put(event);
        Box::pin(std::future::ready(()))
    }
}

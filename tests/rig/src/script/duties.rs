//! The steps of the script that are about the quiet duties of the role, and the log directory that fails.

use std::fs;

use anyhow::{Context, Result};
use kafka_protocol::messages::UpdateFeaturesRequest;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::protocol::StrBytes;
use serde_json::json;

use super::OPENED_LISTENER;
use super::play::{PATIENCE, REQUEST_TIMEOUT_MS, controller, text};
use crate::broker::opened_port;
use crate::cluster::Cluster;
use crate::klamm::{FIRST_LISTENER_PORT, SECOND_LISTENER_PORT};
use crate::wait::Seen;

const LOG_DIRS: &str = "log.dirs";

/// The directory with all that the broker has becomes a plain file; an empty one beside it lets the broker start.
pub(super) fn fail_logs(cluster: &mut Cluster, id: i32) -> Result<()> {
    let (logs, kept) = log_directories(cluster, id);
    fs::rename(&logs, &kept).with_context(|| logs.display().to_string())?;
    fs::write(&logs, b"no directory").with_context(|| logs.display().to_string())?;
    let both = format!("{0},{0}-spare", logs.display());
    cluster.broker(id)?.set_property(LOG_DIRS, &both)?;
    cluster.failed_logs.insert(id);
    Ok(())
}

/// Undoes [`fail_logs`] where that was done.
pub(super) fn mend_logs(cluster: &mut Cluster, id: i32) -> Result<()> {
    if !cluster.failed_logs.remove(&id) {
        return Ok(());
    }
    let (logs, kept) = log_directories(cluster, id);
    fs::remove_file(&logs).with_context(|| logs.display().to_string())?;
    fs::rename(&kept, &logs).with_context(|| kept.display().to_string())?;
    let one = logs.display().to_string();
    cluster.broker(id)?.set_property(LOG_DIRS, &one)
}

fn log_directories(cluster: &Cluster, id: i32) -> (std::path::PathBuf, std::path::PathBuf) {
    let name = format!("broker-{id}");
    let kept = cluster.run.data(&format!("{name}-kept"));
    (cluster.run.data(&name), kept)
}

/// klamm has every listener that brokers have, or will have: else it gives the role back when one opens it.
pub(super) fn listeners_of_klamm(cluster: &Cluster) -> [(&'static str, String); 2] {
    let first = cluster.run.address.port(FIRST_LISTENER_PORT);
    let second = cluster.run.address.port(SECOND_LISTENER_PORT);
    let listeners = format!("PLAINTEXT://{first},{OPENED_LISTENER}://{second}");
    [
        ("klamm.listeners", listeners),
        ("listener.security.protocol.map", protocols()),
    ]
}

fn protocols() -> String {
    format!("PLAINTEXT:PLAINTEXT,{OPENED_LISTENER}:PLAINTEXT")
}

/// As kafka-configs does it that speaks to ZooKeeper. The registration follows, and clients that ask at the new listener
/// are told of the brokers that have one.
pub(super) fn open_listener(cluster: &mut Cluster, id: i32) -> Result<()> {
    let broker = cluster.broker(id)?;
    let first = broker.address.clone();
    let opened = cluster.run.address.port(opened_port(id));
    let registration = cluster.zk.registration(id)?;
    let registration = registration.with_context(|| format!("broker {id} is not registered"))?;
    let advertised = registration.endpoints().first().cloned();
    let advertised = advertised.with_context(|| format!("broker {id} has no endpoint"))?;
    let config = json!({"version": 1, "config": {
        "listeners": format!("PLAINTEXT://{first},{OPENED_LISTENER}://{opened}"),
        "advertised.listeners": format!("{advertised},{OPENED_LISTENER}://{opened}"),
        "listener.security.protocol.map": protocols(),
    }});
    cluster
        .zk
        .create(&format!("/config/brokers/{id}"), &text(&config))?;
    let notice = json!({"version": 2, "entity_path": format!("brokers/{id}")});
    cluster
        .zk
        .create_sequential("/config/changes/config_change_", &text(&notice))?;
    let what = format!("broker {id} to register its new listener");
    cluster
        .wait(&what, PATIENCE, |cluster| {
            let registration = cluster.zk.registration(id)?;
            let endpoints = registration.map(|it| it.endpoints()).unwrap_or_default();
            let has = endpoints
                .iter()
                .any(|endpoint| endpoint.starts_with(OPENED_LISTENER));
            Ok(if has {
                Seen::Done(())
            } else {
                Seen::Not(format!("{endpoints:?}"))
            })
        })
        .map(drop)
}

/// Waits until the token is gone.
pub(super) fn expire_token(cluster: &mut Cluster, token: &str) -> Result<()> {
    let path = format!("/delegation_token/tokens/{token}");
    let long_ago_ms = 1_700_000_000_000_i64;
    let node = json!({
        "version": 1, "owner": "User%3Asomebody", "renewers": [], "issueTimestamp": long_ago_ms,
        "maxTimestamp": long_ago_ms + 2, "expiryTimestamp": long_ago_ms + 1, "tokenId": token,
    });
    cluster.zk.create(&path, &text(&node))?;
    cluster.zk.create_sequential(
        "/delegation_token/token_changes/token_change_",
        token.as_bytes(),
    )?;
    cluster
        .wait(&format!("{path} to go"), PATIENCE, |cluster| {
            Ok(match cluster.zk.get(&path)? {
                None => Seen::Done(()),
                Some(_) => Seen::Not("it is there".to_owned()),
            })
        })
        .map(drop)
}

/// The error codes of the answer: for all of it, and for the feature.
pub(super) fn ask_to_finalize(cluster: &mut Cluster, feature: &str) -> Result<String> {
    let update = FeatureUpdateKey::default()
        .with_feature(StrBytes::from_string(feature.to_owned()))
        .with_max_version_level(1);
    let request = UpdateFeaturesRequest::default()
        .with_timeout_ms(REQUEST_TIMEOUT_MS)
        .with_feature_updates(vec![update]);
    let answer = controller(cluster)?.call(&request, 0)?;
    let each: Vec<(String, i16)> = answer
        .results
        .iter()
        .map(|said| (said.feature.to_string(), said.error_code))
        .collect();
    Ok(format!("error {}, {each:?}", answer.error_code))
}

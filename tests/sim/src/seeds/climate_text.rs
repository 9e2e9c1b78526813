//! A climate as lines of text, so that a kept story stays the same when other climates are drawn one day.
//!
//! Must never leave a field out: what is missing in a text is an error.

use super::climate::{BrokerClimate, Climate};
use crate::chance::{Rate, Span};
use crate::zk_port::TopicWatches;

impl Climate {
    /// Every field with its name, in the order in which they are written.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let broker = |b: &BrokerClimate| format!("{}:{}:{}", b.id, b.release, b.protocol);
        let brokers: Vec<String> = self.brokers.iter().map(broker).collect();
        let watches = match self.watches {
            TopicWatches::Recursive => "recursive",
            TopicWatches::OneShot => "one-shot",
        };
        let (zookeeper, network) = (&self.zookeeper, &self.network);
        vec![
            ("brokers", brokers.join(",")),
            ("klamms", self.klamms.to_string()),
            ("watches", watches.to_owned()),
            ("zookeeper-latency-ms", span(self.zookeeper_latency_ms)),
            ("zookeeper-loss-before", rate(zookeeper.loss_before)),
            ("zookeeper-loss-after", rate(zookeeper.loss_after)),
            ("zookeeper-outage-ms", span(zookeeper.outage_ms)),
            ("watch-delay-ms", span(zookeeper.watch_delay_ms)),
            (
                "session-timeout-ms",
                zookeeper.session_timeout_ms.to_string(),
            ),
            ("lag-ms", self.lag_ms.map_or("none".to_owned(), span)),
            ("request-limit-bytes", self.request_limit_bytes.to_string()),
            ("network-latency-ms", span(network.latency_ms)),
            ("network-loss-before", rate(network.loss_before)),
            ("network-loss-after", rate(network.loss_after)),
            ("network-pause-ms", span(network.pause_ms)),
            ("behind-above", network.behind_above.to_string()),
            (
                "broker-session-timeout-ms",
                self.broker_session_timeout_ms.to_string(),
            ),
            ("replica-lag-max-ms", self.replica_lag_max_ms.to_string()),
            ("broker-tick-ms", span(self.broker_tick_ms)),
            ("produce", rate(self.produce)),
            ("stall", rate(self.stall)),
            ("balances", self.balances.to_string()),
            ("safety-ms", self.safety_ms.to_string()),
            (
                "away",
                self.away.map_or("none".to_owned(), |id| id.to_string()),
            ),
        ]
    }

    /// Sets one field. `false`: there is none of this name.
    ///
    /// # Errors
    /// The value is none for this field.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "brokers" => {
                let brokers = value
                    .split(',')
                    .map(broker)
                    .collect::<Result<Vec<_>, _>>()?;
                self.protocol = lowest(&brokers);
                self.brokers = brokers;
            }
            "klamms" => self.klamms = number(value)?,
            "watches" => {
                self.watches = match value {
                    "recursive" => TopicWatches::Recursive,
                    "one-shot" => TopicWatches::OneShot,
                    _ => return Err(format!("`{value}`: recursive or one-shot is expected")),
                }
            }
            "zookeeper-latency-ms" => self.zookeeper_latency_ms = read_span(value)?,
            "zookeeper-loss-before" => self.zookeeper.loss_before = Rate(number(value)?),
            "zookeeper-loss-after" => self.zookeeper.loss_after = Rate(number(value)?),
            "zookeeper-outage-ms" => self.zookeeper.outage_ms = read_span(value)?,
            "watch-delay-ms" => self.zookeeper.watch_delay_ms = read_span(value)?,
            "session-timeout-ms" => self.zookeeper.session_timeout_ms = number(value)?,
            "lag-ms" if value == "none" => self.lag_ms = None,
            "lag-ms" => self.lag_ms = Some(read_span(value)?),
            "request-limit-bytes" => self.request_limit_bytes = number(value)?,
            "network-latency-ms" => self.network.latency_ms = read_span(value)?,
            "network-loss-before" => self.network.loss_before = Rate(number(value)?),
            "network-loss-after" => self.network.loss_after = Rate(number(value)?),
            "network-pause-ms" => self.network.pause_ms = read_span(value)?,
            "behind-above" => self.network.behind_above = number(value)?,
            "broker-session-timeout-ms" => self.broker_session_timeout_ms = number(value)?,
            "replica-lag-max-ms" => self.replica_lag_max_ms = number(value)?,
            "broker-tick-ms" => self.broker_tick_ms = read_span(value)?,
            "produce" => self.produce = Rate(number(value)?),
            "stall" => self.stall = Rate(number(value)?),
            "balances" => self.balances = number(value)?,
            "safety-ms" => self.safety_ms = number(value)?,
            "away" if value == "none" => self.away = None,
            "away" => self.away = Some(number(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn span(span: Span) -> String {
    format!("{}-{}", span.least, span.most)
}

fn rate(rate: Rate) -> String {
    rate.0.to_string()
}

fn number<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why| format!("`{text}`: {why}"))
}

fn read_span(text: &str) -> Result<Span, String> {
    let ends = text.split_once('-');
    let (least, most) = ends.ok_or_else(|| format!("`{text}`: a span is expected, as in 1-20"))?;
    Ok(Span::new(number(least)?, number(most)?))
}

fn broker(text: &str) -> Result<BrokerClimate, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [id, release, protocol] = parts.as_slice() else {
        return Err(format!(
            "`{text}`: an id, a release and a protocol are expected, as in 1:3.9:2.8"
        ));
    };
    for version in [release, protocol] {
        if let Err(why) = version.parse::<klamm::model::InterBrokerProtocol>() {
            return Err(format!("`{text}`: {why}"));
        }
    }
    Ok(BrokerClimate {
        id: number(id)?,
        release: (*release).to_owned(),
        protocol: (*protocol).to_owned(),
    })
}

/// The lowest of the brokers' protocols.
fn lowest(brokers: &[BrokerClimate]) -> String {
    let protocols = brokers.iter().map(|broker| &broker.protocol);
    let lowest = protocols.min_by_key(|protocol| crate::world::protocol(protocol));
    lowest.cloned().unwrap_or_default()
}

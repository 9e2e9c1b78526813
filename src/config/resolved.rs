//! The configuration as klamm obeys it: checked, typed, every default visible.
//!
//! Ranges and defaults are Kafka's, where Kafka has any; times keep Kafka's own units. Read once at start; nothing here
//! changes while klamm runs. Upstream counterpart: `KafkaConfig` with `validateValues`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::endpoints::{self, HostPort, Listener, ProtocolMap};
use super::error::{ConfigError, ConfigErrors};
use super::keys::{self, KeyClass};
use super::raw::{HIDDEN, RawConfig, RawValue};
use super::security::{self, SecurityScope};
use super::zookeeper_connect::ZooKeeperConnect;
use crate::model::topic_config::{self, Properties};
use crate::model::{BrokerId, Endpoint, InterBrokerProtocol, SecurityProtocol};

/// The greatest value of Kafka's INT keys, for those that klamm keeps without a sign.
const INT_MAX: u64 = 2_147_483_647;
/// The greatest value of Kafka's LONG keys.
const LONG_MAX: u64 = 9_223_372_036_854_775_807;
/// The delay doubles up to this after lost roles, so a longer first one makes no sense.
const TAKEOVER_DELAY_MAX_MS: u64 = 900_000;

/// When klamm takes the controller role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverPolicy {
    /// From a Java broker that holds it, and whenever it is vacant.
    Always,
    /// Only when nobody holds it.
    Vacant,
}

/// What becomes of a class that decides which topics may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateTopicPolicy {
    /// The files name none; klamm would not start if they did.
    None,
    /// Whoever names one, topics are created without asking it.
    Ignored,
}

/// The least severe level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// klamm's own logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The directory of `controller.log` and `state-change.log`; none for standard output.
    pub directory: Option<String>,
    pub level: LogLevel,
}

/// The capture of klamm's own control traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureConfig {
    /// The pcapng file.
    pub file: String,
    /// A file that would grow beyond this is rolled over to `FILE.1`, that to `FILE.2` and so on; 65536 and up.
    pub max_bytes: u64,
    /// How many files are kept, 1 to 1000.
    pub max_files: u32,
}

/// The way to ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    pub connect: ZooKeeperConnect,
    /// The life of `/controller` after klamm's death; at least 1, by default 18000 as in Kafka since 2.5.
    pub session_timeout_ms: u64,
    /// How long the first connection may take; by default the session timeout.
    pub connection_timeout_ms: u64,
}

/// How many keys of a configuration fell into each class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Kafka's and klamm's own keys that shape what klamm does.
    pub used: usize,
    /// Keys about a broker's own work.
    pub broker_only: usize,
    /// Keys about protection that ask for nothing here.
    pub security: usize,
    /// Neither Kafka's nor klamm's.
    pub unknown: usize,
}

/// A whole, checked configuration. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// klamm's broker id, from 0; differs from every broker's.
    pub klamm_id: BrokerId,
    /// Where klamm listens; at least one, the inter-broker listener among them. Ports from 1.
    pub listeners: Vec<Listener>,
    /// What klamm registers: the same names, in the same order, with hosts that others can dial.
    pub advertised_listeners: Vec<Listener>,
    pub takeover_policy: TakeoverPolicy,
    /// The wait before a held role is taken, 0 to 900000.
    pub takeover_delay_ms: u64,
    /// Where `/metrics` and the health pages are served; none for nowhere.
    pub http_listen: Option<HostPort>,
    pub log: LogConfig,
    /// None for no capture.
    pub capture: Option<CaptureConfig>,
    pub zookeeper: ZooKeeperConfig,
    /// `inter.broker.protocol.version` where it is given; it wins over what the brokers tell.
    pub inter_broker_protocol: Option<InterBrokerProtocol>,
    /// The listener of each broker that klamm dials, unless there is a control-plane listener.
    pub inter_broker_listener_name: String,
    /// The listener of each broker that takes control requests; none for the inter-broker listener.
    pub control_plane_listener_name: Option<String>,
    pub listener_security_protocol_map: ProtocolMap,
    /// The longest wait for a broker's answer to a control request, at least 1.
    pub controller_socket_timeout_ms: u64,
    /// The longest wait for any other answer, at least 1.
    pub request_timeout_ms: u64,
    /// The first limit for a connection to come about, at least 1.
    pub socket_connection_setup_timeout_ms: u64,
    /// The limit that it doubles up to, at least the first limit.
    pub socket_connection_setup_timeout_max_ms: u64,
    /// The largest request that klamm's listener takes, at least 1.
    pub socket_request_max_bytes: u32,
    /// When an idle connection is closed; none for never.
    pub connections_max_idle_ms: Option<u64>,
    /// How often expired delegation tokens are removed, at least 1; none where no secret key says that there are any.
    pub delegation_token_expiry_check_interval_ms: Option<u64>,
    pub auto_leader_rebalance_enable: bool,
    pub leader_imbalance_per_broker_percentage: u32,
    /// At least 1.
    pub leader_imbalance_check_interval_seconds: u64,
    /// At least 1.
    pub controller_quota_window_num: u32,
    /// At least 1.
    pub controller_quota_window_size_seconds: u32,
    /// The default of the cluster for topics that say nothing.
    pub unclean_leader_election_enable: bool,
    pub delete_topic_enable: bool,
    /// At least 1.
    pub default_replication_factor: i16,
    /// At least 1.
    pub num_partitions: i32,
    /// The properties that stand in for what topics' configurations don't say, as they are written.
    pub topic_defaults: Properties,
    /// At least 1.
    pub min_insync_replicas: i32,
    pub create_topic_policy: CreateTopicPolicy,
    pub reserved_broker_max_id: i32,
    /// The id of the broker whose file this is.
    pub broker_id: Option<BrokerId>,
    pub broker_rack: Option<String>,
    pub keys: KeyCounts,
    /// Remarks for the log: what has no effect, what is not recommended.
    pub notices: Vec<String>,
    /// The files that were read.
    pub sources: Vec<String>,
}

impl Config {
    /// Checks and types a whole configuration.
    ///
    /// # Errors
    /// All faults at once.
    pub fn resolve(raw: &RawConfig) -> Result<Self, ConfigErrors> {
        let mut reader = Reader {
            raw,
            faults: Vec::new(),
            notices: Vec::new(),
        };
        let keys = reader.count_keys();
        let zookeeper = reader.zookeeper();
        let broker_id = reader.broker_id();
        let klamm_id = reader.klamm_id(broker_id);
        let protocols = reader.protocol_map();
        let inter_broker_listener_name = reader.inter_broker_listener(&protocols);
        let control_plane_listener_name =
            reader.control_plane_listener(&protocols, &inter_broker_listener_name);
        let broker_names = reader.broker_listener_names(&protocols);
        let needed = needed_names(
            broker_names,
            &inter_broker_listener_name,
            control_plane_listener_name.as_ref(),
        );
        let listeners = reader.klamm_listeners(&protocols, &needed);
        let advertised_listeners = reader.advertised_listeners(listeners.as_deref());
        reader.judge_security(SecurityScope::Everything);
        let mut config = Self {
            klamm_id: BrokerId(klamm_id.unwrap_or_default()),
            listeners: listeners.unwrap_or_default(),
            advertised_listeners: advertised_listeners.unwrap_or_default(),
            takeover_policy: reader
                .parsed("klamm.takeover", parse_takeover_policy)
                .unwrap_or(TakeoverPolicy::Always),
            takeover_delay_ms: reader.number(
                "klamm.takeover.delay.ms",
                5_000,
                0..=TAKEOVER_DELAY_MAX_MS,
            ),
            http_listen: reader.parsed("klamm.http.listen", endpoints::parse_listen_address),
            log: reader.log(),
            capture: reader.capture(),
            zookeeper: zookeeper.unwrap_or_else(ZooKeeperConfig::placeholder),
            inter_broker_protocol: reader
                .parsed("inter.broker.protocol.version", parse_inter_broker_protocol),
            inter_broker_listener_name,
            control_plane_listener_name,
            listener_security_protocol_map: protocols,
            controller_socket_timeout_ms: reader.number(
                "controller.socket.timeout.ms",
                30_000,
                1..=INT_MAX,
            ),
            request_timeout_ms: reader.number("request.timeout.ms", 30_000, 1..=INT_MAX),
            socket_connection_setup_timeout_ms: reader.number(
                "socket.connection.setup.timeout.ms",
                10_000,
                1..=LONG_MAX,
            ),
            socket_connection_setup_timeout_max_ms: reader.number(
                "socket.connection.setup.timeout.max.ms",
                30_000,
                1..=LONG_MAX,
            ),
            socket_request_max_bytes: reader.number(
                "socket.request.max.bytes",
                104_857_600,
                1..=2_147_483_647,
            ),
            connections_max_idle_ms: u64::try_from(reader.number(
                "connections.max.idle.ms",
                600_000,
                i64::MIN..=i64::MAX,
            ))
            .ok(),
            delegation_token_expiry_check_interval_ms: reader.token_expiry_check_interval(),
            auto_leader_rebalance_enable: reader.boolean("auto.leader.rebalance.enable", true),
            leader_imbalance_per_broker_percentage: reader.number(
                "leader.imbalance.per.broker.percentage",
                10,
                0..=2_147_483_647,
            ),
            leader_imbalance_check_interval_seconds: reader.number(
                "leader.imbalance.check.interval.seconds",
                300,
                1..=LONG_MAX,
            ),
            controller_quota_window_num: reader.number(
                "controller.quota.window.num",
                11,
                1..=2_147_483_647,
            ),
            controller_quota_window_size_seconds: reader.number(
                "controller.quota.window.size.seconds",
                1,
                1..=2_147_483_647,
            ),
            unclean_leader_election_enable: reader.boolean("unclean.leader.election.enable", false),
            delete_topic_enable: reader.boolean("delete.topic.enable", true),
            default_replication_factor: reader.number(
                "default.replication.factor",
                1,
                1..=i16::MAX,
            ),
            num_partitions: reader.number("num.partitions", 1, 1..=i32::MAX),
            topic_defaults: topic_config::broker_properties()
                .filter_map(|key| Some((key.to_owned(), raw.get(key)?.trimmed().to_owned())))
                .collect(),
            min_insync_replicas: reader.number("min.insync.replicas", 1, 1..=i32::MAX),
            create_topic_policy: CreateTopicPolicy::None,
            reserved_broker_max_id: reader.number("reserved.broker.max.id", 1000, 0..=i32::MAX),
            broker_id: broker_id.map(BrokerId),
            broker_rack: reader.text("broker.rack"),
            keys,
            notices: Vec::new(),
            sources: raw.sources().to_vec(),
        };
        config.settle(&mut reader);
        match ConfigErrors::from_faults(reader.faults) {
            Some(errors) => Err(errors),
            None => Ok(config),
        }
    }

    /// What rests on several keys at once.
    fn settle(&mut self, reader: &mut Reader<'_>) {
        self.socket_connection_setup_timeout_max_ms = self
            .socket_connection_setup_timeout_max_ms
            .max(self.socket_connection_setup_timeout_ms);
        if reader.boolean("klamm.ignore.create.topic.policy", false) {
            self.create_topic_policy = CreateTopicPolicy::Ignored;
        }
        if self.klamm_id.0 > self.reserved_broker_max_id {
            reader.notices.push(format!(
                "klamm.id={} is above reserved.broker.max.id={}: a broker that generates its id could be given the same one",
                self.klamm_id, self.reserved_broker_max_id
            ));
        }
        self.notices = std::mem::take(&mut reader.notices);
    }

    /// What klamm registers, as the model has it.
    #[must_use]
    pub fn advertised_endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |listener: &Listener| Endpoint {
            listener: listener.name.as_str().into(),
            host: listener.host.as_str().into(),
            port: i32::from(listener.port),
            // Any other protocol was refused.
            security_protocol: SecurityProtocol::Plaintext,
        };
        self.advertised_listeners.iter().map(endpoint).collect()
    }

    /// One line about what was made of the keys.
    #[must_use]
    pub fn summary(&self) -> String {
        let KeyCounts {
            used,
            broker_only,
            security,
            unknown,
        } = self.keys;
        format!(
            "Configuration from {}: {used} keys used, {broker_only} left to the broker they concern, {security} about security \
             that ask for nothing here, {unknown} unknown",
            if self.sources.is_empty() {
                "the command line".to_owned()
            } else {
                self.sources.join(", ")
            }
        )
    }
}

impl ZooKeeperConfig {
    /// Checks and types only the way to ZooKeeper, for commands that need no more.
    ///
    /// # Errors
    /// All faults at once.
    pub fn resolve(raw: &RawConfig) -> Result<Self, ConfigErrors> {
        let mut reader = Reader {
            raw,
            faults: Vec::new(),
            notices: Vec::new(),
        };
        let zookeeper = reader.zookeeper();
        reader.judge_security(SecurityScope::ZooKeeper);
        match ConfigErrors::from_faults(reader.faults) {
            Some(errors) => Err(errors),
            None => Ok(zookeeper.unwrap_or_else(Self::placeholder)),
        }
    }

    /// Stands where a fault has been noted already, and is dropped with it.
    fn placeholder() -> Self {
        let connect = ZooKeeperConnect {
            servers: Vec::new(),
            chroot: None,
        };
        Self {
            connect,
            session_timeout_ms: 0,
            connection_timeout_ms: 0,
        }
    }
}

/// Every listener name that the brokers have must be one of klamm's: Kafka 1.0 answers nobody on a listener that one
/// registered node lacks, later releases leave the node out.
fn needed_names(
    mut names: Vec<String>,
    inter_broker: &str,
    control_plane: Option<&String>,
) -> Vec<String> {
    names.push(inter_broker.to_owned());
    names.extend(control_plane.cloned());
    names.sort();
    names.dedup();
    names
}

fn parse_takeover_policy(text: &str) -> Result<TakeoverPolicy, String> {
    match text.to_ascii_lowercase().as_str() {
        "always" => Ok(TakeoverPolicy::Always),
        "vacant" => Ok(TakeoverPolicy::Vacant),
        _ => Err("expected always or vacant".to_owned()),
    }
}

fn parse_inter_broker_protocol(text: &str) -> Result<InterBrokerProtocol, String> {
    text.parse::<InterBrokerProtocol>().map_err(|unknown| {
        if text.starts_with("0.") {
            "klamm speaks the protocol of Kafka 1.0 and later; raise it on the brokers first"
                .to_owned()
        } else {
            unknown.to_string()
        }
    })
}

fn parse_log_level(text: &str) -> Result<LogLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "error" => Ok(LogLevel::Error),
        "warn" => Ok(LogLevel::Warn),
        "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "trace" => Ok(LogLevel::Trace),
        _ => Err("expected error, warn, info, debug or trace".to_owned()),
    }
}

/// Reads keys and gathers faults.
struct Reader<'a> {
    raw: &'a RawConfig,
    faults: Vec<ConfigError>,
    notices: Vec<String>,
}

impl Reader<'_> {
    fn count_keys(&mut self) -> KeyCounts {
        let mut counts = KeyCounts::default();
        for (key, value) in self.raw.iter() {
            match keys::classify(key) {
                KeyClass::Klamm | KeyClass::Used => counts.used += 1,
                KeyClass::BrokerOnly => counts.broker_only += 1,
                KeyClass::Security => counts.security += 1,
                KeyClass::Unknown => counts.unknown += 1,
                KeyClass::UnknownKlamm => self.faults.push(ConfigError::UnknownKlammKey {
                    key: key.to_owned(),
                    origin: value.origin().clone(),
                    suggestion: keys::nearest_klamm_key(key),
                }),
            }
        }
        counts
    }

    fn judge_security(&mut self, scope: SecurityScope) {
        let findings = security::judge(self.raw, scope);
        self.faults.extend(findings.refusals);
        if !findings.without_effect.is_empty() {
            self.notices.push(format!(
                "These settings have no effect, because klamm has no TLS, no SASL and no authorizer, and nothing asks for them: {}",
                findings.without_effect.join(", ")
            ));
        }
        if let Some(policy) = findings.ignored_policy {
            self.notices.push(format!(
                "{policy}: klamm can't run the policy and creates topics without asking it, as klamm.ignore.create.topic.policy=true wants it"
            ));
        }
    }

    fn zookeeper(&mut self) -> Option<ZooKeeperConfig> {
        let session_timeout_ms = self.number("zookeeper.session.timeout.ms", 18_000, 1..=INT_MAX);
        let connection_timeout_ms = self.number(
            "zookeeper.connection.timeout.ms",
            session_timeout_ms,
            1..=INT_MAX,
        );
        let example =
            "it names the ensemble of the cluster, for example zk1:2181,zk2:2181,zk3:2181/kafka";
        let connect = self.required("zookeeper.connect", example, ZooKeeperConnect::parse)?;
        Some(ZooKeeperConfig {
            connect,
            session_timeout_ms,
            connection_timeout_ms,
        })
    }

    fn log(&mut self) -> LogConfig {
        let level = self
            .parsed("klamm.log.level", parse_log_level)
            .unwrap_or(LogLevel::Info);
        LogConfig {
            directory: self.text("klamm.log.dir"),
            level,
        }
    }

    fn capture(&mut self) -> Option<CaptureConfig> {
        let max_bytes = self.number("klamm.capture.max.bytes", 104_857_600, 65_536..=LONG_MAX);
        let max_files = self.number("klamm.capture.max.files", 5, 1..=1_000);
        self.text("klamm.capture.file").map(|file| CaptureConfig {
            file,
            max_bytes,
            max_files,
        })
    }

    fn broker_id(&mut self) -> Option<i32> {
        let id = self.number("broker.id", -1, -1..=i32::MAX);
        let id = if id >= 0 {
            id
        } else {
            self.number("node.id", -1, -1..=i32::MAX)
        };
        (id >= 0).then_some(id)
    }

    fn klamm_id(&mut self, broker_id: Option<i32>) -> Option<i32> {
        let explanation = "klamm is a node of the cluster and needs an id of its own, from 0, different from the broker.id of \
                           every broker and of every other klamm; for example klamm.id=900";
        self.required("klamm.id", explanation, |text| {
            let id = text.parse().ok().filter(|id| (0..=i32::MAX).contains(id));
            let id: i32 =
                id.ok_or_else(|| format!("expected a whole number from 0 to {}", i32::MAX))?;
            if Some(id) == broker_id {
                return Err(format!(
                    "the same as broker.id={id} of this file; klamm needs an id that no broker has"
                ));
            }
            Ok(id)
        })
    }

    fn protocol_map(&mut self) -> ProtocolMap {
        self.parsed(
            "listener.security.protocol.map",
            endpoints::parse_protocol_map,
        )
        .unwrap_or_else(endpoints::default_protocol_map)
    }

    /// The name, and a fault where it is given twice over, is unknown, or is not PLAINTEXT.
    fn inter_broker_listener(&mut self, protocols: &ProtocolMap) -> String {
        let name_key = "inter.broker.listener.name";
        let protocol_key = "security.inter.broker.protocol";
        let Some(name) = self.raw.get(name_key) else {
            let protocol = self
                .parsed(protocol_key, endpoints::parse_protocol)
                .unwrap_or(SecurityProtocol::Plaintext);
            if protocol != SecurityProtocol::Plaintext {
                self.refuse_protocols(protocol_key, &[(protocol.name().to_owned(), protocol)]);
            }
            return protocol.name().to_owned();
        };
        if self.raw.get(protocol_key).is_some() {
            self.invalid(
                name_key,
                name,
                format!("only one of it and {protocol_key} may be set"),
            );
        }
        let name = endpoints::normalised(name.trimmed());
        self.check_protocols(name_key, std::slice::from_ref(&name), protocols);
        name
    }

    fn control_plane_listener(
        &mut self,
        protocols: &ProtocolMap,
        inter_broker: &str,
    ) -> Option<String> {
        let key = "control.plane.listener.name";
        let value = self.raw.get(key)?;
        let name = endpoints::normalised(value.trimmed());
        if name == inter_broker {
            self.invalid(
                key,
                value,
                "must differ from the inter-broker listener".to_owned(),
            );
        }
        self.check_protocols(key, std::slice::from_ref(&name), protocols);
        Some(name)
    }

    /// The names that the broker whose file this is registers.
    fn broker_listener_names(&mut self, protocols: &ProtocolMap) -> Vec<String> {
        let mut names = Vec::new();
        for key in ["listeners", "advertised.listeners"] {
            let Some(listeners) = self.parsed(key, endpoints::parse_listeners) else {
                continue;
            };
            names = listeners
                .into_iter()
                .map(|listener| listener.name)
                .collect();
            self.check_protocols(key, &names, protocols);
        }
        names
    }

    fn klamm_listeners(
        &mut self,
        protocols: &ProtocolMap,
        needed: &[String],
    ) -> Option<Vec<Listener>> {
        let key = "klamm.listeners";
        let mut port = 9191;
        let example = needed.iter().map(|name| {
            port += 1;
            format!("{name}://klamm1.example.org:{port}")
        });
        let explanation = format!(
            "brokers and clients dial klamm as they dial a broker, on every listener name that the brokers have; for example \
             klamm.listeners={}",
            example.collect::<Vec<_>>().join(",")
        );
        let listeners = self.required(key, &explanation, |text| {
            let listeners = endpoints::parse_listeners(text)?;
            endpoints::check_own_listeners(&listeners, needed)?;
            Ok(listeners)
        })?;
        let names: Vec<_> = listeners
            .iter()
            .map(|listener| listener.name.clone())
            .collect();
        self.check_protocols(key, &names, protocols);
        Some(listeners)
    }

    fn advertised_listeners(&mut self, listeners: Option<&[Listener]>) -> Option<Vec<Listener>> {
        let listeners = listeners?;
        let key = "klamm.advertised.listeners";
        let Some(value) = self.raw.get(key) else {
            if let Some(listener) = listeners
                .iter()
                .find(|listener| endpoints::dials_nowhere(&listener.host))
            {
                let explanation = format!(
                    "klamm listens on every address for {listener}, and others need one that they can dial; for example \
                     {key}={}://klamm1.example.org:{}",
                    listener.name, listener.port
                );
                self.faults.push(ConfigError::Missing { key, explanation });
            }
            return Some(listeners.to_vec());
        };
        match endpoints::in_order_of(listeners, value.trimmed()) {
            Ok(advertised) => Some(advertised),
            Err(reason) => {
                self.invalid(key, value, reason);
                None
            }
        }
    }

    /// Faults where a name has no protocol, or one that klamm does not speak.
    fn check_protocols(&mut self, key: &str, names: &[String], protocols: &ProtocolMap) {
        let Some(value) = self.raw.get(key) else {
            return;
        };
        let mut secured = Vec::new();
        for name in names {
            match protocols.get(name) {
                None => {
                    let reason = format!(
                        "listener.security.protocol.map gives no protocol for the listener {name}"
                    );
                    self.invalid(key, value, reason);
                }
                Some(SecurityProtocol::Plaintext) => {}
                Some(protocol) => secured.push((name.clone(), *protocol)),
            }
        }
        if !secured.is_empty() {
            self.refuse_protocols(key, &secured);
        }
    }

    fn refuse_protocols(&mut self, key: &str, secured: &[(String, SecurityProtocol)]) {
        let Some(value) = self.raw.get(key) else {
            return;
        };
        let named: Vec<_> = secured
            .iter()
            .map(|(name, protocol)| format!("{name} ({})", protocol.name()))
            .collect();
        self.faults.push(ConfigError::CannotHonour {
            key: key.to_owned(),
            origin: value.origin().clone(),
            why: format!(
                "asks for a protected listener, {}, and klamm speaks PLAINTEXT only so far",
                named.join(", ")
            ),
            remedy: "klamm needs a cluster whose listeners are all PLAINTEXT".to_owned(),
        });
    }

    fn invalid(&mut self, key: &str, value: &RawValue, reason: String) {
        let shown = if keys::may_hold_secret(key) {
            HIDDEN
        } else {
            value.trimmed()
        };
        self.faults.push(ConfigError::Invalid {
            key: key.to_owned(),
            origin: value.origin().clone(),
            shown: shown.to_owned(),
            reason,
        });
    }

    /// The value where it is given and right; a fault where it is wrong.
    fn parsed<T>(&mut self, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let value = self.raw.get(key)?;
        match parse(value.trimmed()) {
            Ok(parsed) => Some(parsed),
            Err(reason) => {
                self.invalid(key, value, reason);
                None
            }
        }
    }

    fn required<T>(
        &mut self,
        key: &'static str,
        explanation: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.raw.get(key).is_none() {
            self.faults.push(ConfigError::Missing {
                key,
                explanation: explanation.to_owned(),
            });
        }
        self.parsed(key, parse)
    }

    fn number<T: FromStr + PartialOrd + fmt::Display>(
        &mut self,
        key: &str,
        default: T,
        range: RangeInclusive<T>,
    ) -> T {
        let parsed = self.parsed(key, |text| {
            let number = text.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| {
                format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
            })
        });
        parsed.unwrap_or(default)
    }

    /// The key itself isn't needed to see that a token is over.
    fn token_expiry_check_interval(&mut self) -> Option<u64> {
        let key = "delegation.token.expiry.check.interval.ms";
        let interval_ms = self.number(key, 3_600_000, 1..=LONG_MAX);
        let secret_keys = ["delegation.token.secret.key", "delegation.token.master.key"];
        let mut texts = secret_keys.into_iter().filter_map(|key| self.text(key));
        texts.any(|text| !text.is_empty()).then_some(interval_ms)
    }

    fn boolean(&mut self, key: &str, default: bool) -> bool {
        self.parsed(key, security::parse_boolean).unwrap_or(default)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.raw.get(key).map(|value| value.trimmed().to_owned())
    }
}

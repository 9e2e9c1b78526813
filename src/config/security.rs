//! Which settings ask for a protection that klamm does not have, and are refused rather than ignored.
//!
//! The rule: a key that holds an identity, a trust anchor, a credential, a policy or foreign code for security is
//! refused whatever else the file says, because a listener may be added to a broker at run time. A key that only tunes
//! TLS, SASL or an authorizer has no effect where neither exists; it is named in the log. Nothing here is dropped in
//! silence. Upstream counterparts: `KafkaConfig.validateValues`, `BrokerSecurityConfigs`, `ZkConfigs`.

use super::error::ConfigError;
use super::keys::{KeyClass, base_name, classify};
use super::raw::{RawConfig, RawValue};

/// What the security keys of a configuration come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecurityFindings {
    /// Why klamm can't start.
    pub refusals: Vec<ConfigError>,
    /// Keys without effect, each with its place, for the log.
    pub without_effect: Vec<String>,
    /// A policy that the operator wants klamm to lead without, with its place, for the log.
    pub ignored_policy: Option<String>,
}

/// The part of a configuration that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityScope {
    /// All of it: klamm serves and drives brokers.
    Everything,
    /// Only the way to ZooKeeper, for `klamm handback` and `klamm takeover`.
    ZooKeeper,
}

enum Verdict {
    /// Has no effect on klamm, and needs none.
    WithoutEffect,
    /// A value that asks for nothing.
    AsksNothing,
    /// A policy that topics are created without, on the operator's word.
    IgnoredPolicy,
    Refused {
        why: &'static str,
        remedy: &'static str,
    },
}

const NEEDS_PLAINTEXT: &str = "klamm needs a cluster whose listeners are all PLAINTEXT; if no broker uses this key, unset it with an empty --override";
const NO_KRAFT: &str =
    "klamm leads clusters whose metadata is in ZooKeeper; leave the role to the KRaft controllers";
const NO_ACLS: &str = "do not use klamm on a cluster with access control yet";

const NO_TLS: Verdict = Verdict::Refused {
    why: "asks for TLS, which klamm does not speak yet",
    remedy: NEEDS_PLAINTEXT,
};
const NO_SASL: Verdict = Verdict::Refused {
    why: "asks for SASL, which klamm does not speak yet",
    remedy: NEEDS_PLAINTEXT,
};
const NO_ZOOKEEPER_TLS: Verdict = Verdict::Refused {
    why: "asks for TLS to ZooKeeper, which klamm does not speak yet",
    remedy: "klamm needs a plain-text client port of ZooKeeper; zookeeper.ssl.client.enable=false says that the brokers use one",
};

/// Judges all security keys of a configuration.
#[must_use]
pub fn judge(raw: &RawConfig, scope: SecurityScope) -> SecurityFindings {
    let mut findings = SecurityFindings::default();
    for (key, value) in raw
        .iter()
        .filter(|(key, _)| classify(key) == KeyClass::Security)
    {
        if scope == SecurityScope::ZooKeeper && !key.starts_with("zookeeper.") {
            continue;
        }
        match verdict(raw, base_name(key), value) {
            Ok(Verdict::AsksNothing) => {}
            Ok(Verdict::IgnoredPolicy) => {
                findings.ignored_policy = Some(format!("{key} ({})", value.origin()));
            }
            Ok(Verdict::WithoutEffect) => findings
                .without_effect
                .push(format!("{key} ({})", value.origin())),
            Ok(Verdict::Refused { why, remedy }) => {
                findings.refusals.push(ConfigError::CannotHonour {
                    key: key.to_owned(),
                    origin: value.origin().clone(),
                    why: why.to_owned(),
                    remedy: remedy.to_owned(),
                })
            }
            Err(reason) => findings.refusals.push(ConfigError::Invalid {
                key: key.to_owned(),
                origin: value.origin().clone(),
                shown: value.trimmed().to_owned(),
                reason,
            }),
        }
    }
    findings
}

fn verdict(raw: &RawConfig, base: &str, value: &RawValue) -> Result<Verdict, String> {
    let refused_if = |asked: bool, why: &'static str, remedy: &'static str| {
        if asked {
            Verdict::Refused { why, remedy }
        } else {
            Verdict::AsksNothing
        }
    };
    let text = value.trimmed();
    Ok(match base {
        "zookeeper.set.acl" => refused_if(
            parse_boolean(text)?,
            "asks for ACLs on the znodes, and what klamm creates would stand open beside them",
            "klamm has no identity towards ZooKeeper yet; use it only where zookeeper.set.acl is false on every broker",
        ),
        "zookeeper.metadata.migration.enable" => refused_if(
            parse_boolean(text)?,
            "a migration to KRaft is under way",
            NO_KRAFT,
        ),
        "zookeeper.ssl.client.enable" if parse_boolean(text)? => NO_ZOOKEEPER_TLS,
        "zookeeper.ssl.client.enable" => Verdict::AsksNothing,
        _ if base.starts_with("zookeeper.ssl.") => zookeeper_tls_verdict(raw, base),
        "process.roles" | "controller.listener.names" => {
            refused_if(true, "belongs to a node of a KRaft cluster", NO_KRAFT)
        }
        "authorizer.class.name" => refused_if(
            true,
            "asks for an authorizer, and klamm checks no ACLs yet",
            NO_ACLS,
        ),
        "principal.builder.class" => refused_if(
            !text.ends_with(".DefaultKafkaPrincipalBuilder"),
            "names a Java class that tells who a client is; klamm can't run it",
            NO_ACLS,
        ),
        "security.providers" => refused_if(
            true,
            "names Java classes for security; klamm can't run them",
            NEEDS_PLAINTEXT,
        ),
        "config.providers" => refused_if(
            true,
            "lets values stand outside of the file, and klamm does not look them up yet",
            "give klamm a copy of the file with the values written out and without this key",
        ),
        "create.topic.policy.class.name" => create_topic_policy_verdict(raw)?,
        _ if base.starts_with("ssl.") => tls_verdict(base, text),
        _ if base.starts_with("sasl.") => sasl_verdict(base),
        // `password.encoder.*` opens the secrets that a broker keeps for itself in /config/brokers/<its id>; klamm's id
        // has none. `super.users` and the like speak to an authorizer, refused above, and the token times to the brokers that grant tokens.
        _ => Verdict::WithoutEffect,
    })
}

fn zookeeper_tls_verdict(raw: &RawConfig, base: &str) -> Verdict {
    // Not set is not off: a system property of the broker's JVM may have turned it on.
    let off = raw
        .get("zookeeper.ssl.client.enable")
        .is_some_and(|value| value.trimmed().eq_ignore_ascii_case("false"));
    if !off
        && base.contains("store.")
        && (base.ends_with(".location") || base.ends_with(".password"))
    {
        NO_ZOOKEEPER_TLS
    } else {
        Verdict::WithoutEffect
    }
}

fn tls_verdict(base: &str, text: &str) -> Verdict {
    match base {
        "ssl.client.auth" if text.eq_ignore_ascii_case("none") => Verdict::AsksNothing,
        "ssl.client.auth"
        | "ssl.engine.factory.class"
        | "ssl.key.password"
        | "ssl.keystore.certificate.chain"
        | "ssl.keystore.key"
        | "ssl.keystore.location"
        | "ssl.keystore.password"
        | "ssl.truststore.certificates"
        | "ssl.truststore.location"
        | "ssl.truststore.password" => NO_TLS,
        _ => Verdict::WithoutEffect,
    }
}

fn sasl_verdict(base: &str) -> Verdict {
    let asks = base.ends_with(".callback.handler.class")
        || base.ends_with(".endpoint.url")
        || matches!(
            base,
            "sasl.jaas.config" | "sasl.login.class" | "sasl.kerberos.service.name"
        );
    if asks {
        NO_SASL
    } else {
        Verdict::WithoutEffect
    }
}

fn create_topic_policy_verdict(raw: &RawConfig) -> Result<Verdict, String> {
    let ignore = raw.get("klamm.ignore.create.topic.policy");
    Ok(
        match ignore
            .map(|value| parse_boolean(value.trimmed()))
            .transpose()
        {
            Ok(Some(true)) => Verdict::IgnoredPolicy,
            // A wrong value of klamm's own key is told where that key is read.
            Ok(_) | Err(_) => Verdict::Refused {
                why: "names a Java class that decides which topics may be created; klamm can't run it",
                remedy: "klamm.ignore.create.topic.policy=true creates topics without asking it",
            },
        },
    )
}

/// Kafka's booleans: true or false in any case.
///
/// # Errors
/// The reason in words.
pub(super) fn parse_boolean(text: &str) -> Result<bool, String> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err("expected true or false".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> SecurityFindings {
        let mut raw = RawConfig::default();
        raw.add_file("s", text.as_bytes()).unwrap();
        judge(&raw, SecurityScope::Everything)
    }

    #[test]
    fn every_key_that_asks_for_protection_is_refused() {
        for line in [
            "ssl.keystore.location=/k",
            "ssl.keystore.password=x",
            "ssl.key.password=x",
            "ssl.keystore.key=x",
            "ssl.keystore.certificate.chain=x",
            "ssl.truststore.location=/t",
            "ssl.truststore.password=x",
            "ssl.truststore.certificates=x",
            "ssl.engine.factory.class=x.Y",
            "ssl.client.auth=required",
            "listener.name.client.ssl.keystore.location=/k",
            "sasl.jaas.config=x",
            "listener.name.client.plain.sasl.jaas.config=x",
            "listener.name.client.plain.sasl.server.callback.handler.class=x.Y",
            "sasl.kerberos.service.name=kafka",
            "sasl.login.class=x.Y",
            "sasl.oauthbearer.jwks.endpoint.url=https://x",
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "principal.builder.class=x.Y",
            "security.providers=x.Y",
            "config.providers=file",
            "create.topic.policy.class.name=x.Y",
            "process.roles=broker",
            "controller.listener.names=CONTROLLER",
            "zookeeper.metadata.migration.enable=TRUE",
            "zookeeper.set.acl= true ",
            "zookeeper.ssl.client.enable=True",
            "zookeeper.ssl.keystore.location=/k",
            "zookeeper.ssl.truststore.password=x",
        ] {
            let findings = findings(line);
            let key = line.split('=').next().unwrap();
            assert_eq!(findings.refusals.len(), 1, "{line}");
            assert!(
                findings.refusals[0]
                    .to_string()
                    .starts_with(&format!("s line 1: {key}: ")),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn keys_that_only_tune_what_is_absent_are_named_and_taken() {
        let text = "ssl.protocol=TLSv1.3\nsasl.enabled.mechanisms=PLAIN\nsuper.users=User:a\npassword.encoder.secret=x\n\
                    connections.max.reauth.ms=1\ndelegation.token.expiry.time.ms=1\nzookeeper.ssl.protocol=TLSv1.2\n\
                    zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty";
        let findings = findings(text);
        assert_eq!(findings.refusals, []);
        assert_eq!(findings.without_effect.len(), 8, "{findings:?}");
        assert!(
            findings
                .without_effect
                .contains(&"super.users (s line 3)".to_owned())
        );
        assert!(!format!("{findings:?}").contains("=x"));
    }

    #[test]
    fn values_that_ask_for_nothing_are_taken() {
        let text = "ssl.client.auth=none\nzookeeper.set.acl=false\nzookeeper.ssl.client.enable=false\n\
                    zookeeper.ssl.keystore.location=/k\nauthorizer.class.name=\nzookeeper.metadata.migration.enable=false\n\
                    principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder";
        let findings = findings(text);
        assert_eq!(findings.refusals, []);
        assert_eq!(
            findings.without_effect,
            ["zookeeper.ssl.keystore.location (s line 4)"]
        );
    }

    #[test]
    fn a_topic_policy_may_be_ignored_on_the_operators_word() {
        let text = "create.topic.policy.class.name=x.Y\nklamm.ignore.create.topic.policy=true";
        let found = findings(text);
        assert_eq!((found.refusals, found.without_effect), (vec![], vec![]));
        assert_eq!(
            found.ignored_policy.as_deref(),
            Some("create.topic.policy.class.name (s line 1)")
        );
        let text = "create.topic.policy.class.name=x.Y\nklamm.ignore.create.topic.policy=false";
        assert_eq!(findings(text).refusals.len(), 1);
    }

    #[test]
    fn a_switch_with_a_slip_of_the_pen_stops_the_start() {
        let findings = findings("zookeeper.set.acl=ture");
        assert_eq!(
            findings.refusals[0].to_string(),
            "s line 1: zookeeper.set.acl=ture: expected true or false"
        );
    }

    #[test]
    fn a_command_that_only_talks_to_zookeeper_looks_at_its_keys_only() {
        let mut raw = RawConfig::default();
        raw.add_file("s", b"authorizer.class.name=x.Y\nzookeeper.set.acl=true")
            .unwrap();
        assert_eq!(judge(&raw, SecurityScope::ZooKeeper).refusals.len(), 1);
    }
}

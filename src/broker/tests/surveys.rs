//! What a broker is asked before klamm relies on it, and what is made of silence.

use klamm_codec::StrBytes;
use klamm_codec::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};

use super::super::SurveyQuestions;
use super::*;
use crate::model::{SharedSetting, SharedSettings};
use crate::port::{BrokerSurvey, Brokers, SurveyOutcome};

fn settings(values: &[(&'static str, &'static str)]) -> DescribeConfigsResponse {
    let configs = values.iter().map(|(name, value)| {
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(name))
            .with_value(Some(StrBytes::from_static_str(value)))
    });
    let result = DescribeConfigsResult::default()
        .with_resource_type(4)
        .with_resource_name(StrBytes::from_static_str("1"))
        .with_configs(configs.collect());
    DescribeConfigsResponse::default().with_results(vec![result])
}

fn described(values: &[(&'static str, &'static str)]) -> Character {
    Character {
        describe_configs: Some(settings(values)),
        ..V3_9.into()
    }
}

async fn surveyed(node: &mut Node) -> BrokerSurvey {
    loop {
        if let ControllerEvent::BrokerSurveyed(survey) = node.event().await {
            return survey;
        }
    }
}

async fn outcome_of(character: impl Into<Character>, config: ChannelConfig) -> SurveyOutcome {
    let broker = FakeBroker::start(character).await;
    let mut node = Node::with(config);
    node.manager.survey(&[broker.registration(1, 50)]);
    let survey = surveyed(&mut node).await;
    assert_eq!(survey.incarnation, incarnation(1, 50));
    survey.outcome
}

fn quick() -> ChannelConfig {
    ChannelConfig {
        survey_timeout_ms: 300,
        ..config()
    }
}

fn answered(protocol: Option<&str>, authorizer: Option<&str>) -> SurveyOutcome {
    SurveyOutcome::Answered {
        protocol: protocol.map(|text| text.parse().unwrap()),
        authorizer: authorizer.map(str::to_owned),
        shared: SharedSettings::new(),
    }
}

/// The same without what was said of shared settings.
fn without_shared(mut outcome: SurveyOutcome) -> SurveyOutcome {
    if let SurveyOutcome::Answered { shared, .. } = &mut outcome {
        shared.clear();
    }
    outcome
}

#[tokio::test]
async fn a_broker_says_its_protocol_and_its_authorizer() {
    let plain = [
        ("inter.broker.protocol.version", "2.4-IV1"),
        ("authorizer.class.name", ""),
    ];
    assert_eq!(
        without_shared(outcome_of(described(&plain), config()).await),
        answered(Some("2.4-IV1"), None)
    );
    let secured = [
        ("inter.broker.protocol.version", "3.9"),
        (
            "authorizer.class.name",
            "kafka.security.authorizer.AclAuthorizer",
        ),
    ];
    assert_eq!(
        without_shared(outcome_of(described(&secured), config()).await),
        answered(
            Some("3.9-IV0"),
            Some("kafka.security.authorizer.AclAuthorizer")
        )
    );
}

#[tokio::test]
async fn a_broker_is_asked_about_itself_for_these_settings_only() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.survey(&[broker.registration(1, 50)]);
    surveyed(&mut node).await;
    let (versions, configs) = (broker.question().await, broker.question().await);
    assert_eq!(
        (versions.key(), versions.version()),
        (ApiKey::API_VERSIONS, 0)
    );
    let asked: DescribeConfigsRequest = configs.read();
    let [resource] = asked.resources.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!(
        (resource.resource_type, resource.resource_name.as_str()),
        (4, "1")
    );
    let keys = resource.configuration_keys.as_ref().unwrap();
    assert_eq!(
        keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(),
        [
            "inter.broker.protocol.version",
            "unclean.leader.election.enable",
            "delete.topic.enable",
            "num.partitions",
            "default.replication.factor",
            "min.insync.replicas",
            "auto.leader.rebalance.enable",
            "leader.imbalance.per.broker.percentage",
            "leader.imbalance.check.interval.seconds",
            "create.topic.policy.class.name",
            "authorizer.class.name"
        ]
    );
}

#[tokio::test]
async fn a_broker_says_what_it_has_of_the_shared_settings_but_not_what_all_have() {
    let mut said = settings(&[
        ("num.partitions", "12"),
        ("delete.topic.enable", "false"),
        ("unclean.leader.election.enable", "true"),
        ("create.topic.policy.class.name", ""),
        ("default.replication.factor", ""),
        ("log.dirs", "/data"),
    ]);
    let configs = &mut said.results[0].configs;
    // Of /config/brokers/<default>, which klamm reads by itself.
    configs[2].config_source = 3;
    configs[3].value = None;
    configs[4].value = None;
    let broker = Character {
        describe_configs: Some(said),
        ..V3_9.into()
    };
    let SurveyOutcome::Answered { shared, .. } = outcome_of(broker, config()).await else {
        panic!("it answered")
    };
    let expected = [
        (SharedSetting::DeleteTopicEnable, "false"),
        (SharedSetting::NumPartitions, "12"),
        (SharedSetting::CreateTopicPolicyClassName, ""),
    ];
    let found: Vec<_> = shared
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_broker_that_can_not_be_asked_for_its_settings_has_answered_all_the_same() {
    let silent = Character {
        describe_configs: None,
        ..V3_9.into()
    };
    assert_eq!(outcome_of(silent, quick()).await, answered(None, None));

    let mut not_offered = V3_9.api_versions();
    not_offered
        .api_keys
        .retain(|api| api.api_key != ApiKey::DESCRIBE_CONFIGS.0);
    let not_offered = Character {
        api_versions: Some(not_offered),
        describe_configs: None,
    };
    let mut long = config();
    long.survey_timeout_ms = 600_000;
    assert_eq!(outcome_of(not_offered, long).await, answered(None, None));

    let refused = DescribeConfigsResult::default().with_error_code(31);
    let refused = DescribeConfigsResponse::default().with_results(vec![refused]);
    let refused = Character {
        describe_configs: Some(refused),
        ..V3_9.into()
    };
    assert_eq!(outcome_of(refused, config()).await, answered(None, None));

    let strange = described(&[("inter.broker.protocol.version", "9.9-IV9")]);
    let outcome = outcome_of(strange, config()).await;
    assert_eq!(without_shared(outcome), answered(None, None));
}

#[tokio::test]
async fn a_broker_that_does_not_even_say_its_versions_is_silent() {
    let silent = Character {
        api_versions: None,
        describe_configs: None,
    };
    let outcome = outcome_of(silent, quick()).await;
    let SurveyOutcome::Silent(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains("within 300 ms"), "{why}");
}

#[tokio::test]
async fn a_broker_that_nobody_can_reach_is_silent_and_the_reason_is_told() {
    let mut node = Node::new();
    node.manager.survey(&[registration(1, 50, vec![])]);
    let SurveyOutcome::Silent(why) = surveyed(&mut node).await.outcome else {
        panic!()
    };
    assert!(why.contains("no listener named INTERNAL"), "{why}");

    let broker = FakeBroker::start(V3_9).await;
    let gone = broker.registration(1, 50);
    drop(broker);
    tokio::task::yield_now().await;
    node.manager.survey(std::slice::from_ref(&gone));
    let SurveyOutcome::Silent(why) = surveyed(&mut node).await.outcome else {
        panic!()
    };
    assert!(
        why.contains(&format!(
            "INTERNAL://127.0.0.1:{}",
            gone.broker.endpoints[0].port
        )),
        "{why}"
    );
}

#[tokio::test]
async fn a_kraft_broker_is_recognised() {
    let mut kraft = V3_9.api_versions();
    kraft.api_keys.retain(|api| !(4..=6).contains(&api.api_key));
    let kraft = Character {
        api_versions: Some(kraft),
        ..V3_9.into()
    };
    assert_eq!(
        outcome_of(kraft, config()).await,
        SurveyOutcome::NotZooKeeperMode
    );
}

#[tokio::test]
async fn a_broker_too_old_or_new_to_be_told_anything_is_not_relied_on() {
    let ancient = Release {
        leader_and_isr: 0,
        ..V1_0
    };
    let outcome = outcome_of(Character::from(ancient), config()).await;
    let SurveyOutcome::Silent(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains("no common version of LeaderAndIsr"), "{why}");
}

#[tokio::test]
async fn settings_are_not_asked_for_where_the_operator_said_the_protocol() {
    let mut broker =
        FakeBroker::start(described(&[("inter.broker.protocol.version", "3.9")])).await;
    let mut node = Node::with(ChannelConfig {
        survey: SurveyQuestions::VersionsOnly,
        ..config()
    });
    node.manager.survey(&[broker.registration(1, 50)]);
    assert_eq!(surveyed(&mut node).await.outcome, answered(None, None));
    assert_eq!(broker.question().await.key(), ApiKey::API_VERSIONS);
    broker.end().await;
    assert!(broker.questions.is_empty());
}

#[tokio::test]
async fn a_broker_is_surveyed_when_it_is_added() {
    let broker = FakeBroker::start(described(&[("inter.broker.protocol.version", "3.9")])).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let survey = surveyed(&mut node).await;
    assert_eq!(survey.incarnation, incarnation(1, 50));
    assert_eq!(without_shared(survey.outcome), answered(Some("3.9"), None));
}

#[tokio::test]
async fn a_survey_forgets_what_brokers_said_that_are_neither_asked_nor_led() {
    let (one, two) = (FakeBroker::start(V2_4).await, FakeBroker::start(V3_9).await);
    let mut node = Node::new();
    let ranges = node.manager.ranges();
    node.manager
        .survey(&[one.registration(1, 50), two.registration(2, 51)]);
    surveyed(&mut node).await;
    surveyed(&mut node).await;
    assert!(ranges.of(BrokerId(1)).is_some() && ranges.of(BrokerId(2)).is_some());
    node.manager.survey(&[two.registration(2, 51)]);
    assert!(ranges.of(BrokerId(1)).is_none() && ranges.of(BrokerId(2)).is_some());
}

#[tokio::test]
async fn a_broker_that_was_surveyed_is_not_asked_again_when_it_is_added() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.survey(&[broker.registration(1, 50)]);
    surveyed(&mut node).await;
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    broker.order().await;
    let asked: Vec<ApiKey> = std::iter::from_fn(|| broker.questions.try_recv().ok())
        .map(|question| question.key())
        .collect();
    let (versions, configs) = (ApiKey::API_VERSIONS, ApiKey::DESCRIBE_CONFIGS);
    assert_eq!(asked, [versions, configs, versions]);

    node.manager.add_broker(&broker.registration(1, 60));
    assert_eq!(surveyed(&mut node).await.incarnation, incarnation(1, 60));
}

//! Tests of who may take the role, and when.

use super::*;
use crate::effect::Term;
use crate::model::{Broker, BrokerEpoch, ControllerEpoch, Endpoint, Features};

fn view(holder: Holder) -> RoleView {
    let epoch = Some(Term {
        epoch: ControllerEpoch(7),
        epoch_zk_version: 7,
    });
    RoleView {
        epoch,
        holder,
        own_registration: None,
        on_hold: false,
        migrating: false,
    }
}

fn registration(
    id: i32,
    listener: &str,
    security_protocol: SecurityProtocol,
) -> BrokerRegistration {
    let endpoint = Endpoint {
        listener: listener.into(),
        host: "h".into(),
        port: 9092,
        security_protocol,
    };
    let broker = Broker {
        id: BrokerId(id),
        endpoints: vec![endpoint],
        rack: None,
        features: Features::new(),
    };
    BrokerRegistration {
        broker,
        epoch: BrokerEpoch(100 + i64::from(id)),
        json_version: 4,
    }
}

fn plain(id: i32) -> BrokerRegistration {
    registration(id, "PLAINTEXT", SecurityProtocol::Plaintext)
}

fn answer(id: i32, outcome: SurveyOutcome) -> BrokerSurvey {
    let incarnation = Incarnation {
        broker: BrokerId(id),
        epoch: BrokerEpoch(100 + i64::from(id)),
    };
    BrokerSurvey {
        incarnation,
        outcome,
    }
}

fn fine(id: i32) -> BrokerSurvey {
    answer(
        id,
        SurveyOutcome::Answered {
            protocol: None,
            authorizer: None,
            shared: SharedSettings::new(),
        },
    )
}

fn survey_of(registered: Vec<BrokerRegistration>, answers: Vec<BrokerSurvey>) -> Survey {
    let mut survey = Survey::new(vec!["PLAINTEXT".to_owned()]);
    survey.register(registered);
    answers.into_iter().for_each(|one| survey.answered(one));
    survey
}

fn fit() -> Survey {
    survey_of(vec![], vec![])
}

#[test]
fn who_holds_the_role_decides_whether_to_take_it() {
    let always = Candidacy::new(TakeoverPolicy::Always, 5_000);
    let vacant = Candidacy::new(TakeoverPolicy::Vacant, 5_000);
    let by_broker = Holder::Broker {
        id: BrokerId(1),
        version: 0,
    };
    let by_klamm = Holder::Klamm {
        id: BrokerId(900),
        version: 0,
    };
    let unreadable = Holder::Unreadable {
        version: 0,
        why: "not JSON".to_owned(),
    };
    let rows = [
        (Holder::Nobody, Intent::Take, Intent::Take),
        (Holder::Namesake { version: 0 }, Intent::Take, Intent::Take),
        (Holder::Ourselves, Intent::Take, Intent::Take),
        (
            by_broker,
            Intent::Take,
            Intent::StandBy(StandingBy::HeldByBroker(BrokerId(1))),
        ),
        (unreadable, Intent::Take, Intent::Take),
        (
            by_klamm,
            Intent::StandBy(StandingBy::AnotherKlamm(BrokerId(900))),
            Intent::StandBy(StandingBy::AnotherKlamm(BrokerId(900))),
        ),
        (
            Holder::Kraft,
            Intent::StandBy(StandingBy::Kraft),
            Intent::StandBy(StandingBy::Kraft),
        ),
    ];
    for (holder, if_always, if_vacant) in rows {
        assert_eq!(
            always.intent(&view(holder.clone()), &fit(), false, 0),
            if_always,
            "{holder:?}"
        );
        assert_eq!(
            vacant.intent(&view(holder.clone()), &fit(), false, 0),
            if_vacant,
            "{holder:?}"
        );
    }
}

#[test]
fn a_hold_or_a_migration_keeps_it_from_contending_even_for_a_vacant_role() {
    let candidacy = Candidacy::new(TakeoverPolicy::Always, 5_000);
    let held = RoleView {
        on_hold: true,
        ..view(Holder::Nobody)
    };
    assert_eq!(
        candidacy.intent(&held, &fit(), false, 0),
        Intent::StandBy(StandingBy::OnHold)
    );
    let migrating = RoleView {
        migrating: true,
        ..view(Holder::Ourselves)
    };
    assert_eq!(
        candidacy.intent(&migrating, &fit(), true, 0),
        Intent::StandBy(StandingBy::Kraft)
    );
}

#[test]
fn each_quick_loss_doubles_the_wait_for_a_held_role_but_never_for_a_vacant_one() {
    let mut candidacy = Candidacy::new(TakeoverPolicy::Always, 5_000);
    let held = view(Holder::Broker {
        id: BrokerId(1),
        version: 3,
    });
    let mut now_ms = 0;
    for expected_ms in [
        5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 900_000, 900_000,
    ] {
        candidacy.role_taken(now_ms);
        candidacy.role_lost(now_ms);
        let at_ms = now_ms + expected_ms;
        assert_eq!(
            candidacy.intent(&held, &fit(), false, now_ms),
            Intent::WaitUntil { at_ms }
        );
        assert_eq!(
            candidacy.intent(&view(Holder::Nobody), &fit(), false, now_ms),
            Intent::Take
        );
        assert_eq!(candidacy.intent(&held, &fit(), false, at_ms), Intent::Take);
        now_ms = at_ms;
    }
    candidacy.role_taken(now_ms);
    let long_after = now_ms + CONTESTED_WITHIN_MS + 1;
    candidacy.role_lost(long_after);
    assert_eq!(
        candidacy.intent(&held, &fit(), false, long_after),
        Intent::WaitUntil {
            at_ms: long_after + 5_000
        }
    );
}

#[test]
fn the_role_is_not_taken_before_the_brokers_answered() {
    let registered = vec![plain(1), plain(2), plain(3)];
    let survey = survey_of(registered.clone(), vec![fine(1), fine(2)]);
    assert_eq!(survey.verdict(), Verdict::Pending);
    let silent = answer(3, SurveyOutcome::Silent("connection refused".to_owned()));
    assert_eq!(
        survey_of(registered.clone(), vec![fine(1), fine(2), silent.clone()]).verdict(),
        Verdict::Fit
    );
    let silent_too = answer(2, SurveyOutcome::Silent("no answer".to_owned()));
    let survey = survey_of(registered, vec![fine(1), silent_too, silent]);
    assert!(matches!(
        survey.verdict(),
        Verdict::Unfit(Unfit::TooManySilent {
            silent: 2,
            total: 3,
            ..
        })
    ));
}

#[test]
fn half_of_the_brokers_silent_is_too_many() {
    let silent = answer(2, SurveyOutcome::Silent("no answer".to_owned()));
    let survey = survey_of(vec![plain(1), plain(2)], vec![fine(1), silent]);
    assert!(matches!(
        survey.verdict(),
        Verdict::Unfit(Unfit::TooManySilent {
            silent: 1,
            total: 2,
            ..
        })
    ));
}

/// A broker that is gone is no broker that doesn't answer.
#[test]
fn silent_brokers_that_are_gone_dont_keep_it_from_the_role() {
    let silent = |id| answer(id, SurveyOutcome::Silent("no answer".to_owned()));
    let all = vec![plain(1), plain(2), plain(3), plain(4)];
    let mut survey = survey_of(all, vec![fine(1), fine(2), silent(3), silent(4)]);
    assert_eq!(survey.silent().len(), 2);
    survey.register(vec![plain(1), plain(2)]);
    assert_eq!(survey.verdict(), Verdict::Fit);
    assert_eq!(survey.silent(), []);
}

#[test]
fn what_brokers_that_are_gone_said_is_no_answer_of_those_that_are_new() {
    let mut survey = survey_of(vec![plain(1), plain(2)], vec![fine(1), fine(2)]);
    survey.register(vec![plain(1), plain(3)]);
    assert_eq!(survey.verdict(), Verdict::Pending);
    survey.answered(fine(3));
    assert_eq!(survey.verdict(), Verdict::Fit);
}

#[test]
fn what_it_cannot_serve_makes_it_unfit() {
    let secured = survey_of(
        vec![registration(1, "SSL", SecurityProtocol::Ssl)],
        vec![fine(1)],
    );
    assert!(matches!(
        secured.verdict(),
        Verdict::Unfit(Unfit::SecuredListener { .. })
    ));
    let unknown = survey_of(
        vec![registration(1, "CLIENTS", SecurityProtocol::Plaintext)],
        vec![fine(1)],
    );
    assert!(matches!(
        unknown.verdict(),
        Verdict::Unfit(Unfit::ListenerMissing { .. })
    ));
    let authorizer = SurveyOutcome::Answered {
        protocol: None,
        authorizer: Some("A".to_owned()),
        shared: SharedSettings::new(),
    };
    let authorizing = survey_of(vec![plain(1)], vec![answer(1, authorizer)]);
    assert!(matches!(
        authorizing.verdict(),
        Verdict::Unfit(Unfit::Authorizer { .. })
    ));
    let kraft = survey_of(
        vec![plain(1)],
        vec![answer(1, SurveyOutcome::NotZooKeeperMode)],
    );
    assert_eq!(
        kraft.verdict(),
        Verdict::Unfit(Unfit::NotZooKeeperMode(BrokerId(1)))
    );
}

#[test]
fn the_least_protocol_counts_and_a_restart_lowers_nothing() {
    let said = |id: i32, protocol: &str| {
        answer(
            id,
            SurveyOutcome::Answered {
                protocol: protocol.parse().ok(),
                authorizer: None,
                shared: SharedSettings::new(),
            },
        )
    };
    let mut survey = survey_of(vec![plain(1), plain(2)], vec![said(1, "3.9")]);
    assert_eq!(
        survey.least_protocol(),
        "3.9".parse().ok(),
        "2 has yet to answer"
    );
    survey.answered(answer(2, SurveyOutcome::Silent("no answer".to_owned())));
    assert_eq!(
        survey.least_protocol(),
        Some(InterBrokerProtocol::new(2, 6, 0)),
        "registration 4 implies no more"
    );
    survey.answered(said(2, "2.8"));
    assert_eq!(survey.least_protocol(), "2.8".parse().ok());
    let bounced = BrokerRegistration {
        epoch: BrokerEpoch(500),
        ..plain(2)
    };
    survey.register(vec![plain(1), bounced]);
    assert_eq!(survey.least_protocol(), "2.8".parse().ok());
    survey.register(vec![plain(1)]);
    assert_eq!(survey.least_protocol(), "3.9".parse().ok());
    assert_eq!(fit().least_protocol(), None);
}

#[test]
fn only_new_incarnations_and_silent_brokers_are_asked_again() {
    let mut survey = survey_of(vec![plain(1), plain(2)], vec![fine(1)]);
    survey.answered(answer(2, SurveyOutcome::Silent("no answer".to_owned())));
    let bounced = BrokerRegistration {
        epoch: BrokerEpoch(500),
        ..plain(1)
    };
    let asked =
        |found: Vec<BrokerRegistration>| found.iter().map(|r| r.broker.id.0).collect::<Vec<_>>();
    assert_eq!(asked(survey.register(vec![plain(1), plain(2)])), vec![2]);
    survey.answered(fine(2));
    assert_eq!(asked(survey.register(vec![bounced, plain(2)])), vec![1]);
    survey.answered(fine(1));
    assert_eq!(
        survey.verdict(),
        Verdict::Pending,
        "an answer of the older incarnation proves nothing"
    );
}

#[test]
fn every_holder_is_told_in_words() {
    let why = "no JSON".to_owned();
    let broken = Holder::Unreadable { version: 0, why };
    let id = BrokerId(3);
    for (holder, words) in [
        (Holder::Nobody, "nobody holds it"),
        (Holder::Ourselves, "our session holds it"),
        (Holder::Klamm { id, version: 0 }, "klamm 3 holds it"),
        (Holder::Broker { id, version: 0 }, "broker 3 holds it"),
        (Holder::Kraft, "a KRaft controller holds it"),
        (broken, "/controller can't be read: no JSON"),
    ] {
        assert_eq!(describe(&holder), words);
    }
}

#[test]
fn a_role_that_was_never_taken_is_not_lost() {
    let mut candidacy = Candidacy::new(TakeoverPolicy::Always, 5_000);
    let survey = survey_of(vec![plain(1)], vec![fine(1)]);
    let id = BrokerId(1);
    candidacy.role_lost(1_000);
    let held = view(Holder::Broker { id, version: 0 });
    let intent = candidacy.intent(&held, &survey, false, 1_001);
    assert_eq!(intent, Intent::Take, "no wait has begun");
    candidacy.role_taken(1_001);
    candidacy.role_lost(1_002);
    let intent = candidacy.intent(&held, &survey, false, 1_003);
    assert_eq!(intent, Intent::WaitUntil { at_ms: 6_002 });
}

//! Makes a failing story short: acts are left out and the climate eased for as long as it fails in the same way.
//!
//! Must never give a story that doesn't fail, and never one that fails in another way: that is another bug.

use super::scenario::{Ease, Scenario};
use super::trace::Trace;
use super::{NOT_AT_REST, Outcome, play};

/// How often a story is played at most before the shortest so far is good enough.
const PLAYS_MAX: usize = 600;

/// A story that fails, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// The story.
    pub scenario: Scenario,
    /// What was broken, or did not come to rest.
    pub failure: String,
}

/// How long what tells failures apart may be.
const KIND_MAX: usize = 120;

/// Who did it doesn't tell failures apart. klamms and brokers are named with numbers.
const AUTHORS: [&str; 4] = ["Rival", "Rival:", "Operator", "Operator:"];

/// How a failure is told from another: the words of its first two lines that say what was broken, without who did it, where,
/// and the values.
pub fn kind_of(failure: &str) -> String {
    let is_telling = |line: &&str| !line.trim().is_empty() && !line.contains(NOT_AT_REST);
    let lines = failure.lines().filter(is_telling).take(2);
    let words = lines.flat_map(str::split_whitespace).filter(|w| tells(w));
    let words: Vec<&str> = words.collect();
    words.join(" ").chars().take(KIND_MAX).collect()
}

fn tells(word: &str) -> bool {
    let is_value = |c: char| c.is_ascii_digit() || "/()[]{}".contains(c);
    !word.contains(is_value) && !AUTHORS.contains(&word)
}

/// The shortest story found that fails as this one does.
pub fn shrink(failing: Failing) -> Failing {
    shrink_by(failing, |scenario| play(scenario, Trace::default()))
}

fn shrink_by(failing: Failing, play: impl Fn(&Scenario) -> Outcome) -> Failing {
    let kind = kind_of(&failing.failure);
    let mut plays = 0;
    let mut still_fails = |scenario: &Scenario| {
        plays += 1;
        let failure = play(scenario).failure.filter(|_| plays <= PLAYS_MAX)?;
        (kind_of(&failure) == kind).then(|| Failing {
            scenario: scenario.clone(),
            failure,
        })
    };
    let mut shortest = failing;
    loop {
        let before = shortest.scenario.clone();
        shortest = without_acts(shortest, &mut still_fails);
        shortest = eased(shortest, &mut still_fails);
        if shortest.scenario == before {
            return shortest;
        }
    }
}

/// Leaves out halves, quarters, … and single acts.
fn without_acts(
    mut shortest: Failing,
    still_fails: &mut impl FnMut(&Scenario) -> Option<Failing>,
) -> Failing {
    let mut length = shortest.scenario.acts.len().div_ceil(2);
    while length > 0 {
        let mut from = 0;
        while from < shortest.scenario.acts.len() {
            let mut shorter = shortest.scenario.clone();
            let to = (from + length).min(shorter.acts.len());
            shorter.acts.drain(from..to);
            match still_fails(&shorter) {
                Some(failing) => shortest = failing,
                None => from = to,
            }
        }
        length = if length == 1 { 0 } else { length.div_ceil(2) };
    }
    shortest
}

fn eased(
    mut shortest: Failing,
    still_fails: &mut impl FnMut(&Scenario) -> Option<Failing>,
) -> Failing {
    for ease in Ease::ALL {
        let mut easier = shortest.scenario.clone();
        ease.apply(&mut easier.climate);
        if easier != shortest.scenario
            && let Some(failing) = still_fails(&easier)
        {
            shortest = failing;
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::act::Kind;

    /// Fails where a klamm is killed before a topic is deleted, and ZooKeeper is slow.
    fn played(scenario: &Scenario) -> Outcome {
        let place = |kind| scenario.acts.iter().position(|act| act.kind == kind);
        let (killed, deleted) = (place(Kind::KillKlamm), place(Kind::DeleteTopicByNode));
        let in_order = killed.zip(deleted).is_some_and(|(one, other)| one < other);
        let is_slow = scenario.climate.zookeeper_latency_ms.most > 1;
        let other = scenario
            .acts
            .is_empty()
            .then(|| "another failure".to_owned());
        let failure = (in_order && is_slow).then(|| "topic t1 is lost at 17".to_owned());
        Outcome {
            failure: failure.or(other),
            trace: Trace::default(),
        }
    }

    #[test]
    fn what_is_left_is_what_it_takes_and_it_fails_in_the_same_way() {
        let scenario = (1..).map(Scenario::of);
        let scenario = scenario.filter(|one| one.acts.len() > 20 && one.climate.klamms > 1);
        let mut failing = scenario.filter_map(|scenario| {
            let failure = played(&scenario).failure?;
            Some(Failing { scenario, failure })
        });
        let shortest = shrink_by(failing.next().unwrap(), played);
        let kinds: Vec<Kind> = shortest.scenario.acts.iter().map(|act| act.kind).collect();
        assert_eq!(kinds, [Kind::KillKlamm, Kind::DeleteTopicByNode]);
        assert_eq!(shortest.scenario.climate.klamms, 1);
        assert_eq!(
            shortest.scenario.climate.produce,
            crate::chance::Rate::NEVER
        );
        assert!(shortest.scenario.climate.zookeeper_latency_ms.most > 1);
        assert_eq!(shortest.failure, "topic t1 is lost at 17");
    }

    #[test]
    fn numbers_and_the_general_words_dont_tell_failures_apart() {
        assert_eq!(kind_of("t-0 is lost at 17"), kind_of("t-1 is lost at 8"));
        assert_ne!(kind_of("t-0 is lost"), kind_of("t-0 is led twice"));
        let unrest = "it does not come to rest:\nbroker 1 is behind";
        assert_eq!(kind_of(unrest), kind_of("broker 2 is behind"));
    }

    /// What the checkers say of a state that was written.
    fn of_state(path: &str, author: &str, breach: &str) -> String {
        let state = "StateRead { leader_and_isr: LeaderAndIsr { leader: BrokerId(1), isr: [1] } }";
        format!("{path}: {author}: {breach}: from Some({state}) to {state}")
    }

    #[test]
    fn failures_are_told_apart_by_what_was_broken_and_not_by_who_did_it_where() {
        let path = |topic: &str| format!("/brokers/topics/{topic}/partitions/0/state");
        let (outside, fell) = (
            "the leader is not in the in-sync set",
            "the leader epoch fell",
        );
        let by_klamm = of_state(&path("t1"), "Klamm(BrokerId(9))", outside);
        let by_other = of_state(&path("another"), "Klamm(BrokerId(10))", outside);
        assert_eq!(kind_of(&by_klamm), kind_of(&by_other));
        for author in ["Rival", "Broker(BrokerId(3))", "Operator"] {
            let by_author = of_state(&path("t1"), author, outside);
            assert_eq!(kind_of(&by_klamm), kind_of(&by_author), "{author}");
        }
        let of_epoch = of_state(&path("t1"), "Klamm(BrokerId(9))", fell);
        assert_ne!(kind_of(&by_klamm), kind_of(&of_epoch));
        let unrest = "once broker 3 is back it does not come to rest:\nt1-0 has no state";
        assert_eq!(kind_of(unrest), kind_of("t2-1 has no state"));
    }
}

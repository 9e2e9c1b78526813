//! `klamm check` before a takeover: what it says, what it ends with, and that it writes nothing.

use anyhow::{Context, Result, bail, ensure};

use super::acts::{self, PATIENCE};
use super::refusals::{changed, refused, tree_at_rest};
use super::{Choice, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::{self, FIRST_ID};
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::wait::Seen;

pub const CHECK: Story = Story {
    name: "check",
    about: "klamm check reads a cluster, writes nothing and tells what differs, is broken and forbids a takeover",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: check,
    klamm_may_log: &[Listed {
        fragments: &["num.partitions is 7 here, but 4 on brokers"],
        reason: "klamm is started with another default than the brokers",
    }],
    brokers_may_log: &[],
};

/// A value that no broker of the rig has.
const DIFFERING: (&str, &str) = ("num.partitions", "7");
const POLICY: (&str, &str) = ("create.topic.policy.class.name", "com.example.Policy");
const IGNORED: (&str, &str) = ("klamm.ignore.create.topic.policy", "true");
/// Neither brokers nor a Java controller look at it again before something tells them to.
const BROKEN: &str = "/config/topics/orders";

fn check(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("a topic is there", || {
        cluster.create_topic("orders", 4, 2)?;
        cluster.wait_topic("orders", 4, PATIENCE)?;
        cluster.wait_all_led(PATIENCE)?;
        Ok("")
    })?;
    teller.step(
        "a check with a broker's own file finds nothing amiss",
        || {
            let all = cluster.genuine_ids().len();
            let settings = format!("as on {all} brokers");
            let sees = ["Nothing forbids a takeover", "klamm takes it", &settings];
            let said = looked(cluster, "fine", &[], 0, &sees)?;
            for word in ["differs", "broken", "forbids  "] {
                let amiss = said.lines().find(|line| line.starts_with(word));
                ensure!(amiss.is_none(), "it says:\n{said}");
            }
            Ok("")
        },
    )?;
    teller.step("another default than the brokers' is told", || {
        let sees = ["differs", "num.partitions is 7 here, but 4 on brokers"];
        looked(cluster, "differing", &[DIFFERING], 0, &sees)?;
        Ok("")
    })?;
    teller.step("a broken node is named", || {
        let (sound, _) = cluster
            .zk
            .get(BROKEN)?
            .context("a topic without a configuration")?;
        cluster.zk.set(BROKEN, b"no json")?;
        looked(cluster, "broken", &[], 0, &["broken", BROKEN])?;
        cluster.zk.set(BROKEN, &sound)?;
        Ok("")
    })?;
    teller.step("what forbids a start forbids a takeover", || {
        let sees = ["forbids", "klamm must not take the role"];
        let of_a_broker = [("klamm.id", "2")];
        looked(cluster, "of-a-broker", &of_a_broker, 5, &sees)?;
        looked(cluster, "policy", &[POLICY], 3, &[POLICY.0, IGNORED.0])?;
        let ignored = ["note", "creates topics without asking it"];
        looked(cluster, "ignored", &[POLICY, IGNORED], 0, &ignored)?;
        Ok("")
    })?;
    teller.step("a policy that klamm can't run stops its start", || {
        refused(
            cluster,
            "policy-of-the-file",
            &[POLICY],
            &[POLICY.0, IGNORED.0],
        )
    })?;
    teller.step("klamm takes over and says which default differs", || {
        let told = acts::takeover_with(cluster, &[DIFFERING])?;
        says_what_differs(cluster)?;
        Ok(told)
    })?;
    teller.step("a check of a second klamm sees the first", || {
        let sees = ["klamm 900 holds the role", "Nothing forbids a takeover"];
        looked(cluster, "second", &[("klamm.id", "901")], 0, &sees)?;
        Ok("")
    })
}

/// A check with the first broker's file and `lines` must end with `code`, say every one of `needles`, and write nothing.
fn looked(
    cluster: &mut Cluster,
    name: &str,
    lines: &[(&str, &str)],
    code: i32,
    needles: &[&str],
) -> Result<String> {
    let config = klamm::config_of(
        &cluster.run,
        &cluster.first_config()?,
        &format!("check-{name}"),
        lines,
        &[],
    )?;
    let before = tree_at_rest(cluster)?;
    let (status, said) =
        klamm::run_to_end(&cluster.run, "check", &format!("check-{name}"), &config)?;
    let after = cluster.zk.tree()?;
    ensure!(
        status.code() == Some(code),
        "klamm check ended with {status}, not with code {code}; it said:\n{said}"
    );
    if let Some(needle) = needles.iter().find(|needle| !said.contains(**needle)) {
        bail!("klamm check doesn't say {needle:?}:\n{said}");
    }
    if let Some(path) = changed(&before, &after).next() {
        bail!("klamm check wrote, or {path} was written meanwhile");
    }
    Ok(said)
}

fn says_what_differs(cluster: &mut Cluster) -> Result<Told> {
    let log = cluster.klamm(FIRST_ID)?.process.log().to_path_buf();
    cluster.wait("klamm to say what differs", PATIENCE, |_| {
        let text = std::fs::read_to_string(&log).context("klamm's log can't be read")?;
        let told = text
            .lines()
            .any(|line| line.contains("WARN") && line.contains("num.partitions is 7 here"));
        Ok(match told {
            true => Seen::Done(()),
            false => Seen::Not("its log doesn't".to_owned()),
        })
    })?;
    Ok("".into())
}

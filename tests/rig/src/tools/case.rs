//! One case of the suite: a command line of a genuine tool, and what is known of it before it is run. Plain data.

use std::fmt;

use super::Tool;
use crate::version::KafkaVersion;

/// How the tools reach the cluster in one pass over the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `--bootstrap-server` names the genuine brokers.
    Brokers,
    /// `--bootstrap-server` names klamm's node alone; under the Java controller, the broker that is it.
    Controller,
    /// `--zookeeper`, up to 2.8.
    ZooKeeper,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Brokers, Self::Controller, Self::ZooKeeper];

    /// A letter for the names of the topics and groups of this pass.
    pub const fn letter(self) -> char {
        match self {
            Self::Brokers => 'b',
            Self::Controller => 'c',
            Self::ZooKeeper => 'z',
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Brokers => "by the brokers",
            Self::Controller => "by the controller",
            Self::ZooKeeper => "by ZooKeeper",
        })
    }
}

/// The releases that have something: from `since` on, before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Releases {
    since: (u8, u8),
    until: (u8, u8),
}

impl Releases {
    pub const ALL: Self = Self {
        since: (0, 0),
        until: (4, 0),
    };
    pub const NONE: Self = Self {
        since: (4, 0),
        until: (4, 0),
    };

    pub const fn since(major: u8, minor: u8) -> Self {
        Self {
            since: (major, minor),
            until: (4, 0),
        }
    }

    pub const fn before(major: u8, minor: u8) -> Self {
        Self {
            since: (0, 0),
            until: (major, minor),
        }
    }

    pub const fn have(self, version: KafkaVersion) -> bool {
        version.at_least(self.since.0, self.since.1)
            && !version.at_least(self.until.0, self.until.1)
    }
}

/// How the command must end under the Java controller: a case that ends otherwise checks something else than it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Code 0, and no error is named.
    Well,
    /// Another code, or an error is named.
    Refused,
    /// Differs from release to release, or from pass to pass.
    Either,
}

/// What the command leaves behind, which decides what is waited for before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    AsItWas,
    /// Something to be done; the next command finds it done.
    AtRest,
    /// Something under way that the next command is to meet.
    UnderWay,
}

/// What of the answer is the controller's, or chance's, choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    Nothing,
    /// Which brokers have the replicas; how many they are is not.
    Replicas,
    /// Salts and hashed passwords.
    Secrets,
    /// Producer ids, times and durations.
    Figures,
}

/// One command line.
///
/// In `arguments` and `file` these stand for what is known only when they are run: `{server}` (`--bootstrap-server …` or
/// `--zookeeper …`), `{bootstrap}` and `{zookeeper}` (the addresses alone), `{t}` (a prefix of names that belongs to the
/// pass), `{file}` (the path of `file`), `{klamm}` (klamm's id).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub name: &'static str,
    pub tool: Tool,
    /// Separated by spaces.
    pub arguments: &'static str,
    pub file: Option<&'static str>,
    pub releases: Releases,
    /// The releases that have it by `--bootstrap-server`, and by `--zookeeper`.
    pub bootstrap: Releases,
    pub zookeeper: Releases,
    pub ends: Ends,
    pub leaves: Leaves,
    pub chosen: Chosen,
    /// Asked again until this stands in the answer, as far as it takes time by nature.
    pub until: Option<&'static str>,
    pub clusters: Clusters,
}

/// The clusters on which the answer does not depend on which broker the tool happens to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clusters {
    Any,
    OfOneRelease,
}

/// A case that changes something and ends well.
pub const fn case(name: &'static str, tool: Tool, arguments: &'static str) -> Case {
    let (bootstrap, zookeeper) = forms(tool);
    Case {
        name,
        tool,
        arguments,
        file: None,
        releases: Releases::ALL,
        bootstrap,
        zookeeper,
        ends: Ends::Well,
        leaves: Leaves::AtRest,
        chosen: Chosen::Nothing,
        until: None,
        clusters: Clusters::Any,
    }
}

/// The releases that have the tool by `--bootstrap-server`, and by `--zookeeper`.
const fn forms(tool: Tool) -> (Releases, Releases) {
    let gone_in_3_0 = Releases::before(3, 0);
    match tool {
        Tool::Topics => (Releases::since(2, 2), gone_in_3_0),
        Tool::Configs => (Releases::since(2, 6), gone_in_3_0),
        Tool::ReassignPartitions => (Releases::since(2, 6), gone_in_3_0),
        Tool::LeaderElection => (Releases::since(2, 4), Releases::NONE),
        Tool::PreferredReplicaElection => (
            Releases {
                since: (2, 2),
                until: (3, 0),
            },
            gone_in_3_0,
        ),
        Tool::Acls => (Releases::since(2, 1), gone_in_3_0),
        Tool::Features => (Releases::since(2, 7), Releases::NONE),
        Tool::Transactions => (Releases::since(3, 0), Releases::NONE),
        Tool::ConsumerGroups
        | Tool::LogDirs
        | Tool::DeleteRecords
        | Tool::BrokerApiVersions
        | Tool::ProducerPerfTest
        | Tool::StreamsApplicationReset => (Releases::ALL, Releases::NONE),
    }
}

impl Case {
    /// A case that changes nothing.
    pub const fn looks(mut self) -> Self {
        self.leaves = Leaves::AsItWas;
        self
    }

    pub const fn leaves_under_way(mut self) -> Self {
        self.leaves = Leaves::UnderWay;
        self
    }

    pub const fn refused(mut self) -> Self {
        self.ends = Ends::Refused;
        self
    }

    pub const fn ends_either_way(mut self) -> Self {
        self.ends = Ends::Either;
        self
    }

    pub const fn chosen(mut self, chosen: Chosen) -> Self {
        self.chosen = chosen;
        self
    }

    pub const fn file(mut self, content: &'static str) -> Self {
        self.file = Some(content);
        self
    }

    pub const fn on(mut self, releases: Releases) -> Self {
        self.releases = releases;
        self
    }

    pub const fn by_bootstrap(mut self, releases: Releases) -> Self {
        self.bootstrap = releases;
        self
    }

    pub const fn by_zookeeper(mut self, releases: Releases) -> Self {
        self.zookeeper = releases;
        self
    }

    pub const fn until(mut self, text: &'static str) -> Self {
        self.until = Some(text);
        self
    }

    pub const fn on_clusters_of_one_release(mut self) -> Self {
        self.clusters = Clusters::OfOneRelease;
        self
    }

    /// By what `version` is to do it in the pass `way`; `None` where it does not.
    pub const fn form(&self, version: KafkaVersion, way: Way) -> Option<Form> {
        if !self.releases.have(version) {
            return None;
        }
        match way {
            Way::Brokers | Way::Controller if self.bootstrap.have(version) => Some(Form::Bootstrap),
            // A pass must have its topics, and releases that do it by ZooKeeper alone do it so in every pass.
            Way::Brokers | Way::Controller if self.zookeeper.have(version) => Some(Form::ZooKeeper),
            Way::ZooKeeper if self.zookeeper.have(version) => Some(Form::ZooKeeper),
            Way::Brokers | Way::Controller | Way::ZooKeeper => None,
        }
    }
}

/// What a command line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Bootstrap,
    ZooKeeper,
}

/// The passes over the cases of `version`: one by ZooKeeper where it has both forms.
pub fn ways(version: KafkaVersion) -> Vec<Way> {
    let (bootstrap, zookeeper) = forms(Tool::Topics);
    let both = bootstrap.have(version) && zookeeper.have(version);
    Way::ALL
        .into_iter()
        .filter(|way| both || *way != Way::ZooKeeper)
        .collect()
}

/// What the places in a command line stand for in one pass.
#[derive(Debug, Clone)]
pub struct Places {
    pub bootstrap: String,
    pub zookeeper: String,
    /// A prefix of names.
    pub prefix: String,
    pub klamm: i32,
}

impl Places {
    pub fn fill(&self, text: &str, form: Form, file: &str) -> String {
        let server = match form {
            Form::Bootstrap => format!("--bootstrap-server {}", self.bootstrap),
            Form::ZooKeeper => format!("--zookeeper {}", self.zookeeper),
        };
        text.replace("{server}", &server)
            .replace("{bootstrap}", &self.bootstrap)
            .replace("{zookeeper}", &self.zookeeper)
            .replace("{t}", &self.prefix)
            .replace("{file}", file)
            .replace("{klamm}", &self.klamm.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPICS: Case = case("x", Tool::Topics, "{server} --list");

    #[test]
    fn a_release_without_the_form_of_a_pass_uses_the_one_it_has() {
        let form = |version, way| TOPICS.form(version, way);
        assert_eq!(
            form(KafkaVersion::V1_1_1, Way::Controller),
            Some(Form::ZooKeeper)
        );
        assert_eq!(
            form(KafkaVersion::V2_4_1, Way::Controller),
            Some(Form::Bootstrap)
        );
        assert_eq!(
            form(KafkaVersion::V2_4_1, Way::ZooKeeper),
            Some(Form::ZooKeeper)
        );
        assert_eq!(form(KafkaVersion::V3_9_2, Way::ZooKeeper), None);
    }

    #[test]
    fn releases_with_both_forms_have_a_pass_by_zookeeper() {
        assert_eq!(ways(KafkaVersion::V1_1_1), [Way::Brokers, Way::Controller]);
        assert_eq!(ways(KafkaVersion::V2_8_2), Way::ALL);
        assert_eq!(ways(KafkaVersion::V3_9_2), [Way::Brokers, Way::Controller]);
    }

    #[test]
    fn places_are_filled() {
        let places = Places {
            bootstrap: "a:1".into(),
            zookeeper: "z:2".into(),
            prefix: "p".into(),
            klamm: 900,
        };
        let filled = places.fill(
            "{server} --x {file} {t}-a {klamm} {bootstrap}",
            Form::ZooKeeper,
            "/f",
        );
        assert_eq!(filled, "--zookeeper z:2 --x /f p-a 900 a:1");
    }
}

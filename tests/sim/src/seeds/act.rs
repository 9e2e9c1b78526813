//! What befalls a world: what operators ask for, what brokers do for reasons of their own, and what goes wrong.
//!
//! An act says what is tried and when; whom it concerns follows from its draw and from the world as it is then, so that an
//! act can be left out of a story without changing the others. Must never be applied here.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $weight:literal $word:literal,)*) => {
        /// What is tried.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// How often it is tried, beside the others.
            pub fn weight(self) -> u64 {
                match self {
                    $(Kind::$name => $weight,)*
                }
            }

            /// What a story calls it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Kind::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    // Operators and clients.
    /// A tool writes a topic's node.
    CreateTopicByNode 6 "create-topic-by-node",
    /// A client asks the controller for a topic.
    CreateTopicByApi 6 "create-topic-by-api",
    /// A broker creates a topic of its own accord, and places a replica on klamm's node.
    AutoCreateTopic 4 "auto-create-topic",
    /// A tool adds a partition to a topic's node.
    ExpandByNode 3 "expand-by-node",
    /// A client asks the controller for more partitions.
    ExpandByApi 3 "expand-by-api",
    /// A tool asks for a deletion.
    DeleteTopicByNode 3 "delete-topic-by-node",
    /// A client asks the controller for a deletion.
    DeleteTopicByApi 3 "delete-topic-by-api",
    /// A tool writes where partitions are to be.
    ReassignByNode 5 "reassign-by-node",
    /// A client asks the controller to move a partition.
    ReassignByApi 7 "reassign-by-api",
    /// A client asks the controller to cancel a move.
    CancelByApi 3 "cancel-by-api",
    /// A client asks which partitions are being moved.
    ListReassignments 1 "list-reassignments",
    /// A tool asks for preferred leaders.
    PreferByNode 3 "prefer-by-node",
    /// A client asks the controller for preferred leaders.
    PreferByApi 4 "prefer-by-api",
    /// A client asks the controller for leaders, in sync or not.
    ElectUncleanly 2 "elect-uncleanly",
    /// An operator allows a topic to have unclean leaders, or forbids it again.
    AllowUnclean 2 "allow-unclean",
    /// An operator allows all topics to have unclean leaders, or forbids it again.
    AllowUncleanByDefault 1 "allow-unclean-by-default",
    /// A broker wants producer ids.
    AllocateProducerIds 2 "allocate-producer-ids",
    /// An operator changes the finalized features.
    UpdateFeatures 1 "update-features",
    /// An operator changes the credentials of a user.
    AlterScram 1 "alter-scram",
    /// An operator limits what a client may create.
    LimitCreations 1 "limit-creations",
    /// An operator asks whether the controller knows what ZooKeeper holds.
    Compare 1 "compare",
    /// A broker leaves as it should, and comes back.
    LeaveAndReturn 6 "leave-and-return",
    /// A broker changes its listeners in place.
    MoveEndpoint 2 "move-endpoint",
    /// An operator writes nonsense into an admin node.
    BreakAdminNode 2 "break-admin-node",
    /// An operator writes nonsense into a topic's node, and mends it later.
    BreakTopicNode 1 "break-topic-node",
    /// An operator puts the hold on all klamms, and takes it away later.
    Hold 2 "hold",
    /// An operator deletes `/controller`.
    DeleteController 2 "delete-controller",
    /// A klamm is told to end, gives the role back, and is started again.
    StopKlamm 2 "stop-klamm",
    /// A broker's Java controller takes the role when it can, and gives it up later.
    RivalContends 4 "rival-contends",

    // What goes wrong.
    /// A broker's process ends; its session lives until it times out.
    CrashBroker 5 "crash-broker",
    /// A broker's process ends and its session with it.
    KillBroker 4 "kill-broker",
    /// A broker is gone and back before anybody looks.
    BounceBroker 4 "bounce-broker",
    /// A broker hangs for a while.
    PauseBroker 4 "pause-broker",
    /// A broker loses its session and registers again.
    ExpireBroker 3 "expire-broker",
    /// A broker loses a log directory.
    FailLogDir 3 "fail-log-dir",
    /// The connection between a controller and a broker is cut.
    CutBroker 3 "cut-broker",
    /// A klamm's process is killed, and started again.
    KillKlamm 5 "kill-klamm",
    /// A klamm hangs for a while, perhaps longer than its session.
    PauseKlamm 4 "pause-klamm",
    /// A klamm's session ends.
    ExpireKlamm 4 "expire-klamm",
    /// A klamm's connection to ZooKeeper is cut.
    CutKlamm 4 "cut-klamm",
    /// A klamm connects to another ZooKeeper server.
    MoveKlamm 2 "move-klamm",
    /// The rival's session ends in the midst of what it does.
    ExpireRival 2 "expire-rival",
    /// ZooKeeper refuses a klamm's next call.
    RefuseKlamm 2 "refuse-klamm",
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Something that is tried at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act {
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// What.
    pub kind: Kind,
    /// What chooses whom it concerns, and how.
    pub draw: u64,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.at_ms, self.kind, self.draw)
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(line: &str) -> Result<Act, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at_ms, kind, draw] = words.as_slice() else {
            return Err(format!(
                "`{line}` is no act: a time, a kind and a draw are expected"
            ));
        };
        let kind = Kind::ALL.iter().find(|known| known.word() == *kind);
        Ok(Act {
            at_ms: at_ms.parse().map_err(|why| format!("`{at_ms}`: {why}"))?,
            kind: *kind.ok_or_else(|| format!("`{line}`: no such kind of act"))?,
            draw: u64::from_str_radix(draw, 16).map_err(|why| format!("`{draw}`: {why}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_is_read_as_it_is_written() {
        for kind in Kind::ALL {
            let act = Act {
                at_ms: 12_345,
                kind: *kind,
                draw: 0xABCD,
            };
            assert_eq!(act.to_string().parse(), Ok(act));
        }
        for broken in [
            "",
            "1 kill-klamm",
            "1 no-such-act 0",
            "x kill-klamm 0",
            "1 kill-klamm g",
        ] {
            assert!(broken.parse::<Act>().is_err(), "{broken}");
        }
    }
}

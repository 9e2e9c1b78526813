//! Requests that wait for a controller: on their way there, at a klamm, and the answers on their way back.
//!
//! Every request through the API is answered once, or its connection ends with the process that it was sent to. Must never
//! answer in a controller's place.

use klamm::effect::{Answer, ReplyTo};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerEpoch, BrokerId, TopicName};

/// Who wrote, and so who is to hear of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// A client, who makes nothing of it.
    Client,
    /// Who asks a world at rest afresh, and must be answered with success.
    Afresh,
    /// A broker's leaders that want new in-sync sets, and how often its process had been started.
    IsrChange(BrokerId, u64),
    /// A client that waits until a topic is gone for clients, and the transaction that made its node.
    Deleting(TopicName, i64),
    /// A client that wants a topic to have so many partitions, and how often topics of its name had gone.
    Making {
        /// The topic.
        topic: TopicName,
        /// How many partitions, at least.
        count: usize,
        /// How often topics of its name had gone.
        times_gone: usize,
    },
    /// A broker that wants to leave, how often it has asked, and as which incarnation.
    Leaving(BrokerId, u32, BrokerEpoch),
}

/// Whether an answer says that every topic asked for was made, or has grown.
pub fn says_made(answer: &Answer) -> bool {
    match answer {
        Answer::Throttled { answer, .. } => says_made(answer),
        Answer::CreateTopics(Ok(said)) => said.iter().all(|topic| topic.result.is_ok()),
        Answer::CreatePartitions(Ok(said)) => said.iter().all(|(_, result)| result.is_ok()),
        _ => false,
    }
}

/// Makes the event of a request for the slot that its answer goes to.
pub type MakeEvent = Box<dyn FnOnce(ReplyTo) -> ControllerEvent>;

/// Where a letter is.
pub enum Place {
    /// On its way to a klamm.
    Going(MakeEvent),
    /// At a klamm, in a slot.
    Waiting(ReplyTo),
    /// Its answer is on the way back; `None`: the connection ended.
    Coming(Option<Answer>),
}

/// See the file's comment.
pub struct Letter {
    /// What it is about, for a story.
    pub about: String,
    /// Who wrote it.
    pub sender: Sender,
    /// Which process it was sent to: the place among the klamms, and how many processes there were before.
    pub to: (usize, u64),
    /// Where it is.
    pub place: Place,
    /// When it gets to the next place; a letter that waits for an answer has no time.
    pub due_ms: Option<u64>,
}

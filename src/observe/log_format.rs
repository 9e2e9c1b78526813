//! The log line that Kafka's users know: `[2026-11-29 23:47:46,595] INFO [Controller id=1] text (logger)`. Pure.
//!
//! Upstream counterpart: the pattern `[%d] %p %m (%c)%n` of Kafka's `log4j.properties`, and the classes' `logIdent`.
//! Times are UTC, unlike log4j's. One event is one line: control characters are escaped, whatever a znode was named.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::Level;

use super::state_change_log::STATE_CHANGE;
use crate::model::{BrokerId, civil_date};

/// A moment split into what log lines and file names need; UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilTime {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub millisecond: u16,
}

impl CivilTime {
    /// A moment before 1970 counts as the beginning of 1970.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = since_epoch.as_secs();
        let (year, month, day) = civil_date(seconds / 86_400);
        // Each is below its divisor, so it fits.
        let part = |value: u64| u8::try_from(value).unwrap_or_default();
        Self {
            year,
            month,
            day,
            hour: part(seconds / 3600 % 24),
            minute: part(seconds / 60 % 60),
            second: part(seconds % 60),
            millisecond: u16::try_from(since_epoch.subsec_millis()).unwrap_or_default(),
        }
    }

    /// `2026-11-29-23`, the ending of a log file that is an hour's.
    #[must_use]
    pub fn hour_name(&self) -> String {
        format!(
            "{:04}-{:02}-{:02}-{:02}",
            self.year, self.month, self.day, self.hour
        )
    }
}

/// What stands before the text of a line, as the Java class of that logger puts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    Nothing,
    Controller,
    EventThread,
    SendThread,
    Apis,
    /// With the epoch, where the event carries one.
    StateChange,
}

/// Which logger a target of ours stands for. The first entry that holds the target wins.
const LOGGERS: &[(&str, &str, Identity)] = &[
    (STATE_CHANGE, "state.change.logger", Identity::StateChange),
    (
        "klamm::controller",
        "kafka.controller.KafkaController",
        Identity::Controller,
    ),
    (
        "klamm::runtime",
        "kafka.controller.KafkaController",
        Identity::Controller,
    ),
    (
        "klamm::event",
        "kafka.controller.ControllerEventManager$ControllerEventThread",
        Identity::EventThread,
    ),
    (
        "klamm::broker",
        "kafka.controller.RequestSendThread",
        Identity::SendThread,
    ),
    (
        "klamm::zk",
        "kafka.zookeeper.ZooKeeperClient",
        Identity::Nothing,
    ),
    ("klamm::api", "kafka.server.KafkaApis", Identity::Apis),
    ("kafka.controller", "", Identity::Controller),
];

/// An event as it goes into a line.
#[derive(Debug, Clone, Copy)]
pub struct LogEvent<'a> {
    pub time: CivilTime,
    pub level: Level,
    /// The target of the event: a module of ours, or the name of a Java logger.
    pub target: &'a str,
    pub controller_epoch: Option<i64>,
    /// The message, then ` name=value` for every other field.
    pub text: &'a str,
}

/// One line, with its line feed.
#[must_use]
pub fn line(event: &LogEvent<'_>, klamm_id: BrokerId) -> String {
    let CivilTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
        millisecond,
    } = event.time;
    let (logger, identity) = logger_of(event.target);
    let mut line = String::with_capacity(96 + event.text.len());
    // Writing to a String can't fail.
    let _ = write!(
        line,
        "[{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{millisecond:03}] {} ",
        event.level
    );
    let _ = match (identity, event.controller_epoch) {
        (Identity::Nothing, _) => Ok(()),
        (Identity::StateChange, Some(epoch)) => {
            write!(line, "[Controller id={klamm_id} epoch={epoch}] ")
        }
        (Identity::Controller | Identity::StateChange, _) => {
            write!(line, "[Controller id={klamm_id}] ")
        }
        (Identity::EventThread, _) => {
            write!(line, "[ControllerEventThread controllerId={klamm_id}] ")
        }
        (Identity::SendThread, _) => write!(line, "[RequestSendThread controllerId={klamm_id}] "),
        (Identity::Apis, _) => write!(line, "[KafkaApi-{klamm_id}] "),
    };
    for character in event.text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    let _ = writeln!(line, " ({logger})");
    line
}

fn logger_of(target: &str) -> (String, Identity) {
    let holds = |known: &str| {
        target
            .strip_prefix(known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('.'))
    };
    match LOGGERS.iter().find(|(known, ..)| holds(known)) {
        Some((_, "", identity)) => (target.to_owned(), *identity),
        Some((_, logger, identity)) => ((*logger).to_owned(), *identity),
        None => (target.replace("::", "."), Identity::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, millis: u64) -> CivilTime {
        CivilTime::of(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
    }

    fn shown(target: &str, controller_epoch: Option<i64>, text: &str) -> String {
        let event = LogEvent {
            time: at(1_795_996_066, 595),
            level: Level::INFO,
            target,
            controller_epoch,
            text,
        };
        line(&event, BrokerId(1))
    }

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01-00"),
            (951_782_400, "2000-02-29-00"),
            (951_868_799, "2000-02-29-23"),
            (951_868_800, "2000-03-01-00"),
            (1_709_251_199, "2024-02-29-23"),
            (1_735_689_599, "2024-12-31-23"),
            (1_735_689_600, "2025-01-01-00"),
            (4_107_542_400, "2100-03-01-00"),
            (4_107_542_399, "2100-02-28-23"),
        ] {
            assert_eq!(at(seconds, 0).hour_name(), date);
        }
        assert_eq!(CivilTime::of(UNIX_EPOCH - Duration::from_secs(1)), at(0, 0));
    }

    #[test]
    fn lines_look_like_those_of_the_java_controller() {
        assert_eq!(
            shown(
                "klamm::controller::failover",
                None,
                "Ready to serve as the new controller with epoch 5"
            ),
            "[2026-11-29 23:47:46,595] INFO [Controller id=1] Ready to serve as the new controller with epoch 5 \
             (kafka.controller.KafkaController)\n"
        );
        assert_eq!(
            shown(
                STATE_CHANGE,
                Some(5),
                "Changed partition t-0 from NewPartition to OnlinePartition"
            ),
            "[2026-11-29 23:47:46,595] INFO [Controller id=1 epoch=5] Changed partition t-0 from NewPartition to \
             OnlinePartition (state.change.logger)\n"
        );
        for (target, end) in [
            (STATE_CHANGE, "[Controller id=1] x (state.change.logger)\n"),
            (
                "klamm::broker::send_loop",
                "[RequestSendThread controllerId=1] x (kafka.controller.RequestSendThread)\n",
            ),
            ("klamm::zk", " INFO x (kafka.zookeeper.ZooKeeperClient)\n"),
            (
                "klamm::api::server",
                "[KafkaApi-1] x (kafka.server.KafkaApis)\n",
            ),
            (
                "kafka.controller.TopicDeletionManager",
                "[Controller id=1] x (kafka.controller.TopicDeletionManager)\n",
            ),
            ("klamm::brokers", " INFO x (klamm.brokers)\n"),
            (
                "zookeeper_client::session",
                " INFO x (zookeeper_client.session)\n",
            ),
        ] {
            assert!(
                shown(target, None, "x").ends_with(end),
                "{}",
                shown(target, None, "x")
            );
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        let line = shown("klamm::controller", None, "topic a\nb\u{1b}[31m\r é");
        assert!(line.contains("topic a\\nb\\u{1b}[31m\\r é ("), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }
}

//! How many files the process may have open, and how many of them clients' connections may be.
//!
//! Must never let clients take the files that the links to ZooKeeper and to brokers need. Upstream: HotSpot raises the limit
//! for Java (`-XX:+MaxFDLimit`); Kafka's `max.connections` is unlimited.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::api::Limits;

/// Files that aren't clients': two links a broker, ZooKeeper, listeners, pages, logs, the runtime's own.
const RESERVE: u64 = 256;
/// A client's connection, and the one to a genuine broker that it may be paired with.
const FILES_A_CLIENT: u64 = 2;

/// Raises the limit as far as the process may; `None`: there is none.
pub fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_raised = match (current, maximum) {
        (Some(current), Some(maximum)) => current < maximum,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if !is_raised {
        return current;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(
                "the limit of open files stays at {}, it can't be raised: {error}",
                words(current)
            );
            current
        }
    }
}

/// How many connections each of so many listeners may hold. Says both numbers.
pub fn connections_of_each(limit: Option<u64>, listeners: usize) -> usize {
    let each = share(limit, listeners);
    info!(
        "{} files may be open at a time; each listener takes up to {each} connections",
        words(limit)
    );
    each
}

fn share(limit: Option<u64>, listeners: usize) -> usize {
    let Some(limit) = limit else {
        return Limits::CONNECTIONS_MAX;
    };
    let all = limit.saturating_sub(RESERVE) / FILES_A_CLIENT;
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    let each = all / listeners.max(1);
    // One at least, by which the controller can be asked at all.
    each.clamp(1, Limits::CONNECTIONS_MAX)
}

fn words(limit: Option<u64>) -> String {
    limit.map_or("any number of".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be() {
        let raised = raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(raised, current);
        if maximum.is_some() {
            assert_eq!(current, maximum);
        }
    }

    #[test]
    fn clients_and_their_pairs_leave_files_for_zookeeper_and_brokers() {
        for (limit, listeners, each) in [
            (Some(1_024), 1, 384),
            (Some(1_024), 2, 192),
            (Some(1_024), 3, 128),
            (Some(65_536), 1, 10_000),
            (Some(100), 2, 1),
            (Some(u64::MAX), 1, 10_000),
            (None, 2, 10_000),
        ] {
            assert_eq!(share(limit, listeners), each, "{limit:?} {listeners}");
        }
    }
}

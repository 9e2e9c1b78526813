//! Drives futures that never wait: the simulated ports answer at once, so one poll is enough.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The future's value. A future that waits has left the simulated ports, which is a mistake.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a procedure waits for something that no simulated port gives"),
    }
}

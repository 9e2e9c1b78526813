//! A TCP proxy that cuts connections: the network between klamm and ZooKeeper, in the story's hand.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Pace at which the listener looks for new connections.
const POLL: Duration = Duration::from_millis(5);

/// A running proxy; its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    /// `host:port` to connect to.
    pub address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    accepted: AtomicUsize,
    /// Both ends of each connection.
    open: Mutex<Vec<[TcpStream; 2]>>,
}

impl Proxy {
    /// Listens on `address` and hands every connection on to `target`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn start(address: String, target: String) -> Result<Self> {
        let listener =
            TcpListener::bind(&address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            while !theirs.ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => {
                        // A target that is down looks to the client like a connection that ends at once.
                        join(client, &target, &theirs).ok();
                    }
                    Err(_) => thread::sleep(POLL),
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Ends all open connections, on both sides, at once; new ones are let through. Returns how many there were.
    pub fn cut(&self) -> usize {
        let mut open = self.shared.open();
        let cut = open.drain(..).filter(|ends| {
            // The first end tells: whoever copies from it may have closed the other one by then.
            let cut = ends.iter().map(|end| end.shutdown(Shutdown::Both).is_ok());
            cut.fold(false, |either, cut| either | cut)
        });
        cut.count()
    }

    /// Connections let through so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.cut();
    }
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<[TcpStream; 2]>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn join(client: TcpStream, target: &str, shared: &Shared) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared
        .open()
        .push([client.try_clone()?, server.try_clone()?]);
    // Before the first byte goes through: whoever sees an answer sees the count.
    shared.accepted.fetch_add(1, Ordering::Relaxed);
    pump(client.try_clone()?, server.try_clone()?);
    pump(server, client);
    Ok(())
}

/// Copies one direction until either end is gone, then ends both.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        io::copy(&mut from, &mut to).ok();
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    });
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::address::Address;

    #[test]
    fn a_cut_ends_what_is_open_and_lets_the_next_connection_through() {
        let address = Address::reserve().unwrap();
        let echo = TcpListener::bind(address.port(3000)).unwrap();
        thread::spawn(move || {
            for stream in echo.incoming().map_while(Result::ok) {
                let mut write = stream.try_clone().unwrap();
                let mut read = stream;
                thread::spawn(move || io::copy(&mut read, &mut write));
            }
        });
        let proxy = Proxy::start(address.port(3001), address.port(3000)).unwrap();
        let said_back = |stream: &mut TcpStream| -> io::Result<[u8; 2]> {
            let mut answer = [0; 2];
            stream.write_all(b"hi")?;
            stream.read_exact(&mut answer)?;
            Ok(answer)
        };
        let mut first = TcpStream::connect(&proxy.address).unwrap();
        assert_eq!(&said_back(&mut first).unwrap(), b"hi");
        assert_eq!(proxy.cut(), 1);
        assert!(said_back(&mut first).is_err());
        let mut second = TcpStream::connect(&proxy.address).unwrap();
        assert_eq!(&said_back(&mut second).unwrap(), b"hi");
        assert_eq!(proxy.accepted(), 2);
        // Counted once each, however the threads that copy run meanwhile.
        for time in 0..200 {
            assert_eq!(proxy.cut(), 1, "cut {time}");
            second = TcpStream::connect(&proxy.address).unwrap();
            assert_eq!(&said_back(&mut second).unwrap(), b"hi");
        }
    }
}

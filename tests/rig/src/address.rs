//! A loopback address of its own for each run, so that runs side by side never meet and a restarted process finds its
//! port free.
//!
//! The whole of 127.0.0.0/8 is loopback on Linux. An address is taken by binding a guard port on it, and is free again
//! as soon as the process that took it is gone, however it went.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

const GUARD_PORT: u16 = 20_000;
const ATTEMPTS: u64 = 1_000;

/// An address that is ours until this is dropped.
#[derive(Debug)]
pub struct Address {
    ip: Ipv4Addr,
    _guard: TcpListener,
}

impl Address {
    /// Takes an address that no other run holds.
    ///
    /// # Errors
    /// When a thousand of them are taken, or the system refuses to bind loopback addresses other than 127.0.0.1.
    pub fn reserve() -> Result<Self> {
        let now_nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.subsec_nanos());
        let mut seed = u64::from(std::process::id()) << 32 | u64::from(now_nanos);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            seed = scramble(seed);
            let [a, b, c, ..] = seed.to_be_bytes();
            // Not 127.0.0.1 nor its neighbours, which people use by hand; not .0 or .255 at the end.
            let ip = Ipv4Addr::new(127, 1 + a % 250, b, 1 + c % 254);
            match TcpListener::bind((ip, GUARD_PORT)) {
                Ok(guard) => return Ok(Self { ip, _guard: guard }),
                Err(error) => last = Some((ip, error)),
            }
        }
        match last {
            Some((ip, error)) => {
                bail!("no loopback address is free; the last try was {ip}:{GUARD_PORT}: {error}")
            }
            None => bail!("no loopback address was tried"),
        }
    }

    /// `host:port` on this address.
    pub fn port(&self, port: u16) -> String {
        format!("{}:{port}", self.ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(f)
    }
}

/// One step of splitmix64: spreads neighbouring seeds over the whole range.
fn scramble(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_side_by_side_get_different_addresses_none_of_them_127_0_0_1() {
        let addresses: Vec<Address> = (0..20).map(|_| Address::reserve().unwrap()).collect();
        let mut ips: Vec<Ipv4Addr> = addresses.iter().map(|address| address.ip).collect();
        ips.sort();
        ips.dedup();
        assert_eq!(ips.len(), 20);
        assert!(
            ips.iter()
                .all(|ip| ip.is_loopback() && *ip != Ipv4Addr::LOCALHOST)
        );
    }
}

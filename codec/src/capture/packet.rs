//! Packets to TCP segments: the headers of the link, of IP and of TCP.
//!
//! Must never guess: what is not whole and plain TCP over IP is refused by name, so that the reader can say what was
//! passed over. Packets cut short by the snap length give what there is of them, and how much is missing. Checksums are
//! not looked at: packets captured on the machine that sends them have none yet.

use super::Skip;
use core::net::{IpAddr, SocketAddr};
use etherparse::{
    EtherType, LaxIpPayloadSlice, LaxNetSlice, LaxSlicedPacket, LenSource, TransportSlice,
    ether_type, ip_number,
};

/// One TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) sequence: u32,
    pub(super) opening: Option<Opening>,
    pub(super) payload: &'a [u8],
    /// Bytes of the payload, at its end, that were not captured.
    pub(super) cut_bytes: u32,
}

/// The two segments that open a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// SYN, from the client.
    Asked,
    /// SYN and ACK, from the server.
    Granted,
}

/// Reads a packet's headers; `cut_bytes` at its end were not captured.
pub(super) fn segment(link_type: u16, packet: &[u8], cut_bytes: u32) -> Result<Segment<'_>, Skip> {
    let sliced = slice(link_type, packet)?;
    let (ip, addresses) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let total = usize::from(header.total_len());
            let announced = total.checked_sub(header.slice().len());
            let addresses = (
                IpAddr::from(header.source_addr()),
                IpAddr::from(header.destination_addr()),
            );
            ((ip.payload(), announced), addresses)
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            // Extension headers count as payload there.
            let extensions = ip.extensions().slice().len();
            let announced = usize::from(header.payload_length()).checked_sub(extensions);
            let addresses = (
                IpAddr::from(header.source_addr()),
                IpAddr::from(header.destination_addr()),
            );
            ((ip.payload(), announced), addresses)
        }
        Some(LaxNetSlice::Arp(_)) => return Err(Skip::NotIp),
        None if sliced.stop_err.is_some() => return Err(Skip::Malformed),
        None => return Err(Skip::NotIp),
    };
    let (payload, announced) = ip;
    if payload.fragmented {
        return Err(Skip::Fragment);
    }
    if payload.ip_number != ip_number::TCP {
        return Err(Skip::NotTcp);
    }
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
        return Err(Skip::Malformed);
    };
    let opening = match (tcp.syn(), tcp.ack()) {
        (true, false) => Some(Opening::Asked),
        (true, true) => Some(Opening::Granted),
        (false, _) => None,
    };
    Ok(Segment {
        from: SocketAddr::new(addresses.0, tcp.source_port()),
        to: SocketAddr::new(addresses.1, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        opening,
        payload: tcp.payload(),
        cut_bytes: missing(payload, announced, cut_bytes),
    })
}

/// How much of an IP packet's payload was not captured. The packet's own length is the measure, for links pad; but
/// where the sender's network card was to cut a long packet into pieces, the header has no length yet.
fn missing(payload: &LaxIpPayloadSlice<'_>, announced: Option<usize>, cut_bytes: u32) -> u32 {
    match (payload.len_source, payload.incomplete, announced) {
        (_, true, Some(announced)) => announced.saturating_sub(payload.payload.len()) as u32,
        (LenSource::Slice, _, _) => cut_bytes,
        _ => 0,
    }
}

/// Takes off the link's header, by its number in the tcpdump project's registry.
fn slice(link_type: u16, packet: &[u8]) -> Result<LaxSlicedPacket<'_>, Skip> {
    const BSD_LOOPBACK: u16 = 0;
    const ETHERNET: u16 = 1;
    const RAW_IP: &[u16] = &[12, 14, 101, 228, 229];
    const OPENBSD_LOOPBACK: u16 = 108;
    const LINUX_SLL: u16 = 113;
    const LINUX_SLL2: u16 = 276;
    match link_type {
        ETHERNET => LaxSlicedPacket::from_ethernet(packet).map_err(|_| Skip::Malformed),
        number if RAW_IP.contains(&number) => from_ip(packet),
        // Four bytes that tell the version of IP once more, in the byte order of the machine that captured.
        BSD_LOOPBACK | OPENBSD_LOOPBACK => from_ip(packet.get(4..).unwrap_or_default()),
        LINUX_SLL => from_ether_type(packet, 14, 16),
        LINUX_SLL2 => from_ether_type(packet, 0, 20),
        other => Err(Skip::LinkType(other)),
    }
}

fn from_ip(packet: &[u8]) -> Result<LaxSlicedPacket<'_>, Skip> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4 | 6) => LaxSlicedPacket::from_ip(packet).map_err(|_| Skip::Malformed),
        Some(_) => Err(Skip::NotIp),
        None => Err(Skip::Malformed),
    }
}

/// A header of `size` bytes with the kind of what follows in two bytes at `at`.
fn from_ether_type(packet: &[u8], at: usize, size: usize) -> Result<LaxSlicedPacket<'_>, Skip> {
    let kind = packet.get(at..).and_then(|rest| rest.first_chunk());
    let (Some(kind), Some(rest)) = (kind, packet.get(size..)) else {
        return Err(Skip::Malformed);
    };
    let kind = EtherType(u16::from_be_bytes(*kind));
    // Linux puts numbers of its own here for frames without such a kind; none of them is IP.
    match kind {
        ether_type::IPV4
        | ether_type::IPV6
        | ether_type::VLAN_TAGGED_FRAME
        | ether_type::PROVIDER_BRIDGING
        | ether_type::VLAN_DOUBLE_TAGGED_FRAME => Ok(LaxSlicedPacket::from_ether_type(kind, rest)),
        _ => Err(Skip::NotIp),
    }
}

#[cfg(test)]
mod tests;

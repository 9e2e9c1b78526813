//! Connections that are held open and cost their node as much as a client can make them: they say nothing, stop in the
//! midst of a request, announce much and send little, ask for much and read nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use kafka_protocol::protocol::Request;

use super::{PATIENCE, Plan};
use crate::fuzz::corpus::request_payload;

/// The default of `socket.request.max.bytes`.
pub(super) const REQUEST_MAX: i32 = 100 * 1024 * 1024;
/// What one connection sends at most of requests whose answers nobody reads.
const UNREAD_MAX: usize = 1024 * 1024;
/// A node that takes no more within so long holds back, as it must.
const HELD_BACK: Duration = Duration::from_millis(300);
/// One idle connection in so many is asked at the end whether it is still served.
const SAMPLE: usize = 20;
/// Answers that are read in the end of those that nobody read.
const READ_AT_LAST: i32 = 20;

/// All of them.
#[derive(Debug)]
pub(super) struct Crowd {
    idle: Vec<TcpStream>,
    /// Each with the rest of its request.
    half: Vec<(TcpStream, Vec<u8>)>,
    /// Held open, and no more.
    _announcing: Vec<TcpStream>,
    /// Each with the number of requests that it sent whole.
    unread: Vec<(TcpStream, i32)>,
    unread_bytes: usize,
}

impl Crowd {
    pub(super) fn gather(plan: &Plan) -> Result<Crowd> {
        let address = address(plan)?;
        let idle = (0..plan.idle)
            .map(|_| connect(address))
            .collect::<Result<_>>()?;
        let mut crowd = Crowd {
            idle,
            half: Vec::new(),
            _announcing: Vec::new(),
            unread: Vec::new(),
            unread_bytes: 0,
        };
        let sound = versions_request(1)?;
        for number in 0..plan.held {
            let mut stream = connect(address)?;
            let (sent, rest) = sound.split_at(1 + number % (sound.len() - 1));
            stream
                .write_all(sent)
                .context("half a request is not taken")?;
            crowd.half.push((stream, rest.to_vec()));
        }
        for _ in 0..plan.held {
            let mut stream = connect(address)?;
            let announced = [&REQUEST_MAX.to_be_bytes()[..], &[0, 3, 0, 1, 0, 0, 0, 1]].concat();
            stream
                .write_all(&announced)
                .context("the beginning of a long request is not taken")?;
            crowd._announcing.push(stream);
        }
        // Half of them ask for what klamm relays, half for what it answers.
        for number in 0..plan.held {
            let ask = if number % 2 == 0 {
                metadata_request
            } else {
                versions_request
            };
            crowd.ask_without_reading(connect(address)?, ask)?;
        }
        Ok(crowd)
    }

    fn ask_without_reading(
        &mut self,
        mut stream: TcpStream,
        ask: fn(i32) -> Result<Vec<u8>>,
    ) -> Result<()> {
        stream.set_write_timeout(Some(HELD_BACK))?;
        let (mut whole, mut bytes) = (0, 0);
        while bytes < UNREAD_MAX {
            let request = ask(whole + 1)?;
            let mut rest = request.as_slice();
            while !rest.is_empty() {
                match stream.write(rest) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(error) if is_late(&error) => break,
                    Err(error) => {
                        return Err(error)
                            .context("a client that reads nothing was cut off while it asked");
                    }
                }
            }
            bytes += request.len() - rest.len();
            if !rest.is_empty() {
                break;
            }
            whole += 1;
        }
        self.unread_bytes += bytes;
        self.unread.push((stream, whole));
        Ok(())
    }

    pub(super) fn unread_bytes(&self) -> usize {
        self.unread_bytes
    }

    /// Who was slow is welcome all the same.
    pub(super) fn is_still_served(&mut self) -> Result<()> {
        for stream in self.idle.iter_mut().step_by(SAMPLE) {
            stream
                .write_all(&versions_request(5)?)
                .context("an idle connection was cut off")?;
            ensure!(
                answer(stream)? == 5,
                "an idle connection got an answer to another question"
            );
        }
        for (stream, rest) in &mut self.half {
            stream
                .write_all(rest)
                .context("a connection was cut off in the midst of its request")?;
            ensure!(
                answer(stream)? == 1,
                "half a request got an answer to another question"
            );
        }
        for (stream, whole) in &mut self.unread {
            for expected in 1..=(*whole).min(READ_AT_LAST) {
                let got = answer(stream).context("a client that reads at last")?;
                ensure!(
                    got == expected,
                    "answer {got} came where {expected} was due"
                );
            }
        }
        Ok(())
    }
}

pub(super) fn address(plan: &Plan) -> Result<SocketAddr> {
    plan.address
        .parse()
        .with_context(|| format!("{} is not ip:port", plan.address))
}

pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("{address} takes no more connections"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whether the time was up.
pub(super) fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A payload behind its length.
pub(super) fn framed(payload: &[u8]) -> Result<Vec<u8>> {
    let length = i32::try_from(payload.len()).context("the request is too long")?;
    Ok([&length.to_be_bytes()[..], payload].concat())
}

fn versions_request(correlation_id: i32) -> Result<Vec<u8>> {
    request(&ApiVersionsRequest::default(), 0, correlation_id)
}

/// About all topics.
fn metadata_request(correlation_id: i32) -> Result<Vec<u8>> {
    request(
        &MetadataRequest::default().with_topics(None),
        1,
        correlation_id,
    )
}

fn request<R: Request>(request: &R, version: i16, correlation_id: i32) -> Result<Vec<u8>> {
    let payload =
        request_payload(version, request).context("kafka-protocol can't encode a request")?;
    let mut payload = payload.to_vec();
    if let Some(place) = payload.get_mut(4..8) {
        place.copy_from_slice(&correlation_id.to_be_bytes());
    }
    framed(&payload)
}

/// Reads one answer and returns its correlation id.
fn answer(stream: &mut TcpStream) -> Result<i32> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).context("no answer came")?;
    let [a, b, c, d, rest @ ..] = head;
    let length = i32::from_be_bytes([a, b, c, d]);
    let Some(body) = u64::try_from(length)
        .ok()
        .and_then(|length| length.checked_sub(4))
    else {
        bail!("an answer of {length} bytes");
    };
    let read = skip(stream, body)?;
    ensure!(
        read == body,
        "an answer was cut short after {read} of {body} bytes"
    );
    Ok(i32::from_be_bytes(rest))
}

/// Reads so many bytes, or as many as there are to the end, and returns how many.
pub(super) fn skip(stream: &mut TcpStream, bytes: u64) -> std::io::Result<u64> {
    std::io::copy(&mut Read::take(stream, bytes), &mut std::io::sink())
}

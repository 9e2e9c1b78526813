//! Damaged requests, one after the other: each is answered under its own correlation id, or costs its sender the
//! connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};

use super::Plan;
use super::crowd::{REQUEST_MAX, address, connect, framed, is_late, skip};
use super::frames::Frames;
use crate::random::Random;

/// One request in so many is never sent whole.
const CUT: usize = 64;
/// Lengths that no request has.
const REFUSED: [i32; 9] = [
    i32::MAX,
    i32::MAX - 4,
    i32::MIN,
    -2,
    -1,
    0,
    1,
    3,
    REQUEST_MAX + 1,
];
/// How often each comes.
const EACH: usize = 20;

/// What came of one flood.
#[derive(Debug, Default)]
pub(super) struct Flood {
    pub(super) answered: usize,
    pub(super) closed: usize,
    pub(super) cut: usize,
}

/// Every `floods`th of the plan's requests, from `number` on.
pub(super) fn run(plan: &Plan, frames: &Frames, number: usize, floods: usize) -> Result<Flood> {
    let address = address(plan)?;
    let spread = u64::try_from(number).unwrap_or(0).wrapping_mul(0x9e37_79b9);
    let mut random = Random::new(plan.seed.wrapping_add(spread));
    let mut flood = Flood::default();
    let mut connection = None;
    for turn in (number..plan.frames).step_by(floods) {
        let correlation_id = i32::try_from(turn % 1_000_000).unwrap_or(0);
        let payload = frames.next(&mut random, turn, correlation_id);
        let stream = match connection.take() {
            Some(stream) => stream,
            None => connect(address)?,
        };
        if random.once_in(CUT) {
            cut_short(stream, &mut random, &payload)?;
            flood.cut += 1;
            continue;
        }
        let said = || format!("seed {}, turn {turn}: {}", plan.seed, shown(&payload));
        connection = ask(stream, &payload, correlation_id).with_context(said)?;
        match connection {
            Some(_) => flood.answered += 1,
            None => flood.closed += 1,
        }
    }
    Ok(flood)
}

/// Sends the beginning of a request and leaves.
fn cut_short(mut stream: TcpStream, random: &mut Random, payload: &[u8]) -> Result<()> {
    let whole = framed(payload)?;
    let part = whole.get(..random.below(whole.len())).unwrap_or_default();
    // The node may have closed the connection since the last answer, which is all the same here.
    let _ = stream.write_all(part);
    Ok(())
}

/// The connection, if it is still good after the answer.
fn ask(mut stream: TcpStream, payload: &[u8], correlation_id: i32) -> Result<Option<TcpStream>> {
    // Where a node closes while it is written to, the reason may come as an error of writing or of reading.
    if let Err(error) = stream.write_all(&framed(payload)?) {
        ensure!(!is_late(&error), "the request is not taken");
        return Ok(None);
    }
    let mut head = [0; 8];
    match stream.read_exact(&mut head) {
        Err(error) if is_late(&error) => {
            bail!("neither an answer nor the end of the connection came")
        }
        Err(_) => return Ok(None),
        Ok(()) => {}
    }
    let [a, b, c, d, rest @ ..] = head;
    let (length, got) = (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes(rest));
    ensure!(
        got == correlation_id,
        "the answer has the correlation id {got}"
    );
    let body = u64::try_from(length)
        .ok()
        .and_then(|length| length.checked_sub(4));
    let body = body.with_context(|| format!("the answer has the length {length}"))?;
    match skip(&mut stream, body) {
        Ok(read) if read == body => Ok(Some(stream)),
        read => bail!("of the answer's {body} bytes came {read:?}"),
    }
}

/// Each of the lengths that no request has closes its connection at once. Returns how many were tried.
pub(super) fn refused_lengths(plan: &Plan) -> Result<usize> {
    let address = address(plan)?;
    let mut tried = 0;
    for length in REFUSED.iter().cycle().take(REFUSED.len() * EACH) {
        is_refused(address, *length).with_context(|| format!("a request of {length} bytes"))?;
        tried += 1;
    }
    Ok(tried)
}

fn is_refused(address: SocketAddr, length: i32) -> Result<()> {
    let mut stream = connect(address)?;
    stream.write_all(&length.to_be_bytes())?;
    // Of the shortest ones there has to be all that they announce.
    let _ = stream.write_all(&[0; 3]);
    match stream.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => bail!("is answered"),
        Err(error) if is_late(&error) => bail!("is waited for"),
        Err(_) => Ok(()),
    }
}

fn shown(payload: &[u8]) -> String {
    let hex: String = payload
        .iter()
        .take(200)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{hex} ({} bytes)", payload.len())
}

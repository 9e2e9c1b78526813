//! Fuzzing of what brokers and their controller say to each other: ControlledShutdown, ApiVersions, CreateTopics,
//! AlterPartition and AllocateProducerIds, requests and answers, every version.
//!
//! Whatever bytes come: nothing panics, nothing asks for memory out of proportion to them; what can be decoded is encoded
//! again and decodes to itself; and what klamm's codec encodes is read back by kafka-protocol's own decoders, which are
//! what a client of that crate has. Coverage-guided fuzzing (cargo-fuzz) needs a nightly compiler; here a message that was
//! understood joins the corpus, so that damage is piled on damage, and all follows from one seed.

pub mod corpus;
pub mod meter;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, ApiVersionsRequest,
    ControlledShutdownRequest, CreateTopicsRequest, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};
use klamm_codec::request::{Api, decode_request, encode_request, parse_header};
use klamm_codec::response::{correlation_id, decode_response, encode_response};
use klamm_codec::{ApiKey, Direction, Message, guard};

use crate::random::{Random, mutate};
use corpus::{Captured, Subject};

/// What decoding may ask for whatever the input: its error has a text, and that of kafka-protocol a backtrace where
/// RUST_BACKTRACE is set.
const ALLOWANCE_BYTES: u64 = 32 * 1024;
/// What decoding may ask for per byte of the input. The worst that is in proportion: a configuration entry of 3 bytes
/// takes 88, and its first unknown tagged field, of 2 more, opens a map of some 450.
const ALLOWED_PER_BYTE: u64 = 160;
/// Understood messages that a target keeps beside those it began with.
const KEPT: usize = 64;
/// Messages beyond so many bytes are not kept: they would slow down all that comes of them.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// How much is done between two looks at the clock.
const ROUND: u64 = 64;

/// One message in one version, and what is done to it.
struct Target {
    message: Message,
    corpus: Vec<Bytes>,
    kept: Vec<Bytes>,
    try_out: fn(i16, &Bytes) -> Result<Verdict>,
}

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Decoded, encoded again, and the same.
    Understood,
    /// An error, as it must be.
    Refused,
}

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// So many inputs for each message and version.
    Inputs(u64),
    Elapsed(Duration),
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Figures {
    pub targets: usize,
    pub inputs: u64,
    pub understood: BTreeMap<String, u64>,
    pub took: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let understood: u64 = self.understood.values().sum();
        write!(
            f,
            "{} inputs to {} messages and versions in {:.1} s: {understood} understood and the same again, {} refused",
            self.inputs,
            self.targets,
            self.took.as_secs_f64(),
            self.inputs - understood
        )
    }
}

/// Tries out every target in turn.
///
/// # Errors
/// The first input that panicked, cost too much, or did not come back as it was, with its bytes.
pub fn run(seed: u64, until: Until) -> Result<Figures> {
    if !meter::is_counting() {
        bail!(
            "this binary does not count what it allocates: CountingAllocator must be its global allocator"
        );
    }
    let started = Instant::now();
    let mut random = Random::new(seed);
    let mut targets = targets()?;
    let mut figures = Figures {
        targets: targets.len(),
        ..Figures::default()
    };
    let mut each = 0;
    while match until {
        Until::Inputs(inputs) => each < inputs,
        Until::Elapsed(time) => started.elapsed() < time,
    } {
        for target in &mut targets {
            for _ in 0..ROUND {
                let input = target.next_input(&mut random);
                let verdict = target
                    .judge(&input)
                    .with_context(|| format!("seed {seed}, input {}", figures.inputs))?;
                figures.inputs += 1;
                if verdict == Verdict::Understood {
                    *figures
                        .understood
                        .entry(target.message.to_string())
                        .or_default() += 1;
                    target.keep(&mut random, input);
                }
            }
        }
        each += ROUND;
    }
    figures.took = started.elapsed();
    Ok(figures)
}

/// The messages, each with everything that is known to be sound; these are tried out first, as they are.
fn targets() -> Result<Vec<Target>> {
    let captured = corpus::captured()?;
    let mut targets = Vec::new();
    add::<ControlledShutdownRequest>(&captured, &mut targets);
    add::<ApiVersionsRequest>(&captured, &mut targets);
    add::<CreateTopicsRequest>(&captured, &mut targets);
    add::<AlterPartitionRequest>(&captured, &mut targets);
    add::<AllocateProducerIdsRequest>(&captured, &mut targets);
    for target in &targets {
        if target.corpus.len() < 2 {
            bail!("{}: there is nothing to begin with", target.message);
        }
        for sound in &target.corpus {
            let verdict = target.judge(sound).context("before any damage")?;
            if verdict == Verdict::Refused {
                bail!(
                    "{} is refused though it is sound: {}",
                    target.message,
                    hex(sound)
                );
            }
        }
    }
    Ok(targets)
}

fn add<R>(captured: &[Captured], targets: &mut Vec<Target>)
where
    R: Subject + Api<Response = <R as Request>::Response> + fmt::Debug + PartialEq + Default,
    <R as Request>::Response: fmt::Debug + PartialEq + Default,
{
    let key = ApiKey(<R as Request>::KEY);
    for direction in [Direction::Request, Direction::Response] {
        let Some((min, max)) = guard::versions(key, direction) else {
            continue;
        };
        for version in min..=max {
            let alike = captured.iter().filter(|captured| {
                (captured.key, captured.version, captured.direction) == (key, version, direction)
            });
            let mut corpus: Vec<Bytes> = alike.map(|captured| captured.payload.clone()).collect();
            corpus.sort();
            corpus.dedup();
            let (made, message, try_out): (_, _, fn(i16, &Bytes) -> Result<Verdict>) =
                match direction {
                    Direction::Request => (
                        [R::default(), R::full(version)]
                            .map(|value| corpus::request_payload(version, &value)),
                        Message::request(key, version),
                        try_request::<R>,
                    ),
                    Direction::Response => (
                        [
                            <R as Request>::Response::default(),
                            R::full_response(version),
                        ]
                        .map(|value| corpus::response_payload::<R>(version, &value)),
                        Message::response(key, version),
                        try_response::<R>,
                    ),
                };
            corpus.extend(made.into_iter().flatten());
            targets.push(Target {
                message,
                corpus,
                kept: Vec::new(),
                try_out,
            });
        }
    }
}

impl Target {
    fn next_input(&self, random: &mut Random) -> Bytes {
        if random.once_in(16) {
            return self.noise(random);
        }
        let from_kept = !self.kept.is_empty() && random.once_in(2);
        let pool = if from_kept { &self.kept } else { &self.corpus };
        let mut bytes = random
            .one_of(pool)
            .map_or_else(Vec::new, |sound| sound.to_vec());
        // The header is rarely damaged: behind a damaged one nothing is decoded.
        let body = if random.once_in(16) {
            0
        } else {
            self.header_size()
        };
        mutate(random, &mut bytes, body);
        Bytes::from(bytes)
    }

    /// A sound header, and whatever after it.
    fn noise(&self, random: &mut Random) -> Bytes {
        let sound = random.one_of(&self.corpus).cloned().unwrap_or_default();
        let mut bytes = sound.slice(..self.header_size().min(sound.len())).to_vec();
        let count = random.below(200);
        bytes.extend(random.bytes(count));
        Bytes::from(bytes)
    }

    /// Key, version and correlation id of a request, the correlation id of an answer.
    fn header_size(&self) -> usize {
        match self.message.direction {
            Direction::Request => 8,
            Direction::Response => 4,
        }
    }

    fn judge(&self, input: &Bytes) -> Result<Verdict> {
        let tried = catch_unwind(AssertUnwindSafe(|| {
            (self.try_out)(self.message.version, input)
        }));
        let verdict = match tried {
            Ok(verdict) => verdict,
            Err(_) => bail!("{} panics on {}", self.message, hex(input)),
        };
        verdict.with_context(|| format!("{} of {}", self.message, hex(input)))
    }

    fn keep(&mut self, random: &mut Random, input: Bytes) {
        if input.len() > KEPT_BYTES_MAX {
            return;
        }
        let at = random.below(KEPT);
        match self.kept.get_mut(at) {
            Some(old) => *old = input,
            None => self.kept.push(input),
        }
    }
}

/// What `decode` asked of the allocator is in proportion to the input.
fn metered<T>(input: &Bytes, decode: impl FnOnce() -> T) -> Result<T> {
    let before = meter::allocated_bytes();
    let decoded = decode();
    let taken = meter::allocated_bytes() - before;
    let weight = u64::try_from(input.len()).unwrap_or(u64::MAX);
    let allowed = weight
        .saturating_mul(ALLOWED_PER_BYTE)
        .saturating_add(ALLOWANCE_BYTES);
    if taken > allowed {
        bail!(
            "{} bytes of input took {taken} bytes of memory, and at most {allowed} are in proportion",
            input.len()
        );
    }
    Ok(decoded)
}

fn try_request<R>(_: i16, payload: &Bytes) -> Result<Verdict>
where
    R: Request + Api + fmt::Debug + PartialEq,
{
    let decoded = metered(payload, || {
        let header = parse_header(payload).ok()?;
        let request: R = decode_request(&header, payload).ok()?;
        Some((header, request))
    })?;
    let Some((header, request)) = decoded else {
        return Ok(Verdict::Refused);
    };
    // A damaged header may name another version than the target's, which counts as well.
    let version = header.version;
    let client_id = header.client_id.as_deref();
    let again = encode_request(version, header.correlation_id, client_id, &request)
        .with_context(|| format!("{request:?} can't be encoded again"))?
        .to_bytes()
        .slice(4..);
    let header_again = parse_header(&again).context("its own header can't be read")?;
    let decoded_again: R =
        decode_request(&header_again, &again).context("its own encoding can't be read")?;
    same(&request, &decoded_again)?;
    let mut theirs = again;
    let their_header = RequestHeader::decode(&mut theirs, R::header_version(version))
        .map_err(|error| error.context("kafka-protocol can't read the header"))?;
    same(&header.correlation_id, &their_header.correlation_id)?;
    let their_request = <R as Decodable>::decode(&mut theirs, version)
        .map_err(|error| error.context("kafka-protocol can't read the body"))?;
    same(&request, &their_request)?;
    same(&0, &theirs.len())?;
    Ok(Verdict::Understood)
}

fn try_response<R>(version: i16, payload: &Bytes) -> Result<Verdict>
where
    R: Request + Api<Response = <R as Request>::Response>,
    <R as Request>::Response: fmt::Debug + PartialEq,
{
    let decoded = metered(payload, || decode_response::<R>(version, payload).ok())?;
    let Some(response) = decoded else {
        return Ok(Verdict::Refused);
    };
    let id = correlation_id(payload).context("decoded without a correlation id")?;
    let again = encode_response::<R>(version, id, &response)
        .with_context(|| format!("{response:?} can't be encoded again"))?
        .to_bytes()
        .slice(4..);
    let decoded_again =
        decode_response::<R>(version, &again).context("its own encoding can't be read")?;
    same(&response, &decoded_again)?;
    let mut theirs = again;
    let header_version = <R as Request>::Response::header_version(version);
    let their_header = ResponseHeader::decode(&mut theirs, header_version)
        .map_err(|error| error.context("kafka-protocol can't read the header"))?;
    same(&id, &their_header.correlation_id)?;
    let their_response = <<R as Request>::Response as Decodable>::decode(&mut theirs, version)
        .map_err(|error| error.context("kafka-protocol can't read the body"))?;
    same(&response, &their_response)?;
    same(&0, &theirs.len())?;
    Ok(Verdict::Understood)
}

fn same<T: fmt::Debug + PartialEq>(first: &T, again: &T) -> Result<()> {
    if first != again {
        bail!("{first:?} comes back as {again:?}");
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 2048;
    let shown: String = bytes
        .iter()
        .take(SHOWN)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match bytes.len() {
        0..=SHOWN => shown,
        all => format!("{shown}… ({all} bytes)"),
    }
}

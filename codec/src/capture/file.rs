//! Capture files to packets: pcap of either byte order and precision, and pcapng.
//!
//! Must never take a length in the file for granted, and never copy a packet. A file that was cut short, or is damaged
//! from some place on, gives all that stands before that place, with a note. pcapng's blocks are taken apart here by
//! their lengths, so that a block that the library can't read costs nothing but itself.

use super::{CaptureError, Note, Timestamp};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, OptionCode, PcapHeader,
    SimplePacketBlock, parse_block_be, parse_block_le, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
};

const NANOS: u128 = 1_000_000_000;
/// A packet said to be longer is damage: capture tools stop far below.
const PACKET_MAX_BYTES: u32 = 16 * 1024 * 1024;

const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const ENHANCED_PACKET: u32 = 6;
const SIMPLE_PACKET: u32 = 3;
/// The block before it had a length that could be checked: kind, length, length.
const BLOCK_MIN_BYTES: usize = 12;

/// One packet of a capture file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// None if the file does not say.
    pub(super) at: Option<Timestamp>,
    /// Where its record begins in the file.
    pub(super) offset: u64,
    pub(super) link_type: u16,
    pub(super) data: &'a [u8],
    /// Bytes at its end that were not captured.
    pub(super) cut_bytes: u32,
    pub(super) remark: Option<&'a str>,
}

/// What stands at one place of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A section begins, the file's first or one that was put behind it.
    Section,
    Packet(Packet<'a>),
    /// A packet that can't be read, at this offset.
    Malformed(u64),
    /// A packet of an interface that was not described, at this offset.
    NoInterface(u64),
}

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Pcap,
    PcapNg,
    Neither,
}

pub(super) fn format(file: &[u8]) -> Format {
    match file.first_chunk::<4>() {
        Some(&SECTION_HEADER) => Format::PcapNg,
        Some(magic) => match u32::from_le_bytes(*magic) {
            0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34 | 0xd4c3_b2a1 | 0x4d3c_b2a1 => Format::Pcap,
            _ => Format::Neither,
        },
        None => Format::Neither,
    }
}

/// Hands every packet of a pcap file to `each`. The note says where reading ended, if not at the file's end.
pub(super) fn read_pcap<'a>(
    file: &'a [u8],
    mut each: impl FnMut(Record<'a>),
) -> Result<Option<Note>, CaptureError> {
    let (mut rest, header) = parse_pcap_header(file).map_err(|_| CaptureError::Header {
        format: "pcap",
        detail: format!("it needs 24 bytes, and the file has {}", file.len()),
    })?;
    let unit: u128 = if header.is_nanosecond_precision() {
        1
    } else {
        1_000
    };
    while !rest.is_empty() {
        let offset = (file.len() - rest.len()) as u64;
        let Ok((after, packet)) = next_pcap_packet(&header, rest) else {
            return Ok(Some(cut_or_damaged(&header, rest, offset)));
        };
        let nanos = u128::from(packet.ts_sec) * NANOS + u128::from(packet.ts_usec) * unit;
        each(Record::Packet(Packet {
            at: Some(timestamp(nanos)),
            offset,
            // The upper bits tell of checksums at the packets' ends.
            link_type: header.network.0 as u16,
            data: packet.data,
            cut_bytes: packet.origlen.saturating_sub(packet.caplen),
            remark: None,
        }));
        rest = after;
    }
    Ok(None)
}

fn next_pcap_packet<'a>(
    header: &PcapHeader,
    rest: &'a [u8],
) -> Result<(&'a [u8], LegacyPcapBlock<'a>), ()> {
    let parsed = if header.is_modified_format() {
        parse_pcap_frame_modified(rest)
    } else if header.is_bigendian() {
        parse_pcap_frame_be(rest)
    } else {
        parse_pcap_frame(rest)
    };
    parsed.map_err(drop)
}

/// Why no packet could be taken from `rest`.
fn cut_or_damaged(header: &PcapHeader, rest: &[u8], offset: u64) -> Note {
    let length = rest.get(8..).and_then(|rest| rest.first_chunk::<4>());
    let length = length.map(|bytes| {
        if header.is_bigendian() {
            u32::from_be_bytes(*bytes)
        } else {
            u32::from_le_bytes(*bytes)
        }
    });
    match length {
        Some(length) if length > PACKET_MAX_BYTES => Note::Damaged {
            offset,
            detail: format!("a packet of {length} bytes"),
        },
        _ => Note::CutShort { offset },
    }
}

fn timestamp(nanos: u128) -> Timestamp {
    Timestamp(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How one interface's packets are to be read.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u16,
    snap_bytes: u32,
    /// Units in a second, or None if there is no telling.
    units: Option<u128>,
    offset_seconds: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Interface {
        let exponent = u32::from(block.if_tsresol & 0x7f);
        // The library's own reckoning of powers of two fails for every one of them.
        let units = match block.if_tsresol & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => 1u128.checked_shl(exponent),
        };
        Interface {
            link_type: block.linktype.0 as u16,
            snap_bytes: block.snaplen,
            units,
            offset_seconds: block.if_tsoffset,
        }
    }

    fn time(&self, block: &EnhancedPacketBlock<'_>) -> Option<Timestamp> {
        let ticks = (u128::from(block.ts_high) << 32) | u128::from(block.ts_low);
        let nanos = ticks.checked_mul(NANOS)?.checked_div(self.units?)?;
        let shift = i128::from(self.offset_seconds) * NANOS as i128;
        let nanos = nanos.checked_add_signed(shift)?;
        Some(timestamp(nanos))
    }
}

/// A section of a pcapng file: its interfaces have numbers of their own.
#[derive(Debug, Default)]
struct Section {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
}

/// Hands every packet of a pcapng file to `each`. The note says where reading ended, if not at the file's end.
pub(super) fn read_pcapng<'a>(
    file: &'a [u8],
    mut each: impl FnMut(Record<'a>),
) -> Result<Option<Note>, CaptureError> {
    let mut section = Section::default();
    let mut offset = 0;
    while let Some(rest) = file.get(offset..).filter(|rest| !rest.is_empty()) {
        let place = offset as u64;
        match take_block(rest, &mut section) {
            Ok(block) => {
                section.read(block, place, &mut each);
                offset += block.len();
            }
            Err(_) if offset == 0 => {
                return Err(CaptureError::Header {
                    format: "pcapng",
                    detail: "its section header is not whole".to_owned(),
                });
            }
            Err(NoBlock::CutShort) => return Ok(Some(Note::CutShort { offset: place })),
            Err(NoBlock::Damaged(detail)) => {
                return Ok(Some(Note::Damaged {
                    offset: place,
                    detail,
                }));
            }
        }
    }
    Ok(None)
}

enum NoBlock {
    CutShort,
    Damaged(String),
}

/// The first block of `rest`, by its two lengths. A section header begins a new section, whose byte order it names.
fn take_block<'a>(rest: &'a [u8], section: &mut Section) -> Result<&'a [u8], NoBlock> {
    let word = |at: usize| -> Option<[u8; 4]> { rest.get(at..)?.first_chunk().copied() };
    let (Some(kind), Some(length), Some(third)) = (word(0), word(4), word(8)) else {
        return Err(NoBlock::CutShort);
    };
    if kind == SECTION_HEADER {
        *section = Section {
            is_big_endian: third == [0x1a, 0x2b, 0x3c, 0x4d],
            interfaces: Vec::new(),
        };
    }
    let length = section.number(length) as usize;
    if length < BLOCK_MIN_BYTES || !length.is_multiple_of(4) {
        return Err(NoBlock::Damaged(format!("a block of {length} bytes")));
    }
    let block = rest.get(..length).ok_or(NoBlock::CutShort)?;
    match word(length - 4) {
        Some(again) if section.number(again) as usize == length => Ok(block),
        _ => Err(NoBlock::Damaged(
            "the two lengths of a block differ".to_owned(),
        )),
    }
}

impl Section {
    fn number(&self, bytes: [u8; 4]) -> u32 {
        match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }

    /// Reads one whole block.
    fn read<'a>(&mut self, block: &'a [u8], offset: u64, each: &mut impl FnMut(Record<'a>)) {
        let parsed = match self.is_big_endian {
            true => parse_block_be(block),
            false => parse_block_le(block),
        };
        match parsed.map(|(_, parsed)| parsed) {
            Ok(Block::SectionHeader(_)) => each(Record::Section),
            Ok(Block::InterfaceDescription(described)) => {
                self.interfaces.push(Interface::new(&described));
            }
            Ok(Block::EnhancedPacket(packet)) => each(self.enhanced(&packet, offset)),
            Ok(Block::SimplePacket(packet)) => each(self.simple(&packet, offset)),
            Ok(_) => {}
            Err(_) => {
                let kind = block.first_chunk().map(|kind| self.number(*kind));
                if let Some(ENHANCED_PACKET | SIMPLE_PACKET) = kind {
                    each(Record::Malformed(offset));
                }
            }
        }
    }

    fn enhanced<'a>(&self, block: &EnhancedPacketBlock<'a>, offset: u64) -> Record<'a> {
        let Some(interface) = self.interfaces.get(block.if_id as usize) else {
            return Record::NoInterface(offset);
        };
        let comment = |code, value: &'a [u8]| match code {
            OptionCode::Comment => std::str::from_utf8(value).ok(),
            _ => None,
        };
        let remark = block.options.iter().find_map(|option| {
            let std::borrow::Cow::Borrowed(value) = option.value else {
                return None;
            };
            comment(option.code, value.get(..usize::from(option.len))?)
        });
        let captured = (block.caplen as usize).min(block.data.len());
        Record::Packet(Packet {
            at: interface.time(block),
            offset,
            link_type: interface.link_type,
            data: block.data.get(..captured).unwrap_or_default(),
            cut_bytes: block.origlen.saturating_sub(block.caplen),
            remark,
        })
    }

    /// A packet without a time, of the first interface.
    fn simple<'a>(&self, block: &SimplePacketBlock<'a>, offset: u64) -> Record<'a> {
        let Some(interface) = self.interfaces.first() else {
            return Record::NoInterface(offset);
        };
        let snap = match interface.snap_bytes {
            0 => u32::MAX,
            snap => snap,
        };
        let captured = (block.orig_len().min(snap) as usize).min(block.data.len());
        Record::Packet(Packet {
            at: None,
            offset,
            link_type: interface.link_type,
            data: block.data.get(..captured).unwrap_or_default(),
            cut_bytes: block.origlen.saturating_sub(captured as u32),
            remark: None,
        })
    }
}

#[cfg(test)]
mod tests;

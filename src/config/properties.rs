//! Java's `.properties` text, read to the same keys and values as `java.util.Properties`, with the line of each.
//!
//! Upstream counterpart: `java.util.Properties.load`. Bytes are Latin-1, a line may go on after a backslash, the key
//! ends at `=`, `:` or white space, and `\uXXXX` names a UTF-16 unit. Own code rather than the crate `java-properties`,
//! which decodes windows-1252, refuses surrogate pairs, and rejects a whole file for a `\u` in a comment (`# C:\users`).
//! It must never keep the last of two equal keys itself: whoever reads the list decides, and wants the lines.

use std::fmt;

use thiserror::Error;

/// A key with its value, as typed but for Java's escapes; neither is trimmed.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// The line on which the property starts, counted from 1.
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// The value may be a secret, and is left out.
impl fmt::Debug for Property {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Property")
            .field("line", &self.line)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A `\u` without four hexadecimal digits, the only text that Java refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a \\u escape needs four hexadecimal digits; write a literal backslash as two")]
pub struct MalformedEscape {
    /// The line on which the property starts, counted from 1.
    pub line: usize,
}

/// All properties of a file in its order, duplicates included.
///
/// # Errors
/// [`MalformedEscape`] for the first property that Java would refuse.
pub fn parse(bytes: &[u8]) -> Result<Vec<Property>, MalformedEscape> {
    let mut properties = Vec::new();
    for (line, text) in logical_lines(bytes) {
        let (key, value) = split(&text);
        let (Some(key), Some(value)) = (unescape(key), unescape(value)) else {
            return Err(MalformedEscape { line });
        };
        properties.push(Property { line, key, value });
    }
    Ok(properties)
}

/// Natural lines joined where they end in an odd number of backslashes; comments and blank lines left out. A backslash
/// alone at the end of a file, which Java takes for an empty key, is nothing here.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut logical: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, natural) in natural_lines(bytes).into_iter().enumerate() {
        let text = trim_start(natural);
        let (line, mut joined) = open.take().unwrap_or((index + 1, Vec::new()));
        if joined.is_empty()
            && (text.is_empty() || text.starts_with(b"#") || text.starts_with(b"!"))
        {
            continue;
        }
        joined.extend_from_slice(text);
        let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 1 {
            joined.pop();
            open = Some((line, joined));
        } else {
            logical.push((line, joined));
        }
    }
    logical.extend(open.filter(|(_, joined)| !joined.is_empty()));
    logical
}

/// Lines as Java counts them: ended by LF, CR or CR LF.
fn natural_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let (line, tail) = rest.split_at(end);
        lines.push(line);
        rest = tail
            .strip_prefix(b"\r\n")
            .unwrap_or_else(|| tail.get(1..).unwrap_or_default());
    }
    lines.push(rest);
    lines
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

fn trim_start(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    line.get(spaces..).unwrap_or_default()
}

/// Key and value, both still escaped.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = line
        .iter()
        .position(|byte| {
            let ends = !escaped && (matches!(byte, b'=' | b':') || is_space(*byte));
            escaped = *byte == b'\\' && !escaped;
            ends
        })
        .unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = trim_start(rest);
    let value = rest
        .strip_prefix(b"=")
        .or_else(|| rest.strip_prefix(b":"))
        .unwrap_or(rest);
    (key, trim_start(value))
}

/// Escapes resolved; none for a malformed one. A lone surrogate, which Java keeps, becomes U+FFFD.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        let Some(escaped) = bytes.next() else { break };
        units.push(match escaped {
            b't' => u16::from(b'\t'),
            b'n' => u16::from(b'\n'),
            b'r' => u16::from(b'\r'),
            b'f' => 0x0c,
            b'u' => {
                let mut unit: u16 = 0;
                for _ in 0..4 {
                    let digit = char::from(bytes.next()?).to_digit(16)?;
                    unit = unit << 4 | u16::try_from(digit).ok()?;
                }
                unit
            }
            other => u16::from(other),
        });
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[u8]) -> Vec<(usize, String, String)> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|p| (p.line, p.key, p.value))
            .collect()
    }

    #[test]
    fn separators_white_space_and_continuations_are_read_as_java_does() {
        let text = b"  a = 1 \nb:2\nc 3\nd\ne=x\\\n    y\\\r\n  z\n\n# no\\\n! neither\nf\\ g\\:h : = v\nlist=a,\\\n\n  after=2\n";
        assert_eq!(
            pairs(text),
            [
                (1, "a", "1 "),
                (2, "b", "2"),
                (3, "c", "3"),
                (4, "d", ""),
                (5, "e", "xyz"),
                (11, "f g:h", "= v"),
                (12, "list", "a,"),
                (14, "after", "2"),
            ]
            .map(|(line, key, value)| (line, key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn bytes_are_latin_1_and_surrogate_pairs_join() {
        assert_eq!(
            pairs(b"rack=caf\xe9\x80\nx=\\\xe9\\u00e9\\ud83d\\ude00\\q\\\\"),
            [
                (1, "rack".to_owned(), "caf\u{e9}\u{80}".to_owned()),
                (2, "x".to_owned(), "éé😀q\\".to_owned())
            ]
        );
    }

    #[test]
    fn a_windows_path_in_a_comment_costs_nothing_but_in_a_value_it_names_its_line() {
        assert_eq!(
            pairs(b"# C:\\users\na=1"),
            [(2, "a".to_owned(), "1".to_owned())]
        );
        assert_eq!(
            parse(b"a=1\nlog.dir=C:\\users"),
            Err(MalformedEscape { line: 2 })
        );
        assert_eq!(parse(b"a=\\u12"), Err(MalformedEscape { line: 1 }));
    }

    #[test]
    fn a_continuation_that_ends_the_file_keeps_its_property() {
        assert_eq!(pairs(b"a=1\\"), [(1, "a".to_owned(), "1".to_owned())]);
        assert_eq!(pairs(b""), []);
    }

    #[test]
    fn duplicates_stay_in_order() {
        assert_eq!(pairs(b"a=1\na=2").len(), 2);
    }
}

//! Reads Rust as far as tidy's rules need it: what is code, what is comment, and which paths the code names.
//!
//! Must never stop at a file that isn't Rust; it then finds less. Upstream: none.

/// A word, a `::`, or a single character of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// Counted from 1.
    pub line: usize,
    pub text: &'a str,
}

/// What a byte of a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Code,
    Comment,
    Literal,
}

/// Tells code, comments and literals apart, byte by byte.
pub fn split(text: &str) -> Vec<Part> {
    let bytes = text.as_bytes();
    let mut parts = vec![Part::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (part, end) = if text_at(bytes, at, b"//") {
            (Part::Comment, find(bytes, at, b"\n").unwrap_or(bytes.len()))
        } else if text_at(bytes, at, b"/*") {
            (Part::Comment, block_comment_end(bytes, at))
        } else if let Some(end) = raw_string_end(bytes, at) {
            (Part::Literal, end)
        } else if bytes[at] == b'"' {
            (Part::Literal, quoted_end(bytes, at, b'"'))
        } else if let Some(end) = char_end(text, at) {
            (Part::Literal, end)
        } else {
            (Part::Code, at + 1)
        };
        let end = end.min(bytes.len());
        parts[at..end].fill(part);
        at = end;
    }
    parts
}

fn text_at(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    bytes[at..].starts_with(wanted)
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    (from..bytes.len()).find(|at| text_at(bytes, *at, wanted))
}

/// Block comments nest.
fn block_comment_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < bytes.len() {
        if text_at(bytes, at, b"/*") {
            depth += 1;
            at += 2;
        } else if text_at(bytes, at, b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The end of `r"…"`, `br##"…"##` and so on, if one begins here.
fn raw_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let is_inside_word = from > 0 && is_word(bytes[from - 1]);
    let prefix = [&b"br"[..], b"cr", b"r"]
        .into_iter()
        .find(|prefix| text_at(bytes, from, prefix))?;
    let mut quote = from + prefix.len();
    while bytes.get(quote) == Some(&b'#') {
        quote += 1;
    }
    if is_inside_word || bytes.get(quote) != Some(&b'"') {
        return None;
    }
    let mut closing = vec![b'"'];
    closing.resize(quote + 1 - from - prefix.len(), b'#');
    Some(find(bytes, quote + 1, &closing).map_or(bytes.len(), |at| at + closing.len()))
}

fn quoted_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a character literal, if one begins here: `'a'` is one, the `'a` of a lifetime isn't.
fn char_end(text: &str, from: usize) -> Option<usize> {
    let inside = text[from..].strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(quoted_end(text.as_bytes(), from, b'\''));
    }
    let character = inside.chars().next()?;
    inside[character.len_utf8()..]
        .starts_with('\'')
        .then_some(from + 2 + character.len_utf8())
}

/// The text with every other part blank, lines kept.
pub fn only(text: &str, parts: &[Part], wanted: Part) -> String {
    text.char_indices()
        .map(|(at, c)| {
            if c == '\n' || parts[at] == wanted {
                c
            } else {
                ' '
            }
        })
        .collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The words and signs of the code.
pub fn tokens<'a>(text: &'a str, parts: &[Part]) -> Vec<Token<'a>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        at += 1;
        if bytes[start] == b'\n' {
            line += 1;
        }
        if parts[start] != Part::Code || bytes[start].is_ascii_whitespace() {
            continue;
        }
        if is_word(bytes[start]) {
            while at < bytes.len() && parts[at] == Part::Code && is_word(bytes[at]) {
                at += 1;
            }
        } else if text_at(bytes, start, b"::") {
            at += 1;
        }
        tokens.push(Token {
            line,
            text: &text[start..at],
        });
    }
    tokens
}

fn is_name(token: Option<&Token<'_>>) -> bool {
    token.is_some_and(|token| token.text.bytes().all(is_word))
}

/// Every path of two names or more, and every path that a `use` brings in.
pub fn paths(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "use" {
            at = use_tree(tokens, at + 1, "", &mut found);
        } else if is_name(tokens.get(at)) {
            let line = tokens[at].line;
            let mut path = tokens[at].text.to_owned();
            at += 1;
            while tokens.get(at).is_some_and(|token| token.text == "::")
                && is_name(tokens.get(at + 1))
            {
                path = format!("{path}::{}", tokens[at + 1].text);
                at += 2;
            }
            if path.contains("::") {
                found.push((line, path));
            }
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one branch of a `use` and returns where it ends.
fn use_tree(
    tokens: &[Token<'_>],
    from: usize,
    above: &str,
    found: &mut Vec<(usize, String)>,
) -> usize {
    let mut path = above.to_owned();
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = use_tree(tokens, at, &path, found);
                    if tokens.get(at).is_some_and(|token| token.text == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "as" => at += 2,
            "self" if !path.is_empty() => at += 1,
            name if name == "*" || is_name(Some(token)) => {
                let parted = if path.is_empty() { "" } else { "::" };
                path = format!("{path}{parted}{name}");
                at += 1;
            }
            _ => break,
        }
    }
    if let (Some(token), false) = (tokens.get(from), path.is_empty()) {
        found.push((token.line, path));
    }
    // Whatever isn't a `use` after all must not hold us up.
    at.max(from + 1)
}

/// The line where `#[cfg(test)] mod` stands.
pub fn tests_from(tokens: &[Token<'_>]) -> Option<usize> {
    let opening = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    tokens
        .windows(opening.len())
        .find(|window| {
            window
                .iter()
                .zip(opening)
                .all(|(token, text)| token.text == text)
        })
        .map(|window| window[0].line)
}

//! Collects the lines of one body: no more than the user asked for, and those of other topics counted only. Pure.

use super::{Length, Style};
use crate::decode::words::{TopicNames, count};

/// What the words depend on, beside what is said.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub style: &'a Style,
    pub names: &'a TopicNames,
}

/// The lines of a request or an answer.
#[derive(Debug)]
pub struct Body<'a> {
    pub view: View<'a>,
    text: String,
    lines: usize,
    /// Lines beyond the limit.
    cut: usize,
    /// Partitions of topics that were not asked for.
    elsewhere: usize,
}

impl<'a> Body<'a> {
    pub fn new(style: &'a Style, names: &'a TopicNames) -> Body<'a> {
        Body {
            view: View { style, names },
            text: String::new(),
            lines: 0,
            cut: 0,
            elsewhere: 0,
        }
    }

    /// One line, `depth` steps to the right; not even made if it is over the limit.
    pub fn line(&mut self, depth: usize, line: impl FnOnce() -> String) {
        match self.view.style.length {
            Length::AtMost(limit) if self.lines >= limit => self.cut += 1,
            Length::AtMost(_) | Length::Full => {
                self.lines += 1;
                self.push(depth, &line());
            }
        }
    }

    /// A line about a partition of a topic, if that topic was asked for.
    pub fn partition(&mut self, topic: &str, line: impl FnOnce() -> String) {
        if self.wants(topic) {
            self.line(2, line);
        } else {
            self.elsewhere += 1;
        }
    }

    /// Whether the user wants to see this topic's partitions.
    pub fn wants(&self, topic: &str) -> bool {
        self.view
            .style
            .topic
            .as_deref()
            .is_none_or(|wanted| wanted == topic)
    }

    /// Counts a partition that is not shown.
    pub fn leave_out(&mut self) {
        self.elsewhere += 1;
    }

    /// Hands the lines over.
    pub fn finish(mut self, into: &mut String) {
        if self.cut > 0 {
            let cut = self.view.style.paint.aside(&format!(
                "... and {}, shown with --full",
                count(self.cut, "more line")
            ));
            self.push(2, &cut);
        }
        if self.elsewhere > 0 {
            let elsewhere = self
                .view
                .style
                .paint
                .aside(&format!("({} more, of other topics)", self.elsewhere));
            self.push(2, &elsewhere);
        }
        into.push_str(&self.text);
    }

    fn push(&mut self, depth: usize, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", depth));
        self.text.push_str(line);
        self.text.push('\n');
    }
}

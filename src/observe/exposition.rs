//! Prometheus' text format, version 0.0.4. Pure.
//!
//! Upstream counterpart: what jmx_exporter prints. Values that are timers come as two families, as there: a counter
//! `<name>_count` and a gauge `<name>` with quantiles, and no `_sum`.

use std::fmt::{self, Write};

use super::instruments::QUANTILES;

/// The value of the HTTP header Content-Type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kinds of families that klamm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

/// One label of a sample.
pub type Label<'a> = (&'a str, &'a dyn fmt::Display);

/// Builds the text; names are the caller's, label values are escaped.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Opens a family. Its samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl fmt::Display) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(&text.to_string()));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A family with one sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The two families of a timer, one series for each set of labels. `times` are in the order of [`QUANTILES`].
    pub fn timer(&mut self, name: &str, help: &str, series: &[TimerSeries<'_>]) {
        let count_name = format!("{name}_count");
        self.family(&count_name, Kind::Counter, help);
        for TimerSeries { labels, count, .. } in series {
            self.sample(&count_name, labels, count);
        }
        self.family(name, Kind::Gauge, help);
        for TimerSeries {
            labels, times_ms, ..
        } in series
        {
            for ((_, quantile), time) in QUANTILES.iter().zip(times_ms) {
                let mut labels = labels.clone();
                labels.push(("quantile", quantile));
                self.sample(name, &labels, time);
            }
        }
    }

    /// The text so far.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

/// What one timer says.
pub struct TimerSeries<'a> {
    pub labels: Vec<Label<'a>>,
    pub count: u64,
    /// Milliseconds, in the order of [`QUANTILES`].
    pub times_ms: [f64; QUANTILES.len()],
}

impl fmt::Debug for TimerSeries<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TimerSeries")
            .field("count", &self.count)
            .field("times_ms", &self.times_ms)
            .finish_non_exhaustive()
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_timers_are_written_as_prometheus_reads_them() {
        let mut exposition = Exposition::default();
        exposition.single("a_total", Kind::Counter, "All of a.", 3);
        exposition.family("b", Kind::Gauge, "Some b.");
        exposition.sample("b", &[("x", &"1"), ("y", &"quo\"te\\line\n")], -1.5);
        let times_ms = [0.0, 1.0, 2.5, 3.0, 4.0, 5.0];
        exposition.timer(
            "c",
            "Times of c in ms.",
            &[TimerSeries {
                labels: vec![("id", &7)],
                count: 9,
                times_ms,
            }],
        );
        assert_eq!(
            exposition.finish(),
            "# HELP a_total All of a.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Some b.\n# TYPE b gauge\nb{x=\"1\",y=\"quo\\\"te\\\\line\\n\"} -1.5\n\
             # HELP c_count Times of c in ms.\n# TYPE c_count counter\nc_count{id=\"7\"} 9\n\
             # HELP c Times of c in ms.\n# TYPE c gauge\n\
             c{id=\"7\",quantile=\"0.50\"} 0\nc{id=\"7\",quantile=\"0.75\"} 1\nc{id=\"7\",quantile=\"0.95\"} 2.5\n\
             c{id=\"7\",quantile=\"0.98\"} 3\nc{id=\"7\",quantile=\"0.99\"} 4\nc{id=\"7\",quantile=\"0.999\"} 5\n"
        );
    }
}

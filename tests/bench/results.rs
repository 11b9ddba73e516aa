//! What a benchmark measured: a table for people, CSV for others, a picture for the docs.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::median;

/// Where CSV and pictures go when nothing is said.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance");

/// Values of several things that were measured in turns, in one run.
#[derive(Debug)]
pub(crate) struct Results {
    name: &'static str,
    unit: &'static str,
    series: Vec<(String, Vec<f64>)>,
}

impl Results {
    pub(crate) fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, series: Vec::new() }
    }

    pub(crate) fn note(&mut self, what: &str, value: f64) {
        match self.series.iter_mut().find(|(name, _)| name == what) {
            Some((_, values)) => values.push(value),
            None => self.series.push((what.to_owned(), vec![value])),
        }
    }

    pub(crate) fn median(&self, what: &str) -> f64 {
        let found = self.series.iter().find(|(name, _)| name == what);
        median(found.unwrap_or_else(|| panic!("{what} was not measured")).1.iter().copied())
    }

    /// One line: a quotient of medians beside what is aimed at.
    pub(crate) fn ratio(&self, what: &str, against: &str, aim: f64) {
        let ratio = self.median(what) / self.median(against);
        println!("{what} / {against}: {ratio:.2} (aim: at most {aim})");
    }

    /// Prints the table and writes the files.
    pub(crate) fn publish(&self) {
        println!("{}", self.table());
        let directory = std::env::var_os("HOIST_BENCH_OUT").map_or_else(|| DIRECTORY.into(), PathBuf::from);
        std::fs::create_dir_all(&directory).expect("the directory for results can be made");
        for (extension, content) in [("csv", self.csv()), ("svg", self.picture())] {
            let path = directory.join(self.name).with_extension(extension);
            std::fs::write(&path, content).expect("results can be written");
        }
    }

    fn table(&self) -> String {
        let width = self.series.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().max(8);
        let mut text =
            format!("{:width$}  {:>9}  {:>9}  {:>9}  runs\n", self.unit, "median", "least", "most");
        for (name, values) in &self.series {
            let (least, most) = spread(values);
            let middle = median(values.iter().copied());
            let _ =
                writeln!(text, "{name:width$}  {middle:>9.2}  {least:>9.2}  {most:>9.2}  {}", values.len());
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = format!("what,run,{}\n", self.unit);
        for (name, values) in &self.series {
            for (run, value) in values.iter().enumerate() {
                let _ = writeln!(text, "{name},{},{value:.4}", run + 1);
            }
        }
        text
    }

    /// Bars of the medians, each with a line from the least to the most.
    fn picture(&self) -> String {
        const LEFT: f64 = 330.0;
        const WIDTH: f64 = 900.0;
        const ROW: f64 = 26.0;
        let largest =
            self.series.iter().map(|(_, values)| spread(values).1).fold(f64::MIN_POSITIVE, f64::max);
        let scale = (WIDTH - LEFT - 80.0) / largest;
        let mut bars = String::new();
        let mut y = 10.0;
        for (name, values) in &self.series {
            let (least, most) = spread(values);
            let middle = median(values.iter().copied());
            let (from, to, text) = (LEFT + least * scale, LEFT + most * scale, y + 14.0);
            let _ = writeln!(
                bars,
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{name}</text>\n\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"18\"/>\n\
                 <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\n\
                 <text x=\"{:.1}\" y=\"{text}\">{middle:.2} {}</text>",
                LEFT - 8.0,
                middle * scale,
                y + 9.0,
                y + 9.0,
                LEFT + most * scale + 6.0,
                self.unit
            );
            y += ROW;
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\">\n<style>text {{ font: 13px sans-serif; \
             fill: #4a5568; }} rect {{ fill: #5b84b1; }} line {{ stroke: #c2703d; stroke-width: 2; }}</style>\n{bars}</svg>\n",
            y + 6.0
        )
    }
}

fn spread(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// What the figures are of: nobody can compare them without.
pub(crate) fn machine() -> String {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!(
        "{} processors ({}), memory {}, Linux {}, load {}",
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        first("/proc/cpuinfo", "model name"),
        first("/proc/meminfo", "MemTotal"),
        read("/proc/sys/kernel/osrelease"),
        read("/proc/loadavg"),
    )
}

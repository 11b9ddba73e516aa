//! Benchmarks on a real engine: `make bench`, or one by name: `make bench BENCH=vm-boot`. Tables go to stdout.
//!
//! HOIST_BENCH_REPEATS  runs of each thing that is compared, in turns; 3 by default

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark that can't go on must fail loudly, and prints what it measured"
)]

mod bare;
mod control_plane;
mod kubeadm;
mod kwok;
mod results;
#[path = "../e2e/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the end-to-end tests use the rest")]
mod support;
mod vm_boot;

/// One benchmark.
struct Benchmark {
    name: &'static str,
    summary: &'static str,
    run: fn(usize),
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "control-plane",
        summary: "hoist up without and with a node, against bare processes, kwokctl and kubeadm init",
        run: control_plane::run,
    },
    Benchmark {
        name: "vm-boot",
        summary: "power-on of a virtual machine to Ready, against its boot alone",
        run: vm_boot::run,
    },
];

const REPEATS: usize = 3;

fn main() {
    // Cargo passes flags of libtest along; only names matter here.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let repeats = std::env::var("HOIST_BENCH_REPEATS").ok().and_then(|text| text.parse().ok());
    let chosen =
        |benchmark: &&Benchmark| wanted.is_empty() || wanted.iter().any(|name| name == benchmark.name);
    let mut ran = false;
    println!("{}\n", results::machine());
    for benchmark in BENCHMARKS.iter().filter(chosen) {
        println!("{}: {}\n", benchmark.name, benchmark.summary);
        (benchmark.run)(repeats.unwrap_or(REPEATS).max(1));
        ran = true;
    }
    let names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    assert!(ran, "no benchmark {wanted:?}; there are {}", names.join(", "));
}

/// Prints rows under a head, in columns; numbers are seconds.
fn table(head: &[&str], rows: &[(String, Vec<f64>)]) {
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(head[0].len());
    print!("{:first$}", head[0]);
    for title in &head[1..] {
        print!("  {title:>12}");
    }
    println!();
    for (name, values) in rows {
        print!("{name:first$}");
        for value in values {
            print!("  {value:>12.2}");
        }
        println!();
    }
    println!();
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

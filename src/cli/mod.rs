//! The command line: what can be typed, and which function answers it. No decision about
//! clusters is taken here.

use std::process::ExitCode;

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}

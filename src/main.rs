//! The `hoist` program: sets up what the whole process needs, then hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // One TLS stack for everything; it only fails when one has been installed before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    hoist::cli::main()
}

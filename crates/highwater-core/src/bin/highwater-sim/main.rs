//! Proofs by simulation, run by hand: `highwater-sim month` looks for what grows over a virtual month.

mod month;

use std::process::ExitCode;

const USAGE: &str = "\
usage: highwater-sim month [--files N] [--days D] [--poll SECONDS] [--seed N] [--forever] [--out FILE.csv] [--svg FILE.svg]
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("month") => month::main(arguments),
        Some(other) => Err(format!("no such simulation: {other}\n{USAGE}")),
        None => Err(USAGE.into()),
    };
    match outcome {
        Ok(code) => code,
        Err(message) => {
            tell_error(&message);
            ExitCode::from(2)
        }
    }
}

fn tell_error(message: &str) {
    use std::io::Write;
    _ = writeln!(std::io::stderr(), "{}", message.trim_end());
}

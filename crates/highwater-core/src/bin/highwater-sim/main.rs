//! Proofs by simulation, run by hand: seeds of histories full of faults, and a virtual month that looks for what grows.
//! A tool of the tests, no part of the product.

mod month;
mod seeds;

use std::process::ExitCode;

const USAGE: &str = "\
usage: highwater-sim [--seeds N] [--from S] [--all]
       highwater-sim --seed S [--trace]
       highwater-sim month [--files N] [--days D] [--poll SECONDS] [--seed N] [--forever] [--out FILE.csv] [--svg FILE.svg]

  --seeds N   plays N seeds on all cores (1000), from --from S (0); stops at the first that fails
  --all       goes on past seeds that fail, and says how many did
  --seed S    plays one seed; --trace prints all that happens
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let outcome = match arguments.next_if(|first| first == "month") {
        Some(_) => month::main(arguments),
        None => seeds::main(arguments).ok_or_else(|| USAGE.into()),
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

//! What can be typed: commands, options, and their help. Knows nothing of what commands do.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use highwater_core::Timestamp;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failure
  2  the command line or the configuration is wrong
  3  halted by on_lag = \"halt\"
  4  another writer holds the pipeline, or took it
  5  the store or the index is out of reach
  6  verify found differences

Environment:
  HIGHWATER_LOG  what is logged to standard error, as in info or highwater=debug,warn (default: warn)
  NO_COLOR       no colours
  AWS_…          credentials and region of S3";

/// Keeps a search index fresh from files that keep landing in time-partitioned folders.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, after_long_help = EXIT_CODES, after_help = "Exit codes and environment: highwater --help")]
pub struct Cli {
    /// The configuration
    #[arg(short = 'c', long = "config", global = true, value_name = "FILE", default_value = "highwater.toml")]
    pub config: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented configuration that works as it stands
    #[command(
        after_help = "Examples:\n  highwater init\n  highwater init shop --name shop --example\n\nNothing is overwritten: exit code 2 if a file is there."
    )]
    Init(InitArgs),
    /// Test the configuration and print every value, defaults included
    #[command(
        after_help = "Every problem is reported at once, as file:line:column: message; fix: …\n\nExit codes: 0 fine, 2 problems."
    )]
    Check(Format),
    /// Tell what the next batch would do, without doing it
    #[command(after_help = "Examples:\n  highwater plan\n  highwater plan --now 2026-05-01T12:00:00Z --json")]
    Plan(BatchArgs),
    /// Keep the index fresh until stopped; serves HTTP where `[serve]` stands
    #[command(
        after_help = "One line a batch; with --json one object a batch.\n\nAn unreachable store is tried again and again. SIGTERM and SIGINT end it within 5 s, with exit code 0; a second one at once. Exit codes: 3 halted by on_lag, 4 another writer."
    )]
    Run(RunArgs),
    /// Run one batch over a complete listing, then stop
    #[command(
        after_help = "Examples:\n  highwater once\n  highwater once --now 2026-05-01T12:00:00Z --json\n  highwater once --accept-removals\n\nExit codes: 3 halted by on_lag, 4 another writer, 5 store or index out of reach."
    )]
    Once(OnceArgs),
    /// Apply removals of files that are withheld: they were meant
    #[command(
        after_help = "Shows what is withheld, and leaves an order: a running writer carries it out at its next tick, else the next `run` or `once`\ndoes. What vanishes after the command is not accepted by it.\n\nExamples:\n  highwater accept-removals\n  highwater accept-removals ads --json"
    )]
    AcceptRemovals(AcceptArgs),
    /// Read the files in holes of tables that keep their rows
    #[command(
        after_help = "For sources with retain = \"forever\": what a lag passed over, and files that came too late. Leaves an order: a running\nwriter carries it out, else the next `run` or `once` does, at most a gigabyte of files a batch.\n\nExamples:\n  highwater backfill\n  highwater backfill ads --json"
    )]
    Backfill(BackfillArgs),
    /// Build a new index beside the live one, from the same files, and judge it
    #[command(
        after_help = "The live index goes on meanwhile. A running writer carries it out; where nobody writes the pipeline, this command\ndoes. Exit code 1 if a gate fails.\n\nExamples:\n  highwater rebuild\n  highwater rebuild --promote --reason 'new analyzer'"
    )]
    Rebuild(RebuildArgs),
    /// Make the candidate live, in one atomic step
    #[command(
        after_help = "Examples:\n  highwater promote\n  highwater promote --force 'a third of the ads ended on purpose'"
    )]
    Promote(PromoteArgs),
    /// Make the former index live again: it was kept fresh
    #[command(after_help = "Example:\n  highwater rollback --reason 'searches for shoes find socks'")]
    Rollback(RollbackArgs),
    /// List the indexes of the pipeline: live, candidate, former; or drop one that nobody needs
    #[command(
        after_help = "A candidate can be dropped, and an index that the log does not name; the live one and one kept for a rollback cannot.\n\nExamples:\n  highwater generations --json\n  highwater generations --drop g3 --reason 'the wrong analyzer'"
    )]
    Generations(GenerationsArgs),
    /// Tell how fresh the index is, and what stands in its way
    Status(Format),
    /// List the last records of the batch log
    #[command(after_help = "Example:\n  highwater log --limit 5")]
    Log(LogArgs),
    /// List what is missing in the index, why, and what to do about it
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  highwater holes\n  highwater holes --all --json\n  highwater holes retry ads dt=2026-05-01/hr=07/a.parquet"
    )]
    Holes(HolesArgs),
    /// Look for documents, in the index's own query language
    #[command(
        after_help = "Examples:\n  highwater search 'title:kettle'\n  highwater search '*' --limit 3 --json\n  highwater search -- '-deleted:true'"
    )]
    Search(SearchArgs),
    /// Print one document
    #[command(after_help = "Exit code 1 if there is no such document.")]
    Get(GetArgs),
    /// Print all documents as NDJSON, sorted by id
    Dump,
    /// Prove that the index holds exactly what the SQL yields over the pinned files
    #[command(after_help = "Exit codes: 0 equal, 6 different, 1 cannot be told because pinned file versions are gone.")]
    Verify(VerifyArgs),
    /// Serve HTTP from the index without writing to it
    Serve(ServeArgs),
    /// Show a pipeline at work on generated files
    #[command(
        after_help = "Examples:\n  highwater demo\n  highwater demo --batches 5 --dir /tmp/demo\n  highwater demo --listen 127.0.0.1:8642"
    )]
    Demo(DemoArgs),
    /// Print the completions of a shell
    #[command(after_help = "Example:\n  highwater completions bash > /etc/bash_completion.d/highwater")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How to report.
#[derive(Clone, Copy, Debug, Args)]
pub struct Format {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The folder to write into; made if absent
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// The pipeline's name
    #[arg(long, default_value = "shop")]
    pub name: String,
    /// Write a small ./lake too, whose files are minutes old
    #[arg(long)]
    pub example: bool,
}

/// `run`.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunArgs {
    /// While another process holds the pipeline, wait, and take over when it ends
    #[arg(long)]
    pub standby: bool,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `plan` and `once`.
#[derive(Clone, Copy, Debug, Args)]
pub struct BatchArgs {
    /// The batch's clock, RFC 3339, for replays and tests; not before the last batch's, nor in the future
    #[arg(long, value_name = "TIME")]
    pub now: Option<Timestamp>,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `once`.
#[derive(Clone, Copy, Debug, Args)]
pub struct OnceArgs {
    /// Clock and report.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// Apply removals of files, however many: those that are withheld, and those that this batch finds
    #[arg(long)]
    pub accept_removals: bool,
}

/// `accept-removals`.
#[derive(Clone, Debug, Args)]
pub struct AcceptArgs {
    /// Of this source alone
    #[arg(value_name = "SOURCE")]
    pub source: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `backfill`.
#[derive(Clone, Debug, Args)]
pub struct BackfillArgs {
    /// Of this source alone
    #[arg(value_name = "SOURCE")]
    pub source: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `rebuild`.
#[derive(Clone, Debug, Args)]
pub struct RebuildArgs {
    /// Make it live at once where its gates pass
    #[arg(long)]
    pub promote: bool,
    /// Why, for the log
    #[arg(long, default_value = "asked for", value_name = "WORDS")]
    pub reason: String,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `promote`.
#[derive(Clone, Debug, Args)]
pub struct PromoteArgs {
    /// Though a gate failed, for this reason, which is recorded
    #[arg(long, value_name = "REASON")]
    pub force: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `rollback`.
#[derive(Clone, Debug, Args)]
pub struct RollbackArgs {
    /// Why, for the log
    #[arg(long, default_value = "asked for", value_name = "WORDS")]
    pub reason: String,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `generations`.
#[derive(Clone, Debug, Args)]
pub struct GenerationsArgs {
    /// Drop this one, and free its disk
    #[arg(long, value_name = "NAME")]
    pub drop: Option<String>,
    /// Why it is dropped, for the log
    #[arg(long, default_value = "asked for", value_name = "WORDS", requires = "drop")]
    pub reason: String,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `log`.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogArgs {
    /// How many records, the newest last
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `holes`.
#[derive(Clone, Debug, Args)]
pub struct HolesArgs {
    /// List the last ones that ended, too
    #[arg(long)]
    pub all: bool,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
    /// What to do about them.
    #[command(subcommand)]
    pub command: Option<HolesCommand>,
}

/// What to do about holes.
#[derive(Clone, Debug, Subcommand)]
pub enum HolesCommand {
    /// Try files in quarantine again now, without waiting for the next interval
    Retry {
        /// Of this source only
        source: Option<String>,
        /// This file only, as the list names it
        path: Option<String>,
        /// How to report.
        #[command(flatten)]
        format: Format,
    },
}

/// `search`.
#[derive(Clone, Debug, Args)]
pub struct SearchArgs {
    /// What to look for; * means all
    pub query: String,
    /// How many hits at most
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub limit: usize,
    /// How many hits to pass over
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub offset: usize,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `get`.
#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// The document's id
    pub id: String,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `verify`.
#[derive(Clone, Copy, Debug, Args)]
pub struct VerifyArgs {
    /// Look at the store anew first, instead of at the files pinned by the last batch
    #[arg(long)]
    pub relist: bool,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

/// `serve`.
#[derive(Clone, Copy, Debug, Args)]
pub struct ServeArgs {
    /// Where to listen, instead of `[serve]` listen
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Stop after so many batches
    #[arg(long, value_name = "N")]
    pub batches: Option<u64>,
    /// The folder to work in, kept afterwards; by default a temporary one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Serve HTTP there
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// How to report.
    #[command(flatten)]
    pub format: Format,
}

impl Command {
    /// The name that was typed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Check(_) => "check",
            Self::Plan(_) => "plan",
            Self::Run(_) => "run",
            Self::Once(_) => "once",
            Self::AcceptRemovals(_) => "accept-removals",
            Self::Backfill(_) => "backfill",
            Self::Rebuild(_) => "rebuild",
            Self::Promote(_) => "promote",
            Self::Rollback(_) => "rollback",
            Self::Generations(_) => "generations",
            Self::Status(_) => "status",
            Self::Log(_) => "log",
            Self::Holes(_) => "holes",
            Self::Search(_) => "search",
            Self::Get(_) => "get",
            Self::Dump => "dump",
            Self::Verify(_) => "verify",
            Self::Serve(_) => "serve",
            Self::Demo(_) => "demo",
            Self::Completions { .. } => "completions",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn typed(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_file_may_stand_before_and_after() {
        for line in ["highwater -c a.toml status --json", "highwater status --json --config a.toml"] {
            let cli = typed(line).unwrap();
            assert_eq!(cli.config, PathBuf::from("a.toml"));
            assert!(matches!(cli.command, Command::Status(Format { json: true })));
        }
        assert_eq!(typed("highwater check").unwrap().config, PathBuf::from("highwater.toml"));
    }

    #[test]
    fn every_command_of_the_help_parses() {
        for line in [
            "init",
            "init d --name n --example",
            "check --json",
            "plan --now 2026-05-01T00:00:00Z",
            "run --json",
            "run --standby",
            "once",
            "once --accept-removals --now 2026-05-01T00:00:00Z",
            "accept-removals ads --json",
            "generations --json",
            "generations --drop g2 --reason why",
            "status",
            "log --limit 3",
            "holes --all --json",
            "holes retry",
            "holes retry ads a/b.parquet --json",
            "search a --limit 1 --offset 2 --json",
            "search -- -a",
            "get 7",
            "dump",
            "verify --relist",
            "serve --listen 127.0.0.1:1",
            "demo --batches 2 --dir d --listen [::1]:2",
            "completions zsh",
        ] {
            let cli = typed(&format!("highwater {line}")).unwrap();
            assert_eq!(line.split(' ').next(), Some(cli.command.name()));
        }
        for line in ["", "onc", "once --now yesterday", "search", "log --limit -1", "demo --listen here"] {
            assert_eq!(typed(&format!("highwater {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}

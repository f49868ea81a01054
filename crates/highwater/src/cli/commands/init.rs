//! `init`: a working configuration in a folder, nothing overwritten.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use highwater_core::Timestamp;

use crate::cli::args::InitArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::config::{EXAMPLE_SOURCE, example_lake, template};

/// Writes the configuration under the name `file`, its SQL, and an example lake of files just before `now` if asked.
pub fn init(args: &InitArgs, file: &Path, now: Timestamp, output: &Output) -> Result<Exit, CliError> {
    let texts = template(&args.name);
    let config = args.dir.join(file);
    let folder = config.parent().map_or_else(|| args.dir.clone(), Path::to_owned);
    let mut files = vec![(config.clone(), texts.toml), (folder.join("document.sql"), texts.sql)];
    if args.example {
        files.extend(example_lake(now).into_iter().map(|(path, text)| (folder.join(path), text)));
    }
    check_name(&args.name)?;
    for (path, _) in &files {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
    }
    // A location that is missing is an error to every command; one that is empty is a lake that has not begun.
    let lake = folder.join("lake");
    std::fs::create_dir_all(lake.join(EXAMPLE_SOURCE))
        .map_err(|error| CliError::Failure(format!("cannot make {}: {error}", lake.display())))?;
    for (path, text) in &files {
        write_new(path, text)?;
        output.note(format_args!("wrote {}", path.display()));
    }
    if args.example {
        output.note(format_args!("next: highwater check -c {0} && highwater once -c {0}", config.display()));
    } else {
        output.note(format_args!(
            "next: put files under {}, then highwater check -c {}",
            lake.display(),
            config.display()
        ));
    }
    Ok(Exit::Done)
}

fn check_name(name: &str) -> Result<(), CliError> {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if plain && !name.starts_with('.') {
        return Ok(());
    }
    Err(CliError::Usage(format!("\"{name}\" cannot name a pipeline: use letters, digits, `.`, `_` and `-`")))
}

fn write_new(path: &PathBuf, text: &str) -> Result<(), CliError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => CliError::Failure(format!("cannot write {}: {error}", path.display())),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

fn exists(path: &Path) -> CliError {
    CliError::Usage(format!("{} is there already, and nothing is overwritten: name another folder", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::check;
    use crate::config::check_layout;
    use crate::config::load;

    fn run(dir: &Path, name: &str, example: bool) -> Result<Exit, CliError> {
        let args = InitArgs { dir: dir.to_owned(), name: name.into(), example };
        let output = Output::to(std::io::sink(), std::io::sink());
        init(&args, "highwater.toml".as_ref(), "2026-05-01T12:00:00Z".parse().unwrap(), &output)
    }

    async fn checked(dir: &Path) -> Result<Exit, CliError> {
        let loaded = load(&dir.join("highwater.toml"), &|_| None, &check_layout);
        check(loaded, true, &Output::to(std::io::sink(), std::io::sink())).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_init_writes_passes_check() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new");
        run(&dir, "shop", false).unwrap();
        assert_eq!(checked(&dir).await.unwrap(), Exit::Done);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_example_has_files() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "shop", true).unwrap();
        assert_eq!(checked(folder.path()).await.unwrap(), Exit::Done);
        assert!(folder.path().join("lake/products/dt=2026-05-01/hr=11/mi=55/part-0.ndjson").is_file());
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let sql = folder.path().join("document.sql");
        std::fs::write(&sql, "select 1").unwrap();
        let refused = run(folder.path(), "shop", true).unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains("document.sql is there already"));
        assert_eq!(std::fs::read_to_string(&sql).unwrap(), "select 1");
        assert!(!folder.path().join("highwater.toml").exists(), "all or nothing");
        assert_eq!(run(&folder.path().join("b"), "a/b", false).unwrap_err().exit(), Exit::Usage);
        assert!(!folder.path().join("b").exists());
    }
}

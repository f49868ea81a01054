//! The sources' store as one process sees it: listings that fail, lag, or say that there is less than there is.

use async_trait::async_trait;
use jiff::Timestamp;

use super::history::{Point, Trouble};
use super::lake::Lake;
use super::oracle;
use super::world::Port;
use crate::file::{FileVersion, SeenFile, SourceName};
use crate::ports::{Fault, Store};
use crate::receipt::Requests;

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Its rows' ids.
    Rows(u8),
    /// It is not what was listed.
    Moved,
    /// It cannot be decoded.
    Broken,
}

impl Port {
    /// Reads one version of a file.
    pub async fn read(&self, source: &SourceName, version: &FileVersion) -> Result<Read, Fault> {
        let trouble = self.request(Point::SourceRead, &format!("read {source}: {version}")).await;
        let read = {
            let world = self.world();
            let there = world.lake.version_at(source, &version.path, world.now) == Some(version);
            match world.lake.content(version) {
                Some(content) if there && content.readable => Read::Rows(content.ids),
                Some(_) if there => Read::Broken,
                _ => Read::Moved,
            }
        };
        self.replied().await;
        match trouble {
            Some(_) => Err(Fault::Unavailable(format!("{}: connection reset", version.path))),
            None => Ok(read),
        }
    }

    /// One listing: what was seen, and the moment that it shows.
    async fn look<T>(
        &self,
        source: &SourceName,
        prefix: &str,
        see: impl Fn(&Lake, Timestamp) -> Vec<T> + Send,
    ) -> Result<Vec<T>, Fault> {
        let trouble = self.request(Point::SourceList, &format!("list {source}: {prefix:?}")).await;
        let seen = {
            let mut world = self.world();
            let mut seen = see(&world.lake, Lake::seen_at(world.now, world.lag_s));
            let clock = world.hosts[self.host].tick_clock.max(Some(world.clock_of(self.host)));
            match trouble {
                Some(Trouble::Hide) => seen.clear(),
                Some(Trouble::Cut) => seen.truncate(seen.len() / 2),
                _ => {}
            }
            if matches!(trouble, Some(Trouble::Hide | Trouble::Cut)) {
                world.oracle.lied(source);
            }
            if !matches!(trouble, Some(Trouble::Fail | Trouble::Lose)) {
                world.oracle.listed(self.host, source, prefix, clock.unwrap_or_default());
            }
            seen
        };
        self.replied().await;
        match trouble {
            Some(Trouble::Fail | Trouble::Lose) => Err(Fault::Unavailable("connection reset".into())),
            _ => Ok(seen),
        }
    }

    fn looked(&self, source: &SourceName, prefix: &str, folders: Option<Vec<String>>) {
        let look = oracle::Look { source: source.clone(), prefix: prefix.into(), folders };
        self.world().oracle.looked(self.host, look);
    }
}

#[async_trait]
impl Store for Port {
    async fn files(&self, source: &SourceName, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        let see = |lake: &Lake, at| {
            let files = lake.files_at(source, at).into_iter().filter(|version| version.path.starts_with(prefix));
            files.map(|version| SeenFile { version, modified: None }).collect()
        };
        let files = self.look(source, prefix, see).await?;
        self.looked(source, prefix, None);
        Ok(files)
    }

    async fn folders(&self, source: &SourceName, prefix: &str) -> Result<Vec<String>, Fault> {
        let see = |lake: &Lake, at| lake.folders_at(source, prefix, at).into_iter().collect();
        let folders = self.look(source, prefix, see).await?;
        self.looked(source, prefix, Some(folders.clone()));
        Ok(folders)
    }

    fn skipped(&self, _source: &SourceName) -> Vec<String> {
        Vec::new()
    }

    fn requests(&self) -> Requests {
        Requests::default()
    }
}

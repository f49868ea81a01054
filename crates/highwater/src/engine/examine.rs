//! `check` behind the configuration: are the stores there, are there files, do SQL and columns fit. Writes nothing.

use std::collections::BTreeMap;

use highwater_core::driver::Driver;
use highwater_core::ports::Fault;
use highwater_core::{FileVersion, SourceName};

use super::pipeline::{Pipeline, looking};
use super::reading::Reader;
use super::spec::{Learnt, OTHER_SHAPE, Spec, SpecError, make, resume};

/// How many files of a source are read to learn its columns; a first batch reads all.
const SAMPLE: usize = 8;

/// What lies behind a configuration.
#[derive(Debug, Default)]
pub struct Examined {
    /// What must be mended.
    pub problems: Vec<Found>,
    /// Worth knowing, and no fault.
    pub notes: Vec<String>,
}

/// A problem that only stores, files or SQL show.
#[derive(Debug)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub fix: String,
}

/// Where a problem stands.
#[derive(Debug)]
pub enum Place {
    /// At a key of the configuration.
    Key(Vec<String>),
    /// In the SQL, at a line and column from 1, where they are known.
    Sql(Option<(usize, usize)>),
}

impl Pipeline {
    /// Looks behind the configuration.
    pub async fn examine(&self) -> Result<Examined, Fault> {
        let mut examined = Examined::default();
        let mut reached = BTreeMap::new();
        for (name, _, answer) in self.stores.reach().await {
            if let Err(error) = answer {
                reached.insert(name, error);
            }
        }
        for (name, source) in &self.config().sources {
            if let Some(fault) = reached.remove(name) {
                let message = format!("source `{name}`: {} cannot be listed: {fault}", source.location);
                let fix = "mend the location, or the store's endpoint and credentials".into();
                examined.problems.push(Found { place: key(name, "location"), message, fix });
            }
        }
        if !examined.problems.is_empty() {
            return Ok(examined);
        }
        let state = self.load().await?.state;
        let stored = state.spec.as_ref().map(Spec::from_log).transpose()?;
        let mut driver = Driver::resume(self.policy()?, self.sources()?, looking(state), true);
        let now = self.clock.now();
        driver.look(&*self.stores, now, true).await;
        let plan = driver.plan(now)?;
        let mut learnt = Learnt::default();
        let reader = Reader::new(self.config(), self.stores.clone(), 2)?;
        for (name, planned) in &plan.sources {
            let mut files: Vec<FileVersion> =
                driver.state().sources.get(name).map(|s| s.live.values().cloned().collect()).unwrap_or_default();
            files.extend(planned.added.iter().cloned());
            if files.is_empty() {
                let location = &self.config().sources[name].location;
                examined.notes.push(format!("source `{name}`: no files are there yet in {location}"));
            }
            files.sort_by(|a, b| b.path.cmp(&a.path));
            files.truncate(SAMPLE);
            reader.learn(name, &files, &mut learnt).await?;
            reader.forget();
        }
        for alarm in &plan.alarms {
            let source = alarm.source.as_ref().map(|name| format!("source `{name}`: ")).unwrap_or_default();
            examined.notes.push(format!("{source}{}", alarm.detail));
        }
        self.fit(stored.as_ref(), &learnt, &mut examined);
        Ok(examined)
    }

    fn fit(&self, stored: Option<&Spec>, learnt: &Learnt, examined: &mut Examined) {
        let made = match stored {
            None => make(self.config(), learnt),
            Some(spec) => resume(self.config(), spec, learnt),
        };
        let ready = match made {
            Ok(ready) => ready,
            Err(error) => return examined.problems.extend(found(error)),
        };
        if let Some(message) = stored.and_then(|spec| spec.refusal(&ready.spec.shape)) {
            let fix = OTHER_SHAPE.into();
            examined.problems.push(Found { place: Place::Sql(None), message, fix });
        }
    }
}

fn key(source: &SourceName, key: &str) -> Place {
    Place::Key(vec!["source".into(), source.to_string(), key.into()])
}

fn found(error: SpecError) -> Vec<Found> {
    let message = error.to_string();
    match error {
        SpecError::NoColumns { name, .. } => {
            let fix = "state them as columns = { name = \"type\", … }, or add a file".into();
            vec![Found { place: Place::Key(vec!["source".into(), name.to_string()]), message, fix }]
        }
        SpecError::MissingColumn { name, role, known, .. } => {
            let fix = format!("name one of its columns ({known}), or state it in columns");
            vec![Found { place: key(&name, role), message, fix }]
        }
        SpecError::Sql(problems) => {
            let mut all = Vec::new();
            for problem in problems {
                let at = problem.line.zip(problem.column).map(|(line, column)| (line as usize, column as usize));
                let fix = problem.hint.unwrap_or_else(|| "mend the SQL".into());
                all.push(Found { place: Place::Sql(at), message: problem.message, fix });
            }
            all
        }
    }
}

//! Generations: which physical indexes a pipeline has, which of them answers, and how that changes. Knows no index.
//!
//! One generation is live: batches are committed to it, and readers see it. The others follow the log: each is brought to
//! what the last batch pinned. A switch is written down before and after its one atomic step, so that whoever starts after a
//! crash knows what was meant, and ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many orders a state remembers.
const ORDERS_KEPT: usize = 32;
/// How many judgements a state remembers.
const JUDGEMENTS_KEPT: usize = 10;

/// The name of one generation: `g1`, `g2`, …
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct GenerationName(#[schemars(with = "String")] Arc<str>);

impl GenerationName {
    /// The generation of that number, counted from 1.
    pub fn numbered(number: u64) -> Self {
        Self(format!("g{number}").into())
    }

    /// Its number; `None` for a name that [`GenerationName::numbered`] does not give.
    pub fn number(&self) -> Option<u64> {
        let number: u64 = self.0.strip_prefix('g')?.parse().ok()?;
        (Self::numbered(number) == *self).then_some(number)
    }

    /// Reads a name; `None` if it is none.
    pub fn parse(name: &str) -> Option<Self> {
        let name = Self(name.into());
        name.number().map(|_| name)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for GenerationName {
    fn default() -> Self {
        Self::numbered(1)
    }
}

impl fmt::Display for GenerationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a generation that is not live is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is being built, or waits to be promoted.
    Candidate,
    /// It was live, and is kept fresh so that a rollback is instant.
    Former,
}

/// A generation that is not live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// What it is there for.
    pub role: Role,
    /// Since when.
    pub since: Timestamp,
    /// What it is built by: opaque here.
    pub spec: Option<serde_json::Value>,
    /// Why it was begun.
    #[serde(default)]
    pub reason: String,
    /// It is promoted by itself once its gates pass.
    #[serde(default)]
    pub promote: bool,
}

/// An order that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedOut {
    /// Its id.
    pub order: String,
    /// The generation that was begun, switched to or dropped by it.
    pub generation: GenerationName,
}

/// A switch of the name from one generation to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// What was live.
    pub from: GenerationName,
    /// What is to be live.
    pub to: GenerationName,
    /// Back to a former generation.
    #[serde(default)]
    pub rollback: bool,
    /// Why it is done though a gate failed, or why it goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<String>,
    /// Documents in `to`.
    pub documents: u64,
    /// The order that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// What the gates said of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The candidate.
    pub name: GenerationName,
    /// By the writer's clock.
    pub clock: Timestamp,
    /// All gates passed.
    pub passed: bool,
    /// Gate by gate: opaque here.
    pub report: serde_json::Value,
}

/// One change to what a pipeline's generations are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum GenerationChange {
    /// A candidate is begun.
    Begun {
        /// Its name: never one that was in use.
        name: GenerationName,
        /// What it is built by.
        spec: serde_json::Value,
        /// Why.
        reason: String,
        /// It is promoted by itself once its gates pass.
        #[serde(default)]
        promote: bool,
        /// The order that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<String>,
    },
    /// The gates judged a candidate.
    Judged {
        /// What they said.
        judgement: Judgement,
    },
    /// The name is about to be switched. Whoever reads this and no end of it ends it.
    Switching {
        /// From what to what.
        switch: Switch,
    },
    /// The name was switched, and read back.
    Switched {
        /// What is live now.
        to: GenerationName,
    },
    /// A generation that is not live is no more: its index may be deleted.
    Dropped {
        /// Which.
        name: GenerationName,
        /// Why.
        reason: String,
        /// The order that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<String>,
    },
}

impl GenerationChange {
    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Self::Begun { name, reason, .. } => format!("{name} begun: {reason}"),
            Self::Judged { judgement } if judgement.passed => format!("{} passed its gates", judgement.name),
            Self::Judged { judgement } => format!("{} failed its gates", judgement.name),
            Self::Switching { switch } => {
                let (what, why) = if switch.rollback { ("back to", ": ") } else { ("promoting", ", forced: ") };
                let reason = switch.forced.as_ref().map_or(String::new(), |reason| format!("{why}{reason}"));
                format!("{what} {} in place of {}{reason}", switch.to, switch.from)
            }
            Self::Switched { to } => format!("{to} is live"),
            Self::Dropped { name, reason, .. } => format!("{name} dropped: {reason}"),
        }
    }
}

/// What the log says of a pipeline's generations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generations {
    /// The one that batches are committed to. Its spec is the pipeline's.
    pub live: GenerationName,
    /// Since when; `None` for the first one.
    #[serde(default)]
    pub live_since: Option<Timestamp>,
    /// The others.
    #[serde(default)]
    pub followers: BTreeMap<GenerationName, Follower>,
    /// A switch that was begun, and of which no record says that it ended.
    #[serde(default)]
    pub switching: Option<Switch>,
    /// What the gates said lately, the newest last.
    #[serde(default)]
    pub judgements: Vec<Judgement>,
    /// The greatest number that was ever given to a generation.
    #[serde(default)]
    pub greatest: u64,
    /// It was rolled back, and nobody has ordered a rebuild since: none begins by itself.
    #[serde(default)]
    pub rolled_back: bool,
    /// Orders that were carried out lately, the newest last: what is found of them is only to be deleted.
    #[serde(default)]
    pub carried_out: Vec<CarriedOut>,
}

impl Generations {
    /// A name that was never in use.
    pub fn unused(&self) -> GenerationName {
        GenerationName::numbered(self.greatest.max(self.live.number().unwrap_or(1)) + 1)
    }

    /// The candidate, if there is one.
    pub fn candidate(&self) -> Option<&GenerationName> {
        self.of(Role::Candidate)
    }

    /// The newest of those that were live before.
    pub fn former(&self) -> Option<&GenerationName> {
        self.of(Role::Former)
    }

    fn of(&self, role: Role) -> Option<&GenerationName> {
        let ours = self.followers.iter().filter(|(_, follower)| follower.role == role);
        ours.max_by_key(|(_, follower)| follower.since).map(|(name, _)| name)
    }

    /// The generation that an order began, switched to or dropped; `None` while it is not carried out.
    pub fn done_by(&self, order: &str) -> Option<&GenerationName> {
        self.carried_out.iter().find(|done| done.order == order).map(|done| &done.generation)
    }

    /// What the gates said of a candidate last.
    pub fn judgement(&self, name: &GenerationName) -> Option<&Judgement> {
        self.judgements.iter().rev().find(|judgement| judgement.name == *name)
    }

    fn note_order(&mut self, order: Option<&String>, generation: &GenerationName) {
        let done = order.map(|order| CarriedOut { order: order.clone(), generation: generation.clone() });
        self.carried_out.extend(done);
        let surplus = self.carried_out.len().saturating_sub(ORDERS_KEPT);
        self.carried_out.drain(..surplus);
    }

    /// Folds one change in. `spec` is the live generation's, and `documents` how many it has.
    pub(crate) fn apply(
        &mut self,
        change: &GenerationChange,
        clock: Timestamp,
        spec: &mut Option<serde_json::Value>,
        documents: &mut u64,
    ) {
        match change {
            GenerationChange::Begun { name, spec, reason, promote, order } => {
                self.note_order(order.as_ref(), name);
                self.greatest = self.greatest.max(name.number().unwrap_or_default());
                let (spec, reason) = (Some(spec.clone()), reason.clone());
                self.rolled_back = false;
                let (role, promote) = (Role::Candidate, *promote);
                self.followers.insert(name.clone(), Follower { role, since: clock, spec, reason, promote });
            }
            GenerationChange::Judged { judgement } => {
                self.judgements.push(judgement.clone());
                let surplus = self.judgements.len().saturating_sub(JUDGEMENTS_KEPT);
                self.judgements.drain(..surplus);
            }
            GenerationChange::Switching { switch } => {
                self.note_order(switch.order.as_ref(), &switch.to);
                self.switching = Some(switch.clone());
            }
            GenerationChange::Switched { to } => {
                let switch = self.switching.take();
                let Some(next) = self.followers.remove(to) else { return };
                let rollback = switch.as_ref().is_some_and(|switch| switch.rollback);
                let reason =
                    if rollback { format!("rolled back to {to}") } else { format!("{to} was promoted over it") };
                let (role, spec_then) = (Role::Former, spec.take());
                let former = Follower { role, since: clock, spec: spec_then, reason, promote: false };
                self.followers.insert(std::mem::replace(&mut self.live, to.clone()), former);
                self.live_since = Some(clock);
                *spec = next.spec;
                if let Some(switch) = switch.filter(|switch| switch.to == *to) {
                    *documents = switch.documents;
                }
                self.rolled_back = rollback;
                if rollback {
                    // What is being built is of what was found wanting, perhaps: somebody has to want it.
                    self.followers.values_mut().for_each(|follower| follower.promote = false);
                }
            }
            GenerationChange::Dropped { name, order, .. } => {
                self.note_order(order.as_ref(), name);
                // An index that nobody had begun counts as one that was: its name is not given again.
                self.greatest = self.greatest.max(name.number().unwrap_or_default());
                self.followers.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn name(number: u64) -> GenerationName {
        GenerationName::numbered(number)
    }

    fn switch(from: u64, to: u64, rollback: bool) -> GenerationChange {
        GenerationChange::Switching {
            switch: Switch { from: name(from), to: name(to), rollback, forced: None, documents: 7, order: None },
        }
    }

    #[test]
    fn a_switch_trades_specs_and_keeps_the_former() {
        let (mut known, mut spec, mut documents) = (Generations::default(), Some(json!("old")), 5);
        let begun = GenerationChange::Begun {
            name: known.unused(),
            spec: json!("new"),
            reason: "asked for".into(),
            promote: false,
            order: None,
        };
        let changes = [begun, switch(1, 2, false), GenerationChange::Switched { to: name(2) }];
        for (second, change) in (10_i64..).zip(&changes) {
            known.apply(change, at(second), &mut spec, &mut documents);
        }
        assert_eq!((&known.live, &spec, documents), (&name(2), &Some(json!("new")), 7));
        assert_eq!((known.former(), known.candidate()), (Some(&name(1)), None));
        assert_eq!(known.followers[&name(1)].spec, Some(json!("old")));
        assert_eq!((known.unused(), known.switching.as_ref()), (name(3), None));
        for change in [switch(2, 1, true), GenerationChange::Switched { to: name(1) }] {
            known.apply(&change, at(20), &mut spec, &mut documents);
        }
        assert_eq!((&known.live, &spec, known.former()), (&name(1), &Some(json!("old")), Some(&name(2))));
        known.apply(
            &GenerationChange::Dropped { name: name(2), reason: "old".into(), order: None },
            at(30),
            &mut spec,
            &mut documents,
        );
        assert_eq!((known.followers.len(), known.unused()), (0, name(3)));
    }

    #[test]
    fn a_name_that_was_dropped_is_not_given_again() {
        let (mut known, mut spec, mut documents) = (Generations::default(), None, 0);
        let order = Some("o1".to_owned());
        let dropped = GenerationChange::Dropped { name: name(7), reason: "left over".into(), order };
        known.apply(&dropped, at(1), &mut spec, &mut documents);
        assert_eq!((known.unused(), known.done_by("o1")), (name(8), Some(&name(7))));
    }

    #[test]
    fn names_are_numbers() {
        assert_eq!(name(12).number(), Some(12));
        assert_eq!(GenerationName::parse("g12"), Some(name(12)));
        for other in ["", "g", "g-1", "g01", "12", "g1/..", "G1"] {
            assert_eq!(GenerationName::parse(other), None, "{other}");
        }
    }
}

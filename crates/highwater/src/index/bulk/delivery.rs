//! The state of one delivery, pure: which changes go into the next request, and what an answer makes of them.

use std::collections::VecDeque;
use std::time::Duration;

use highwater_core::ports::Fault;

use super::{Answer, Delivered, Outcome, Patience};
use crate::index::{Change, Refused};

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Send these in one request, and tell the answer.
    Send(Vec<&'a Change>),
    /// Wait, then ask again.
    Wait(Duration),
    /// Everything is told.
    End(Delivered),
}

/// Changes on their way.
#[derive(Debug)]
pub struct Delivery {
    patience: Patience,
    changes: Vec<Change>,
    states: Vec<State>,
    /// Groups of changes, each a request; the first is sent next.
    groups: VecDeque<Vec<usize>>,
    /// To be sent again, after a pause.
    later: Vec<usize>,
    later_reason: String,
    /// The server's wish for the pause before them.
    after: Option<Duration>,
    /// Pauses since a change was last told.
    fruitless: u32,
    requests: u64,
    refused_requests: u32,
}

#[derive(Clone, Debug, Default)]
struct State {
    sent: u32,
    told: Option<Told>,
}

#[derive(Clone, Debug)]
enum Told {
    Done,
    Refused(String),
}

impl Delivery {
    /// Nothing was sent yet: one request for all.
    pub fn new(patience: Patience, changes: Vec<Change>) -> Self {
        let all: Vec<usize> = (0..changes.len()).collect();
        Self {
            patience,
            states: vec![State::default(); changes.len()],
            changes,
            groups: if all.is_empty() { VecDeque::new() } else { [all].into() },
            later: Vec::new(),
            later_reason: String::new(),
            after: None,
            fruitless: 0,
            requests: 0,
            refused_requests: 0,
        }
    }

    /// What to do next; an error ends the delivery.
    pub fn step(&mut self) -> Result<Step<'_>, Fault> {
        if let Some(group) = self.groups.front() {
            self.requests += 1;
            for index in group {
                self.states[*index].sent += 1;
            }
            return Ok(Step::Send(group.iter().map(|index| &self.changes[*index]).collect()));
        }
        if self.later.is_empty() {
            return Ok(Step::End(self.delivered()));
        }
        if self.fruitless == self.patience.tries {
            let (left, all) = (self.later.len(), self.changes.len());
            return Err(Fault::Unavailable(format!(
                "the index did not take {left} of {all} changes in {} tries: {}",
                self.fruitless + 1,
                self.later_reason
            )));
        }
        let doubled = self.patience.first_pause.saturating_mul(1 << self.fruitless.min(20));
        let pause = self.after.take().map_or(doubled, |after| after.max(doubled)).min(self.patience.longest_pause);
        self.fruitless += 1;
        self.groups.push_back(std::mem::take(&mut self.later));
        Ok(Step::Wait(pause))
    }

    /// What the last request came to.
    pub fn answered(&mut self, answer: Answer) -> Result<(), Fault> {
        let Some(group) = self.groups.pop_front() else {
            return Err(Fault::Internal("an answer to a request that was never sent".into()));
        };
        match answer {
            Answer::Each(outcomes) if outcomes.len() == group.len() => {
                for (index, outcome) in group.into_iter().zip(outcomes) {
                    self.tell(index, outcome)?;
                }
                Ok(())
            }
            Answer::Each(outcomes) => {
                let reason = format!("it told of {} changes where {} were sent", outcomes.len(), group.len());
                self.put_off(group, reason, None);
                Ok(())
            }
            Answer::Later { reason, after } => {
                self.put_off(group, reason, after);
                Ok(())
            }
            Answer::Whole(reason) => self.split(group, reason),
            Answer::Fatal(fault) => Err(fault),
        }
    }

    fn tell(&mut self, index: usize, outcome: Outcome) -> Result<(), Fault> {
        let told = match outcome {
            Outcome::Done => Told::Done,
            Outcome::Refused(reason) => match &self.changes[index] {
                Change::Upsert(_) => Told::Refused(reason),
                // An id that stays where it should be gone is no document's fault.
                Change::Delete(id) => {
                    return Err(Fault::Data(format!("the index refuses to delete the id {id:?}: {reason}")));
                }
            },
            Outcome::Later(reason) => {
                self.put_off(vec![index], reason, None);
                return Ok(());
            }
            Outcome::Stale => {
                let id = self.changes[index].id();
                return Err(Fault::Fenced(format!("the index holds a newer version of the id {id:?}: another writer")));
            }
        };
        self.states[index].told = Some(told);
        self.fruitless = 0;
        Ok(())
    }

    fn put_off(&mut self, group: Vec<usize>, reason: String, after: Option<Duration>) {
        self.later.extend(group);
        self.later_reason = reason;
        self.after = self.after.max(after);
    }

    /// One of the group is at fault: each half is tried by itself, down to the one. A bad document among n costs at most
    /// 2 log2(n) more requests, rounded up.
    fn split(&mut self, mut group: Vec<usize>, reason: String) -> Result<(), Fault> {
        if let [index] = group[..] {
            return self.tell(index, Outcome::Refused(reason));
        }
        self.refused_requests += 1;
        if self.refused_requests > self.patience.refused_requests {
            let refused = self.refused_requests;
            return Err(Fault::Data(format!(
                "the index refused {refused} requests of one batch, the last for: {reason}"
            )));
        }
        let second = group.split_off(group.len() / 2);
        self.groups.push_front(second);
        self.groups.push_front(group);
        Ok(())
    }

    fn delivered(&self) -> Delivered {
        let mut delivered = Delivered { requests: self.requests, ..Delivered::default() };
        for (change, state) in self.changes.iter().zip(&self.states) {
            delivered.sent_again += u64::from(state.sent > 1);
            match (change, &state.told) {
                (Change::Upsert(document), Some(Told::Refused(reason))) => {
                    delivered.refused.push(Refused { id: document.id.clone(), reason: reason.clone() });
                }
                (Change::Upsert(_), _) => delivered.upserts += 1,
                (Change::Delete(_), _) => delivered.deletes += 1,
            }
        }
        delivered
    }
}

//! The difference of a batch: documents as computed against documents as the sink holds them, both in order of ids.
//! Holds one block of each side at a time.

use std::collections::VecDeque;

use futures::StreamExt;
use futures::stream::BoxStream;
use highwater_core::Sequence;
use highwater_core::ports::Fault;

use crate::index::{Change, Pair};
use crate::transform::Document;

/// Pairs of the sink, one at a time.
pub struct Pairs {
    stream: BoxStream<'static, Result<Vec<Pair>, Fault>>,
    block: VecDeque<Pair>,
}

impl Pairs {
    /// Reads from the sink's stream, which ascends by the bytes of the id.
    pub fn new(stream: BoxStream<'static, Result<Vec<Pair>, Fault>>) -> Self {
        Self { stream, block: VecDeque::new() }
    }

    async fn peek(&mut self) -> Result<Option<&Pair>, Fault> {
        while self.block.is_empty() {
            match self.stream.next().await {
                None => return Ok(None),
                Some(block) => self.block.extend(block?),
            }
        }
        Ok(self.block.front())
    }
}

/// Which ids a batch may take away.
pub enum Absent<'a> {
    /// All that the SQL does not yield.
    Delete,
    /// Those of these (ascending) that the SQL does not yield.
    Owned(&'a [Box<str>]),
    /// None, and nothing that is there is overwritten: rows of a pinned version are not at hand.
    AddOnly,
}

/// Merges both sides, block by block.
pub struct Difference<'a> {
    pairs: Pairs,
    absent: Absent<'a>,
    void: &'a [Sequence],
    /// Documents found as they were.
    pub unchanged: u64,
    /// Documents computed.
    pub computed: u64,
    /// What the sink holds once all changes are in.
    pub after: Held,
}

/// How much a sink holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Documents.
    pub documents: u64,
    /// Those of them that were written under numbers that are no committed batches.
    pub void: u64,
}

impl<'a> Difference<'a> {
    /// Starts before the first id; `void` are numbers that are no committed batches.
    pub fn new(pairs: Pairs, absent: Absent<'a>, void: &'a [Sequence]) -> Self {
        Self { pairs, absent, void, unchanged: 0, computed: 0, after: Held::default() }
    }

    /// Takes the next computed documents, in ascending order of ids, and answers the changes up to the last of them.
    pub async fn advance(&mut self, documents: Vec<Document>) -> Result<Vec<Change>, Fault> {
        let mut changes = Vec::new();
        for document in documents {
            self.computed += 1;
            self.pass_smaller(Some(&document.id), &mut changes).await?;
            let known = self.pairs.peek().await?.filter(|pair| pair.id == document.id);
            self.after.documents += 1;
            let Some(known) = known else {
                changes.push(Change::Upsert(document));
                continue;
            };
            if known.hash == document.hash || matches!(self.absent, Absent::AddOnly) {
                self.unchanged += 1;
                self.after.void += u64::from(self.void.contains(&known.sequence));
            } else {
                changes.push(Change::Upsert(document));
            }
            self.pairs.block.pop_front();
        }
        Ok(changes)
    }

    /// No more documents: what the sink still holds is absent.
    pub async fn finish(&mut self) -> Result<Vec<Change>, Fault> {
        let mut changes = Vec::new();
        self.pass_smaller(None, &mut changes).await?;
        Ok(changes)
    }

    async fn pass_smaller(&mut self, bound: Option<&str>, changes: &mut Vec<Change>) -> Result<(), Fault> {
        loop {
            let Some(pair) = self.pairs.peek().await? else { return Ok(()) };
            if bound.is_some_and(|bound| pair.id.as_bytes() >= bound.as_bytes()) {
                return Ok(());
            }
            let Some(pair) = self.pairs.block.pop_front() else { return Ok(()) };
            let gone = match self.absent {
                Absent::Delete => true,
                Absent::Owned(owned) => owned.binary_search_by(|id| id.as_bytes().cmp(pair.id.as_bytes())).is_ok(),
                Absent::AddOnly => false,
            };
            if gone {
                changes.push(Change::Delete(pair.id));
            } else {
                self.after.documents += 1;
                self.after.void += u64::from(self.void.contains(&pair.sequence));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn document(id: &str, hash: u8) -> Document {
        Document { id: id.into(), json: Box::default(), hash: [hash; 16] }
    }

    async fn check(absent: Absent<'_>, sink: &[(&str, u8)], sql: &[(&str, u8)]) -> String {
        let pair = |(id, hash): &(&str, u8)| Pair { id: (*id).into(), hash: [*hash; 16], sequence: Sequence(1) };
        let blocks: Vec<_> = sink.chunks(2).map(|block| Ok(block.iter().map(pair).collect())).collect();
        let mut difference = Difference::new(Pairs::new(stream::iter(blocks).boxed()), absent, &[Sequence(1)]);
        let mut changes = Vec::new();
        for block in sql.chunks(3) {
            changes.extend(
                difference.advance(block.iter().map(|(id, hash)| document(id, *hash)).collect()).await.unwrap(),
            );
        }
        changes.extend(difference.finish().await.unwrap());
        let mut text = Vec::new();
        for change in changes {
            text.push(match change {
                Change::Upsert(document) => format!("+{}", document.id),
                Change::Delete(id) => format!("-{id}"),
            });
        }
        let Held { documents, void } = difference.after;
        format!("{} ={} of {documents}, {void} void", text.join(" "), difference.unchanged)
    }

    #[tokio::test]
    async fn writes_what_differs_and_deletes_what_is_absent() {
        let sink = [("a", 1), ("b", 1), ("d", 1), ("e", 1), ("z", 1)];
        let sql = [("b", 1), ("c", 1), ("d", 2), ("f", 1)];
        assert_eq!(check(Absent::Delete, &sink, &sql).await, "-a +c +d -e +f -z =1 of 4, 1 void");
        assert_eq!(check(Absent::Delete, &[], &sql).await, "+b +c +d +f =0 of 4, 0 void");
        assert_eq!(check(Absent::Delete, &sink, &[]).await, "-a -b -d -e -z =0 of 0, 0 void");
    }

    #[tokio::test]
    async fn keeps_ids_that_are_not_owned() {
        let owned: Vec<Box<str>> = ["b", "e", "f"].map(Box::from).to_vec();
        let sink = [("a", 1), ("b", 1), ("d", 1), ("e", 1)];
        assert_eq!(check(Absent::Owned(&owned), &sink, &[("b", 2)]).await, "+b -e =0 of 3, 2 void");
    }

    #[tokio::test]
    async fn adds_only_while_rows_are_not_at_hand() {
        let sink = [("a", 1), ("b", 1)];
        assert_eq!(check(Absent::AddOnly, &sink, &[("b", 2), ("c", 1)]).await, "+c =1 of 3, 2 void");
    }
}

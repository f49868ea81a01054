//! Orders as objects of a store: `orders/<name>.json`, left by an operator's command, found and deleted by the writer.
//! Knows nothing of what an order does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};

use crate::ports::{Fault, Order, Orders};

/// The orders of one pipeline.
pub struct ObjectOrders {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    /// Where the orders stand that were found.
    found: Mutex<BTreeMap<Order, Vec<Path>>>,
    /// Objects that were told to be no orders: each is told once.
    told: Mutex<BTreeSet<Path>>,
}

impl ObjectOrders {
    /// The orders below `root`, the pipeline's own folder.
    pub fn new(store: Arc<dyn ObjectStore>, root: &Path) -> Self {
        Self { store, folder: root.clone().join("orders"), found: Mutex::default(), told: Mutex::default() }
    }

    /// The same place, seen for itself: what one finds the other does not delete.
    pub fn clone_of(other: &Self) -> Self {
        let (store, folder) = (other.store.clone(), other.folder.clone());
        Self { store, folder, found: Mutex::default(), told: Mutex::default() }
    }

    /// Leaves an order. `name` is its own: an order of the same name is replaced. On `Err` it may stand there or not;
    /// given again under its name it stands there once.
    pub async fn give(&self, name: &str, order: &Order) -> Result<(), Fault> {
        let place = self.folder.clone().join(format!("{name}.json"));
        let mut json = serde_json::to_vec_pretty(order)
            .map_err(|error| Fault::Internal(format!("{place}: cannot be written as JSON: {error}")))?;
        json.push(b'\n');
        self.store.put(&place, json.into()).await.map(|_| ()).map_err(|error| unavailable(&place, &error))
    }

    /// Takes an order back that was given under that name, if it was not found yet.
    pub async fn withdraw(&self, name: &str) -> Result<(), Fault> {
        let place = self.folder.clone().join(format!("{name}.json"));
        match self.store.delete(&place).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(unavailable(&place, &error)),
        }
    }

    /// `None` if the object is gone by now, or is no order: that is told, and it is left for a person to look at.
    async fn read(&self, place: &Path) -> Result<Option<Order>, Fault> {
        let bytes = match self.store.get(place).await {
            Ok(found) => found.bytes().await.map_err(|error| unavailable(place, &error))?,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(unavailable(place, &error)),
        };
        let order = serde_json::from_slice(&bytes);
        if let Err(error) = &order
            && self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone())
        {
            tracing::warn!(object = %place, %error, "this is no order that this highwater knows; it is left there: delete it");
        }
        Ok(order.ok())
    }
}

#[async_trait]
impl Orders for ObjectOrders {
    async fn waiting(&self) -> Result<Vec<Order>, Fault> {
        let listed: Result<Vec<_>, _> = self.store.list(Some(&self.folder)).try_collect().await;
        let listed = match listed {
            Ok(objects) => objects,
            Err(StoreError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(unavailable(&self.folder, &error)),
        };
        let mut found: BTreeMap<Order, Vec<Path>> = BTreeMap::new();
        for object in listed {
            if object.location.as_ref().ends_with(".json")
                && let Some(order) = self.read(&object.location).await?
            {
                found.entry(order).or_default().push(object.location);
            }
        }
        let waiting = found.keys().cloned().collect();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(waiting)
    }

    async fn done(&self, orders: &[Order]) -> Result<(), Fault> {
        let mut places = Vec::new();
        {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            for order in orders {
                places.extend(found.remove(order).into_iter().flatten().map(Ok));
            }
        }
        let mut deleted = self.store.delete_stream(stream::iter(places).boxed());
        while let Some(outcome) = deleted.next().await {
            match outcome {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(unavailable(&self.folder, &error)),
            }
        }
        Ok(())
    }
}

fn unavailable(place: &Path, error: &StoreError) -> Fault {
    Fault::Unavailable(format!("{place}: {error}"))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::file::SourceName;

    fn accept(source: &str, at: &str) -> Order {
        Order::AcceptRemovals { source: Some(SourceName::new(source)), at: at.parse().unwrap() }
    }

    async fn names(store: &InMemory) -> Vec<String> {
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        let mut names: Vec<String> = listed.iter().map(|object| object.location.to_string()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn an_order_is_found_until_it_is_done_even_where_it_was_given_twice() {
        let store = Arc::new(InMemory::new());
        let orders = ObjectOrders::new(store.clone(), &Path::from("state/ads"));
        assert_eq!(orders.waiting().await.unwrap(), []);
        let (one, other) = (accept("ads", "2026-05-01T10:00:00Z"), Order::Retry { source: None, path: None });
        orders.give("a", &one).await.unwrap();
        orders.give("b", &one).await.unwrap();
        orders.give("c", &other).await.unwrap();
        assert_eq!(orders.waiting().await.unwrap(), [one.clone(), other.clone()]);
        orders.done(&[one]).await.unwrap();
        assert_eq!(orders.waiting().await.unwrap(), [other]);
        assert_eq!(names(&store).await, ["state/ads/orders/c.json"]);
    }

    #[tokio::test]
    async fn what_came_after_the_look_is_not_deleted_with_it() {
        let store = Arc::new(InMemory::new());
        let orders = ObjectOrders::new(store.clone(), &Path::from("state/ads"));
        let order = accept("ads", "2026-05-01T10:00:00Z");
        orders.give("a", &order).await.unwrap();
        assert_eq!(orders.waiting().await.unwrap(), std::slice::from_ref(&order));
        orders.give("later", &order).await.unwrap();
        orders.done(&[order]).await.unwrap();
        assert_eq!(names(&store).await, ["state/ads/orders/later.json"]);
    }

    #[tokio::test]
    async fn an_object_that_is_no_order_is_left_there_and_stops_no_other() {
        let store = Arc::new(InMemory::new());
        let orders = ObjectOrders::new(store.clone(), &Path::from("state/ads"));
        for (name, text) in [("cut", "{\"order\": \"accept_re"), ("newer", "{\"order\": \"dance\"}")] {
            store.put(&Path::from(format!("state/ads/orders/{name}.json")), text.into()).await.unwrap();
        }
        let order = Order::Retry { source: None, path: Some("dt=1/a".into()) };
        orders.give("z", &order).await.unwrap();
        assert_eq!(orders.waiting().await.unwrap(), std::slice::from_ref(&order));
        orders.done(&[order]).await.unwrap();
        assert_eq!(names(&store).await, ["state/ads/orders/cut.json", "state/ads/orders/newer.json"]);
    }
}

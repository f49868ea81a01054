//! A collection made ready: its configset, the collection itself, the sink's own fields, and those of the documents.
//! What another made is checked, never changed, but for fields that are added for the documents.

use std::collections::BTreeMap;

use highwater_core::ports::Fault;
use serde_json::{Value, json};

use super::client::{Ask, Client, Trouble};
use super::fields::{CHAIN, Column, DELETED, Fill, HASH, ID, SEQUENCE, SOURCE, VERSION};
use super::zip;

const SOLRCONFIG: &[u8] = include_bytes!("configset/solrconfig.xml");
const SCHEMA: &[u8] = include_bytes!("configset/managed-schema.xml");
const OCTETS: &str = "application/octet-stream";
const JSON: &str = "application/json";

/// Sees to it that the collection is there and takes documents with these fields.
pub(super) async fn prepare(client: &Client, columns: &BTreeMap<String, Column>) -> Result<(), Fault> {
    if !exists(client).await? {
        create(client).await?;
    }
    let schema = Schema::read(client).await?;
    let mut missing = schema.missing();
    missing.extend(missing_chain(client).await?);
    if !missing.is_empty() {
        return Err(Fault::Invalid(format!(
            "{} was not made for highwater; it lacks {}: name another collection, which is then created, or add them to \
             its configset as docs/solr.md says",
            client.place(),
            missing.join("; ")
        )));
    }
    schema.add(client, columns).await
}

/// Whether there is a collection, or an alias, of the name.
pub(super) async fn exists(client: &Client) -> Result<bool, Fault> {
    let list = ask(client, Ask::get("/admin/collections", &[("action", "LIST")])).await?;
    let named = |name: &Value| name.as_str() == Some(client.collection());
    if list["collections"].as_array().is_some_and(|names| names.iter().any(named)) {
        return Ok(true);
    }
    let aliases = ask(client, Ask::get("/admin/collections", &[("action", "LISTALIASES")])).await?;
    Ok(aliases["aliases"].get(client.collection()).is_some())
}

async fn create(client: &Client) -> Result<(), Fault> {
    let configset = match &client.config.configset {
        Some(name) => {
            check_configset(client, name).await?;
            name.clone()
        }
        None => upload(client).await?,
    };
    let (shards, replicas) = (client.config.shards.to_string(), client.config.replicas.to_string());
    let query = [
        ("action", "CREATE"),
        ("name", client.collection()),
        ("numShards", &shards),
        ("replicationFactor", &replicas),
        ("collection.configName", &configset),
        ("waitForFinalState", "true"),
    ];
    match client.json(Ask::get("/admin/collections", &query)).await {
        Ok(_) => Ok(()),
        // Its reply was lost, or another process was faster.
        Err(_) if exists(client).await? => Ok(()),
        Err(Trouble::Refused { status: 400, reason, .. }) => {
            Err(Fault::Invalid(format!("{} cannot be created: {reason}", client.place())))
        }
        Err(trouble) => Err(client.fault(trouble)),
    }
}

async fn check_configset(client: &Client, name: &str) -> Result<(), Fault> {
    let list = ask(client, Ask::get("/admin/configs", &[("action", "LIST")])).await?;
    let known: Vec<&str> = list["configSets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(Fault::Invalid(format!(
        "Solr has no configset `{name}` (it has: {}): upload it, or take `configset` out and highwater brings its own",
        known.join(", ")
    )))
}

/// The name of a collection's own configset.
pub(super) fn configset_of(collection: &str) -> String {
    format!("highwater.{collection}")
}

/// A configset for this collection alone: fields are added to it, and another's would be changed along.
async fn upload(client: &Client) -> Result<String, Fault> {
    let name = configset_of(client.collection());
    let query = [("action", "UPLOAD"), ("name", name.as_str()), ("overwrite", "true"), ("cleanup", "true")];
    let archive = zip::archive(&[("solrconfig.xml", SOLRCONFIG), ("managed-schema.xml", SCHEMA)]);
    ask(client, Ask::post("/admin/configs", &query, OCTETS, archive)).await?;
    Ok(name)
}

async fn ask(client: &Client, ask: Ask<'_>) -> Result<Value, Fault> {
    client.json(ask).await.map_err(|trouble| client.fault(trouble))
}

/// Whether the update chain is there, by which older versions lose.
async fn missing_chain(client: &Client) -> Result<Option<String>, Fault> {
    let path = format!("/{}/config/updateRequestProcessorChain", client.collection());
    let config = ask(client, Ask::get(path, &[])).await?;
    let chains = config["config"]["updateRequestProcessorChain"].as_array();
    let chain = chains.into_iter().flatten().find(|chain| chain["name"] == CHAIN);
    let versions = |processor: &Value| {
        processor["class"].as_str().is_some_and(|class| class.contains("DocBasedVersionConstraintsProcessor"))
    };
    let has_versions = chain.is_some_and(|chain| chain[""].as_array().into_iter().flatten().any(versions));
    Ok((!has_versions).then(|| {
        format!("the update chain `{CHAIN}` with DocBasedVersionConstraintsProcessorFactory over `{VERSION}`")
    }))
}

/// The fields of a collection.
pub(super) struct Schema {
    unique_key: String,
    fields: BTreeMap<String, Value>,
    /// The class of each type, without its package.
    classes: BTreeMap<String, String>,
}

impl Schema {
    pub(super) async fn read(client: &Client) -> Result<Self, Fault> {
        let path = format!("/{}/schema", client.collection());
        let whole = ask(client, Ask::get(path.clone(), &[])).await?;
        let fields = ask(client, Ask::get(format!("{path}/fields"), &[("showDefaults", "true")])).await?;
        let named = |list: &Value| -> BTreeMap<String, Value> {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(|item| Some((item["name"].as_str()?.to_owned(), item.clone()))).collect()
        };
        let class = |(name, definition): (String, Value)| {
            let class = definition["class"].as_str().unwrap_or_default();
            (name, class.rsplit('.').next().unwrap_or_default().to_owned())
        };
        Ok(Self {
            unique_key: whole["schema"]["uniqueKey"].as_str().unwrap_or_default().to_owned(),
            fields: named(&fields["fields"]),
            classes: named(&whole["schema"]["fieldTypes"]).into_iter().map(class).collect(),
        })
    }

    fn class(&self, field: &Value) -> &str {
        field["type"].as_str().and_then(|name| self.classes.get(name)).map_or("", String::as_str)
    }

    /// Where words without a field name are looked for: fields of text, else exact ones.
    pub(super) fn defaults(&self) -> Vec<&str> {
        let of = |fill: Fill| -> Vec<&str> {
            let ours = |name: &str| name.starts_with('_') && name.ends_with('_');
            let fields = self.fields.iter().filter(|(name, field)| {
                !ours(name) && field["indexed"] == true && fill.classes().contains(&self.class(field))
            });
            fields.map(|(name, _)| name.as_str()).collect()
        };
        let text = of(Fill::Text);
        if text.is_empty() { of(Fill::Keyword) } else { text }
    }

    /// What the sink itself needs and does not find.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.unique_key != ID {
            missing.push(format!("`{ID}` as its unique key (it has `{}`)", self.unique_key));
        }
        let needed = [
            (ID, Fill::Keyword, &["stored", "docValues"][..]),
            (SEQUENCE, Fill::Long, &["indexed", "docValues"]),
            (VERSION, Fill::Long, &["indexed", "stored", "docValues"]),
            (HASH, Fill::Keyword, &["docValues"]),
            (DELETED, Fill::Bool, &["indexed"]),
            (SOURCE, Fill::Keyword, &["stored"]),
        ];
        for (name, fill, properties) in needed {
            let wanted = format!("the field `{name}` of solr.{} with {}", fill.classes()[0], properties.join(", "));
            match self.fields.get(name) {
                None => missing.push(wanted),
                Some(field) => {
                    let fits = fill.classes().contains(&self.class(field)) && field["multiValued"] != true;
                    if !fits || properties.iter().any(|property| field[*property] != true) {
                        missing.push(format!("{wanted} (it has another one of that name)"));
                    }
                }
            }
        }
        missing
    }

    /// Adds the fields that the documents need; one that means something else is an error that names both.
    async fn add(&self, client: &Client, columns: &BTreeMap<String, Column>) -> Result<(), Fault> {
        let (mut fields, mut types, mut conflicts) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (name, column) in columns {
            let fill = column.fill;
            let Some(field) = self.fields.get(name) else {
                fields.push(column.definition(name));
                if !self.classes.contains_key(fill.type_name()) {
                    types.insert(fill.type_name(), fill.type_definition());
                }
                continue;
            };
            let class = self.class(field);
            if !fill.classes().contains(&class) {
                let has = field["type"].as_str().unwrap_or_default();
                conflicts.push(format!(
                    "`{name}` is of the type `{has}` (solr.{class}), and the SQL yields {}, which need solr.{}",
                    fill.values(),
                    fill.classes()[0]
                ));
            } else if column.many && field["multiValued"] != true {
                conflicts.push(format!("`{name}` takes one value, and the SQL yields lists (multiValued)"));
            }
        }
        if !conflicts.is_empty() {
            return Err(Fault::Invalid(format!(
                "fields of {} do not fit: {}; rename them in the SQL (`AS ...`), hint them as \"stored\", or name a new \
                 collection",
                client.place(),
                conflicts.join("; ")
            )));
        }
        if fields.is_empty() {
            return Ok(());
        }
        let mut command = serde_json::Map::new();
        if !types.is_empty() {
            command.insert("add-field-type".into(), types.into_values().collect());
        }
        command.insert("add-field".into(), fields.into());
        let path = format!("/{}/schema", client.collection());
        let answer = client.json(Ask::post(path, &[], JSON, json!(command).to_string())).await;
        match answer {
            Ok(_) => Ok(()),
            Err(Trouble::Refused { status: 400, reason, .. }) => {
                Err(Fault::Invalid(format!("{} does not take the documents' fields: {reason}", client.place())))
            }
            Err(trouble) => Err(client.fault(trouble)),
        }
    }
}

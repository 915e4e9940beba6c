//! The JSON schemas of the results, derived from the types that are printed.

use schemars::generate::SchemaSettings;
use schemars::transform::{RestrictFormats, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use super::simulate::ordering::OrderingResult;
use super::simulate::schedule::{ScheduleResult, SchemeList};
use super::simulate::tcb_cache::SimulateResult;
use super::{
    Report, classify, compare, compare_reproductions, compare_rules, compare_runs, doctor, extract,
    generate, inspect, merge, replay, reproduce, rules, top,
};
#[cfg(target_os = "linux")]
use super::{bridge, send};

/// A kind of result, by the name of its schema.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) name: &'static str,
    root: fn(&mut SchemaGenerator) -> Schema,
}

impl Document {
    /// All kinds, by name.
    pub(crate) const ALL: &[Self] = &[
        Self::new::<flowloom_measure::Report>("bench"),
        #[cfg(target_os = "linux")]
        Self::new::<bridge::BridgeResult>("bridge"),
        Self::new::<classify::ClassifyResult>("classify"),
        Self::new::<compare::CompareResult>("compare"),
        Self::new::<compare_reproductions::CompareReproductions>("compare-reproductions"),
        Self::new::<compare_runs::CompareRuns>("compare-runs"),
        Self::new::<doctor::DoctorResult>("doctor"),
        Self::new::<extract::ExtractResult>("extract"),
        Self::new::<generate::GenerateResult>("generate"),
        Self::new::<generate::MadeResult>("generate-lines"),
        Self::new::<generate::WeblogResult>("generate-weblog"),
        Self::new::<inspect::InspectResult>("inspect"),
        Self::new::<merge::MergeResult>("merge"),
        Self::new::<replay::ReplayResult>("replay"),
        Self::new::<flowloom_repro::Reproduction>("reproduce"),
        Self::new::<reproduce::ItemList>("reproduce-list"),
        Self::new::<rules::CheckResult>("rules-check"),
        Self::new::<rules::ConvertResult>("rules-convert"),
        Self::new::<compare_rules::DiffResult>("rules-diff"),
        Self::new::<rules::ExplainResult>("rules-explain"),
        Self::new::<compare_rules::MinimiseResult>("rules-minimise"),
        Self::new::<rules::StatsResult>("rules-stats"),
        Self::new::<SchemeList>("scheduler-list"),
        Self::new::<SchemaList>("schema-list"),
        #[cfg(target_os = "linux")]
        Self::new::<send::SendResult>("send"),
        Self::new::<OrderingResult>("simulate-ordering"),
        Self::new::<ScheduleResult>("simulate-schedule"),
        Self::new::<SimulateResult>("simulate-tcb-cache"),
        Self::new::<top::TopResult>("top"),
    ];

    const fn new<T: JsonSchema>(name: &'static str) -> Self {
        Self { name, root: SchemaGenerator::root_schema_for::<T> }
    }

    /// Returns the name and version that documents state.
    fn id(&self) -> String {
        format!("flowloom/{}/1", self.name)
    }

    /// Returns the schema, in the draft 2020-12.
    pub(crate) fn schema(&self) -> Schema {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.inline_subschemas = true);
        let settings = settings.with_transform(RestrictFormats::default()).with_transform(as_printed);
        let mut schema = (self.root)(&mut settings.into_generator());
        schema.insert("$id".into(), self.id().into());
        schema.insert("title".into(), format!("flowloom {}", self.name).into());
        if let Some(id) = schema.pointer_mut("/properties/schema") {
            *id = json!({
                "description": "Name and version of this format.", "type": "string", "const": self.id(),
            });
        }
        schema
    }

    /// Returns the first sentence of the schema's description.
    fn about(&self) -> String {
        let schema = self.schema();
        let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        text.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
    }
}

/// Restricts a schema to what is printed: objects have no other properties, and a value that may be
/// left out is never null. Turns doc comments into plain text.
fn as_printed(schema: &mut Schema) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = schema.get("description").cloned();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let is_required = required.contains(&name.as_str().into());
        if !is_required {
            never_null(property);
        }
        if let Some(Value::String(text)) = property.get_mut("description") {
            *text = text.replace("`None`", if is_required { "null" } else { "absent" });
        } else if let (Some(_), Some(own)) = (property.get("const"), &own) {
            // The tag of a variant, which serde adds.
            property["description"] = own.clone();
        }
    }
    transform_subschemas(&mut as_printed, schema);
    // The value that serde reads in place of an absent one.
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split("\n\n").next().unwrap_or_default().replace('\n', " ").replace('`', "");
    }
    if schema.get("properties").is_none() {
        return;
    }
    let mut others = "additionalProperties";
    if let Some(Value::Array(variants)) = schema.get_mut("oneOf") {
        // A flattened enumeration, whose variants do not know the properties beside them.
        for variant in variants.iter_mut().filter_map(Value::as_object_mut) {
            variant.remove(others);
        }
        others = "unevaluatedProperties";
    }
    schema.insert(others.into(), false.into());
}

/// Removes null from the values of a schema.
fn never_null(schema: &mut Value) {
    let types = schema.get_mut("type").and_then(Value::as_array_mut);
    if let Some(types) = types.filter(|types| types.len() == 2 && types[1] == "null") {
        schema["type"] = types.remove(0);
    }
}

/// The results that have a schema.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SchemaList {
    schema: &'static str,
    /// The schemas, by name.
    schemas: Vec<ListedSchema>,
}

/// A schema.
#[derive(Debug, JsonSchema, Serialize)]
struct ListedSchema {
    /// Name on the command line.
    name: &'static str,
    /// Name and version that documents state.
    id: String,
    /// The described result.
    about: String,
}

impl SchemaList {
    pub(crate) fn all() -> Self {
        let listed = |document: &Document| ListedSchema {
            name: document.name,
            id: document.id(),
            about: document.about(),
        };
        Self { schema: "flowloom/schema-list/1", schemas: Document::ALL.iter().map(listed).collect() }
    }
}

impl Report for SchemaList {
    fn lines(&self) -> Vec<String> {
        self.schemas.iter().map(|listed| format!("{:22} {}", listed.name, listed.about)).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["name", "id", "about"].map(str::to_owned).to_vec()];
        rows.extend(
            self.schemas
                .iter()
                .map(|listed| vec![listed.name.to_owned(), listed.id.clone(), listed.about.clone()]),
        );
        rows
    }
}

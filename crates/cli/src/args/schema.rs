//! `flowloom schema`.

use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::render::schema::Document;

static ALL: LazyLock<Vec<SchemaName>> = LazyLock::new(|| Document::ALL.iter().map(SchemaName).collect());

/// A kind of result by the name of its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaName(pub(crate) &'static Document);

impl ValueEnum for SchemaName {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name))
    }
}

/// Arguments of `schema`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom schema                   list the results that have a schema
  flowloom schema replay            print the schema of the result of replay
  flowloom schema rules-check       the same for rules check")]
pub(crate) struct SchemaOf {
    /// The command, such as `rules-check`; without it, all results are listed
    #[arg(value_enum, value_name = "VERB")]
    pub(crate) name: Option<SchemaName>,
}

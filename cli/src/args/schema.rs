//! `heapattach schema`.

use clap::Args;

use super::choice::choice;
use crate::json_schema::Schema;

/// `heapattach schema`.
#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {
    /// Which JSON [default: list them]
    #[arg(value_parser = choice(Schema::ALL, Schema::name, Schema::about))]
    pub name: Option<Schema>,
}

//! `heapattach schema`.

use crate::{args::SchemaArgs, exit_status::Exit, json_schema::Schema, output::print};

/// Prints one, or which there are.
pub fn schema(args: &SchemaArgs) -> Exit {
    match args.name {
        Some(schema) => print(schema.text().trim_end(), Exit::Done),
        None => {
            let row = |schema: &Schema| format!("{:<11}{}\n", schema.name(), schema.about());
            print(Schema::ALL.iter().map(row).collect::<String>().trim_end(), Exit::Done)
        }
    }
}

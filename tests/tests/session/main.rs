//! A session from its beginning to what it leaves: `run`, recordings, reports, outputs, and no trace in the
//! process.

mod columns;
mod columns_fleet;
mod columns_live;
mod columns_spark;
mod config_file;
mod fingerprint;
mod first_answer;
mod golden;
mod growth;
mod guide;
mod live_golden;
mod mapped;
mod no_trace;
mod other_profilers;
mod outputs;
mod progress;
mod quiet;
mod recording;
mod reports;
mod run;
mod schemas;
mod triggers;
mod widths;

//! What Prometheus asks to know what there is to scrape: its HTTP service discovery.

use serde_json::json;

use super::Sources;
use crate::{
    answer::{Answer, kind},
    http::Request,
};

/// One group a process, under the name by which we were asked.
pub fn answer(sources: &Sources, request: &Request) -> Answer {
    let host = request.header("host").next().unwrap_or("localhost");
    let groups: Vec<_> = sources
        .targets
        .now()
        .iter()
        .map(|target| {
            let prefix = format!("/p/{}", target.pid);
            json!({
                "targets": [host],
                "labels": {
                    "service_name": target.name,
                    "pid": target.pid.to_string(),
                    "__metrics_path__": format!("{prefix}/metrics"),
                    "__profile_path_prefix__": prefix,
                },
            })
        })
        .collect();
    Answer::ok(kind::JSON, serde_json::Value::from(groups).to_string())
}

//! SARIF 2.1.0, which code scanning shows beside the source.

use serde_json::{Value, json};

use super::{Findings, Frame, Leak};
use crate::check::Kind;

/// Where the format is described.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The document.
pub fn sarif(findings: &Findings) -> String {
    let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
    let results: Vec<_> = leaks.map(result).collect();
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "heapattach",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": Kind::ALL[..3].iter().map(|&kind| rule(kind)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn rule(kind: Kind) -> Value {
    let text = match kind {
        Kind::Direct => "Memory that nothing leads to any more",
        Kind::Indirect => "Memory that only lost memory leads to",
        Kind::Possible => "Memory of which only the inside is known to somebody",
        Kind::Reachable => "Memory that is still held",
    };
    json!({ "id": id(kind), "shortDescription": { "text": text } })
}

fn id(kind: Kind) -> String {
    format!("leak/{}", kind.name())
}

fn result(leak: &Leak) -> Value {
    let level = if leak.kind == Kind::Possible { "warning" } else { "error" };
    let flow: Vec<_> =
        leak.frames.iter().rev().map(|f| json!({ "location": location(f) })).collect();
    let mut result = json!({
        "ruleId": id(leak.kind),
        "level": level,
        "message": { "text": message(leak) },
        // Those who show it want a place in the source; the first that has one.
        "locations": place(leak).map(location).into_iter().collect::<Vec<_>>(),
        "partialFingerprints": { "heapattachStack/v1": leak.key },
    });
    if !flow.is_empty() {
        result["codeFlows"] = json!([{ "threadFlows": [{ "locations": flow }] }]);
    }
    result
}

fn message(leak: &Leak) -> String {
    let place = leak.cause().map_or("an unknown place", |frame| &frame.function);
    format!("{}, asked for by {place}", leak.headline())
}

/// The call that is shown: of those from the cause outwards the first with a source file.
fn place(leak: &Leak) -> Option<&Frame> {
    let calls = leak.frames.get(leak.cause..).unwrap_or_default();
    calls.iter().find(|frame| !frame.file.is_empty()).or_else(|| calls.first())
}

fn location(frame: &Frame) -> Value {
    let mut location = json!({
        "logicalLocations": [{ "fullyQualifiedName": frame.function, "kind": "function" }],
        "message": { "text": frame.to_string() },
    });
    let file = if frame.file.is_empty() { &frame.module } else { &frame.file };
    if !file.is_empty() {
        let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
        if let Some(line) = frame.line.filter(|&line| line > 0 && !frame.file.is_empty()) {
            physical["region"] = json!({ "startLine": line });
        }
        location["physicalLocation"] = physical;
    }
    location
}

/// A path as a reference: what has a meaning in one is written with its number.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~+".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    if path.starts_with('/') { format!("file://{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn every_leak_is_a_result_with_its_place_and_its_key() {
        let document: Value = serde_json::from_str(&sarif(&findings())).unwrap();
        let results = document["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), 3, "what is reachable is no result");
        assert_eq!(results[0]["ruleId"], "leak/direct");
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/cache%20file.c");
        assert_eq!(place["region"]["startLine"], 42);
        assert_eq!(
            results[0]["partialFingerprints"]["heapattachStack/v1"],
            findings().leaks[0].key
        );
        let flow = &results[0]["codeFlows"][0]["threadFlows"][0]["locations"];
        assert_eq!(flow.as_array().unwrap().len(), 3, "from main inwards");
        let rules = document["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        let known: Vec<_> = rules.iter().map(|rule| rule["id"].clone()).collect();
        assert!(results.iter().all(|result| known.contains(&result["ruleId"])));
    }

    #[test]
    fn a_path_cannot_break_out_of_its_reference() {
        assert_eq!(uri("/a b/c#d?.c"), "file:///a%20b/c%23d%3F.c");
        assert_eq!(uri("../x%y"), "../x%25y");
    }
}

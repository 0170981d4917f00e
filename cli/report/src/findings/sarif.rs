//! SARIF 2.1.0, which code scanning shows beside the source.

use serde_json::{Value, json};

use super::{Findings, Frame, Leak};
use heapattach_reach::Kind;

/// Where the format is described.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The rule that is not about a leak.
const GROWTH: &str = "heap/growth";

/// The document.
pub fn sarif(findings: &Findings) -> String {
    let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
    let mut results: Vec<_> = leaks.map(result).collect();
    results.extend(growth(findings));
    let rules = Kind::ALL[..3].iter().map(|&kind| rule(kind)).chain([json!({
        "id": GROWTH,
        "shortDescription": { "text": "A heap that grows" },
    })]);
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "heapattach",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [invocation(findings)],
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Whether a check came about.
fn invocation(findings: &Findings) -> Value {
    let broken = findings.no_check.iter().filter(|no_check| !no_check.is_fine);
    let broken: Vec<&String> = broken.map(|no_check| &no_check.why).collect();
    let why: Vec<&String> = broken.into_iter().chain(&findings.doubts).collect();
    let level = if why.is_empty() { "note" } else { "error" };
    let fine = findings.no_check.iter().filter(|no_check| no_check.is_fine);
    let told = why.iter().copied().chain(fine.map(|no_check| &no_check.why));
    let told: Vec<_> =
        told.map(|text| json!({ "level": level, "message": { "text": text } })).collect();
    json!({ "executionSuccessful": why.is_empty(), "toolExecutionNotifications": told })
}

/// That the heap grows, if it may not.
fn growth(findings: &Findings) -> Option<Value> {
    let breach = findings.breaches.iter().find(|breach| breach.limit.is_growth())?;
    let text = findings.growth.join(" ");
    let text =
        format!("{} allows {}, found {}. {text}", breach.limit, breach.allowed, breach.found);
    Some(json!({ "ruleId": GROWTH, "level": "error", "message": { "text": text } }))
}

fn rule(kind: Kind) -> Value {
    let text = match kind {
        Kind::Direct => "Memory that nothing leads to any more",
        Kind::Indirect => "Memory that only leaked memory leads to",
        Kind::Possible => "Memory that pointers into its middle lead to, and none to its start",
        Kind::Reachable => "Memory that is still reachable",
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
    let processes = match leak.processes.len() {
        0 | 1 => String::new(),
        number => format!(", in {number} processes"),
    };
    format!("{}. {}{processes}", leak.title(), leak.headline())
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
    fn what_was_not_checked_is_told() {
        let of = |found: &Findings| -> Value { serde_json::from_str(&sarif(found)).unwrap() };
        let mut found = findings();
        let invocation = |found: &Findings| of(found)["runs"][0]["invocations"][0].clone();
        assert_eq!(invocation(&found)["executionSuccessful"], true);
        found.no_check = Some(super::super::NoCheck { why: "no room".to_owned(), is_fine: false });
        let told = invocation(&found);
        assert_eq!(told["executionSuccessful"], false);
        assert_eq!(told["toolExecutionNotifications"][0]["message"]["text"], "no room");
    }

    #[test]
    fn growth_that_may_not_be_is_a_result() {
        let mut found = findings();
        found.growth = vec!["insert grows".to_owned()];
        assert!(!sarif(&found).contains("insert grows"), "nobody limited it");
        found.measured.growth = Some(7.0);
        let limits = super::super::Limits { growth: Some(5), ..Default::default() };
        found.breaches = limits.judge(&found);
        let told = "--max-growth allows 5, found 7. insert grows";
        assert!(sarif(&found).contains(told), "{}", sarif(&found));
    }

    #[test]
    fn a_path_cannot_break_out_of_its_reference() {
        assert_eq!(uri("/a b/c#d?.c"), "file:///a%20b/c%23d%3F.c");
        assert_eq!(uri("../x%y"), "../x%25y");
    }
}

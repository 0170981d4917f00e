//! What is said of a program that is annotated for valgrind.

use heapattach_injector::{moment::client_requests::ClientRequests, watch::Heard};

/// A line that names what is heard of it and what is not, if it bears on a check for leaks.
pub fn told(requests: ClientRequests, heard: &Heard) -> Option<String> {
    let ClientRequests { pools, blocks, leak_checks, others, .. } = requests;
    if [pools, blocks, leak_checks] == [0; 3] {
        return None;
    }
    let kinds = [
        (pools, "of pools"),
        (blocks, "of blocks of its own allocator"),
        (leak_checks, "of checks for leaks"),
        (others, "others"),
    ];
    let all: u64 = kinds.iter().map(|(count, _)| count).sum();
    let kinds = kinds.iter().filter(|(count, _)| *count != 0);
    let kinds: Vec<String> = kinds.map(|(count, what)| format!("{count} {what}")).collect();
    let what = if all == 1 { "request" } else { "requests" };
    let kinds = kinds.join(", ");
    let told = format!("the code is annotated for valgrind: {all} {what} ({kinds})");
    let unmade = "no check is made where one is requested";
    if heard.hooks.is_none() {
        let why = heard.why_not.as_ref().map_or_else(String::new, |why| format!(", as {why}"));
        let missing = match (pools + blocks, leak_checks) {
            (0, _) => unmade.to_owned(),
            (_, 0) => "what lies in such pools and blocks is judged as one block".to_owned(),
            _ => format!("{unmade}, and what lies in pools is judged as one block"),
        };
        return Some(format!("{told} are not heard{why}: {missing}"));
    }
    let mut parts = Vec::new();
    if pools + blocks != 0 {
        parts.push("those of pools and blocks are heard".to_owned());
    }
    if leak_checks != 0 {
        parts.push("those of checks are heard".to_owned());
    }
    Some(format!("{told}: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use heapattach_injector::watch::RequestHooks;

    use super::*;

    #[test]
    fn requests_are_told_by_kind_where_they_bear_on_leaks() {
        let (others, deaf) =
            (ClientRequests { others: 3, ..ClientRequests::default() }, Heard::default());
        assert_eq!(told(others, &deaf), None);
        let line = told(ClientRequests { pools: 4, leak_checks: 1, ..others }, &deaf).unwrap();
        assert!(
            line.contains("8 requests (4 of pools, 1 of checks for leaks, 3 others)"),
            "{line}"
        );
        let requests = ClientRequests { blocks: 2, ..ClientRequests::default() };
        let deaf = Heard { why_not: Some("it is so".to_owned()), ..Heard::default() };
        let line = told(requests, &deaf).unwrap();
        assert!(line.ends_with("is judged as one block") && !line.contains("others"), "{line}");
        assert!(line.contains("are not heard, as it is so:"), "{line}");
    }

    #[test]
    fn what_is_heard_is_told_with_what_is_not() {
        let hooks = RequestHooks {
            allocated: 1,
            freed: 2,
            pool: 3,
            destroyed: 4,
            checked: 5,
            trimmed: 6,
            moved: 7,
        };
        let heard = Heard { hooks: Some(hooks), sites: 2, why_not: None };
        let requests = ClientRequests { pools: 2, leak_checks: 1, ..ClientRequests::default() };
        let line = told(requests, &heard).unwrap();
        assert!(line.ends_with(": those of pools and blocks are heard; those of checks are heard"));
    }
}

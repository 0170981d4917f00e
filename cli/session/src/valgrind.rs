//! What is said of a program that is annotated for valgrind.

use heapattach_injector::moment::client_requests::ClientRequests;

/// A line that names what is not heard, if it bears on a check for leaks.
pub fn told(requests: ClientRequests) -> Option<String> {
    let ClientRequests { pools, blocks, leak_checks, others } = requests;
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
    let missing = match (pools + blocks, leak_checks) {
        (0, _) => "no check is made at these places",
        (_, 0) => "what lies in such pools and blocks is judged as one block",
        _ => "no check is made at these places, and what lies in pools is judged as one block",
    };
    let what = if all == 1 { "request" } else { "requests" };
    let kinds = kinds.join(", ");
    Some(format!(
        "the code is annotated for valgrind: {all} {what} ({kinds}) are not heard: {missing}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_by_kind_where_they_bear_on_leaks() {
        let others = ClientRequests { others: 3, ..ClientRequests::default() };
        assert_eq!(told(others), None);
        let line = told(ClientRequests { pools: 4, leak_checks: 1, ..others }).unwrap();
        assert!(
            line.contains("8 requests (4 of pools, 1 of checks for leaks, 3 others)"),
            "{line}"
        );
        let line = told(ClientRequests { blocks: 2, ..ClientRequests::default() }).unwrap();
        assert!(line.ends_with("is judged as one block") && !line.contains("others"), "{line}");
    }
}

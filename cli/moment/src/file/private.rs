//! Addresses have no place in a file that is passed on: they are cut out of sentences.

use heapattach_report::CensusReport;

/// A number of fewer digits is an offset or a size.
const DIGITS: usize = 6;

/// Cuts them out of all sentences; names keep the places of variables in their modules.
pub(super) fn without_addresses(report: &mut CensusReport) {
    let sentences = report
        .allocators
        .iter_mut()
        .flat_map(|one| {
            let doubts = one.doubts.iter_mut().map(|doubt| &mut doubt.why);
            doubts.chain(&mut one.notes).chain(&mut one.refused)
        })
        .chain(&mut report.error)
        .chain(&mut report.moment.why)
        .chain(report.unreachable.iter_mut().filter_map(|found| found.error.as_mut()))
        .chain(report.holders.iter_mut().flat_map(|found| {
            found.error.iter_mut().chain(&mut found.doubt).chain(&mut found.not_found)
        }))
        .chain(
            report
                .typed
                .iter_mut()
                .flat_map(|typed| typed.error.iter_mut().chain(&mut typed.missing)),
        )
        .chain(report.not_written.iter_mut().filter_map(|found| found.error.as_mut()))
        .chain(report.cold.iter_mut().filter_map(|found| found.error.as_mut()))
        .chain(report.go.iter_mut().filter_map(|go| go.error.as_mut()));
    sentences.for_each(|sentence| *sentence = cut(sentence));
}

fn cut(sentence: &str) -> String {
    let mut parts = sentence.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        out.push_str("0x");
        out.push_str(if digits >= DIGITS { "..." } else { &part[..digits] });
        out.push_str(&part[digits..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_out_and_an_offset_is_kept() {
        let told = cut("the chunk at 0x7f0012345678 has size 0x40: corrupted? 0x");
        assert_eq!(told, "the chunk at 0x... has size 0x40: corrupted? 0x");
    }
}

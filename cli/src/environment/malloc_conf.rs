//! `MALLOC_CONF`, where it has jemalloc profile: `prof:true,lg_prof_sample:19,prof_prefix:/tmp/app`.

use super::{Said, prefix};

/// jemalloc's own, and that of the one that Rust programs are linked with.
const VARIABLES: [&str; 2] = ["MALLOC_CONF", "_RJEM_MALLOC_CONF"];
/// Largest power of two that an option of ours takes.
const MOST: u32 = 40;
/// What is so in any session: sums since the start, a result at the end, names of threads.
const USUAL: [(&str, &str); 4] = [
    ("prof_active", "true"),
    ("prof_final", "true"),
    ("prof_accum", "true"),
    ("prof_accum", "false"),
];

/// What the variable says; nothing, unless it switches the profiler on.
pub(super) fn read(value: &impl Fn(&str) -> Option<String>) -> Option<Said> {
    let (variable, text) = VARIABLES.iter().find_map(|name| Some((*name, value(name)?)))?;
    let pairs: Vec<(&str, &str)> =
        text.split(',').filter_map(|pair| pair.trim().split_once(':')).collect();
    // Of an option that is there twice the last counts.
    let last =
        |name: &str| pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value);
    if last("prof") != Some("true") {
        return None;
    }
    let mut said = Said { variable, ..Said::default() };
    for (at, (key, value)) in pairs.iter().enumerate() {
        let is_last = !pairs[at + 1..].iter().any(|(other, _)| other == key);
        let is_profilers = key.contains("prof") && *key != "prof";
        if !is_last || !is_profilers || USUAL.contains(&(*key, *value)) {
            continue;
        }
        let power =
            value.parse().ok().filter(|power| *power <= MOST).map(|power: u32| 1_u64 << power);
        match (*key, *value, power) {
            ("lg_prof_sample", _, Some(bytes)) => said.ask("every", format!("{bytes}B")),
            ("lg_prof_interval", "-1", _) => {}
            ("lg_prof_interval", _, Some(bytes)) => {
                said.ask("dump-every-allocated", format!("{bytes}B"));
            }
            ("prof_gdump", "true", _) => said.ask("dump-on-peak", None),
            ("prof_prefix", path, _) if !path.is_empty() => said.ask("output-prefix", prefix(path)),
            (_, "false", _) => {}
            _ => said.untaken.push(format!("{key}:{value}")),
        }
    }
    if last("prof_active") == Some("false") {
        said.untaken.push("prof_active:false".to_owned());
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Option<(Vec<String>, Vec<String>)> {
        let said = read(&|name| (name == "MALLOC_CONF").then(|| text.to_owned()))?;
        let word = |asked: crate::config_file::Asked| match asked.values.first() {
            Some(value) => format!("--{}={value}", asked.option),
            None => format!("--{}", asked.option),
        };
        Some((said.options.into_iter().map(word).collect(), said.untaken))
    }

    #[test]
    fn the_profilers_options_have_their_counterparts() {
        let text = "prof:true,lg_prof_sample:17,lg_prof_interval:30,prof_gdump:true,\
                    prof_prefix:/tmp/app,prof_final:true,prof_leak:true,narenas:4";
        let (taken, untaken) = options(text).unwrap();
        let expected = [
            "--every=131072B",
            "--dump-every-allocated=1073741824B",
            "--dump-on-peak",
            "--output-prefix=/tmp/app",
        ];
        assert_eq!(taken, expected);
        assert_eq!(untaken, ["prof_leak:true"]);
        assert_eq!(options("prof:true,lg_prof_sample:0").unwrap().0, ["--every=1B"]);
    }

    #[test]
    fn without_the_profiler_it_says_nothing() {
        for text in ["", "narenas:2,dirty_decay_ms:0", "prof:false", "prof:true,prof:false", "prof"]
        {
            assert_eq!(options(text), None, "{text}");
        }
        let (taken, untaken) =
            options("prof:true,lg_prof_sample:99,lg_prof_sample:x,prof_active:false").unwrap();
        assert_eq!(
            (taken.len(), untaken),
            (0, vec!["lg_prof_sample:x".into(), "prof_active:false".into()])
        );
    }
}

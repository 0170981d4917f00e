//! What the command is told.

use std::path::PathBuf;

/// The parts, in the order in which they run.
pub(super) const PARTS: [&str; 8] =
    ["race", "records", "stops", "truth", "curves", "pauses", "checks", "uprobes"];
const USAGE: &str = "usage: peers --out DIR [--quick] [--only PART,...] [--work WORK,...]
             [--rounds N] [--seed N] [--no-install] [--compare OLD.json]
       peers --read NEW.json [--compare OLD.json] [--out DIR]
parts: race records stops truth curves pauses checks uprobes";
const ROUNDS: u32 = 6;

/// What the command is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the results go.
    pub out: PathBuf,
    /// Little of everything: whether it works, not how fast it is.
    pub quick: bool,
    /// These parts only.
    pub only: Vec<String>,
    /// Of the works only those that have one of these in their names.
    pub works: Vec<String>,
    /// How often each measurement is repeated.
    pub rounds: u32,
    /// Settles the order of the tools in each round.
    pub seed: u64,
    /// Whether missing peers may be installed.
    pub may_install: bool,
    /// An earlier run to compare with.
    pub compare: Option<PathBuf>,
    /// A run to take instead of running.
    pub read: Option<PathBuf>,
}

impl Options {
    /// Understands the words of a command line.
    ///
    /// # Errors
    /// How it is used, if it cannot.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            out: PathBuf::new(),
            quick: false,
            only: Vec::new(),
            works: Vec::new(),
            rounds: 0,
            seed: 1,
            may_install: true,
            compare: None,
            read: None,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
            let wrong = |got: &str| format!("{word} cannot be `{got}`\n{USAGE}");
            let list = |text: String| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            match word.as_str() {
                "--quick" => options.quick = true,
                "--no-install" => options.may_install = false,
                "--out" => options.out = value()?.into(),
                "--compare" => options.compare = Some(value()?.into()),
                "--read" => options.read = Some(value()?.into()),
                "--work" => options.works = list(value()?),
                "--only" => {
                    options.only = list(value()?);
                    let odd = options.only.iter().find(|part| !PARTS.contains(&part.as_str()));
                    odd.map_or(Ok(()), |odd| Err(wrong(odd)))?;
                }
                "--rounds" => {
                    let text = value()?;
                    let rounds = text.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds = rounds.ok_or_else(|| wrong(&text))?;
                }
                "--seed" => {
                    let text = value()?;
                    options.seed = text.parse().map_err(|_| wrong(&text))?;
                }
                _ => return Err(format!("`{word}` is no option\n{USAGE}")),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 1 } else { ROUNDS };
        }
        let has_place = options.read.is_some() || !options.out.as_os_str().is_empty();
        if has_place { Ok(options) } else { Err(format!("--out is missing\n{USAGE}")) }
    }

    pub(super) fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    pub(super) fn wants_work(&self, work: &str) -> bool {
        self.works.is_empty() || self.works.iter().any(|wanted| work.contains(wanted.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn understands_all_it_tells_of() {
        let options =
            parse("--out d --quick --only race,stops --rounds 3 --seed 5 --compare o --no-install");
        let options = options.unwrap();
        assert_eq!((options.rounds, options.seed, options.quick), (3, 5, true));
        assert!(options.wants("stops") && !options.wants("truth") && !options.may_install);
        let read = parse("--read a.json --compare b.json").unwrap();
        assert_eq!((read.read, read.compare), (Some("a.json".into()), Some("b.json".into())));
    }

    #[test]
    fn says_what_it_does_not_understand() {
        for line in ["--out", "--quick", "--out d --rounds 0", "--out d --only all", "--out d -x"] {
            assert!(parse(line).unwrap_err().contains("usage: peers"), "{line}");
        }
    }
}

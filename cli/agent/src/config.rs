//! The file of an agent.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::{
    quantity::{duration, maybe_duration, size},
    serve::Serve,
    spool::Spool,
};

/// The version of the file that is understood.
const VERSION: i64 = 1;
/// More rules are a mistake.
const MOST_RULES: usize = 256;

/// Everything that the file says.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The version of its form.
    pub version: i64,
    /// Where the state of the agent is.
    #[serde(default = "state")]
    pub state: PathBuf,
    /// Between two looks at the machine.
    #[serde(default = "interval", deserialize_with = "duration")]
    pub interval: Duration,
    /// Where profiles go, and how many.
    #[serde(default)]
    pub spool: Spool,
    /// Where others may ask over HTTP; nowhere without it.
    pub serve: Option<Serve>,
    /// What all sessions together may cost.
    #[serde(default)]
    pub budget: Budget,
    /// Which processes are attached to.
    #[serde(default)]
    pub admission: Admission,
    /// Which processes are meant; the first rule that fits counts.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// What may be spent.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Budget {
    /// Of all processors, percent, for all sessions together.
    pub processors_percent: f64,
    /// Events a second that a target may have recorded.
    pub events_per_second: f64,
    /// For how long a target may be stopped in an hour, milliseconds.
    pub stopped_ms_per_hour: f64,
    /// Memory of all processes of ours.
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// For how long a target is left alone that cost too much.
    #[serde(deserialize_with = "duration")]
    pub pause: Duration,
}

/// When a process is attached to.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Admission {
    /// So old at least.
    #[serde(deserialize_with = "duration")]
    pub min_age: Duration,
    /// So much memory is left in its control group at least,
    #[serde(deserialize_with = "size")]
    pub headroom: u64,
    /// or so much of its limit, percent.
    pub headroom_percent: f64,
    /// PSI cpu avg10 is below this.
    pub max_pressure: f64,
    /// So many are watched at the same time.
    pub max_targets: usize,
}

/// Which processes are meant, and how they are watched.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// Its own name.
    pub name: String,
    /// The name of the process or of the file that it runs; with stars.
    pub process: Option<String>,
    /// A control group, or one above; with stars.
    pub cgroup: Option<String>,
    /// The user, by name or number.
    pub user: Option<String>,
    /// The namespace of its pod; with stars.
    pub namespace: Option<String>,
    /// The pod; with stars.
    pub pod: Option<String>,
    /// The container in its pod; with stars.
    pub container: Option<String>,
    /// Number 1 of the machine or container may be meant.
    #[serde(default)]
    pub init: bool,
    /// How.
    #[serde(default)]
    pub mode: Mode,
    /// How long one after the other is watched.
    #[serde(default = "slot", deserialize_with = "duration")]
    pub slot: Duration,
    /// Mean bytes between samples.
    #[serde(default = "every", deserialize_with = "size")]
    pub every: u64,
    /// The service in tables; the name of the process without it.
    pub service: Option<String>,
    /// What the allocators count is looked at so often.
    #[serde(default, deserialize_with = "maybe_duration")]
    pub allocator: Option<Duration>,
    /// All memory is looked at so often.
    #[serde(default, deserialize_with = "maybe_duration")]
    pub census: Option<Duration>,
}

/// How a process is watched.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All the time.
    #[default]
    Continuous,
    /// For a slot, then another one.
    Rotate,
}

impl Mode {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continuous => "continuous",
            Self::Rotate => "rotate",
        }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, in one line, with the place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| plain(&error))?;
        config.check().map(|()| config)
    }

    /// Where profiles go.
    pub fn spool(&self) -> PathBuf {
        self.spool.folder.clone().unwrap_or_else(|| self.state.join("spool"))
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version is {}; need {VERSION}", self.version));
        }
        if self.rules.is_empty() || self.rules.len() > MOST_RULES {
            return Err(format!("{} rules; need 1 to {MOST_RULES}: [[rule]]", self.rules.len()));
        }
        let budget = &self.budget;
        for (name, value) in [
            ("processors-percent", budget.processors_percent),
            ("events-per-second", budget.events_per_second),
            ("stopped-ms-per-hour", budget.stopped_ms_per_hour),
            ("max-pressure", self.admission.max_pressure),
            ("headroom-percent", self.admission.headroom_percent),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} is {value}; need a number above 0"));
            }
        }
        if self.interval < Duration::from_millis(100) {
            return Err("interval is below 100 ms".to_owned());
        }
        self.spool.check()?;
        self.rules.iter().enumerate().try_for_each(|(at, rule)| {
            let is_new = self.rules[..at].iter().all(|other| other.name != rule.name);
            if !is_new {
                return Err(format!("two rules are named `{}`", rule.name));
            }
            rule.check().map_err(|why| format!("rule `{}`: {why}", rule.name))
        })
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_plain) {
            return Err("its name needs 1 to 64 letters, digits, `-`, `_`, `.`".to_owned());
        }
        let chosen = [&self.process, &self.cgroup, &self.user, &self.namespace, &self.pod];
        if chosen.into_iter().chain([&self.container]).all(Option::is_none) {
            return Err(
                "it fits every process; need process, cgroup, user, namespace, pod or container"
                    .to_owned(),
            );
        }
        if self.service.as_deref().is_some_and(str::is_empty) {
            return Err("service is empty".to_owned());
        }
        if self.slot < Duration::from_secs(1) {
            return Err("slot is below 1 s".to_owned());
        }
        let is_short = |time: &Duration| *time < Duration::from_secs(1);
        if self.allocator.as_ref().is_some_and(is_short)
            || self.census.as_ref().is_some_and(is_short)
        {
            return Err("allocator and census are 1 s or more apart".to_owned());
        }
        Ok(())
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            processors_percent: 0.5,
            events_per_second: 200.0,
            stopped_ms_per_hour: 50.0,
            memory: 350 << 20,
            pause: Duration::from_secs(3600),
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(10),
            headroom: 64 << 20,
            headroom_percent: 5.0,
            max_pressure: 40.0,
            max_targets: 200,
        }
    }
}

fn state() -> PathBuf {
    PathBuf::from("/var/lib/heapattach")
}

fn interval() -> Duration {
    Duration::from_secs(5)
}

fn slot() -> Duration {
    Duration::from_secs(60)
}

fn every() -> u64 {
    512 << 10
}

/// In one line.
fn plain(error: &toml::de::Error) -> String {
    let told = error.to_string();
    let place = told.lines().next().unwrap_or_default().trim();
    format!("{place}: {}", error.message().lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Form;

    const LEAST: &str = "version = 1\n[[rule]]\nname = 'web'\nprocess = 'nginx*'\n";

    #[test]
    fn what_is_not_said_is_as_documented() {
        let config = Config::parse(LEAST).unwrap();
        assert_eq!((config.interval, config.rules[0].mode), (interval(), Mode::Continuous));
        assert_eq!(config.budget, Budget::default());
        assert_eq!(config.serve, None);
        let asked = Config::parse(&format!("{LEAST}[serve]\n")).unwrap();
        assert_eq!(asked.serve.unwrap().listen, "127.0.0.1:7070");
        assert_eq!(config.spool.formats, [Form::Pprof]);
        let asked = Config::parse(&format!("{LEAST}[spool]\nformats = ['parquet']\n")).unwrap();
        assert!(asked.spool.has(Form::Parquet) && !asked.spool.has(Form::Pprof));
        assert_eq!(config.spool(), PathBuf::from("/var/lib/heapattach/spool"));
    }

    #[test]
    fn mistakes_are_told_by_name() {
        for (more, told) in [
            ("colour = 'red'", "unknown field `colour`"),
            ("slot = '60'\n[budget]\nprocessor = 1", "unknown field `processor`"),
            ("mode = 'often'", "unknown variant `often`"),
            ("slot = '10ms'", "rule `web`: slot is below 1 s"),
            ("census = '10ms'", "rule `web`: allocator and census are 1 s or more apart"),
            ("census = 'often'", "`often`"),
            ("[budget]\nprocessors-percent = -1.0", "processors-percent is -1"),
            ("[[rule]]\nname = 'web'\nuser = 'x'", "two rules are named `web`"),
            ("service = ''", "rule `web`: service is empty"),
            ("[spool]\nformats = []", "[spool] has no formats"),
            ("[spool]\nformats = ['csv']", "unknown variant `csv`"),
            ("[spool]\ntables-every = '1ms'", "tables-every is below 1 s"),
            ("[serve]\nport = 1", "unknown field `port`"),
            ("[[rule]]\nname = 'all'", "rule `all`: it fits every process"),
        ] {
            let error = Config::parse(&format!("{LEAST}{more}\n")).unwrap_err();
            assert!(error.contains(told) && !error.contains('\n'), "{more}: {error}");
        }
        assert!(Config::parse(&LEAST.replace('1', "2")).unwrap_err().contains("version is 2"));
        assert!(Config::parse("version = 1").unwrap_err().contains("0 rules"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = Config::parse(&text);
        }
    }
}

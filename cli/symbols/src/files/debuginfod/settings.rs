//! What the environment says of debuginfod, as `debuginfod-client-config(7)` has it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::files::elf::FILE_LIMIT;

/// Of a server that sends so little in this time no more is expected.
const TIMEOUT: Duration = Duration::from_secs(90);
/// A transfer may take so long in all if the user sets no limit. Other clients have none then.
const LONGEST: Duration = Duration::from_secs(600);

/// Whom to ask, and for how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The servers, in the order they are to be asked.
    pub servers: Vec<String>,
    /// The folder that all clients share; `None` if the environment names none.
    pub cache: Option<PathBuf>,
    /// How long a server may do next to nothing.
    pub timeout: Option<Duration>,
    /// How long a transfer may take.
    pub longest: Duration,
    /// The largest file that is of use.
    pub largest: u64,
}

impl Settings {
    /// Out of environment variables; `None` if the user wants no server to be asked.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        let servers = servers(&value("DEBUGINFOD_URLS")?.into_string().ok()?);
        let number = |name| value(name)?.to_str()?.trim().parse::<i64>().ok();
        // Zero stands for no limit.
        let positive = |name| number(name).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        let home = value("HOME").map(PathBuf::from);
        let older = home.as_ref().map(|home| home.join(".debuginfod_client_cache"));
        let caches = value("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| home.map(|home| home.join(".cache")));
        let cache = value("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        let cache = cache.or_else(|| older.filter(|folder| folder.is_dir()));
        let is_timed = number("DEBUGINFOD_TIMEOUT").is_none_or(|seconds| seconds > 0);
        (!servers.is_empty()).then(|| Self {
            servers,
            cache: cache.or_else(|| caches.map(|folder| folder.join("debuginfod_client"))),
            timeout: is_timed
                .then(|| positive("DEBUGINFOD_TIMEOUT").map_or(TIMEOUT, Duration::from_secs)),
            longest: positive("DEBUGINFOD_MAXTIME").map_or(LONGEST, Duration::from_secs),
            largest: positive("DEBUGINFOD_MAXSIZE").map_or(FILE_LIMIT, |n| n.min(FILE_LIMIT)),
        })
    }
}

/// The servers of a list. Those whose files must be signed are left out, as no signature is checked
/// here.
fn servers(list: &str) -> Vec<String> {
    let (mut servers, mut must_be_signed) = (Vec::new(), false);
    for word in list.split_whitespace() {
        match word.strip_prefix("ima:") {
            Some(policy) => must_be_signed = policy != "ignore",
            None if must_be_signed => {}
            None => servers.push(word.trim_end_matches('/').to_owned()),
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Option<Settings> {
        let found = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.into());
        Settings::of(found)
    }

    #[test]
    fn debuginfod_is_asked_only_if_the_user_names_a_server() {
        for variables in [&[][..], &[("DEBUGINFOD_URLS", "")], &[("DEBUGINFOD_URLS", " ")]] {
            assert_eq!(settings(variables), None);
        }
        let list = "https://a/ http://b:80/x ima:enforcing https://c ima:ignore https://d";
        let found = settings(&[("DEBUGINFOD_URLS", list)]).unwrap();
        assert_eq!(found.servers, ["https://a", "http://b:80/x", "https://d"]);
        assert_eq!((found.cache, found.timeout, found.longest), (None, Some(TIMEOUT), LONGEST));
    }

    #[test]
    fn debuginfod_has_the_cache_and_the_limits_that_other_clients_have() {
        let mut variables = vec![("DEBUGINFOD_URLS", "http://a"), ("HOME", "/no/home")];
        let cache = |variables: &[_]| settings(variables).unwrap().cache.unwrap();
        assert_eq!(cache(&variables), PathBuf::from("/no/home/.cache/debuginfod_client"));
        variables.push(("XDG_CACHE_HOME", "/caches"));
        assert_eq!(cache(&variables), PathBuf::from("/caches/debuginfod_client"));
        variables.push(("DEBUGINFOD_CACHE_PATH", "/mine"));
        assert_eq!(cache(&variables), PathBuf::from("/mine"));

        let limits = |timeout, time, size| {
            let limits = [
                ("DEBUGINFOD_URLS", "http://a"),
                ("DEBUGINFOD_TIMEOUT", timeout),
                ("DEBUGINFOD_MAXTIME", time),
                ("DEBUGINFOD_MAXSIZE", size),
            ];
            let found = settings(&limits).unwrap();
            (found.timeout, found.longest, found.largest)
        };
        let seconds = Duration::from_secs;
        assert_eq!(limits("5", "7", "1000"), (Some(seconds(5)), seconds(7), 1000));
        assert_eq!(limits("0", "0", "0"), (None, LONGEST, FILE_LIMIT));
        assert_eq!(limits("-1", "x", "99999999999999"), (None, LONGEST, FILE_LIMIT));
    }
}

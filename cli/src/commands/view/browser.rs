//! The browser of the user, if there is one.

use std::{
    env,
    ffi::OsString,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use nix::unistd::Uid;

use crate::output::complain;

/// What opens links on a desktop.
const DESKTOP: &str = "xdg-open";

/// A program and its arguments, of which one may have `%s` for the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener(Vec<String>);

/// What opens links here: what `BROWSER` names, or that of the desktop. The desktop of another user is not
/// root's: there only `BROWSER` counts.
pub fn opener() -> Option<Opener> {
    let folders: Vec<_> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    let is_there = |program: &str| folders.iter().any(|folder| is_program(&folder.join(program)));
    find(|name| env::var_os(name), Uid::effective().is_root(), is_there)
}

fn find(
    variable: impl Fn(&str) -> Option<OsString>,
    is_root: bool,
    is_there: impl Fn(&str) -> bool,
) -> Option<Opener> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(named) = set("BROWSER") {
        // Several may be named; the first that is there is meant.
        let named = named.to_string_lossy().into_owned();
        let all = named.split(':').map(|one| one.split_whitespace().map(str::to_owned).collect());
        let known = |words: &Vec<String>| words.first().is_some_and(|program| is_there(program));
        return all.into_iter().find(known).map(Opener);
    }
    let has_screen = set("DISPLAY").or(set("WAYLAND_DISPLAY")).is_some();
    (has_screen && !is_root && is_there(DESKTOP)).then(|| Opener(vec![DESKTOP.to_owned()]))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Opens a link, and waits for nothing.
pub fn open(Opener(words): &Opener, link: &str) {
    let [program, arguments @ ..] = words.as_slice() else { return };
    let mut command = Command::new(program);
    let has_place = arguments.iter().any(|word| word.contains("%s"));
    command.args(arguments.iter().map(|word| word.replace("%s", link)));
    if !has_place {
        command.arg(link);
    }
    // What ends us from the terminal does not end the browser, and it says nothing there.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => {
            let _ = thread::Builder::new().name("browser".to_owned()).spawn(move || child.wait());
        }
        Err(error) => complain(&format!("{program} cannot be started: {error}; open the link")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], is_root: bool, there: &[&str]) -> Option<String> {
        let variable = |name: &str| {
            let set = variables.iter().find(|(known, _)| *known == name);
            set.map(|(_, value)| OsString::from(value))
        };
        find(variable, is_root, |program| there.contains(&program)).map(|found| found.0.join(" "))
    }

    #[test]
    fn a_browser_is_opened_only_where_there_is_one() {
        let screen = [("DISPLAY", ":0")];
        assert_eq!(found(&screen, false, &["xdg-open"]).as_deref(), Some("xdg-open"));
        assert_eq!(
            found(&[("WAYLAND_DISPLAY", "w")], false, &["xdg-open"]).as_deref(),
            Some("xdg-open")
        );
        assert_eq!(found(&screen, false, &[]), None);
        assert_eq!(found(&screen, true, &["xdg-open"]), None, "not the user's own");
        assert_eq!(found(&[("DISPLAY", "")], false, &["xdg-open"]), None);
        let named = [("BROWSER", "none:lynx -x %s")];
        assert_eq!(found(&named, true, &["lynx", "xdg-open"]).as_deref(), Some("lynx -x %s"));
        assert_eq!(found(&named, false, &["xdg-open"]), None);
    }
}

//! When a program that is started is checked.

use nix::sys::signal::Signal;

use heapattach_session::check::options::When;

/// Reads the value of `--at`.
///
/// # Errors
/// With what is wrong with it.
pub fn parse(text: &str) -> Result<When, String> {
    let (when, name) = text.split_once(':').unwrap_or((text, "USR2"));
    match when {
        "exit" if !text.contains(':') => Ok(When::Exit),
        "exit-start" if !text.contains(':') => Ok(When::ExitStart),
        "exec" if !text.contains(':') => Ok(When::Exec),
        "signal" => {
            let signal: Signal = format!("SIG{}", name.trim_start_matches("SIG"))
                .parse()
                .map_err(|_| format!("`{name}` is not a signal"))?;
            Ok(When::Signal(signal as i32))
        }
        _ => Err(format!("`{text}` is not exit, exit-start, exec or signal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_an_end_or_a_signal() {
        assert_eq!(parse("exit"), Ok(When::Exit));
        assert_eq!(parse("exit-start"), Ok(When::ExitStart));
        assert_eq!(parse("exec"), Ok(When::Exec));
        for text in ["signal", "signal:USR2", "signal:SIGUSR2"] {
            assert_eq!(parse(text), Ok(When::Signal(Signal::SIGUSR2 as i32)));
        }
        for text in ["", "exit:USR2", "exec:a", "signal:", "signal:NONE", "end"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

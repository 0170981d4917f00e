//! On a terminal: keys, figures, until the user has seen enough.

use std::{io::stdout, sync::mpsc::RecvTimeoutError, time::Duration};

use super::{News, Top, effects::fulfil, keys, screen::Screen};
use crate::{exit_status::Exit, output::complain};

/// Nothing is drawn more often, but for keys.
const APART: Duration = Duration::from_millis(250);

/// Shows it.
pub fn run(mut top: Top<'_>) -> Exit {
    let mut screen = match Screen::open(top.has_colours(&stdout()), top.sessions.private()) {
        Ok(screen) => screen,
        Err(error) => {
            complain(&format!("the terminal cannot be taken: {error}"));
            let _ = top.end();
            return Exit::Failed;
        }
    };
    keys::follow(top.to.clone());
    while !turn(&mut top, &mut screen) {}
    screen.close();
    top.end()
}

/// Draws, waits for news and takes them; whether it is over.
fn turn(top: &mut Top<'_>, screen: &mut Screen) -> bool {
    if screen.show(&mut top.model).is_err() {
        return true;
    }
    let wait = top.args.interval.max(APART);
    let first = match top.news.recv_timeout(wait) {
        Ok(news) => news,
        Err(RecvTimeoutError::Timeout) => {
            top.look_at_sessions();
            return false;
        }
        Err(RecvTimeoutError::Disconnected) => return true,
    };
    let mut next = Some(first);
    while let Some(news) = next.take() {
        let is_over = match news {
            News::Input(input) => {
                let wishes = top.model.input(input);
                wishes.into_iter().any(|wish| fulfil(top, screen, wish))
            }
            news => top.take(news),
        };
        if is_over {
            return true;
        }
        next = top.news.try_recv().ok();
    }
    top.look_at_sessions();
    false
}

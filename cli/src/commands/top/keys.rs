//! Keys and the mouse, as the library of the terminal tells them.

use std::{sync::mpsc::Sender, thread};

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
    read,
};
use heapattach_top::{Input, Key};

use super::news::News;

/// Tells them, in a thread of its own, until there is no terminal any more.
pub fn follow(to: Sender<News>) {
    let look = move || {
        loop {
            let news = match read() {
                Ok(event) => news(&event),
                Err(_) => Some(News::NoTerminal),
            };
            let is_last = matches!(news, Some(News::NoTerminal));
            if news.is_some_and(|news| to.send(news).is_err()) || is_last {
                return;
            }
        }
    };
    // Without a thread signals are heard all the same.
    let _ = thread::Builder::new().name("keys".to_owned()).spawn(look);
}

fn news(event: &Event) -> Option<News> {
    match event {
        Event::Key(event) if event.kind != KeyEventKind::Release => {
            Some(News::Input(Input::Key(key(event)?)))
        }
        Event::Mouse(event) => mouse(event).map(News::Input),
        Event::Resize(..) => Some(News::Resized),
        _ => None,
    }
}

fn key(event: &KeyEvent) -> Option<Key> {
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char('z') if is_control => Key::Suspend,
        KeyCode::Char('h') if is_control => Key::Backspace,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(sign) => Key::Sign(sign),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::NextProcess,
        _ => return None,
    })
}

fn mouse(event: &MouseEvent) -> Option<Input> {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => {
            Some(Input::Click { column: event.column, line: event.row })
        }
        MouseEventKind::ScrollDown => Some(Input::Wheel { is_down: true }),
        MouseEventKind::ScrollUp => Some(Input::Wheel { is_down: false }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pressed_is_told_and_what_is_let_go_is_not() {
        let pressed = |code, modifiers| news(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = pressed(KeyCode::Char('q'), KeyModifiers::NONE);
        assert!(matches!(plain, Some(News::Input(Input::Key(Key::Sign('q'))))));
        let control = pressed(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(matches!(control, Some(News::Input(Input::Key(Key::Interrupt)))));
        let mut event = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        event.kind = KeyEventKind::Release;
        assert!(news(&Event::Key(event)).is_none());
    }
}

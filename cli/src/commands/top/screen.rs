//! The terminal, while it is ours: raw, on its other screen. However this process ends, it is restored: by
//! [`Drop`], or by a process that watches this one.

use std::{
    io::{self, stdout},
    path::Path,
};

use crossterm::{
    event::{DisableMouseCapture, EnableMouseCapture},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use heapattach_top::{Model, draw};
use nix::sys::signal::{Signal, raise};
use ratatui_core::terminal::Terminal;

use super::{backend::Output, guard::Guard};

/// A terminal that is ours.
pub struct Screen {
    terminal: Terminal<Output>,
    is_coloured: bool,
    guard: Guard,
}

impl Screen {
    /// Takes the terminal; this folder is removed if this process is killed.
    ///
    /// # Errors
    /// If it does not do what it is told.
    pub fn open(is_coloured: bool, folder: Option<&Path>) -> io::Result<Self> {
        let guard = Guard::start(folder)?;
        let terminal = Terminal::new(Output::new())?;
        let screen = Self { terminal, is_coloured, guard };
        take()?;
        Ok(screen)
    }

    /// Shows it.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn show(&mut self, model: &mut Model) -> io::Result<()> {
        let is_coloured = self.is_coloured;
        self.terminal.draw(|frame| draw(model, frame.area(), frame.buffer_mut(), is_coloured))?;
        Ok(())
    }

    /// Stops this process, as Ctrl-Z has programs do, with the terminal as it was; and goes on with it.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        release();
        // Sessions are not stopped: they have processes of their own.
        raise(Signal::SIGSTOP)?;
        take()?;
        // Nothing is on that screen now: all of it is drawn.
        self.terminal = Terminal::new(Output::new())?;
        Ok(())
    }

    /// Releases the terminal.
    pub fn close(self) {}
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        release();
        self.guard.dismiss();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableMouseCapture)
}

fn release() {
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

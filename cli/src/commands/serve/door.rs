//! Who is let in by a server, as was said where it is begun.

use std::path::Path;

use heapattach_files::input;
use heapattach_serve::{Address, Door, Token};

/// A token is not longer.
const LONGEST_TOKEN: u64 = 4096;

/// Who is let in.
///
/// # Errors
/// If others than this machine could ask, and no token is needed; or if there is none in the file.
pub fn of(listen: &Address, token_file: Option<&Path>, hosts: &[String]) -> Result<Door, String> {
    check_token(listen, token_file)?;
    let token = token_file.map(|path| {
        let text = input::text(path, LONGEST_TOKEN)?;
        Token::of(&text).ok_or_else(|| {
            let path = path.display();
            format!(
                "{path} holds no token; need 16 characters or more, say of `openssl rand -hex 32`"
            )
        })
    });
    let (token, is_public) = (token.transpose()?, listen.is_public());
    Ok(Door { hosts: hosts.to_vec(), token, is_public, link: None })
}

/// Without a token only this machine may ask.
///
/// # Errors
/// What is needed.
pub fn check_token(listen: &Address, token_file: Option<&Path>) -> Result<(), String> {
    match listen {
        Address::Tcp(at) if listen.is_public() && token_file.is_none() => Err(format!(
            "other machines can ask at {at}: need a file with a token (--token-file FILE, for an agent \
             `token-file`), or to listen at :{} for this one alone (targets: untouched)",
            at.port()
        )),
        Address::Tcp(_) | Address::Unix(_) => Ok(()),
    }
}

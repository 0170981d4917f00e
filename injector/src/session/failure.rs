//! Why there is no session, and what that means for the target.

use nix::errno::Errno;

use crate::{
    hook::{patch::PatchError, survey::SurveyError},
    installation::{install::InstallError, shared_object::FileError},
    session::undo::Left,
    trace::stopped::StopError,
};
use crate::{
    loader::{self, ErrandError, LoadError},
    refusal::Refusal,
};

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It was not tried.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The target's modules cannot be found out.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// No home could be built.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The target did not load the payload.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The hooks could not be put in.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The hooks could not be switched on.
    #[error("the hooks could not be switched on")]
    Enable(#[source] Errno),
    /// Others could not see that there is a session.
    #[error("the lock of this session cannot be taken")]
    Lock(#[source] Errno),
    /// The kernel does not tell.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// A heapattach that was killed left hooks that cannot be taken out.
    #[error("what an earlier heapattach left could not be undone")]
    Leftovers,
    /// It changes faster than we can look.
    #[error("the modules of the target changed during each of {0} looks")]
    Restless(usize),
}

impl AttachError {
    /// What to tell the user: where the target gave no opportunity, what to type instead.
    pub(crate) fn of_load(error: LoadError) -> Self {
        match error {
            LoadError::Errand(error @ ErrandError::NobodyCame { .. }) => refused(
                error.to_string(),
                "a thread that allocates or frees, outside of signal handlers and of the \
                 loader itself",
            )
            .into(),
            LoadError::File(error @ FileError::NoFolder { .. }) => {
                refused(error.to_string(), "a folder that the target may load files from").into()
            }
            other => other.into(),
        }
    }
}

fn refused(value: String, need: &str) -> Refusal {
    Refusal { value, need: need.to_owned(), cure: loader::CURE.to_owned(), unsupported: false }
}

/// An attach that failed, and whether the target is as it was.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub error: Box<AttachError>,
    /// What is still in the target; `None` if nothing is.
    pub left: Option<Box<Left>>,
    /// Whether the target was ever stopped.
    pub touched: bool,
}

impl Failure {
    /// With nothing left in the target.
    pub fn clean(error: impl Into<AttachError>, touched: bool) -> Self {
        Self { error: Box::new(error.into()), left: None, touched }
    }

    /// With something left, perhaps.
    pub(crate) fn left(error: AttachError, left: Option<Left>) -> Self {
        Self { error: Box::new(error), left: left.map(Box::new), touched: true }
    }
}

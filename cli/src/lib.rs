//! Analysis and conversation.

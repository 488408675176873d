//! Each error has a message.

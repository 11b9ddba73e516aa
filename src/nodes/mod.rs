//! What can be done with nodes after `up`: more of them is `up` again with a longer list; here is
//! everything else.

pub mod drain;
pub mod join_command;
pub mod load;
pub mod tokens;

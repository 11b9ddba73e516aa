pub(super) mod policy;
pub(super) mod roles;

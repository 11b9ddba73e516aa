pub(super) mod policy;

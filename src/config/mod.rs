//! From flags and a configuration file to a resolved cluster specification.

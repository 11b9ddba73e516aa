#!/bin/sh
# Slims a Debian root file system, now and for every package installed later. Runs as the first step of
# each image built on the base, so that a pulled base and a debootstrapped one end the same.
set -eu

cat >/etc/dpkg/dpkg.cfg.d/90-hoist-slim <<'CONF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/lintian/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/bash-completion/*
CONF

# No service may start while an image is built, and no package needs an answer.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d

cat >/etc/apt/apt.conf.d/90hoist-slim <<'CONF'
APT::Install-Recommends "false";
APT::Install-Suggests "false";
Acquire::Languages "none";
Acquire::Retries "3";
CONF

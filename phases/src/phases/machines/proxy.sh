# proxy: gives containerd the variables that are on standard input. In a file that only root can read: they may
# hold a password, and a unit's own settings are there for all to see.
proxy() {
    variables=$(cat)
    file=/etc/hoist/proxy.env
    [ "$variables" != "$(cat "$file" 2>/dev/null)" ] || return 0
    unit=/etc/systemd/system/containerd.service.d
    mkdir -p "${file%/*}" "$unit"
    (umask 077 && printf '%s\n' "$variables" >"$file")
    printf '[Service]\nEnvironmentFile=%s\n' "$file" >"$unit/50-hoist-proxy.conf"
    systemctl daemon-reload
    restart=yes
}

// Command pause does nothing, for as long as it is asked to: it holds the namespaces that other processes
// share. As process 1 of a shared PID namespace it also reaps what its neighbours leave behind.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	// Nothing below allocates in a way worth a collector's background work.
	debug.SetGCPercent(-1)

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		// One SIGCHLD may stand for many children.
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}
